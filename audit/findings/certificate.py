"""The certificate of one experiment: a bound on epsilon, a summary and a figure. The certificate of an exact bound also holds the
value of each independent computation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accounting.checks.conditions import proved
from ...accounting.claim import Claim
from ...accounting.lower.bounds import Bound, from_rounds, resting
from ..key import Key

ALPHA = 1e-4  # level of each statistical experiment; thirty of them together refute a true claim in at most 0.3 % of all runs
THEOREM = "the exact epsilon of the mechanism as run: in closed form, from its privacy-loss distribution, or by enumeration"
AS_RUN = proved(
    "the mechanism is the one that was run", "the experiment states the mechanism, and computes the cost of that mechanism"
)
AGREEMENT = 0.01  # largest relative difference between two computations of one number


@dataclass(frozen=True, eq=False)
class Figure:
    """The data of one plot.

    x, y: the labels of the axes. series: name -> (x, y), both (n,) float. style: "lines", "steps" or "bars"; for bars, x holds
    the n names. level: the height of a horizontal line, labelled "claimed"; None for no line. log: the logarithmic axes, "x", "y"
    or "xy"; "" for none.
    """

    x: str
    y: str
    series: Mapping[str, tuple[Any, Any]]
    style: str = "lines"
    level: float | None = None
    log: str = ""


@dataclass(frozen=True, eq=False)
class Certificate:
    """The result of one experiment.

    bound: a lower bound on the epsilon of the mechanism as run, tested against `claim`. summary: the result in one or two
    sentences. libraries: for an exact bound, method -> epsilon (nats), one for each independent computation.
    """

    claim: Claim
    bound: Bound
    summary: str
    figure: Figure
    libraries: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return "refuted" if self.bound.refuted else "not-refuted"


def computed(claim: Claim, epsilon: float, summary: str, figure: Figure, method: str = "closed form") -> Certificate:
    """A certificate without sampling. epsilon: that of the mechanism as run (nats), or 0 if the experiment computes none."""
    refuted = epsilon > claim.epsilon * (1 + 1e-9)
    bound = Bound(epsilon, 0.0, "exact", method, (0, 0), refuted, None, 1.0, claim.epsilon)
    return Certificate(claim, resting(bound, THEOREM, AS_RUN), summary, figure)


def confirmed(claim: Claim, libraries: Mapping[str, float], summary: str, figure: Figure) -> Certificate:
    """A certificate from independent computations of one epsilon, the smallest of which counts. libraries: method -> epsilon.

    Raises ValueError if the values differ by more than one per cent.
    """
    values = list(libraries.values())
    if max(values) - min(values) > AGREEMENT * max(1e-3, *values):
        raise ValueError(f"{dict(libraries)}: independent computations must agree within {AGREEMENT:.0%}, so no value is used.")
    one = computed(claim, min(values), summary, figure, " and ".join(libraries))
    return Certificate(claim, one.bound, summary, figure, libraries)


def bars(y: str, heights: Mapping[str, float], series: str = "values", level: float | None = None, log: str = "") -> Figure:
    """A figure with one bar for each name of `heights`. y: the label of the axis. series: the name of the bars together."""
    return Figure("", y, {series: (tuple(heights), np.array(list(heights.values()), float))}, "bars", level, log)


def along(x: NDArray[Any], value: Callable[[Any], float]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The points of a curve: x, and the value at each number in x."""
    return x, np.array([value(number) for number in x.tolist()], float)


def moved(claim: Claim, shift: float, noise_std: float, summary: str, covered: float, y: str, log: str = "") -> Certificate:
    """A certificate for one Gaussian release with noise of sd `noise_std` that the unit moves by `shift`.

    covered: the move that the noise covers, in the units of `y`. The figure shows `covered` beside `shift`.
    """
    from . import exact_epsilons as exact

    libraries = exact.gaussian(shift / noise_std, claim.delta)
    one = f"One release costs epsilon = {min(libraries.values()):.3g}."
    return confirmed(claim, libraries, f"{summary} {one}", bars(y, {"noise covers": covered, "unit moves": shift}, log=log))


def seen(claim: Claim, table: ArrayLike, summary: str, names: Sequence[str], method: str = "enumeration") -> Certificate:
    """A certificate from the probabilities of all outcomes. table: (2, outcomes), row 0 without the unit, row 1 with the unit.

    names: of the outcomes. method: "enumeration" of all cases, or "replay" of runs in which the unit alone decides the outcome.
    """
    from ...accounting.closed_forms import channel_epsilon

    p = np.asarray(table, float)
    series = {world: (tuple(names), row) for world, row in zip(("without", "with"), p, strict=True)}
    epsilon = channel_epsilon(p, claim.delta)
    return computed(claim, epsilon, summary, Figure("", "probability", series, "bars"), method)


def sampled(
    claim: Claim, without: ArrayLike, present: ArrayLike, key: Key, summary: str, score: str = "score", **how: Any
) -> Certificate:
    """A certificate at level ALPHA from the scores of independent rounds without and with the protected unit.

    score: the meaning of a score, as the label of the figure. how: further arguments of `accounting.lower.bounds.lower`, such as
    shape and ledger_curve. By default the bound assumes no shape.
    """
    zero, one = np.asarray(without, float).ravel(), np.asarray(present, float).ravel()
    scores, bits = np.concatenate([zero, one]), np.repeat([False, True], [zero.size, one.size])
    order = key.fold("order").generator().permutation(bits.size)
    bound = from_rounds(scores[order], bits[order], claim, alpha=ALPHA, seed=key.fold("pilot").seed, **how)
    return Certificate(claim, bound, summary, histograms(zero, one, score))


def histograms(zero: NDArray[np.float64], one: NDArray[np.float64], score: str) -> Figure:
    """A figure of the distributions of the scores in both worlds, over 60 common bins, as shares of the rounds."""
    both = np.concatenate([zero, one])
    low, high = (float(q) for q in np.quantile(both, [0.0005, 0.9995]))
    edges = np.linspace(low, high, 61) if high > low else np.linspace(low - 1, low + 1, 3)
    middle = (edges[:-1] + edges[1:]) / 2
    shares = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] / s.size for s in (zero, one)]
    return Figure(score, "share of rounds", {"without": (middle, shares[0]), "with": (middle, shares[1])}, "steps")
