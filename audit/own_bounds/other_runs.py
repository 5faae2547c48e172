"""What limits a bound or a reach that one recorded run gives: runs with other noise, and secrets that moved less far at first.

If how far a secret moves a value depends on earlier noisy values, as for gradients, runs with fresh noise give a bound. The log
likelihood ratio of all noisy values of a run, with the secret against without it, is the sum of those of the single values given
the earlier ones. The repetition of the run without the secret, with the same noisy values, gives the other mean of each value. So
the ratio of a run is computed, and only its distribution is sampled.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...accounting.checks.conditions import Condition
from ...accounting.lower.bounds import Bound
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ...reports.rounding import several
from ..mechanisms.absence import Incomparable, history, moves_without
from ..mechanisms.draws.noise_law import DISTRIBUTIONS, law_of
from ..mechanisms.inside import moving
from ..mechanisms.reading import idle, repeated
from ..recorded.laws import SLACK, cost
from ..recorded.playing import Diverged
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History, Shifts
from .adversary.hiding import EQUAL, same_entries
from .attempt import EXACT, FRESH, UNHIDDEN, Attempt, granted_to
from .released_noise import REPEATED

STEADY = "runs with other noise have the same epsilon"
SEEDS = range(1, 8)  # numbers of the runs with other seeds
FEW, SINGLE = 8, 24  # noisy values of at most FEW numbers are moved into their tails, SINGLE numbers in all
SCALES = 3.0  # how far a noisy value that tells much about a secret lies from the recorded one, in units of the noise
Measure = Callable[[Sequence[Mechanism], Shifts, float], float]  # mechanisms, their moves, delta -> cost, nats
TAIL = 1e-3  # probability of noise beyond the tried tail
THEOREM = (
    "if log(p/q) of the noisy values, p with and q without the secret, is at least t with probability r under p, then epsilon e "
    "needs delta >= r (1 - exp(e - t)) (Balle and Wang 2018, theorem 5); r is a Clopper-Pearson bound"
)
METHOD = "computed from runs with fresh noise"
ERROR = 1e-6  # probability with which the bound may exceed the true epsilon
RUNS, RUNS_OF_PROGRAMS = 64, 24
SHARE = 4  # the bound rests on the ratio that one run in SHARE reaches
FIRST = 1000  # the number of the first run; earlier ones decide which secret is tried
WITH_RATIO = {"normal", "laplace", REPORT}  # laws of which the ratio is computed


def changed_by_noise(attempt: Attempt, counted: float) -> str:
    """Why the reach from the first run does not hold for runs with other noise; "" if it seems to.

    In some runs the secret may cost more than the claim, and in others less. Or such a run reads a mechanism that the first run
    does not read, and a secret then costs more. Then the epsilon is an average over the runs, which is not computed. counted: the
    part of the cost of all moves that counts, nats.
    """
    first, within, claim, shifts = attempt.first, attempt.within, attempt.case.claim, attempt.each
    share = counted / attempt.whole if attempt.whole else 1.0
    unread = [i for i, by in enumerate(within.shifts) if not np.any(by) or i in within.idle]
    unread = [i for i in unread if i in within.idle or np.any(shifts[i])]
    epsilons = [counted]
    still = {i for i, by in enumerate(shifts) if not np.any(by) and i not in within.idle}
    for run in _telling_runs(first, attempt.worst, shifts):
        with suppress(Incomparable):
            epsilons.append(share * _cost(attempt, run, still))
    for run in _with_other_noise(first):
        try:
            epsilons.append(share * _cost(attempt, run))
        except Incomparable:
            continue
        if read := set(unread) - idle(run, [[i] for i in unread]) if unread else set():
            for absent in within.secrets:
                with suppress(Incomparable):
                    moved = within.counted(moves_without(run, absent))
                    if (epsilon := cost(run.mechanisms, moved, claim.delta)) > claim.epsilon * (1 + EQUAL):
                        line = f"with other noise the run reads the noisy value at {first.mechanisms[min(read)].line}"
                        unlike = "which it does not read in the recorded run"
                        return f"{line}, {unlike}; {absent.secret} then costs {epsilon:.3g}"
            unread = [i for i in unread if i not in read]
    if max(epsilons) <= claim.epsilon * (1 + EQUAL):
        return ""
    depends = f"what {attempt.worst.secret} costs depends on the noise of the run: {min(epsilons):.3g} in one run"
    return f"{depends}, {max(epsilons):.3g} in another, and their average is not computed"


@lru_cache(maxsize=4)  # each secret asks again
def sized_by_noise(first: History) -> str:
    """A sentence about the first mechanism whose noise has another size in a run with other noise; "" if there is none."""
    for run in _with_other_noise(first) if len(first.mechanisms) > 1 else ():
        for one, other in zip(first.mechanisms, run.mechanisms, strict=True):
            if np.shape(one.scale) != np.shape(other.scale) or not np.allclose(one.scale, other.scale, rtol=EQUAL):
                least, most = sorted(float(np.max(m.scale)) for m in (one, other))
                sizes = f"it is {least:.4g} in one run and {most:.4g} in another"
                return f"the size of the noise at {one.line} depends on earlier noise: {sizes}; the average cost is not computed"
    return ""


def least_share(attempt: Attempt, measure: Measure = cost) -> float:
    """The smallest cost of the worst secret in runs in which the noisy values tell much about it, over its cost in the first run;
    1 if no such run costs less. If the size of the noise depends on earlier noise, all other runs that are tried count too at
    delta above 0: there a bound needs more than one costly run.

    How far a secret moves a value may depend on earlier noisy values: a node that was chosen once is not chosen again. Then the
    moves of one run do not add up, because the values that tell most occur in runs in which later values move less. measure: what
    moves of some mechanisms cost (nats). Raises Incomparable if such a run has other mechanisms.
    """
    first, delta = attempt.first, attempt.case.claim.delta
    whole, share = measure(first.mechanisms, attempt.shifts, delta), 1.0
    for side in (1, -1):
        run = _telling(first, attempt.worst, attempt.each, side, first.study.effort.one_by_one)
        if run is first:
            continue
        other = measure(run.mechanisms, moved_in(attempt, run), delta)
        share = min(share, 1.0 if other >= whole * (1 - EQUAL) else 0.0 if math.isinf(whole) else other / whole)
    for run in _with_other_noise(first) if delta > 0 and sized_by_noise(first) else ():
        share = min(share, measure(run.mechanisms, moved_in(attempt, run), delta) / whole)
    return share


def _cost(attempt: Attempt, run: History, still: Collection[int] = ()) -> float:
    """The cost of `moved_in`, nats."""
    return cost(run.mechanisms, moved_in(attempt, run, still), attempt.case.claim.delta)


def moved_in(attempt: Attempt, run: History, still: Collection[int] = ()) -> Shifts:
    """The moves by the secret in another run. What it leaves at 0 in the first run does not count, except in the mechanisms
    `still`. Raises Incomparable.
    """
    moves = moves_without(run, attempt.worst)
    same = same_entries(attempt.first, attempt.each, moves)
    return attempt.within.counted(tuple(moves[i] if i in still else by for i, by in enumerate(same)))


def _telling(first: History, absent: Absence, each: Shifts, side: int, alone: int = 0) -> History:
    """The run in which each mechanism that the secret moves has a noisy value that tells much about it; `first` if the run has no
    other mechanism whose move could depend on this value.

    side: which world these values speak for, 1 or -1. alone: for how many mechanisms the values are chosen one after the other,
    each along the run that has the earlier ones; those of the others are chosen at once.
    """
    moved = sorted(moving(first, each))
    groups = [*([i] for i in moved[:alone]), moved[alone:]]
    run = first
    instead: dict[int, Mechanism] = {}
    for group in groups:
        if not group or len(first.mechanisms) < 2:
            continue
        moves = moves_without(run, absent)
        instead |= {i: at_telling_value(run.mechanisms[i], moves[i], side) for i in group}
        other = repeated(first, instead)
        if other is None:
            line = first.mechanisms[group[0]].line
            raise Incomparable(f"with another noisy value at {line} the run has other mechanisms; moves of one run do not add up")
        run = other
    return run


def _telling_runs(first: History, absent: Absence, each: Shifts) -> Iterator[History]:
    """The runs of `_telling` for both worlds; those that have other mechanisms are left out. In a run that cannot happen, as when
    a node is picked twice, the values are chosen again, one after the other.
    """
    for side in (1, -1):
        with suppress(Incomparable):
            run = _telling(first, absent, each, side)
            if not possible(run):
                run = _telling(first, absent, each, side, first.study.effort.one_by_one)
            if run is not first and possible(run):
                yield run


def possible(run: History) -> bool:
    """Whether all randomised reports of a run have values that they can have there."""
    reports = [m for m in run.mechanisms if m.law == REPORT]
    return all(np.all(m.chances[np.asarray(m.values) == m.noisy[..., None]] > 0) for m in reports)


def at_telling_value(mechanism: Mechanism, by: NDArray[np.float64], side: int, scales: float = SCALES) -> Mechanism:
    """The mechanism with a noisy value that tells much about a secret. by: how far the secret moves the clean value, as
    `Mechanism.over` gives it. side: 1 for the world with the secret, -1 for the world without it. scales: how far the noisy value
    lies from the recorded one, in units of the noise.
    """
    if mechanism.law == REPORT:
        ratios = np.where(mechanism.chances > 0, side * mechanism.ratios(by), -np.inf)
        values = np.array(mechanism.values)[ratios.argmax(-1)]
        return mechanism.with_noisy(np.where(mechanism.moved(by), values, mechanism.noisy))
    size = float(np.linalg.norm(by)) if mechanism.law == "normal" else float(np.abs(by).max(initial=0.0))
    along = by / size if mechanism.law == "normal" and size else np.sign(by)
    if mechanism.shared:
        own = tuple(slice(0, 1) if axis in mechanism.shared else slice(None) for axis in range(along.ndim))
        along = np.broadcast_to(along[own], along.shape)
    return mechanism.with_noisy(mechanism.noisy - side * scales * np.asarray(mechanism.scale) * along)


def _with_other_noise(first: History) -> Iterator[History]:
    """Yields runs with other seeds, and runs in which one number of a small noisy value lies in a tail of its noise."""
    if not first.study.effort.thorough:
        return
    for number in SEEDS:
        try:
            run = history(first.study, number)
        except Diverged:
            continue
        if run.lines == first.lines:
            yield run
    left = SINGLE
    for i, mechanism in enumerate(first.mechanisms):
        if mechanism.law not in DISTRIBUTIONS or not 0 < mechanism.noisy.size <= min(FEW, left):
            continue
        left -= mechanism.noisy.size
        far = float(DISTRIBUTIONS[mechanism.law].isf(TAIL)) * np.broadcast_to(
            np.asarray(mechanism.scale, dtype=np.float64), mechanism.noisy.shape
        )
        for at in np.ndindex(mechanism.noisy.shape):
            for side in (-1, 1):
                noisy = mechanism.noisy.copy()
                noisy[at] = mechanism.clean[at] + side * far[at]
                other = repeated(first, {i: mechanism.with_noisy(noisy)})
                if other is not None:
                    yield other


def from_fresh_noise(attempt: Attempt, shifts: Shifts) -> Bound | None:
    """The bound from runs with other seeds, or None if it does not refute the claim. shifts: the moves of the recorded run that
    count; None as well unless these are all moves, because later moves may depend on noisy values that the release does not show.
    """
    case, first, absent = attempt.case, attempt.first, attempt.worst
    counted = all(np.array_equal(by, left) for by, left in zip(attempt.within.counted(attempt.moves), shifts, strict=True))
    known = all(m.law in WITH_RATIO for m, by in zip(first.mechanisms, shifts, strict=True) if np.any(by))
    if not counted or not known or attempt.within.idle or absent.base is not None or absent.half:
        return None
    runs = RUNS if first.study.effort.thorough else RUNS_OF_PROGRAMS
    ratios = np.sort(list(sampled(attempt, runs)))
    rank = runs // SHARE if case.claim.delta > 0 else 1  # at delta = 0 no ratio may exceed epsilon
    at_least = float(ratios[-rank]) - SLACK * abs(float(ratios[-rank]))
    rate = float(stats.beta.ppf(ERROR, rank, runs - rank + 1))
    epsilon = at_least + math.log1p(-case.claim.delta / rate) if case.claim.delta < rate else 0.0
    if not epsilon > case.claim.epsilon:
        return None
    rests = f"in {rank} of {several(runs, 'run')} with other seeds, the log likelihood ratio is at least {at_least:.3g}"
    text = f"{METHOD}, because how far {absent.secret} moves noisy values depends on earlier ones: {rests}"
    fresh = Condition("the ratios are those of fresh noise", "proved", "each run has a seed of its own, and no run was left out")
    return Bound(
        epsilon,
        ERROR,
        "any",
        text,
        (runs, 0),
        refuted=True,
        p_value=ERROR,
        notices=math.inf,
        reach=math.inf,
        theorem=THEOREM,
        conditions=(REPEATED, law_of(first), FRESH, EXACT, UNHIDDEN, granted_to(first), fresh),
    )


def sampled(attempt: Attempt, runs: int) -> Iterator[float]:
    """The log likelihood ratio of each run, minus infinity if the run has other mechanisms with or without the secret."""
    for number in range(FIRST, FIRST + runs):
        try:
            run = history(attempt.first.study, number)
            same = run.lines == attempt.first.lines
            yield log_ratio(run, attempt.within.counted(moves_without(run, attempt.worst))) if same else -math.inf
        except Departed:
            yield -math.inf


def log_ratio(run: History, moves: Shifts) -> float:
    """The log likelihood ratio of all noisy values of a run, with the secret against without it. moves: by its absence. Minus
    infinity if a value moves whose ratio is not computed.
    """
    moved = [(m, by) for m, by in zip(run.mechanisms, moves, strict=True) if np.any(by)]
    total = sum(float(ratios(m, by).sum()) for m, by in moved) if all(m.law in WITH_RATIO for m, _ in moved) else -math.inf
    return -math.inf if math.isnan(total) else total


def ratios(mechanism: Mechanism, by: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for each noisy number of a mechanism. by: as `Mechanism.over` gives it."""
    if mechanism.law == REPORT:
        given = np.asarray(mechanism.values) == mechanism.noisy[..., None]
        return np.where(given, mechanism.ratios(by), 0.0).sum(-1)
    noise = mechanism.units
    with np.errstate(invalid="ignore"):
        if mechanism.law == "normal":
            return (np.square(noise - by) - np.square(noise)) / 2
        return np.abs(noise - by) - np.abs(noise)
