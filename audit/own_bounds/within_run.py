"""Lower bounds on epsilon for an adversary who sees the noisy value of each mechanism within a run.

A mechanism is a place in the code where noise is added to a value. The value is clean before and noisy after. The tool records
the scale of each noise, and repeats the run without one secret to compute how far each clean value moves. The user declares only
the claim.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...accounting.checks.conditions import Condition
from ...accounting.claim import Claim, Unit
from ...accounting.gaussian import mu_of_claim
from ...accounting.lower.bounds import Bound
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.mechanism import REPORT
from ...reports.rounding import several
from ..case import EDGES, Case
from ..mechanisms.absence import Incomparable, history, moves_without
from ..mechanisms.draws.lost import mixed
from ..mechanisms.draws.noise_law import law_of
from ..mechanisms.draws.switches import other_sizes
from ..mechanisms.inside import Inside, moving, read_only, reports
from ..mechanisms.reading import unread_entries
from ..mechanisms.relations import in_full
from ..mechanisms.shown.affine import ENTRIES, Affine, affine
from ..mechanisms.shown.several_values import folded
from ..recorded.laws import LARGEST, cost, left_out
from ..recorded.secrets.worlds import UNUSUAL, lacking
from ..recorded.study import History, Shifts
from .adversary.directions import Directions, directions
from .adversary.granted_values import behind, compared_only, granted, in_any_order, noised_again, shown_by, together, unseen
from .adversary.hiding import EQUAL, apart, free_draws, grown, hidden, other_noise, shown_always
from .attempt import (
    EXACT,
    FRESH,
    MASKS,
    NO_PATH,
    UNHIDDEN,
    Attempt,
    described,
    detected,
    fails,
    granted_to,
    not_excluded,
    nothing_moves,
    parts_of_release,
    ruled_out,
    used,
)
from .other_runs import STEADY, changed_by_noise, from_fresh_noise, least_share, moved_in
from .released_noise import MOVES, REPEATED, exact, known_noise, noticed, reached, smallest_factor

OTHERS = range(2, 6)  # further runs with other seeds, if initial weights or masks may change how far a secret moves a value
PARTS = 4  # how often a smaller part of the moves is searched that the release shows, each for less noise
AGAIN = 4  # largest number of further secrets that are tried if the release shows only part of what the first one moves
ROUNDING = 1e-6  # relative: a cost that exceeds the claim by less may be equal to it
DEPENDS = "how far the secret moves a value depends on earlier noisy values, so the moves of one run do not add up"
ADDS_UP = Condition(
    "the moves of one run add up",
    "checked",
    "the cost exceeds the claim also with the noisy values that tell most about the secret, for either world",
)
COUNTED = "all moves together are little more than those that count"


def from_mechanisms(case: Case, within: Inside) -> Bound:
    """The bound from the secret that costs most, with what the audit would have noticed.

    The audit repeats its search as if the claim were slightly smaller than the bound: so it would go with less noise. If the run
    then reads a known part of what the secret moves, the smallest detectable violation is that of this part. If the part is not
    known, the verdict would be inconclusive, and `covers` and `method` say so. Whether the release is a function of fewer numbers
    takes hundreds of trainings to find out, and is left out here.
    """
    within = with_costliest(case, within)
    bound, where = strongest(case, within)
    if bound.refuted or not bound.epsilon or math.isinf(bound.reach):
        return bound
    why, factor, shown = "each smaller noise shows a smaller part of the moves", bound.notices, bound.epsilon
    for _ in range(PARTS):
        less, _ = strongest(replace(case, claim=replace(case.claim, epsilon=shown * (1 - EQUAL))), within, projections=False)
        if less.refuted or math.isinf(less.reach):
            why = "" if less.refuted else next((c.detail for c in less.conditions if c.how == "failed"), less.method)
            break
        factor, shown = factor * less.notices, less.epsilon
    if factor > bound.notices and where.worst is not None:
        reach = reached(case, factor, where.worst.half, laws_of(where.run, where.shifts))
        bound = replace(bound, notices=factor, reach=reach)
    method = f"{bound.method}; less noise would not refute the claim, because {why}" if why else bound.method
    epsilon = 0.0 if MASKS in bound.conditions else bound.epsilon  # whoever does not know the masks may learn less
    elsewhere = where.run.worlds.graph.name != within.run.worlds.graph.name
    return replace(bound, epsilon=epsilon, method=method, covers=detected(case, where, elsewhere, refuted=not why))


def strongest(case: Case, within: Inside, projections: bool = True) -> tuple[Bound, Inside]:
    """The bound from the secret that costs most, and where it was found. A small graph of unusual nodes gives it if its moves
    cost more, and refute the claim or detect smaller violations. A graph of `suspicious` gives it if it refutes the claim, or if
    of those that cost less than the claim it detects the smallest violation. If moves there cost more than the claim, and it is
    not known how much of them the release shows, the bound has no reach. Such a graph counts only if no other draw hides the
    moves on the whole graph, because coins may do so that change nothing else there. The moves of values with the same noise by
    different amounts cost infinitely much. projections: see `Attempt`.
    """
    bound, where = on_graph_or_small(case, within, projections)
    moved = (part for part in within.elsewhere if part.worst is not None)
    costs = {part: math.inf if apart(part, part.shifts) else part.cost(case.claim.delta) for part in moved}
    costly = sorted(costs, key=costs.__getitem__, reverse=True)
    if bound.refuted or not costly or draws_may_hide(within):
        return bound, where
    barred = bool(bound.failed or not_excluded(within))
    for part in costly:
        more = costs[part] > case.claim.epsilon
        if not more and (barred or costs[part] <= bound.epsilon * (1 + EQUAL)):
            break
        other, _ = from_secret(case, part, projections)
        on = within.where(part)
        if other.refuted or (not more and not other.failed and other.reach < bound.reach):
            return replace(other, method=f"{other.method}, {on}"), part
        if more and other.failed and math.isfinite(bound.reach):
            why = next(c.detail for c in other.conditions if c.how == "failed")
            bound = without_reach(bound, Condition(UNHIDDEN.what, "failed", f"{why}, {on}"))
    return bound, where


@lru_cache(maxsize=1)  # the search for the reach asks again
def draws_may_hide(within: Inside) -> bool:
    """Whether draws that are no noise may hide what the worst secret moves on the graph of the run, or this is not known. If no
    secret moves anything there, whether the run has such draws.
    """
    try:
        if within.worst is None or not moving(within.run, within.shifts):
            return bool(free_draws(within.run))
        return bool(hidden(within, differs=True))
    except Departed:
        return True


def on_graph_or_small(case: Case, within: Inside, projections: bool) -> tuple[Bound, Inside]:
    """As `strongest`, without the graphs of `suspicious`."""
    bound, unusual = from_worst(case, within, projections), within.small
    if bound.refuted or unusual is None or unusual.worst is None:
        return bound, within
    claim = case.claim.epsilon
    whole, enough = unusual.cost(case.claim.delta), bound.epsilon * (1 + EQUAL)
    if whole <= (min(enough, claim) if math.isfinite(bound.reach) else claim):
        return bound, within
    other, where = from_worst(case, unusual, projections), f"on a {UNUSUAL}"
    if other.refuted or (not other.failed and other.reach < bound.reach < math.inf):
        return replace(other, method=f"{other.method}, {where}"), unusual
    if whole > claim * (1 + ROUNDING) and math.isfinite(bound.reach) and math.isinf(other.reach):
        why = next((c.detail for c in other.conditions if c.how == "failed"), other.method)
        return without_reach(bound, Condition(UNHIDDEN.what, "failed", f"{why}, {where}")), within
    return bound, within


def from_worst(case: Case, within: Inside, projections: bool) -> Bound:
    """As `strongest`, on the graph of the run.

    The release may show only a part of what the secret that costs most moves. If another secret then costs more, the bound is
    that of the other one. Tests at most AGAIN others; if more may cost as much, the bound has no reach.
    """
    bound, whole = from_secret(case, within, projections)
    if bound.failed or bound.refuted or within.all_tried or bound.epsilon >= whole * (1 - EQUAL):
        return bound
    first, unseen, moves, tried = within.run, math.isinf(bound.reach), within.shifts, 1
    for absent in within.others:
        try:
            moves, _ = read_only(first, within.idle, moves_without(first, absent), reports(first))
        except Incomparable:
            continue
        if cost(first.mechanisms, within.counted(moves), case.claim.delta) <= bound.epsilon * (1 + EQUAL):
            return bound
        if tried > AGAIN:
            unseen = True
            break
        other, _ = from_secret(case, replace(within, worst=absent, shifts=moves), projections)
        if other.refuted or other.failed:
            return other
        unseen, tried, bound = unseen or math.isinf(other.reach), tried + 1, max(bound, other, key=lambda b: b.epsilon)
    if not unseen:
        return bound
    lines = ", ".join(dict.fromkeys(m.line for m, by in zip(first.mechanisms, moves, strict=True) if np.any(by)))
    part = f"the release shows only part of the noisy values at {lines} that some secrets move"
    why = f"{part}; {several(tried, 'secret')} that move them far were tried, and others may cost more"
    return without_reach(bound, Condition(UNHIDDEN.what, "failed", why))


def with_costliest(case: Case, within: Inside) -> Inside:
    """If the release is affine in the noisy values, with the edge or node of which it shows most as the worst secret, on both
    graphs. Tries every one, because those that move the values far may be others than those of which a sum of them shows much.
    """
    small = within.small and with_costliest(case, within.small)
    first, unit, graph = within.run, case.claim.unit, within.run.worlds.graph
    number = graph.edges.shape[1] if unit in EDGES else graph.nodes
    tried = within.worst is not None and unit is not Unit.FEATURES and number <= ENTRIES * first.study.effort.entries
    release = linear(within) if tried else None
    if tried and release is None and in_any_order(first, within.shifts):
        release = linear(within, of_sums=True)
    if release is None or within.worst is None or (unit is Unit.NODE and release.by_node):
        return replace(within, small=small)
    trials, missing = [(within.worst, within.shifts)], False
    for secret in range(number):
        try:
            absent = lacking(first.study.whole, unit, np.array([secret]))
            trials.append((absent, read_only(first, within.idle, moves_without(first, absent), {})[0]))
        except Incomparable:
            missing = True
    sizes = [sum(float(np.square(by).sum()) for by in release.shown(moves)) for _, moves in trials]
    worst, shifts = trials[int(np.argmax(sizes))]
    return replace(within, small=small, worst=worst, shifts=shifts, all_tried=not missing)


def without_reach(bound: Bound, failed: Condition) -> Bound:
    """The bound without what it proves and what it would have noticed, because a condition failed."""
    return replace(bound, epsilon=0.0, notices=math.inf, reach=math.inf, conditions=(*bound.conditions, failed))


def from_secret(case: Case, within: Inside, projections: bool) -> tuple[Bound, float]:
    """The bound from one secret, `within.worst`, and what all its moves cost (nats) even if the release shows only part of them.

    The bound is infinite if noise that two seeds share, or that two mechanisms share, does not hide the move. The bound is 0
    if something that it needs is not known. In both cases its `method` says why.
    """
    if within.worst is None:
        return nothing_moves(within), 0.0
    moves = used(within)
    attempt = Attempt(case, within, moves, granted(case, within.run, moves), projections=projections)
    if (bound := ruled_out(attempt)) is not None:
        return bound, math.inf if math.isinf(bound.epsilon) else 0.0
    bound = concluded(attempt, least_cost(attempt))
    if bound.refuted and math.isfinite(bound.epsilon) and (why := other_sizes(within.run)):
        return fails("the noise has the same size in other runs", why), attempt.whole
    return (from_part(attempt) if bound.failed else None) or bound, attempt.whole


def from_part(attempt: Attempt) -> Bound | None:
    """The bound from some of the released arrays alone, if it refutes the claim."""
    for within, condition in parts_of_release(attempt):
        bound, _ = from_secret(attempt.case, within, attempt.projections)
        if bound.refuted:
            return replace(bound, method=f"{bound.method}; {condition.what}", conditions=(*bound.conditions, condition))
    return None


@dataclass(frozen=True)
class Cost:
    """What the moves of a secret prove. epsilon: the least cost (nats) of all runs and of all parts of the moves that were tried.
    again: the cost in a second run. shifts: the moves that count. reason: why they prove nothing, or "".
    masks: whether the adversary is granted draws that may hide the moves, such as masks of dropout. directions: the noisy values
    of which the release shows only directions, or None. left_out: why other moves of the secret do not count, or "".
    """

    epsilon: float
    again: float
    shifts: Shifts
    reason: str
    masks: bool = False
    directions: Directions | None = None
    left_out: str = ""


def least_cost(attempt: Attempt) -> Cost:
    """The cost of the moves in two runs, in OTHERS more if it may depend on initial weights, and, if all of them exceed the
    claim, of what the release always shows of the moves.

    If other draws may hide the moves, nothing is refuted. A proof may grant these draws to the adversary, as that of DP-SGD
    grants masks of dropout. So the claim has support if the moves cost no more than it with the masks of all runs.
    """
    first, whole, claim = attempt.first, attempt.whole, attempt.case.claim.epsilon
    try:
        moved, again = in_another_run(attempt, 1)
        differs = bool(grown(first, attempt.worst.secret, attempt.shifts, moved))
        if differs and any(draw.weights for draw in first.play.draws):
            again = min(again, *(in_another_run(attempt, number)[1] for number in OTHERS))
        reason = hidden(attempt.within, differs)
        if masks := bool(reason) and max(whole, again) <= claim:
            of_worst, of_others = with_other_masks(attempt)
            again = min(again, of_worst)
            masks = again > 0 and of_others <= claim
            reason = "" if masks else reason
        elif reason and attempt.projections:  # not while `from_mechanisms` tries smaller claims
            known = f"for an adversary who knows these draws, the moves cost {max(whole, again):.3g}, more than the claim"
            reason = f"{reason}; {known}"
        reason = reason or unseen(attempt.case, first, attempt.moves, attempt.each) or partly_shown(attempt)
        found = Cost(whole if masks else min(whole, again), again, attempt.shifts, reason, masks)
        return found if reason or found.epsilon <= claim else shown_part_of(attempt, found)
    except Departed as departed:
        return Cost(0.0, whole, attempt.shifts, str(departed))


def partly_shown(attempt: Attempt) -> str:
    """Why the entries of reports that the release is known to show prove nothing, although they cost no more than the claim: with
    those of which this is not known, the secret costs more. "" if it costs no more with them, or more without them.
    """
    within, most = attempt.within, attempt.case.claim.epsilon * (1 + ROUNDING)
    if attempt.whole > most or (total := attempt.cost(within.counted(attempt.moves))) <= most:
        return ""
    for m, by, left in zip(attempt.first.mechanisms, attempt.moves, attempt.each, strict=True):
        if m.law == REPORT and (lost := int((m.moved(by) & ~m.moved(left)).sum())):
            reports = f"{lost} of the {several(int(m.moved(by).sum()), 'randomised report')} at {m.line} that the secret moves"
            return f"it is not known whether a released number shows {reports}; with them it costs ε = {total:.3g}"
    return ""


def in_another_run(attempt: Attempt, number: int) -> tuple[Shifts, float]:
    """The moves in run `number` of the study, which has another seed, and their cost (nats). Raises Incomparable and Diverged."""
    first, other = attempt.first, history(attempt.first.study, number)
    lines, others = ([(m.line, m.clean.shape * (m.law == REPORT)) for m in run.mechanisms] for run in (first, other))
    if lines != others:
        raise Incomparable("another seed runs other mechanisms")
    moved = moved_in(attempt, other)
    return moved, cost(other.mechanisms, moved, attempt.case.claim.delta)


def with_other_masks(attempt: Attempt) -> tuple[float, float]:
    """The least cost (nats) of the secret in OTHERS runs, and the largest of it and of AGAIN other secrets that cost much: with
    other masks another secret may move a value farther. Raises Incomparable and Diverged, also if masks may change the noise.
    """
    if why := other_noise(attempt.first):
        raise Incomparable(why)
    secrets = attempt.within.secrets[: 1 + AGAIN]
    costs = [
        [in_another_run(replace(attempt, within=replace(attempt.within, worst=absent)), number)[1] for absent in secrets]
        for number in OTHERS
    ]
    return min(each[0] for each in costs), max(map(max, costs))


def shown_part_of(attempt: Attempt, found: Cost) -> Cost:
    """The cost of the part of the moves that the release always shows, or the reason why this part is not known."""
    case, first, within, shifts = attempt.case, attempt.first, attempt.within, found.shifts
    reason = compared_only(first, shifts) or mixed(first, shifts) or noised_again(first, shifts) or behind(within, shifts)
    if reason:
        return replace(found, reason=reason)
    if seen := in_every_run(attempt, found, linear(within)):
        return adding_up(attempt, seen)
    if reason := together(within, shifts) or in_any_order(first, shifts):
        seen = in_every_run(attempt, found, linear(within, of_sums=True))
        if seen is None:
            return replace(found, reason=reason)
        reason = folded(first, seen.shifts, together=True)
        return replace(seen, reason=reason) if reason else adding_up(attempt, seen)
    shifts, reason = unread_entries(first, found.shifts, attempt.worst.hidden)
    unread = [m.line for m, by, left in zip(first.mechanisms, found.shifts, shifts, strict=True) if not np.array_equal(by, left)]
    lines = ", ".join(dict.fromkeys(unread))
    where = f"they change entries at {lines} on which the release does not depend, neither near nor far"
    unread_at = where if lines else ""
    found = replace(found, epsilon=min(found.epsilon, attempt.cost(shifts)), shifts=shifts, reason=reason, left_out=unread_at)
    if reason or found.epsilon <= case.claim.epsilon:
        return found
    found = replace(found, directions=directions(within, shifts))
    if found.directions and (most := found.directions.cost(first.mechanisms, shifts, case.claim.delta)) <= case.claim.epsilon:
        return replace(found, reason=found.directions.reason(most))
    cells, reason = shown_always(first, shifts)
    if reason or not attempt.projections:
        return replace(found, reason=reason)
    least, doubt = shown_by(within, shifts, cells)
    epsilon = min(found.epsilon, attempt.cost(least))
    if found.directions:
        moved = found.directions.seen(first.mechanisms, shifts, least)
        epsilon = min(epsilon, found.directions.cost(first.mechanisms, moved, case.claim.delta))
    if epsilon <= case.claim.epsilon:
        return replace(found, epsilon=epsilon, shifts=shifts if doubt else least, reason=doubt)
    if reason := folded(first, least):
        return replace(found, reason=reason)
    why = "; and ".join(filter(None, (found.left_out, doubt)))
    return adding_up(attempt, replace(found, epsilon=epsilon, shifts=least, left_out=why))


def in_every_run(attempt: Attempt, found: Cost, release: Affine | None) -> Cost | None:
    """The cost of what a release shows of the moves; None without a release, and if some of its arrays do not show them for all
    tried values of the other draws.
    """
    if release is None:
        return None
    cells, reason = shown_always(attempt.first, found.shifts)
    if reason or len(cells) < len(attempt.first.play.cells):
        return None
    seen = release.shown(attempt.each, attempt.worst.hidden)
    return replace(found, epsilon=min(found.epsilon, attempt.cost(seen)), shifts=seen)


def adding_up(attempt: Attempt, found: Cost) -> Cost:
    """The cost of moves that the release shows, as far as the moves of one run add up."""
    claim = attempt.case.claim
    if found.epsilon <= claim.epsilon:
        return found
    measure = found.directions.cost if found.directions else cost
    share = least_share(attempt, measure)
    return replace(found, epsilon=share * found.epsilon, reason="" if share * found.epsilon > claim.epsilon else DEPENDS)


def linear(within: Inside, of_sums: bool = False) -> Affine | None:
    """The release as an affine function of all noisy values, if it shows fewer numbers than these; None if it is none, or if some
    of the noise is not normal or not followed. of_sums: as any function of fixed sums of them.
    """
    first, read = within.run, [i for i in range(len(within.mechanisms)) if i not in within.idle]
    known = not (within.again or within.shared or within.entangled)
    return affine(first, read, of_sums) if known and not in_full(first, read) else None


def concluded(attempt: Attempt, found: Cost) -> Bound:
    """The bound that the moves prove, and its smallest detectable violation."""
    claim, first, within = attempt.case.claim, attempt.first, attempt.within
    if found.reason == DEPENDS and attempt.projections and (sampled := from_fresh_noise(attempt, found.shifts)):
        return sampled
    unhidden = Condition(UNHIDDEN.what, "failed", found.reason) if found.reason else MASKS if found.masks else UNHIDDEN
    conditions: tuple[Condition, ...] = (REPEATED, law_of(first), FRESH, EXACT, unhidden, granted_to(first))
    text = found.reason or described(attempt.worst.secret, first, found.shifts)
    if not found.reason and within.undone.keys() & moving(first, found.shifts):
        text += ", beside common changes of entries, which the release undoes"
    if not found.reason and found.directions:
        text += "; of a noisy value the release shows directions alone"
    elif not found.reason and found.epsilon < attempt.cost(found.shifts) * (1 - EQUAL):
        text += "; of the runs that were tried, the one in which such moves cost least counts"
    if not found.reason and found.left_out:
        text += f"; other moves do not count, because {found.left_out}"
    bound = exact(0.0 if found.reason else found.epsilon, text, MOVES, conditions)
    refuted = bound.epsilon > claim.epsilon and not bound.failed
    moved = moving(first, found.shifts)
    if refuted and len(moved) > 1:
        conditions = (*conditions, ADDS_UP)
        bound = replace(bound, conditions=conditions)
    path = not_excluded(within)
    if within.past and not refuted:
        bound = replace(bound, epsilon=0.0, conditions=(*conditions, Condition(NO_PATH, "failed", path)))
    laws = laws_of(first, found.shifts)
    notices = math.inf if found.reason or path else detectable_factor(attempt, found.shifts, laws)
    if 0 < found.again < attempt.whole:  # a refutation needs both runs, so the reach is that of the smaller move
        notices *= attempt.whole / found.again
    reach = reached(attempt.case, notices, attempt.worst.half, laws)
    bound = replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(within.moves), 0))
    if math.isinf(notices) and not (refuted or bound.failed):
        return replace(bound, method=f"{text}; if the noise were {LARGEST:g} times smaller, this would not refute the claim")
    if refuted or math.isinf(reach):
        return bound
    if why := left_out(first.mechanisms, found.shifts):
        return without_reach(bound, Condition(COUNTED, "failed", why))
    if failed := known_noise(first.study, claim):
        return without_reach(bound, failed)
    if why := changed_by_noise(attempt, attempt.cost(found.shifts)):
        return without_reach(bound, Condition(STEADY, "failed", why))
    return bound


def laws_of(run: History, shifts: Shifts) -> set[str]:
    """The laws of the noise of the mechanisms that a secret moves."""
    return {run.mechanisms[i].law for i in moving(run, shifts)}


def detectable_factor(attempt: Attempt, shifts: Shifts, laws: set[str]) -> float:
    """The smallest factor by which all noise must be too small for these moves to cost more than the claim; infinite if there
    are no moves. laws: of the mechanisms that move.
    """
    claim = attempt.case.claim
    if laws == {"normal"}:
        return noticed(mu_of_claim(claim), math.hypot(*attempt.first.sizes(shifts)))
    return smallest_factor(lambda factor: attempt.cost(shifts, factor), claim.epsilon) if laws else math.inf


def paths_to(within: Inside, arrays: Sequence[str]) -> dict[str, str]:
    """Array -> why a path past the noise to this array is not excluded. Empty if all paths are excluded."""
    path = not_excluded(within)
    return {array: within.past.get(array, path) for array in arrays} if path else {}


def read_elsewhere(within: Inside, claim: Claim) -> str:
    """Where a run uses a noisy value that the first run does not use, so that a secret costs more than the claim; "" if no run
    does.
    """
    idle = {within.mechanisms[i].line for i in within.idle}
    for part in within.elsewhere if idle else ():
        used = {m.line for i, m in enumerate(part.mechanisms) if i not in part.idle}
        if (line := next(iter(sorted(idle & used)), "")) and part.cost(claim.delta) > claim.epsilon:
            return (
                f"the first run does not use the noisy value of {line}, and where a run uses it, the noisy values cost more than "
                f"the claim, {within.where(part)}"
            )
    return ""


def unused(within: Inside, arrays: Sequence[str]) -> dict[str, str]:
    """Array -> why nothing is stated about it if it shows no recorded noise; empty if the run reads all noisy values. On other
    data the run may use a noisy value that it does not use here, or replace it by one without noise. A pick that never changes
    here may change there.
    """
    if rare := next((part.improbable for part, _ in within.parts if part.improbable), ""):
        return dict.fromkeys(arrays, rare)
    line = next((within.mechanisms[i].line for i in sorted(within.idle)), "")
    why = f"this run does not use the noisy value of {line}; whether a run uses it may depend on the data"
    return dict.fromkeys(arrays, why) if line else {}
