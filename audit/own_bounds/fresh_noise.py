"""The bound from runs with fresh noise, for a secret whose moves depend on earlier noisy values, as those of gradients do.

A run draws noisy values z_1, ..., z_k. The log likelihood ratio of all of them, of the world with the secret against the world
without it, is the sum of the ratios of each z_i given z_1, ..., z_(i-1). The repetition of the run without the secret, with the
same noisy values, gives the other mean of each z_i. So the ratio of a run is computed, and only its distribution is sampled.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...accounting.checks.conditions import Condition
from ...accounting.lower.bounds import Bound
from ...models.recorder.mechanisms.found import REPORT, Mechanism
from ...reports.rounding import several
from ..mechanisms.absence import Incomparable, history, without
from ..recorded.playing import Diverged
from ..recorded.study import History, Shifts
from .attempt import EXACT, FRESH, UNHIDDEN, Attempt, granted_to
from .noise_law import law_of
from .released_noise import REPEATED

THEOREM = (
    "if log(p/q) of the noisy values, p with and q without the secret, is at least t with probability r under p, then epsilon e "
    "needs delta >= r (1 - exp(e - t)) (Balle and Wang 2018, theorem 5); r is a Clopper-Pearson bound"
)
ERROR = 1e-6  # probability with which the bound may exceed the true epsilon
RUNS, RUNS_OF_PROGRAMS = 64, 24
LARGEST = 4  # the bound rests on the largest of every LARGEST ratios
FIRST = 1000  # the number of the first run; earlier ones decide which secret is tried
ABOVE = {"normal", "laplace", REPORT}  # laws of which the ratio is computed


def from_fresh_noise(attempt: Attempt, shifts: Shifts) -> Bound | None:
    """The bound from runs with other seeds, or None if it does not refute the claim. shifts: the moves of the recorded run that
    count; None as well unless these are all moves, because later moves may depend on noisy values that the release does not show.
    """
    case, first, absent = attempt.case, attempt.first, attempt.worst
    counted = all(np.array_equal(by, left) for by, left in zip(attempt.within.counted(attempt.moves), shifts, strict=True))
    known = all(m.law in ABOVE for m, by in zip(first.mechanisms, shifts, strict=True) if np.any(by))
    if not counted or not known or attempt.within.idle or absent.base is not None or absent.half:
        return None
    runs = RUNS if first.study.effort.thorough else RUNS_OF_PROGRAMS
    ratios = np.sort(list(sampled(attempt, runs)))
    rank = runs // LARGEST
    at_least, rate = float(ratios[-rank]), float(stats.beta.ppf(ERROR, rank, runs - rank + 1))
    epsilon = at_least + math.log1p(-case.claim.delta / rate) if case.claim.delta < rate else 0.0
    if not epsilon > case.claim.epsilon:
        return None
    rests = f"{several(runs, 'run')} with other seeds, of which a quarter have a log likelihood ratio of at least {at_least:.3g}"
    text = f"{absent.secret} moves noisy values, and how far depends on earlier ones; {rests}"
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
    lines = [m.line for m in attempt.first.mechanisms]
    for number in range(FIRST, FIRST + runs):
        try:
            run = history(attempt.first.study, number)
            same = [m.line for m in run.mechanisms] == lines
            yield log_ratio(run, attempt.within.counted(without(run, attempt.worst)[1])) if same else -math.inf
        except (Diverged, Incomparable):
            yield -math.inf


def log_ratio(run: History, moves: Shifts) -> float:
    """The log likelihood ratio of all noisy values of a run, with the secret against without it. moves: by its absence."""
    return math.fsum(float(ratios(m, by).sum()) for m, by in zip(run.mechanisms, moves, strict=True) if np.any(by))


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
