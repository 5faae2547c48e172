"""Lower bounds on epsilon for an adversary who sees the noisy value of each mechanism within a run.

A mechanism is a place in the code where noise is added to a value. The value is clean before and noisy after. The tool records
the scale of each noise, and repeats the run without one secret to compute how far each clean value moves. The user declares only
the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ...accounting.checks.conditions import Condition, checked, proved
from ...accounting.gaussian import mu_of_claim
from ...models.recorder.mechanisms.found import REPORT, OtherMechanisms
from ..mechanisms.absence import Incomparable, history, without
from ..mechanisms.draws.lost import lost, mixed
from ..mechanisms.inside import Inside, read_only, reports
from ..mechanisms.reading import EACH, idle, unread_entries
from ..recorded.laws import NOTHING, cost, left_out
from ..recorded.playing import Diverged
from ..recorded.study import History
from .granted_values import behind, compared_only, granted, in_any_order, noised_again, not_charged, shown_by, together, unseen
from .hiding import EQUAL, apart, every_secret, grown, hidden, not_fresh, same_entries, shown_always
from .other_runs import changed_by_noise
from .released_noise import MOVES, REPEATED, exact, known_noise, noticed, reached, smallest_factor

if TYPE_CHECKING:
    from ...accounting.lower.bounds import Bound
    from ...models.recorder.mechanisms.found import Mechanism
    from ..case import Case
    from ..recorded.study import Shifts, Study

MOST = 100_000  # largest number of values of a mechanism in the test of its law
ROUNDED = 1e-2  # in units of the scale: if noisy values are rounded more coarsely, `distance` tests the drawn numbers instead
REPORTED = 1e-6  # largest rounding error of a reported value
CELLS = 25.0  # smallest variance of a count for which `frequencies` uses the normal approximation
LAWS = {"normal": "norm", "laplace": "laplace"}
GRANTED = Condition(
    "for an adversary who sees the noisy value of each mechanism, and the random weights with which training starts",
    "granted",
    "proofs by composition assume this adversary; one who sees less may learn less",
)
STEADY = "runs with other noise have the same epsilon"
AGAIN = 4  # largest number of further secrets that are tried if the release shows only part of what the first one moves
COUNTED = "all moves together are little more than those that count"
NO_PATH = "no path leads past the noise"
EXACT = proved("the move of each clean value is exact", "the run was repeated with the same noisy values")
FRESH = proved(
    "no noise is used twice",
    "the noise was compared with that of all other mechanisms and seeds; a value that is computed twice counts once",
)

UNHIDDEN = Condition(
    "no other draw hides the move", "checked", "other draws replaced them, and each clean value moved by the same distance"
)


def from_mechanisms(case: Case, made: Study, within: Inside) -> Bound:
    """The bound from the secret that costs most.

    The release may show only a part of what this secret moves. If another secret then costs more, the bound is that of the other
    one. Tests at most AGAIN others; if more may cost as much, the bound has no reach. If the claim stands on the graph, the bound
    may come from a small graph of unusual nodes.
    """
    bound, whole = from_secret(case, made, within)
    if math.isfinite(bound.reach) and not bound.refuted and bound.epsilon < whole * (1 - EQUAL):
        first = history(made, 0)
        for number, absent in enumerate(within.others):
            try:
                moves, _ = read_only(made, first, within.idle, without(made, first, absent)[1], reports(first))
            except Incomparable:
                continue
            if cost(first.mechanisms, within.counted(moves), case.claim.delta) <= bound.epsilon * (1 + EQUAL):
                break
            if number == AGAIN:
                why = "the release shows only part of the noisy values that some secrets move, and not all of these were tried"
                return without_reach(bound, Condition(UNHIDDEN.what, "failed", why))
            other, _ = from_secret(case, made, replace(within, worst=absent, shifts=moves))
            if other.refuted or math.isinf(other.reach):
                return other
            bound = max(bound, other, key=lambda b: b.epsilon)
    if math.isinf(bound.reach) or bound.refuted or within.small is None:
        return bound
    study, unusual = within.small
    if unusual.worst is None or cost(unusual.mechanisms, unusual.counted(unusual.shifts), case.claim.delta) <= case.claim.epsilon:
        return bound
    other = from_mechanisms(case, study, unusual)
    return replace(other, method=f"{other.method}, on a small graph of unusual nodes") if other.refuted else bound


def without_reach(bound: Bound, failed: Condition) -> Bound:
    """The bound without what it proves and what it would have noticed, because a condition failed."""
    return replace(bound, epsilon=0.0, notices=math.inf, reach=math.inf, conditions=(*bound.conditions, failed))


def from_secret(case: Case, made: Study, within: Inside) -> tuple[Bound, float]:
    """The bound from one secret, `within.worst`, and what all its moves cost (nats) even if the release shows only part of them.

    The bound is infinite if noise that two seeds share, or that two mechanisms share, does not hide the move. The bound is 0
    if something that it needs is not known. In both cases its `method` says why.
    """
    if within.worst is None:
        path = not_excluded(within)
        known = (REPEATED, Condition(NO_PATH, "failed", path)) if path else (REPEATED,)
        if fixed := constant_noise(made, within):
            known = (*known, Condition(FRESH.what, "failed", fixed))
        return exact(0.0, next(iter(within.doubts), "no secret that was tried moves a mechanism"), MOVES, known), 0.0
    secret, first = within.worst.secret, history(made, 0)
    moves = used(made, first, within)
    each = granted(case, made, first, moves)
    if within.entangled or (doubt := not_charged(case, first, each)):
        why = within.entangled or doubt
        return fails("each noisy value is a release of data plus noise", why), 0.0
    if stray := lost(made, first, each):
        return fails(UNHIDDEN.what, stray), 0.0
    secrets = every_secret(made, first, within, case.claim.unit, each)
    for one, its_moves, its_shifts in secrets:
        if stale := next(not_fresh(made, first, within, its_moves, its_shifts), ""):
            if why := shown_always(made, first, its_shifts)[1] or mixed(made, first, its_shifts):
                told_both = Condition(FRESH.what, "failed", f"{stale}; but {why}")
                return exact(0.0, why, MOVES, (REPEATED, told_both, Condition(UNHIDDEN.what, "failed", why))), 0.0
            return exact(math.inf, f"{one}: {stale}", MOVES, (REPEATED, EXACT, GRANTED)), math.inf
    if within.shared:
        return fails(FRESH.what, within.shared), 0.0
    shifts = within.counted(each)
    if wide := next((m.line for m, by in zip(first.mechanisms, each, strict=True) if np.any(np.isinf(by))), None):
        shares = f"entries of the value at {wide} share a noise number and move by different amounts"
        why = f"{shares}; the release may show only a function of both, such as their sum, whose epsilon is not computed"
        return fails(FRESH.what, why), 0.0
    if twice := next((why for _, _, by in secrets if (why := apart(first, within, by))), ""):
        return fails(FRESH.what, twice), 0.0
    if strange := {m.law for m in within.mechanisms} - {*LAWS, REPORT}:
        return exact(0.0, f"the cost of noise of the law '{min(strange)}' is not computed", MOVES, (REPEATED,)), 0.0
    whole = cost(first.mechanisms, shifts, case.claim.delta)
    epsilons, reason = [whole], None
    try:
        other = history(made, 1)
        if [m.line for m in other.mechanisms] != [m.line for m in first.mechanisms]:
            raise Incomparable("another seed runs other mechanisms")
        _, moved = without(made, other, within.worst)
        moved = within.counted(same_entries(first, each, moved))
        epsilons.append(cost(other.mechanisms, moved, case.claim.delta))
        reason = hidden(made, first, within, grown(first, secret, shifts, moved) is not None)
        reason = reason or unseen(made, first, moves, each)
        if min(epsilons) > case.claim.epsilon and not reason:
            reason = (
                compared_only(made, case, first, shifts)
                or mixed(made, first, shifts)
                or noised_again(made, first, shifts)
                or together(made, first, shifts)
                or in_any_order(made, first, shifts)
            )
            reason = reason or behind(made, first, within, shifts)
            if not reason:
                shifts, reason = unread_entries(made, first, shifts, within.worst.hidden)
                epsilons.append(cost(first.mechanisms, shifts, case.claim.delta))
            if min(epsilons) > case.claim.epsilon and not reason:
                cells, reason = shown_always(made, first, shifts)
            if min(epsilons) > case.claim.epsilon and not reason:
                least, doubt = shown_by(made, first, within, shifts, cells)
                epsilons.append(cost(first.mechanisms, least, case.claim.delta))
                reason = doubt if epsilons[-1] <= case.claim.epsilon else ""
                shifts = shifts if doubt else least
    except (Incomparable, Diverged, OtherMechanisms) as found:
        reason = str(found)
    except Exception as fault:  # a user's model may raise any exception when it gets other numbers
        reason = f"with other draws the training ends ({type(fault).__name__}), so they may hide a secret"
    epsilon = 0.0 if reason else min(epsilons)
    unhidden = Condition(UNHIDDEN.what, "failed", reason) if reason else UNHIDDEN
    conditions = (REPEATED, law_of(first), FRESH, EXACT, unhidden, GRANTED)
    bound = exact(epsilon, reason or described(secret, first, shifts), MOVES, conditions)
    refuted = epsilon > case.claim.epsilon and not bound.failed
    path = not_excluded(within)
    if within.past and not refuted:
        bound = replace(bound, epsilon=0.0, conditions=(*conditions, Condition(NO_PATH, "failed", path)))
    notices = math.inf
    laws = {m.law for m, by in zip(first.mechanisms, shifts, strict=True) if m.size(by) > NOTHING}
    if not reason and not path and laws == {"normal"}:
        total = math.sqrt(sum(m.size(by) ** 2 for m, by in zip(first.mechanisms, shifts, strict=True)))
        notices = noticed(mu_of_claim(case.claim), total)
    elif not reason and not path and laws:
        notices = smallest_factor(lambda factor: cost(first.mechanisms, shifts, case.claim.delta, factor) > case.claim.epsilon)
    if len(epsilons) > 1 and 0 < epsilons[1] < whole:  # a refutation needs both runs, so the reach is that of the smaller move
        notices *= whole / epsilons[1]
    reach = reached(case, notices, within.worst.half, laws)
    bound = replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(within.moves), 0))
    if not refuted and math.isfinite(reach):
        counted, why = cost(first.mechanisms, shifts, case.claim.delta), left_out(first.mechanisms, shifts)
        if failed := Condition(COUNTED, "failed", why) if why else known_noise(case, made):
            bound = without_reach(bound, failed)
        elif why := changed_by_noise(made, first, within, case.claim, each, counted):
            bound = without_reach(bound, Condition(STEADY, "failed", why))
    return bound, whole


def constant_noise(made: Study, within: Inside) -> str:
    """A sentence about the first mechanism whose noise is the same for two seeds; "" if there is none."""
    constant = [made.base.draws[at] for at in sorted(made.constant)]
    drawn = ((m, draw) for m in within.mechanisms for draw in constant if np.array_equal(m.draw.values, draw.values))
    return next((f"the noise of {draw.where}, added at {m.line}, is the same for two seeds" for m, draw in drawn), "")


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
    if len(first.mechanisms) <= EACH:
        return within.shifts
    unused = idle(made, first, [[i] for i in reversed(moved)] if len(moved) <= EACH else [moved])
    return tuple(np.zeros_like(by) if i in unused else by for i, by in enumerate(within.shifts))


def fails(what: str, why: str) -> Bound:
    """The bound 0, because its condition `what` fails."""
    return exact(0.0, why, MOVES, (REPEATED, Condition(what, "failed", why)))


def law_of(run: History) -> Condition:
    """The condition that noisy minus clean values follow the recorded law and scale, with the p-value of its test."""
    p_values = [frequencies(m) if m.law == REPORT else distance(m) for m in run.mechanisms]
    tests = "Kolmogorov-Smirnov; reports: how often each value was reported"
    return checked("noisy minus clean values follow the recorded law and scale", tests, len(p_values) * min(p_values))


def distance(meeting: Mechanism) -> float:
    """The p-value of a Kolmogorov-Smirnov test of the noise of a mechanism, in units of its scale, against the recorded law."""
    left = meeting.draw.units.ravel() if coarse(meeting) else meeting.units[meeting.own]
    return float(stats.kstest(left[:: max(1, left.size // MOST)], LAWS[meeting.law]).pvalue)


def coarse(meeting: Mechanism) -> bool:
    """Whether noisy values are rounded so coarsely that the noise cannot be computed from them."""
    steps = np.spacing(np.abs(meeting.noisy[meeting.covered]))
    scales = np.broadcast_to(meeting.scale, meeting.noisy.shape)[meeting.covered]
    return bool(np.median(steps) > ROUNDED * np.median(scales))


def frequencies(report: Mechanism) -> float:
    """The Bonferroni p-value of "each value is reported as often as its probabilities say", by the normal approximation.

    Values with a variance below CELLS are not tested; the p-value is 1 if none is left.
    """
    values, chances = np.asarray(report.noisy, dtype=np.float64).ravel(), report.clean.reshape(-1, len(report.values))
    spread = np.sqrt((chances * (1 - chances)).sum(0))
    known = spread**2 >= CELLS
    gaps = [(np.abs(values - value) < REPORTED).sum() - chances[:, k].sum() for k, value in enumerate(report.values)]
    p_values = 2 * stats.norm.sf(np.abs(np.array(gaps)[known]) / spread[known])
    return min(1.0, len(p_values) * float(p_values.min())) if known.any() else 1.0


def described(secret: str, run: History, shifts: Shifts) -> str:
    """Says which mechanisms the secret moves and how far, with their lines of code."""
    moved = [(m, m.size(by)) for m, by in zip(run.mechanisms, shifts, strict=True) if m.size(by) > NOTHING]
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
