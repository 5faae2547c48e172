"""What a finding is: a published claim, the experiment that contradicts it, and the counterpart that stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting.claim import Claim
from ...accounting.lower.bounds import Bound, lower
from .descriptions import Description, read

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ..key import Key

ALPHA = 1e-4  # of every statistical experiment: thirty of them together raise a false alarm in 0.3 % of all honest calls
AGREE = 0.01  # relative; two libraries that compute one number differ by their rounding only


@dataclass(frozen=True, eq=False)
class Figure:
    """The data of one plot.

    series: name -> (x, y), both (n,) float. style: "lines", "steps" or "bars" (x are then names). level: a horizontal line
    (epsilon as printed); across: a vertical one. log: axes in logarithms, of "x" and "y".
    """

    x: str
    y: str
    series: Mapping[str, tuple[Any, Any]]
    style: str = "lines"
    level: float | None = None
    log: str = ""


@dataclass(frozen=True, eq=False)
class Certificate:
    """What one experiment showed.

    bound: of the epsilon of what was run; refuted if it contradicts `claim`. told: the result in one sentence. libraries: for an
    exact number, what each of two independent computations says (nats).
    """

    claim: Claim
    bound: Bound
    told: str
    figure: Figure
    libraries: Mapping[str, float] = field(default_factory=dict)


Experiment = Callable[["Key"], Certificate]


@dataclass(frozen=True)
class Finding(Description):
    """A published claim and what became of it.

    experiment, fixed: run the claim, and its counterpart that the same experiment does not contradict; both take a key.
    """

    experiment: Experiment
    fixed: Experiment | None

    def verdict(self, certificate: Certificate) -> str:
        """refuted, not-refuted, or argued where no experiment could decide."""
        if self.proof == "argued":
            return "argued"
        return "refuted" if certificate.bound.refuted else "not-refuted"


def computed(claim: Claim, epsilon: float, told: str, figure: Figure, method: str = "closed form") -> Certificate:
    """A certificate without sampling: the epsilon of what was run, known exactly."""
    refuted = epsilon > claim.epsilon * (1 + 1e-9)
    bound = Bound(epsilon, 0.0, "exact", method, (0, 0), refuted, None, 1.0, claim.epsilon, audit="finding")
    return Certificate(claim, bound, told, figure)


def agreed(claim: Claim, libraries: Mapping[str, float], told: str, figure: Figure) -> Certificate:
    """A certificate from two computations that know nothing of each other; the smaller number counts.

    Raises ValueError where they disagree by more than one per cent.
    """
    values = list(libraries.values())
    if max(values) - min(values) > AGREE * max(1e-3, *values):
        raise ValueError(f"{dict(libraries)}: two libraries must agree within {AGREE:.0%}; neither figure is to be trusted.")
    one = computed(claim, min(values), told, figure, " and ".join(libraries))
    return Certificate(claim, one.bound, told, figure, libraries)


def played(
    claim: Claim, without: ArrayLike, present: ArrayLike, key: Key, told: str, score: str = "score", **how: Any
) -> Certificate:
    """A certificate from the scores of independent rounds in both worlds, by default with a bound for mechanisms of any shape.

    how: further arguments of `accounting.lower.lower`, such as shape and ledger_curve.
    """
    zero, one = np.asarray(without, float).ravel(), np.asarray(present, float).ravel()
    scores, bits = np.concatenate([zero, one]), np.repeat([False, True], [zero.size, one.size])
    order = key.fold("order").generator().permutation(bits.size)
    bound = lower(scores[order], bits[order], claim, alpha=ALPHA, seed=key.fold("pilot").seed, audit="finding", **how)
    return Certificate(claim, bound, told, histograms(zero, one, score))


def histograms(zero: NDArray[np.float64], one: NDArray[np.float64], score: str) -> Figure:
    """Both worlds' scores over common bins, as shares of the rounds."""
    both = np.concatenate([zero, one])
    low, high = (float(q) for q in np.quantile(both, [0.0005, 0.9995]))
    edges = np.linspace(low, high, 61) if high > low else np.linspace(low - 1, low + 1, 3)
    middle = (edges[:-1] + edges[1:]) / 2
    shares = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] / s.size for s in (zero, one)]
    return Figure(score, "share of rounds", {"without": (middle, shares[0]), "with": (middle, shares[1])}, "steps")


@dataclass(frozen=True, eq=False)
class Result:
    """One finding, run. fixed: what the same experiment says of the repaired counterpart, if there is one."""

    finding: Finding
    certificate: Certificate
    fixed: Certificate | None
    seconds: float  # of processor time

    @property
    def verdict(self) -> str:
        return self.finding.verdict(self.certificate)


def run(finding: Finding, key: Key) -> Result:
    """Plays a finding's experiment, and the same experiment on its fixed counterpart."""
    begin = time.process_time()
    own = key.fold(finding.id)
    certificate = finding.experiment(own.fold("claim"))
    fixed = finding.fixed(own.fold("fixed")) if finding.fixed else None
    return Result(finding, certificate, fixed, time.process_time() - begin)


def joined(file: str, experiments: Mapping[str, tuple[Experiment, Experiment | None]]) -> tuple[Finding, ...]:
    """Findings in the order of their TOML file, each with its experiment and that of its repaired counterpart.

    Raises ValueError where a description has no experiment, or an experiment no description.
    """
    described = read(Path(__file__).parent / file)
    for name in described.keys() ^ experiments.keys():
        what = "no experiment" if name in described else "no description"
        raise ValueError(
            f"{file}: finding {name!r} has {what}. Its file of experiments and its TOML file must name the same ids."
        )
    return tuple(Finding(**vars(d), experiment=experiments[d.id][0], fixed=experiments[d.id][1]) for d in described.values())
