"""Lower bounds on epsilon for an adversary who sees the noisy value of each mechanism within a run.

The user declares only the claim. The tool records the scales of the noise, and repeats the run without one secret to compute how
far each clean value moves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ...accounting.checks.conditions import Condition, checked, proved
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...models.hearing.meetings import Meetings, OtherMechanisms
from ..heard.inside import Incomparable, Inside, added_only, history, size, without
from ..heard.laws import SLACK, laplace_epsilon
from ..heard.playing import Diverged, play
from ..heard.study import CONTINUOUS, History
from .heard_noise import MOVES, REPEATED, exact, noticed

if TYPE_CHECKING:
    from ...accounting.lower.bounds import Bound
    from ...models.hearing import Draw
    from ...models.hearing.meetings import Meeting
    from ..case import Case
    from ..heard.inside import Shifts
    from ..heard.playing import Play
    from ..heard.study import Study

NOTHING = 1e-5  # in units of the scale: a smaller move of an entry counts as rounding
EACH = 4  # largest number of mechanisms that `used` tests one by one
EQUAL = 1e-2  # relative tolerance: two sizes of one move under different draws count as equal
TRIED = 8  # largest number of uniform draws that are tried one by one
NUDGE = 1e-5  # relative
MOST = 100_000  # largest number of values of a mechanism in the test of its law
MASKS = ("uniform", "integers")  # laws of one-time pads: added modulo their range, such numbers hide a value completely
LAWS = {"normal": "norm", "laplace": "laplace"}
GRANTED = Condition(
    "for an adversary who sees the noisy value of each mechanism, and the random weights with which training starts",
    "granted",
    "proofs by composition assume this adversary; one who sees less may learn less",
)
NO_PATH = "no path leads past the mechanisms"
EXACT = proved("the move of each clean value is exact", "the run was repeated with the same noisy values")
FRESH = proved(
    "no noise is used twice",
    "the noise was compared with that of all other mechanisms and seeds; a value that is computed twice counts once",
)


def from_mechanisms(case: Case, made: Study, within: Inside) -> Bound:
    """The bound from the secret with the largest move. If something is not known, the bound is 0, and its `method` says why."""
    if within.worst is None:
        path = not_excluded(within)
        known = (REPEATED, Condition(NO_PATH, "failed", path)) if path else (REPEATED,)
        return exact(0.0, next(iter(within.doubts), "no secret that was tried moves a mechanism"), MOVES, known)
    secret, first = within.worst.secret, history(made, 0)
    each = used(made, first, within.shifts)
    stale = next(not_fresh(made, first, within, each), None)
    if stale is not None:
        return exact(math.inf, f"{secret}: {stale}", MOVES, (REPEATED, EXACT, GRANTED))
    if within.shared:
        return exact(0.0, within.shared, MOVES, (REPEATED, Condition(FRESH.what, "failed", within.shared)))
    shifts = within.counted(each)
    if twice := next((first.meetings[i].line for i in within.again if np.any(each[i]) and np.any(shifts[i])), None):
        why = (
            f"the value at {twice} has the noise of another value, and the run uses only their sum; no cost is computed for that"
        )
        return exact(0.0, why, MOVES, (REPEATED, Condition(FRESH.what, "failed", why)))
    if strange := {m.draw.law for m in within.meetings} - LAWS.keys():
        return exact(0.0, f"no cost is computed for noise of the law '{min(strange)}'", MOVES, (REPEATED,))
    epsilons, reason = [cost(first, shifts, case.claim.delta)], None
    try:
        other = history(made, 1)
        if [m.line for m in other.meetings] != [m.line for m in first.meetings]:
            raise Incomparable("another seed runs other mechanisms")
        _, moved = without(made, other, within.worst)
        moved = within.counted(tuple(np.where(np.any(by), again, 0.0) for by, again in zip(each, moved, strict=True)))
        epsilons.append(cost(other, moved, case.claim.delta))
        reason = hidden(made, first, within, grown(first, secret, shifts, moved) is not None)
    except (Incomparable, Diverged, OtherMechanisms) as found:
        reason = str(found)
    epsilon = 0.0 if reason else min(epsilons)
    conditions = (REPEATED, law_of(first), FRESH, EXACT, unhidden(made, reason), GRANTED)
    bound = exact(epsilon, reason or told(secret, first, shifts), MOVES, conditions)
    refuted = epsilon > case.claim.epsilon and not bound.failed
    path = not_excluded(within)
    if within.past and not refuted:
        bound = replace(bound, epsilon=0.0, conditions=(*conditions, Condition(NO_PATH, "failed", path)))
    total = math.sqrt(sum(size(m, by) ** 2 for m, by in zip(first.meetings, shifts, strict=True)))
    clear = not reason and not path and {m.draw.law for m in within.meetings} == {"normal"}
    notices = noticed(mu_of_claim(case.claim), total) if clear else math.inf
    reach = float(epsilon_of(notices * mu_of_claim(case.claim), case.claim.delta)) if math.isfinite(notices) else math.inf
    return replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(within.moves), 0))


def not_excluded(within: Inside) -> str:
    """Why a path past the mechanisms is not excluded; "" if neither single secrets nor many secrets together showed a path."""
    together = "" if within.together else "the run cannot be repeated without many secrets at once"
    return next(iter(within.past.values()), "") or next(iter(within.doubts), "") or together


def paths_to(within: Inside, arrays: Sequence[str]) -> dict[str, str]:
    """Array -> why a path to it past the mechanisms is not excluded; no array if each path was excluded."""
    path = not_excluded(within)
    return {array: within.past.get(array, path) for array in arrays} if path else {}


def used(made: Study, first: History, shifts: Shifts) -> Shifts:
    """The moves, set to 0 for unused mechanisms: those whose noisy value changes neither the release nor a used mechanism.

    Up to EACH moved mechanisms are tested one by one. More than EACH are tested together, and all count as used if one is.
    """
    moved = [i for i, by in enumerate(shifts) if np.abs(by).max(initial=0) > NOTHING]
    unused: set[int] = set()
    for some in [[i] for i in reversed(moved)] if len(moved) <= EACH else [moved]:
        script = [m if i not in some else elsewhere(m, i) for i, m in enumerate(first.meetings)]
        heard = Meetings(script)
        try:
            after = play(made.model, first.worlds, script=first.play.draws, follow=heard)
        except (Diverged, OtherMechanisms):  # the run then has other mechanisms, so they depend on it
            continue
        if same_means(first.meetings, heard.found, unused) and alike(first, after):
            unused |= set(some)
    return tuple(np.zeros_like(by) if i in unused else by for i, by in enumerate(shifts))


def same_means(some: Sequence[Meeting], other: Sequence[Meeting], unused: Collection[int] = ()) -> bool:
    """Whether both runs add noise to the same values. `unused` mechanisms are not compared."""
    pairs = enumerate(zip(some, other, strict=True))
    return all(i in unused or np.array_equal(m.clean, o.clean) for i, (m, o) in pairs)


def elsewhere(meeting: Meeting, seed: int) -> Meeting:
    """The mechanism with another noisy value, chosen so that no softmax or normalisation maps both values to the same result."""
    other = np.random.default_rng(seed).standard_normal(meeting.noisy.shape)
    return replace(meeting, noisy=(meeting.noisy + meeting.scale * other).astype(meeting.noisy.dtype))


def cost(run: History, shifts: Shifts, delta: float) -> float:
    """The epsilon of these moves, in nats. If both laws occur, each law alone gives an epsilon, and the larger one is
    returned.
    """
    kept = [np.where(np.abs(by) > NOTHING, by, 0.0) for by in shifts]
    normal = [by for m, by in zip(run.meetings, kept, strict=True) if m.draw.law == "normal"]
    entries = [by[by != 0] for m, by in zip(run.meetings, kept, strict=True) if m.draw.law == "laplace"]
    mu = math.sqrt(sum(float(np.square(by).sum()) for by in normal))
    moved = tuple(float(v) for v in np.abs(np.concatenate(entries))) if entries else ()
    return max(float(epsilon_of(mu * (1 - SLACK), delta)), laplace_epsilon(moved, delta))


def not_fresh(made: Study, run: History, within: Inside, shifts: Shifts) -> Iterator[str]:
    """Sentences about mechanisms that move and whose noise hides nothing: every seed draws the same noise, or two mechanisms
    share it.
    """
    places = {id(draw): at for at, draw in enumerate(run.play.draws)}
    for i, (meeting, by) in enumerate(zip(run.meetings, shifts, strict=True)):
        drawn = (meeting.draw, *meeting.beside)
        if all(places[id(draw)] in made.constant for draw in drawn) and np.abs(by).max(initial=0) > NOTHING:
            yield f"the noise of {meeting.draw.where} is the same for every seed, and the value at {meeting.line} moves"
        j = within.again.get(i, i)
        unseen = any(np.any(within.shifts[k]) and not np.any(shifts[k]) for k in (i, j))
        if not unseen and np.abs(by - shifts[j]).max(initial=0) > 10 * NOTHING and not added_only(made, run, i, j):
            line, where = run.meetings[j].line, meeting.draw.where
            yield f"the noise of {where} is used at {line} and at {meeting.line}; their difference moves, and has no noise"


def hidden(made: Study, first: History, within: Inside, differs: bool) -> str | None:
    """Why another draw may hide the move, or None.

    A draw may hide the move if it is a coin that changes a clean value, or if it changes how far the secret moves a clean value.
    differs: whether the move has another size with another seed. Samples and shuffles hide moves: a claim may rely on their
    amplification, and then its epsilon is smaller than that of the composition.
    """
    free = free_draws(made, first)
    least = smallest(first, within)
    masks = [at for at in free if first.play.draws[at].law in MASKS and first.play.draws[at].values.size >= least]
    if masks and not alike(first, play(made.model, made.whole, script=redrawn(made, masks), follow=Meetings(first.meetings))):
        lines = ", ".join(dict.fromkeys(first.play.draws[at].line for at in masks))
        return f"the draws at {lines} change the release and are as many as the noisy values, so they may hide them as masks"
    coins = [at for at in free if first.play.draws[at].law not in CONTINUOUS]
    coins += compared(made, first, [at for at in free if first.play.draws[at].law == "uniform"])
    numbers = [at for at in free if at not in coins] if differs else []
    for some in (coins, numbers):
        if not some:
            continue
        lines = ", ".join(dict.fromkeys(first.play.draws[at].line for at in some))
        heard = Meetings(first.meetings)
        other = play(made.model, made.whole, script=redrawn(made, some), follow=heard)
        if same_means(first.meetings, heard.found):
            continue
        if some is coins:
            return (
                f"the draws at {lines} change the value to which noise is added, as samples and shuffles do; they may hide "
                "a secret"
            )
        assert within.worst is not None
        moved = without(made, History(made.whole, other, tuple(heard.found)), within.worst)[1]
        if further := grown(first, within.worst.secret, within.shifts, moved):
            return f"{further}; this size depends on the draws at {lines}, which may hide the move"
    return None


def compared(made: Study, first: History, uniform: Sequence[int]) -> list[int]:
    """The uniform draws that act as coins. The run only compares their numbers with a threshold, so slightly smaller numbers
    change nothing.

    If not all of them act as coins, draws with one number, or one number per node or edge, are tried one by one, at most TRIED.
    """

    def only(some: Sequence[int]) -> bool:
        script = [replace(d, values=d.values * (1 - NUDGE)) if at in some else d for at, d in enumerate(first.play.draws)]
        heard = Meetings(first.meetings)
        other = play(made.model, made.whole, script=script, follow=heard)
        return alike(first, other) and same_means(first.meetings, heard.found)

    if not uniform or only(uniform):
        return list(uniform)
    graph = made.whole.graph
    lengths = {1, graph.nodes, int(graph.train.sum()), graph.edges.shape[1], graph.arcs.shape[1]}
    likely = [at for at in uniform if first.play.draws[at].values.size in lengths]
    return [at for at in likely[:TRIED] if only([at])]


def redrawn(made: Study, some: Sequence[int]) -> list[Draw]:
    """The draws of the study's first run; those at the places `some` are replaced by draws of another seed."""
    return [made.others[0][at] if at in some else draw for at, draw in enumerate(made.base.draws)]


def alike(first: History, other: Play) -> bool:
    return all(np.array_equal(a, other.cells[c]) for c, a in first.play.cells.items())


def smallest(run: History, within: Inside) -> int:
    """The number of entries of the smallest mechanism that the secret moves."""
    moved = (m.noisy.size for m, by in zip(run.meetings, within.shifts, strict=True) if np.any(np.abs(by) > NOTHING))
    return min(moved, default=0)


def grown(run: History, secret: str, shifts: Shifts, others: Shifts) -> str | None:
    """The first mechanism that a secret moves by different amounts in two runs, in words; None if there is none."""
    for m, one, two in zip(run.meetings, shifts, others, strict=True):
        by, again = size(m, one), size(m, two)
        if abs(by - again) > EQUAL * max(by, again) + NOTHING:
            return f"{secret} moves the value at {m.line} by {by:.4g} in one run and by {again:.4g} in another"
    return None


def free_draws(made: Study, first: History) -> list[int]:
    """The places of all draws that differ from seed to seed and are not the noise of a mechanism."""
    noise = {id(m.draw) for m in first.meetings}
    return [
        at
        for at, d in enumerate(first.play.draws)
        if id(d) not in noise
        and not any(np.array_equal(d.values, m.draw.values) for m in first.meetings)
        and not np.array_equal(d.values, made.others[0][at].values)
        and d.values.size
    ]


def unhidden(made: Study, reason: str | None) -> Condition:
    if reason:
        return Condition("no other draw hides the move", "failed", reason)
    return Condition(
        "no other draw hides the move", "checked", "other draws replaced them, and each clean value moved by the same distance"
    )


def law_of(run: History) -> Condition:
    """Tests whether the noisy values minus the clean values follow the recorded law and scale."""
    p_values = []
    for m in run.meetings:
        left = m.units[m.covered]
        p_values.append(float(stats.kstest(left[:: max(1, left.size // MOST)], LAWS[m.draw.law]).pvalue))
    return checked(
        "noisy minus clean values follow the recorded law and scale", "Kolmogorov-Smirnov", len(p_values) * min(p_values)
    )


def told(secret: str, run: History, shifts: Shifts) -> str:
    """Says which mechanisms the secret moves, with their lines of code."""
    moved = [(m, size(m, by)) for m, by in zip(run.meetings, shifts, strict=True) if size(m, by) > NOTHING]
    lines: dict[tuple[str, str], list[float]] = {}
    for m, by in moved:
        lines.setdefault((m.line, f"{float(np.max(m.scale)):.4g}"), []).append(by)
    parts = [
        f"{len(each)} mechanism{'s' * (len(each) > 1)} at {line} (scale {scale}) by {min(each):.4g}"
        + (f" to {max(each):.4g}" if max(each) > min(each) * (1 + EQUAL) else "")
        for (line, scale), each in lines.items()
    ]
    if not parts:
        return f"{secret} moves no mechanism that the release depends on"
    shown = [*parts[:3], f"and {len(parts) - 3} more"] if len(parts) > 4 else parts
    return f"{secret} moves {', '.join(shown)} times the scale of the noise"
