"""The observed ledger: the mechanisms that were heard in a training, in order, beside what the model declares and claims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import dp_accounting as dp
import numpy as np

from ...accounting.events.counts import charged
from ...accounting.events.tree import Unsupported, gaussian_mu
from ...accounting.gaussian import epsilon_of
from ...accounting.upper.tradeoff import curve
from ...reports.observed import Heard, Mechanism, Observed, Released
from .gate import examined

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..case import Case
    from ..key import Key
    from .examination import Examination

SLACK = 1e-3  # relative: what rounding leaves of a move
EVENTS = {"normal": dp.GaussianDpEvent, "laplace": dp.LaplaceDpEvent}  # by the multiplier: scale over move


def observe(case: Case, graph: Graph, key: Key) -> Observed:
    """What `examined` found of the case's model, as a ledger. graph: with one edge for each unit of the claim."""
    found = examined(case, graph, key)
    made = found.study
    mechanisms = tuple(_mechanism(found, group, number) for number, group in enumerate(_groups(found), 1))
    epsilon = _epsilon(found, case.claim.delta)
    agrees, compared = _compared(case, found, len(mechanisms), epsilon)
    return Observed(
        mechanisms,
        _released(found),
        _unplaced(found),
        epsilon,
        str(case.model.ledger),
        agrees,
        compared,
        found.faults,
        tuple(f"'{array}': {text}" if array else text for array, text in found.doubts.items()),
        len(found.moves),
        len(made.base.draws),
    )


def _groups(found: Examination) -> list[list[int]]:
    """The sources in the order of the run. Normal noise from several draws on the same value is one mechanism."""
    sources = found.study.sources
    first = [source.block.parts[0] for source in sources]
    groups: dict[object, list[int]] = {}
    for i in sorted(range(len(first)), key=lambda i: (first[i][0], first[i][1].start)):
        groups.setdefault(sources[i].cell if sources[i].block.law == "normal" else i, []).append(i)
    return list(groups.values())


def _mechanism(found: Examination, group: list[int], number: int) -> Mechanism:
    """One place where noise meets data. Its move is the largest of all secrets that were taken away one by one."""
    sources, count = [found.study.sources[i] for i in group], len(found.study.sources)
    factor = np.sqrt(sum(source.factor**2 for source in sources))
    sizes = factor[factor > 0]
    tried = [
        (float(np.linalg.norm([move.each[i] for i in group])), move.secret) for move in found.moves if len(move.each) == count
    ]
    by, secret = max(tried, key=lambda t: float(f"{t[0]:.4g}"), default=(None, ""))  # of equal moves the first
    lines = ", ".join(dict.fromkeys(source.block.line for source in sources))
    scales, covered = (float(sizes.min()), float(sizes.max())), float((factor > 0).mean())
    return Mechanism(
        number, lines, sources[0].block.law, scales, tuple(factor.shape), covered, str(sources[0].cell), by, secret if by else ""
    )


def _released(found: Examination) -> tuple[Released, ...]:
    """Every array that is released, and what stands between it and the secrets."""
    noisy, arrays = set(found.noisy), dict.fromkeys(cell.array for cell in found.study.base.cells)
    told = []
    for array in arrays:
        doubt = found.doubts.get(array, found.doubts.get(""))
        past = next((f for f in found.faults if f"'{array}'" in f), None)
        if past:
            told.append(Released(array, "past the noise", past))
        elif doubt:
            told.append(Released(array, "not known", doubt))
        elif array in noisy:
            told.append(Released(array, "noisy", "noise was heard on every part of it"))
        else:
            told.append(Released(array, "computed", "no secret changes it while the noisy values stay the same"))
    return tuple(told)


def _unplaced(found: Examination) -> tuple[Heard, ...]:
    """Draws that were heard and not found as noise on what is released: weights, samples, noise within the run."""
    made = found.study
    placed = {at for source in made.sources for at, _ in source.block.parts}
    groups: Counter[tuple[str, str, str]] = Counter()
    numbers: Counter[tuple[str, str, str]] = Counter()
    for at, draw in enumerate(made.base.draws):
        if at in placed:
            continue
        note = "the same for every seed" if at in made.constant else "repeats an earlier draw" if at in made.copies else ""
        groups[draw.line, draw.law, note] += 1
        numbers[draw.line, draw.law, note] += draw.values.size
    return tuple(Heard(line, law, count, numbers[line, law, note], note) for (line, law, note), count in groups.items())


def _epsilon(found: Examination, delta: float) -> float | None:
    """What the heard mechanisms cost for the worst secret that was tried, in nats; None where a law is not one of EVENTS."""
    laws = [source.block.law for source in found.study.sources]
    moves = [move for move in found.moves if len(move.each) == len(laws)]
    if found.faults or "" in found.doubts or not moves or not set(laws) <= set(EVENTS):
        return None
    worst = max(moves, key=lambda move: move.size)
    if set(laws) <= {"normal"}:
        return float(epsilon_of(worst.euclidean, delta))
    events = [EVENTS[law](1 / by) for law, by in zip(laws, worst.each, strict=True) if by > 0]
    try:
        return float(curve(dp.ComposedDpEvent(events)).epsilon(delta)) if events else 0.0
    except (Unsupported, ValueError):
        return None


def _compared(case: Case, found: Examination, heard: int, epsilon: float | None) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the declared ledger pays for what was heard, None where that cannot be told; and the comparison in sentences."""
    ledger, claim = case.model.ledger, case.claim
    told = []
    agrees: bool | None = None
    if isinstance(ledger, dp.UnsupportedDpEvent):
        told.append(f"The model declares no ledger. Heard in what is released: {_counted(heard)}.")
    else:
        declared = charged(ledger)
        count = declared.plain + declared.steps
        told.append(f"The ledger composes {_counted(count)}. Heard in what is released: {_counted(heard)}.")
        pays = gaussian_mu(ledger)
        worst = max((move.euclidean for move in found.moves), default=None)
        if pays is not None and worst is not None and found.laws <= {"normal"} and "" not in found.doubts:
            agrees = not found.faults and worst <= pays * (1 + SLACK)
            told.append(f"The ledger pays for a move of {pays:.4g} times the noise in all; the worst secret moves {worst:.4g}.")
    if epsilon is not None:
        cost = f"For the worst of {len(found.moves)} secrets that were tried, what was heard costs ε = {epsilon:.4g}"
        told.append(f"{cost} at δ = {claim.delta:g}; the claim is ε = {claim.epsilon:g}.")
    return agrees, tuple(told)


def _counted(count: int) -> str:
    return f"{count} noisy mechanism{'' if count == 1 else 's'}"
