"""Lower bounds on epsilon for an adversary who sees the noisy value of each mechanism within a run.

A mechanism is a place in the code where noise is added to a value. The value is clean before and noisy after. The tool records
the scale of each noise, and repeats the run without one secret to compute how far each clean value moves. The user declares only
the claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import dp_accounting as dp
import numpy as np
from scipy import stats

from ...accounting.checks.conditions import Condition, checked, proved
from ...accounting.events.tree import parts
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...models.hearing.mechanisms.meetings import REPORT, OtherMechanisms
from ..heard.inside import Incomparable, Inside, added_only, averaged, history, without
from ..heard.laws import NOTHING, cost
from ..heard.playing import Diverged
from ..heard.reading import (
    EACH,
    alike,
    idle,
    moved_by,
    redrawn,
    repeated,
    rerun,
    same_means,
    shown,
    unread_entries,
    visible,
    with_other_values,
)
from ..heard.study import CONTINUOUS, History
from .heard_noise import MOVES, REPEATED, exact, noticed, smallest_factor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...accounting.lower.bounds import Bound
    from ...models.hearing.mechanisms.meetings import Meeting
    from ..case import Case
    from ..heard.study import Shifts, Study

EQUAL = 1e-2  # relative tolerance between the sizes of one move in runs with different draws
TRIED = 8  # largest number of uniform draws that `compared` tests one by one
NUDGE = 1e-5  # relative change of a uniform number that seldom changes the result of a comparison
MOST = 100_000  # largest number of values of a mechanism in the test of its law
MASKS = ("uniform", "integers")  # laws of masks: a uniform number that is added modulo its range hides a value completely
ROUNDED = 1e-2  # in units of the scale: if noisy values are rounded more coarsely, `distance` tests the drawn numbers instead
REPORTED = 1e-6  # largest rounding error of a reported value
CELLS = 25.0  # smallest variance of a count for which `frequencies` uses the normal approximation
NUDGED = 1e-3  # in units of the scale: a change of noisy values that seldom changes the result of a comparison
FEW = 0.1  # a run only compares values if a tiny change of them affects at most this share of what a large change affects
LAWS = {"normal": "norm", "laplace": "laplace"}
SAMPLED = (dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent)
CHARGED = {"normal": (dp.GaussianDpEvent, *SAMPLED), "laplace": (dp.LaplaceDpEvent, *SAMPLED)}  # law -> events that charge for it
ADDITIVE = (dp.GaussianDpEvent, dp.LaplaceDpEvent, *SAMPLED, dp.UnsupportedDpEvent)  # the last one is an undeclared ledger
GRANTED = Condition(
    "for an adversary who sees the noisy value of each mechanism, and the random weights with which training starts",
    "granted",
    "proofs by composition assume this adversary; one who sees less may learn less",
)
NO_PATH = "no path leads past the noise"
EXACT = proved("the move of each clean value is exact", "the run was repeated with the same noisy values")
FRESH = proved(
    "no noise is used twice",
    "the noise was compared with that of all other mechanisms and seeds; a value that is computed twice counts once",
)


def from_mechanisms(case: Case, made: Study, within: Inside) -> Bound:
    """The bound from the secret with the largest move.

    The bound is infinite if noise that two seeds share, or that two mechanisms share, does not hide the move. The bound is 0
    if something that it needs is not known. In both cases its `method` says why.
    """
    if within.worst is None:
        path = not_excluded(within)
        known = (REPEATED, Condition(NO_PATH, "failed", path)) if path else (REPEATED,)
        return exact(0.0, next(iter(within.doubts), "no secret that was tried moves a mechanism"), MOVES, known)
    secret, first = within.worst.secret, history(made, 0)
    moves = used(made, first, within)
    each = granted(case, made, first, moves)
    if within.entangled or (doubt := not_charged(case, first, each)):
        why = within.entangled or doubt
        return exact(0.0, why, MOVES, (REPEATED, Condition("each noisy value is a release of data plus noise", "failed", why)))
    stale = next(not_fresh(made, first, within, each), None)
    if stale is not None:
        return exact(math.inf, f"{secret}: {stale}", MOVES, (REPEATED, EXACT, GRANTED))
    if within.shared:
        return exact(0.0, within.shared, MOVES, (REPEATED, Condition(FRESH.what, "failed", within.shared)))
    shifts = within.counted(each)
    if wide := next((m.line for m, by in zip(first.meetings, each, strict=True) if np.any(np.isinf(by))), None):
        why = (
            f"entries of the value at {wide} share a noise number, and the run uses only their sum, whose epsilon is not computed"
        )
        return exact(0.0, why, MOVES, (REPEATED, Condition(FRESH.what, "failed", why)))
    if twice := next((first.meetings[i].line for i in within.again if np.any(each[i]) and np.any(shifts[i])), None):
        why = f"the value at {twice} has the noise of another value; what the run makes of both may cost less than both values"
        return exact(0.0, why, MOVES, (REPEATED, Condition(FRESH.what, "failed", why)))
    if strange := {m.law for m in within.meetings} - {*LAWS, REPORT}:
        return exact(0.0, f"the cost of noise of the law '{min(strange)}' is not computed", MOVES, (REPEATED,))
    epsilons, reason = [cost(first.meetings, shifts, case.claim.delta)], None
    try:
        other = history(made, 1)
        if [m.line for m in other.meetings] != [m.line for m in first.meetings]:
            raise Incomparable("another seed runs other mechanisms")
        _, moved = without(made, other, within.worst)
        moved = within.counted(same_entries(first, each, moved))
        epsilons.append(cost(other.meetings, moved, case.claim.delta))
        reason = hidden(made, first, within, grown(first, secret, shifts, moved) is not None)
        reason = reason or unseen(made, first, moves, each) or compared_only(made, case, first, shifts)
        if min(epsilons) > case.claim.epsilon and not reason:
            reason = noised_again(made, first, shifts) or together(made, first, shifts) or behind(made, first, within, shifts)
            if not reason:
                shifts, reason = unread_entries(made, first, shifts)
                epsilons.append(cost(first.meetings, shifts, case.claim.delta))
    except (Incomparable, Diverged, OtherMechanisms) as found:
        reason = str(found)
    except Exception as fault:  # a user's model may raise any exception when it gets other numbers
        reason = f"with other draws the training ends ({type(fault).__name__}), so they may hide a secret"
    epsilon = 0.0 if reason else min(epsilons)
    conditions = (REPEATED, law_of(first), FRESH, EXACT, unhidden(made, reason), GRANTED)
    bound = exact(epsilon, reason or told(secret, first, shifts), MOVES, conditions)
    refuted = epsilon > case.claim.epsilon and not bound.failed
    path = not_excluded(within)
    if within.past and not refuted:
        bound = replace(bound, epsilon=0.0, conditions=(*conditions, Condition(NO_PATH, "failed", path)))
    notices, reach = math.inf, math.inf
    laws = {m.law for m, by in zip(first.meetings, shifts, strict=True) if m.size(by) > NOTHING}
    if not reason and not path and laws == {"normal"}:
        total = math.sqrt(sum(m.size(by) ** 2 for m, by in zip(first.meetings, shifts, strict=True)))
        notices = noticed(mu_of_claim(case.claim), total)
        reach = float(epsilon_of(notices * mu_of_claim(case.claim), case.claim.delta)) if math.isfinite(notices) else math.inf
    elif not reason and not path and len(laws) == 1:
        notices = smallest_factor(lambda factor: cost(first.meetings, shifts, case.claim.delta, factor) > case.claim.epsilon)
        reach = case.claim.epsilon * notices
    return replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(within.moves), 0))


def charges_for_reports(case: Case) -> bool:
    """Whether the ledger consists of randomised response only. Its proof then assumes that the adversary sees the reports."""
    events = [event for event, _ in parts(case.model.ledger)]
    return bool(events) and all(isinstance(event, dp.RandomizedResponseDpEvent) for event in events)


def not_charged(case: Case, first: History, moves: Shifts) -> str:
    """Why the proof of the ledger may not release the noisy values that a secret moves; "" if it releases them.

    A ledger that composes Gaussian or Laplace mechanisms releases their values. Some mechanisms of pure differential privacy draw
    normal numbers and release no sum of data and noise, such as objective perturbation.
    """
    if any(isinstance(event, ADDITIVE) for event, _ in parts(case.model.ledger)):
        return ""
    normal = (m for m, by in zip(first.meetings, moves, strict=True) if m.law == "normal" and m.size(by) > NOTHING)
    line = next((m.line for m in normal), None)
    told = "the ledger does not charge for normal noise, so its proof may not release the values with such noise at"
    return f"{told} {line}" if line else ""


def granted(case: Case, made: Study, first: History, moves: Shifts) -> Shifts:
    """The moves that an adversary may learn. A move of a report counts only if the ledger charges for reports, or if a released
    number depends on the report and on no other random number. Other moves of reports are set to 0.
    """
    if charges_for_reports(case):
        return moves
    return shown(made, first, moves)


def unseen(made: Study, first: History, moves: Shifts, seen: Shifts) -> str | None:
    """Why randomised reports may hide the secret from an adversary, or None if they do not.

    moves: all moves. seen: the moves that an adversary may learn, from `granted`.
    """
    triples = list(zip(first.meetings, moves, seen, strict=True))
    lost = next((m for m, by, left in triples if m.law == REPORT and m.size(by) > NOTHING and not np.any(left)), None)
    if lost is not None:
        told = "and the ledger does not charge for them; if only a sum or a sample of them is released, epsilon may be smaller"
        return f"no released number shows the randomised reports at {lost.line}, {told}"
    still = [i for i, (m, by, _) in enumerate(triples) if m.law == REPORT and not np.any(by)]
    noisy = [i for i, (m, by, _) in enumerate(triples) if m.law != REPORT and m.size(by) > NOTHING]
    if still and noisy and not independent(made, first, still, noisy):
        line = first.meetings[still[0]].line
        return f"the draws at {line} choose between values, as samples do; they may hide a secret"
    return None


def independent(made: Study, first: History, still: Sequence[int], noisy: Sequence[int]) -> bool:
    """Whether other values of the reports `still` leave all clean values of the mechanisms `noisy` unchanged. If so, these
    reports cannot hide a move. still, noisy: positions of mechanisms in the run.
    """
    return all(
        other is not None and all(np.array_equal(first.meetings[i].clean, other.meetings[i].clean) for i in noisy)
        for other in with_other_values(made, first, still)
    )


def same_entries(first: History, moves: Shifts, others: Shifts) -> Shifts:
    """The moves `others`. They are set to 0 for each mechanism, and for each entry of a report, whose move in `moves` is 0."""
    return tuple(
        np.where(np.any(by, axis=-1, keepdims=True) if m.law == REPORT else np.any(by), other, 0.0)
        for m, by, other in zip(first.meetings, moves, others, strict=True)
    )


def alike_entries(meeting: Meeting, by: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Some entries that share a noise number: those of the first infinite move, at most TRIED of them."""
    first = np.argwhere(np.isinf(by))[0]
    group = np.zeros(by.shape, dtype=bool)
    group[tuple(slice(None) if axis in meeting.shared else at for axis, at in enumerate(first))] = True
    return [tuple(entry) for entry in np.random.default_rng(0).permutation(np.argwhere(group))[:TRIED].tolist()]


def compared_only(made: Study, case: Case, first: History, shifts: Shifts) -> str | None:
    """Why an adversary may see less than the noisy values that the secret moves, or None if the adversary sees them.

    A run may use noisy values for comparisons only, as report-noisy-max and the sparse vector technique do. The proofs of these
    mechanisms do not release the noisy values, so the epsilon of the noisy values does not refute them. The function looks for
    noisy values whose tiny changes have little effect. It skips the values of a mechanism if the ledger charges for noise of this
    law: the ledger's proof then grants the noisy values to the adversary.
    """
    events = [event for event, _ in parts(case.model.ledger)]
    moved = [i for i, (m, by) in enumerate(zip(first.meetings, shifts, strict=True)) if m.law in CHARGED and m.size(by) > NOTHING]
    places = [i for i in moved if not any(isinstance(event, CHARGED[first.meetings[i].law]) for event in events)]
    for some in [[i] for i in places] if len(places) <= EACH else [places]:
        sizes = (NUDGED, 1.0)
        little, far = (changes(made, first, {i: moved_by(first.meetings[i], size, i) for i in some}) for size in sizes)
        if little is not None and far and little <= FEW * far:
            line = first.meetings[some[0]].line
            told = "only compared, as in report-noisy-max, and the ledger does not charge for their noise"
            return f"the noisy values at {line} are {told}; comparisons may cost less"
    return None


def noised_again(made: Study, first: History, shifts: Shifts) -> str | None:
    """Why noise of later mechanisms may add to the noise that hides a move, or None if it does not.

    A run may use a noisy value only inside values to which it adds more noise, and release these alone. The release then shows a
    sum of both noises, and epsilon may be smaller than that of the first noise. The function gives other noisy values to the
    mechanisms that move farthest, one at a time and at most EACH, and keeps all later noisy values. If the release stays the
    same, it shows the value only through later noise.
    """
    sizes = [0.0 if m.law == REPORT else m.size(by) for m, by in zip(first.meetings, shifts, strict=True)]
    for i in sorted((i for i, size in enumerate(sizes) if size > NOTHING), key=lambda i: -sizes[i])[:EACH]:
        if all(other is not None and alike(first, other.play) for other in with_other_values(made, first, [i])):
            return f"the run uses the noisy value at {first.meetings[i].line} only in values to which it adds more noise"
    return None


def together(made: Study, first: History, shifts: Shifts) -> str:
    """Why the release may show a noisy value that the secret moves only in a sum with another noisy value; "" if it does not.
    Tests the EACH mechanisms that move farthest, each with TRIED others.
    """
    sizes = {i: m.size(by) for i, (m, by) in enumerate(zip(first.meetings, shifts, strict=True)) if m.law != REPORT}
    moved = sorted((i for i, size in sizes.items() if size > NOTHING), key=lambda i: -sizes[i])[:EACH]
    for i, j in [(i, j) for i in moved for j in [j for j in sizes if j != i][:TRIED]]:
        if added_only(made, first, i, j):
            lines = f"{first.meetings[i].line} and {first.meetings[j].line}"
            return f"the run uses the noisy values at {lines} only in their sum, whose epsilon is not computed"
    return ""


def behind(made: Study, first: History, within: Inside, shifts: Shifts) -> str:
    """Why the noise at a later place may hide what the secret moves, or data that is added later may cancel it; "" if some array
    without a path past the noise shows the noisy values.
    """
    if not within.past:
        return ""
    for i, (m, by) in enumerate(zip(first.meetings, shifts, strict=True)):
        if m.size(by) <= NOTHING:
            continue
        runs = [run for run in with_other_values(made, first, [i]) if run is not None]
        for cell, before in first.play.cells.items():
            if cell.array not in within.past and any(not np.array_equal(run.play.cells[cell], before) for run in runs):
                return ""
    return f"{next(iter(within.past.values()))}, and may cancel the move of the noisy value"


def changes(made: Study, first: History, instead: Mapping[int, Meeting]) -> int | None:
    """How many released numbers and clean values change if some mechanisms give other noisy values; None if the run cannot go on
    with these values. instead: position of a mechanism -> the mechanism with its other noisy value.
    """
    other = repeated(made, first, instead)
    if other is None:
        return None
    pairs = [*zip(first.play.cells.values(), other.play.cells.values(), strict=True)]
    pairs += [(m.clean, o.clean) for m, o in zip(first.meetings, other.meetings, strict=True)]
    return sum(int(np.sum(one != other)) for one, other in pairs)


def not_excluded(within: Inside) -> str:
    """Why a path past the noise is not excluded; "" if all repetitions, without one secret and without many, showed no path."""
    together = "" if within.together else "the training fails when many secrets are removed at once"
    return next(iter(within.past.values()), "") or next(iter(within.doubts), "") or together


def paths_to(within: Inside, arrays: Sequence[str]) -> dict[str, str]:
    """Array -> why a path past the noise to this array is not excluded. Empty if all paths are excluded."""
    path = not_excluded(within)
    return {array: within.past.get(array, path) for array in arrays} if path else {}


def used(made: Study, first: History, within: Inside) -> Shifts:
    """The moves of the worst secret, set to 0 for mechanisms that the run does not read.

    If the run has at most EACH mechanisms, `within` already has these zeros. Otherwise this function tests the mechanisms that
    move: one by one if there are at most EACH of them, else together.
    """
    moved = [i for i, by in enumerate(within.shifts) if np.abs(by).max(initial=0) > NOTHING]
    if len(first.meetings) <= EACH:
        return within.shifts
    unused = idle(made, first, [[i] for i in reversed(moved)] if len(moved) <= EACH else [moved])
    return tuple(np.zeros_like(by) if i in unused else by for i, by in enumerate(within.shifts))


def not_fresh(made: Study, run: History, within: Inside, shifts: Shifts) -> Iterator[str]:
    """Yields a sentence for each mechanism whose mean the secret moves and whose noise does not hide this move, because two
    seeds draw the same noise or because another mechanism uses it too.
    """
    places = {id(draw): at for at, draw in enumerate(run.play.draws)}
    for i, (meeting, by) in enumerate(zip(run.meetings, shifts, strict=True)):
        if np.any(np.isinf(by)) and not averaged(made, run, i) and visible(made, run, i, alike_entries(meeting, by)):
            one = f"one number of the noise of {meeting.draw.where} serves several entries of the value at {meeting.line}"
            yield f"{one}, which move by different amounts; their difference has no noise"
            continue
        drawn = (meeting.draw, *meeting.beside)
        moves, constant = np.abs(by).max(initial=0) > NOTHING, all(places[id(draw)] in made.constant for draw in drawn)
        if constant and moves and visible(made, run, i):
            yield f"the noise of {meeting.draw.where} is the same for two seeds, and the value at {meeting.line} moves"
        j = i if meeting.law == REPORT else within.again.get(i, i)
        unseen = any(k in within.idle or (np.any(within.shifts[k]) and not np.any(shifts[k])) for k in (i, j))
        apart = np.abs(by - shifts[j]) if j != i else np.zeros(1)
        if unseen or apart.max(initial=0) <= 10 * NOTHING or linear_term(made, run, j, i):
            continue
        if added_only(made, run, i, j, released=True):
            continue
        farthest = [np.unravel_index(int(at), apart.shape) for at in np.argsort(-apart, axis=None)[:TRIED]]
        entries = [tuple(map(int, entry)) for entry in farthest if apart[entry] > 10 * NOTHING]
        if any(visible(made, run, i, [entry]) and visible(made, run, j, [entry]) for entry in entries):
            line, where = run.meetings[j].line, meeting.draw.where
            twice = f"the noise of {where} is used at {line} and at {meeting.line}"
            yield f"{twice}; their difference depends on the secret and has no noise"


def linear_term(made: Study, run: History, j: int, i: int) -> bool:
    """Whether mechanism `i` may add the same draw as mechanism `j` in another step of one loop. Objective perturbation does so:
    it adds one random linear term to an objective, hence one draw to each gradient. Its proof releases the last step only.
    """
    one, other = run.meetings[j], run.meetings[i]
    if one.draw is not other.draw or one.line != other.line:
        return False
    runs = with_other_values(made, run, [j])
    return any(after is None or not np.array_equal(after.meetings[i].clean, other.clean) for after in runs)


def hidden(made: Study, first: History, within: Inside, differs: bool) -> str | None:
    """Why a draw that is not noise may hide the move, or None if no draw does.

    A draw may hide the move if it is a coin that changes a clean value, if it changes how far the secret moves a clean value, or
    if it is a mask of uniform numbers. Samples and shuffles are such draws: a claim may rely on their amplification, and then its
    epsilon is smaller than that of the composition. differs: whether the move has another size with another seed.
    """
    free = free_draws(made, first)
    moved_laws = {m.law for m, by in zip(first.meetings, within.shifts, strict=True) if m.size(by) > NOTHING}
    if moved_laws == {REPORT}:  # no mask hides a report that a released number shows, but a draw may change its probabilities
        known = same_means(first.meetings, rerun(made, first, {}, redrawn(made, free)).meetings)
        why = f"the draws at {lines(first, free)} change the probabilities of the reports, so they may hide a secret"
        return None if known else why
    least = smallest(first, within)
    masks = [at for at in free if first.play.draws[at].law in MASKS and first.play.draws[at].values.size >= least]
    if masks and not alike(first, rerun(made, first, {}, redrawn(made, masks)).play):
        many = "change the release and have at least as many numbers as a noisy value, so they may mask that value"
        return f"the draws at {lines(first, masks)} {many}"
    coins = [at for at in free if first.play.draws[at].law not in CONTINUOUS]
    coins += compared(made, first, [at for at in free if first.play.draws[at].law == "uniform"])
    numbers = [at for at in free if at not in coins] if differs else []
    for some in (coins, numbers):
        if not some:
            continue
        other = rerun(made, first, {}, redrawn(made, some))
        if same_means(first.meetings, other.meetings):
            continue
        if some is coins:
            return (
                f"the draws at {lines(first, some)} change the value to which noise is added, as samples and shuffles do; "
                "they may hide a secret"
            )
        assert within.worst is not None
        moved = same_entries(first, within.shifts, without(made, other, within.worst)[1])
        if further := grown(first, within.worst.secret, within.shifts, moved):
            return f"{further}; this size depends on the draws at {lines(first, some)}, which may hide the move"
    return None


def lines(first: History, draws: Sequence[int]) -> str:
    """The lines of code of the draws at these positions, each line once, in words."""
    return ", ".join(dict.fromkeys(first.play.draws[at].line for at in draws))


def compared(made: Study, first: History, uniform: Sequence[int]) -> list[int]:
    """The positions of the uniform draws that act as coins: the run only compares their numbers with a threshold.

    The test makes the numbers slightly smaller, which changes nothing if they are coins. If it changes something for all draws
    together, the function tests single draws: at most TRIED of those that have one number, or one number per node or edge.
    """

    def only(some: Sequence[int]) -> bool:
        script = [replace(d, values=d.values * (1 - NUDGE)) if at in some else d for at, d in enumerate(first.play.draws)]
        other = rerun(made, first, {}, script)
        return alike(first, other.play) and same_means(first.meetings, other.meetings)

    if not uniform or only(uniform):
        return list(uniform)
    graph = made.whole.graph
    lengths = {1, graph.nodes, int(graph.train.sum()), graph.edges.shape[1], graph.arcs.shape[1]}
    likely = [at for at in uniform if first.play.draws[at].values.size in lengths]
    return [at for at in likely[:TRIED] if only([at])]


def smallest(run: History, within: Inside) -> int:
    """The number of entries of the smallest mechanism that the worst secret moves; 0 if it moves none."""
    moved = (m.noisy.size for m, by in zip(run.meetings, within.shifts, strict=True) if np.any(np.abs(by) > NOTHING))
    return min(moved, default=0)


def grown(run: History, secret: str, shifts: Shifts, others: Shifts) -> str | None:
    """A sentence about the first mechanism that a secret moves by different amounts in two runs; None if there is none."""
    for m, one, two in zip(run.meetings, shifts, others, strict=True):
        by, again = m.size(one), m.size(two)
        if abs(by - again) > EQUAL * max(by, again) + NOTHING:
            return f"{secret} moves the value at {m.line} by {by:.4g} in one run and by {again:.4g} in another"
    return None


def free_draws(made: Study, first: History) -> list[int]:
    """The positions of all draws that differ from seed to seed and are not the noise of a mechanism."""
    noise = {id(draw) for m in first.meetings for draw in (m.draw, *m.beside)}
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
    """The condition that noisy minus clean values follow the recorded law and scale, with the p-value of its test."""
    p_values = [frequencies(m) if m.law == REPORT else distance(m) for m in run.meetings]
    tests = "Kolmogorov-Smirnov; reports: how often each value was reported"
    return checked("noisy minus clean values follow the recorded law and scale", tests, len(p_values) * min(p_values))


def distance(meeting: Meeting) -> float:
    """The p-value of a Kolmogorov-Smirnov test of the noise of a mechanism, in units of its scale, against the recorded law."""
    left = meeting.draw.units.ravel() if coarse(meeting) else meeting.units[meeting.own]
    return float(stats.kstest(left[:: max(1, left.size // MOST)], LAWS[meeting.law]).pvalue)


def coarse(meeting: Meeting) -> bool:
    """Whether noisy values are rounded so coarsely that the noise cannot be computed from them."""
    steps = np.spacing(np.abs(meeting.noisy[meeting.covered]))
    scales = np.broadcast_to(meeting.scale, meeting.noisy.shape)[meeting.covered]
    return bool(np.median(steps) > ROUNDED * np.median(scales))


def frequencies(report: Meeting) -> float:
    """The Bonferroni p-value of "each value is reported as often as its probabilities say", by the normal approximation.

    Values with a variance below CELLS are not tested; the p-value is 1 if none is left.
    """
    told, chances = np.asarray(report.noisy, dtype=np.float64).ravel(), report.clean.reshape(-1, len(report.values))
    spread = np.sqrt((chances * (1 - chances)).sum(0))
    known = spread**2 >= CELLS
    gaps = [(np.abs(told - value) < REPORTED).sum() - chances[:, k].sum() for k, value in enumerate(report.values)]
    p_values = 2 * stats.norm.sf(np.abs(np.array(gaps)[known]) / spread[known])
    return min(1.0, len(p_values) * float(p_values.min())) if known.any() else 1.0


def told(secret: str, run: History, shifts: Shifts) -> str:
    """Says which mechanisms the secret moves and how far, with their lines of code."""
    moved = [(m, m.size(by)) for m, by in zip(run.meetings, shifts, strict=True) if m.size(by) > NOTHING]
    each_line: dict[tuple[str, str, str], list[float]] = {}
    for m, by in moved:
        report = m.law == REPORT
        size = "randomised response" if report else f"scale {float(np.max(m.scale)):.4g}"
        unit = "nats" if report else "times the scale of the noise"
        each_line.setdefault((m.line, size, unit), []).append(by)
    parts = []
    for (line, size, unit), each in each_line.items():
        most = f" to {max(each):.4g}" if max(each) > min(each) * (1 + EQUAL) else ""
        parts.append(f"{len(each)} mechanism{'s' * (len(each) > 1)} at {line} ({size}) by {min(each):.4g}{most} {unit}")
    if not parts:
        return f"{secret} moves no mechanism that the release depends on"
    shown = [*parts[:3], f"and {len(parts) - 3} more"] if len(parts) > 4 else parts
    return f"{secret} moves {', '.join(shown)}"
