"""The observed ledger: the mechanisms that the recorder found in a training, in order. This module compares it with the model's
ledger and claim.
"""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from ....accounting.events.counts import charged
from ....accounting.events.tree import Unsupported, gaussian_mu, parts
from ....accounting.gaussian import epsilon_of
from ....accounting.upper import exact
from ....accounting.upper.tradeoff import epsilon_at_least
from ....models.recorder.draws.draw import SHIFTED
from ....models.recorder.mechanisms.mechanism import PICK, REPORT, Mechanism
from ....reports.observed import UNREAD, WITHIN, Observed, ObservedMechanism, Released, UnplacedDraw
from ....reports.rounding import multiple
from ...case import Case
from ...recorded.examination import Examination
from ...recorded.laws import cost_of
from ...recorded.playing import rounding
from ..inside import Inside
from .recorded_runs import Recorded

SLACK = 1e-3  # relative: rounding error of a move
EVENTS = {"normal": dp.GaussianDpEvent, "laplace": dp.LaplaceDpEvent}  # each class takes the noise multiplier, scale / move


Moves = list[tuple[str, tuple[float, ...]]]  # a secret, and how far it moves each mechanism, in units of the scale


def observe(recorded: Recorded) -> Observed:
    """Lists the recorded mechanisms of the case's model, as a ledger.

    The list holds the mechanisms within the run, or those on released values if these are more.
    """
    case, found, made, inside = recorded.case, recorded.examination, recorded.study, recorded.inside
    within = inside if isinstance(inside, Inside) else None
    mechanisms, moves = _on_releases(found)
    if within is not None and len(within.mechanisms) >= len(mechanisms):
        mechanisms, moves = _within(within), list(within.moves)
    else:
        within = None
    mechanisms = tuple(_worst(m, i, moves) for i, m in enumerate(mechanisms))
    doubts = {array: text for array, text in found.doubts.items() if within is None or array in within.past or not array}
    if within is not None and within.moves:
        first = found.doubts.get("") or next(iter(within.doubts), "")
        doubts = {**within.past, **({"": first} if first else {})}
    elif isinstance(inside, str) and inside:
        doubts.setdefault("", inside)
    fresh = not any(m.note for m in mechanisms)
    known = not found.fault and not doubts and bool(moves) and fresh
    read = [i for i, m in enumerate(mechanisms) if m.released != UNREAD]
    costs = _costs(found, within, [mechanisms[i].law for i in read], _of(read, moves), case.claim.delta) if known else None
    no_noise = _no_noise(found, within)
    sampled = any(_may_sample(found, at) for at in no_noise)
    agrees, compared = _compared(case, [mechanisms[i] for i in read], _of(read, moves), known, costs, sampled)
    return Observed(
        mechanisms,
        _released(found, doubts, bool(moves)),
        _unplaced(found, no_noise),
        costs,
        str(case.model.ledger),
        agrees if not found.fault and fresh else False,
        compared,
        (found.fault,) if found.fault else (),
        tuple(f"'{array}': {text}" if array else text for array, text in doubts.items()),
        len(moves),
        len(made.base.draws),
    )


def _on_releases(found: Examination) -> tuple[tuple[ObservedMechanism, ...], Moves]:
    """The mechanisms on released values, and their moves. Several draws of normal noise on one cell count as one mechanism."""
    sources = found.study.sources
    first = [source.block.parts[0] for source in sources]
    groups: dict[object, list[int]] = {}
    for i in sorted(range(len(first)), key=lambda i: (first[i][0], first[i][1].start)):
        groups.setdefault(sources[i].cell if sources[i].block.law == "normal" else i, []).append(i)
    mechanisms = []
    for number, group in enumerate(groups.values(), 1):
        some = [sources[i] for i in group]
        factor = np.sqrt(sum(source.factor**2 for source in some))
        scale = float(factor[factor > 0].min()), float(factor.max())
        lines = ", ".join(dict.fromkeys(source.block.line for source in some))
        covered, cell = float((factor > 0).mean()), str(some[0].cell)
        mechanisms.append(ObservedMechanism(number, lines, "", some[0].block.law, scale, tuple(factor.shape), covered, cell))
    rows = [
        (move.secret, tuple(float(np.linalg.norm([move.each[i] for i in group])) for group in groups.values()))
        for move in found.moves
        if len(move.each) == len(sources)
    ]
    return tuple(mechanisms), rows


def _within(within: Inside) -> tuple[ObservedMechanism, ...]:
    """The mechanisms within the run. The recorder followed their noise to the data to which it is added. The noisy values need
    not be released.
    """
    found = []
    for number, m in enumerate(within.mechanisms, 1):
        sizes, covered = np.asarray(m.scale), float(m.covered.mean())
        spread = m.chances[(m.chances > 0) & (m.chances < 1)] if m.values else sizes[sizes > 0]
        scale = (float(spread.min()), float(spread.max())) if spread.size else (1.0, 1.0)
        used = UNREAD if number - 1 in within.idle else WITHIN
        cell = next((str(c) for c, a in within.run.study.base.cells.items() if _is(m, a)), used)
        note = _stale(within, number - 1)
        found.append(ObservedMechanism(number, m.draw.line, m.line, m.shown, scale, m.noisy.shape, covered, cell, note=note))
    return tuple(found)


def _stale(within: Inside, i: int) -> str:
    """Why the noise of mechanism `i` is not fresh: an earlier mechanism or draw has the same noise, or every seed gives this
    noise. "" if the noise is fresh.
    """
    mechanism, made = within.mechanisms[i], within.run.study
    if i in within.again and (not within.shifts or np.any(within.counted(within.shifts)[i])):
        return f"same noise as mechanism {within.again[i] + 1}: {mechanism.draw.where}"
    at = next((at for at, draw in enumerate(made.base.draws) if np.array_equal(draw.values, mechanism.draw.values)), None)
    stale = "the same for two seeds" if at in made.constant else "repeats an earlier draw" if at in made.copies else ""
    return stale and f"{stale}: {mechanism.draw.where}"


def _is(mechanism: Mechanism, cell: NDArray[np.float64]) -> bool:
    """Whether the cell holds the noisy value of a mechanism unchanged, up to rounding."""
    return cell.shape == mechanism.noisy.shape and bool((np.abs(cell - mechanism.noisy) <= rounding(cell)).all())


def _worst(mechanism: ObservedMechanism, i: int, moves: Moves) -> ObservedMechanism:
    """Mechanism `i` with its largest move and the secret that causes this move. Of equally large moves, the first one counts. A
    mechanism that the run does not read gets no move.
    """
    if mechanism.released == UNREAD:
        return mechanism
    by, secret = max(((each[i], name) for name, each in moves), key=lambda t: float(f"{t[0]:.4g}"), default=(None, ""))
    return replace(mechanism, move=by, secret=secret if by else "")


def _released(found: Examination, doubts: Mapping[str, str], tried: bool) -> tuple[Released, ...]:
    """Each released array with its kind: noisy, computed from noisy values, past the noise, or not known. tried: whether the run
    was repeated without a secret.
    """
    noisy, arrays = set(found.noisy), dict.fromkeys(cell.array for cell in found.study.base.cells)
    released = []
    for array in arrays:
        doubt = doubts.get(array, doubts.get(""))
        past = found.fault if f"'{array}'" in found.fault else ""
        if past:
            released.append(Released(array, "past the noise", past))
        elif doubt:
            released.append(Released(array, "not known", doubt))
        elif array in noisy:
            released.append(Released(array, "noisy", "noise was recorded on every part of it"))
        elif not tried:
            released.append(Released(array, "not known", "no recorded noise is added to data, so no secret was removed"))
        else:
            released.append(
                Released(array, "computed", "no secret that was tried changes it while the noisy values stay the same")
            )
    return tuple(released)


def _unplaced(found: Examination, places: Sequence[int]) -> tuple[UnplacedDraw, ...]:
    """The draws at these places: weights, samples, or noise that the recorder could not follow."""
    made = found.study
    groups: Counter[tuple[str, str, str]] = Counter()
    numbers: Counter[tuple[str, str, str]] = Counter()
    for at in places:
        draw = made.base.draws[at]
        note = "the same for two seeds" if at in made.constant else "repeats an earlier draw" if at in made.copies else ""
        groups[draw.line, draw.law, note] += 1
        numbers[draw.line, draw.law, note] += draw.values.size
    return tuple(UnplacedDraw(line, law, count, numbers[line, law, note], note) for (line, law, note), count in groups.items())


def _no_noise(found: Examination, within: Inside | None) -> list[int]:
    """The positions of the draws that are not the noise of a mechanism."""
    made = found.study
    followed = {d.values.tobytes() for m in within.mechanisms for d in (m.draw, *m.beside)} if within is not None else set()
    return [at for at, d in enumerate(made.base.draws) if at not in made.placed and d.values.tobytes() not in followed]


def _may_sample(found: Examination, at: int) -> bool:
    """Whether a draw that is no noise may choose samples: it is fresh, and not of weights of PyTorch layers."""
    made, draw = found.study, found.study.base.draws[at]
    return at not in made.constant and at not in made.copies and draw.law not in SHIFTED and not draw.weights


def _of(places: Sequence[int], moves: Moves) -> Moves:
    """The moves, restricted to the mechanisms with these indices."""
    return [(secret, tuple(each[i] for i in places)) for secret, each in moves]


def _costs(found: Examination, within: Inside | None, laws: list[str], moves: Moves, delta: float) -> float | None:
    """The epsilon (nats) of the mechanisms for the worst secret that was tried; None if it cannot be computed for their laws."""
    if laws and set(laws) <= {REPORT, PICK} and within is not None:
        return within.cost(delta) if within.shifts else 0.0
    if not set(laws) <= set(EVENTS):
        costs = cost_of(found) if within is None else None
        return None if costs is None else max(costs(move, 1.0, delta) for move in found.moves)
    if set(laws) <= {"normal"}:
        return float(epsilon_of(max(float(np.linalg.norm(each)) for _, each in moves), delta))
    worst = max((each for _, each in moves), key=sum)
    events = [EVENTS[law](1 / by) for law, by in zip(laws, worst, strict=True) if by > 0]
    try:
        return epsilon_at_least(dp.ComposedDpEvent(events), delta) if events else 0.0
    except (Unsupported, ValueError):
        return None


def _compared(
    case: Case, mechanisms: Sequence[ObservedMechanism], moves: Moves, known: bool, costs: float | None, sampled: bool
) -> tuple[bool | None, tuple[str, ...]]:
    """Two results: whether the declared ledger covers the recorded mechanisms (None if not known), and the comparison in
    sentences. sampled: whether the run may draw samples. The costs are those of samples that the adversary sees.
    """
    ledger, claim = case.model.ledger, case.claim
    moved = sum(1 for m in mechanisms if m.secret or m.move is None)
    still = len(mechanisms) - moved
    recorded = _counted(moved) + (f", and {still} that no tried secret moved" if still else "")
    sentences = []
    agrees: bool | None = None
    if isinstance(ledger, dp.UnsupportedDpEvent):
        sentences.append(f"The model declares no ledger. Recorded: {recorded}.")
    else:
        declared = charged(ledger)
        sentences.append(f"The ledger composes {_counted(declared.plain + declared.steps)}. Recorded: {recorded}.")
        laws = {m.law for m in mechanisms}
        pays, total = (gaussian_mu(ledger), np.linalg.norm) if laws <= {"normal"} else (laplace_total(ledger), np.sum)
        if pays is not None and known and laws <= EVENTS.keys():
            worst = max(float(total(each)) for _, each in moves)
            agrees = worst <= pays * (1 + SLACK)
            sentences.append(
                f"The ledger charges for moves of up to {multiple(pays, 'the scale of its noise')}; {_moving(worst)}."
            )
        elif costs is not None and (total_cost := _epsilon(ledger, claim.delta)) is not None:
            agrees = costs <= total_cost * (1 + SLACK)
            if not agrees and sampled and declared.steps:
                agrees = None
            sentences.append(f"The ledger costs ε = {total_cost:.4g} at δ = {claim.delta:g}.")
    if costs is not None:
        cost = f"The recorded mechanisms cost ε = {costs:.4g} at δ = {claim.delta:g} for the worst of {len(moves)} secrets"
        seen = (
            ", for an adversary who sees all that is random but the noise, such as samples; if this is secret, they may cost less"
        )
        sentences.append(f"{cost} that were tried{seen if sampled else ''}; the claim is ε = {claim.epsilon:g}.")
    return agrees, tuple(sentences)


def _moving(worst: float) -> str:
    if worst > 0:
        return f"the worst secret that was tried moves the values by {multiple(worst, 'the scale of the recorded noise')}"
    return "no secret that was tried moves a mechanism"


def _epsilon(ledger: dp.DpEvent, delta: float) -> float | None:
    """The epsilon (nats) of a ledger, exact if a closed form is known; None if it has no trade-off curve either."""
    for known in (exact.epsilon, epsilon_at_least):
        with contextlib.suppress(Unsupported, ValueError):
            return float(known(ledger, delta))
    return None


def laplace_total(ledger: dp.DpEvent) -> float | None:
    """The total move, in units of the scale, for which a ledger of Laplace mechanisms charges; None for any other ledger."""
    events = list(parts(ledger))
    if not all(isinstance(event, dp.LaplaceDpEvent) for event, _ in events):
        return None
    return float(sum(count / event.noise_multiplier for event, count in events))


def _counted(count: int) -> str:
    return f"{count} noisy mechanism{'' if count == 1 else 's'}"
