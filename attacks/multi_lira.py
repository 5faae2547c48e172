"""The likelihood-ratio attack on many signals at once, with covariances that few shadow models can carry."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from .lira import ends_logit
from .signals import label_logit, logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Release
    from .base import Attack, Challenge, Pilot


@dataclass(frozen=True, eq=False)
class Student:
    """What to expect of each challenge's signals after seeing some: a multivariate Student law for each, (c,) of them.

    mean: (c, d). factor: (c, d, d), lower Cholesky factor of the scale matrix. freedom: (c,) degrees of freedom.
    """

    mean: NDArray[np.float64]
    factor: NDArray[np.float64]
    freedom: NDArray[np.float64]

    @staticmethod
    def of(signal: NDArray[np.float64], side: NDArray[np.bool_], shrinkage: float) -> Student:
        """signal: (shadows, c, d), of which challenge i owns the shadows side[:, i].

        The posterior predictive of a normal law with a flat prior on its mean and, on its covariance, an inverse Wishart
        prior centred at the covariance pooled over all challenges and worth `shrinkage` observations (Gelman et al.,
        Bayesian Data Analysis, section 3.6). Raises ValueError where a challenge owns no shadow.
        """
        n = side.sum(0)
        if not n.all():
            raise ValueError(
                f"{int((n == 0).sum())} challenges are on one side in all {len(side)} shadow models: use more shadows."
            )
        own = side[:, :, None]
        mean = np.where(own, signal, 0).sum(0) / n[:, None]
        rest = np.where(own, signal - mean, 0)
        squares = np.matmul(rest.transpose(1, 2, 0), rest.transpose(1, 0, 2))
        pooled = squares.sum(0) / max(1, int((n - 1).sum()))
        ridge = 1e-9 * max(float(np.trace(pooled)) / len(pooled), 1e-9) * np.eye(len(pooled))
        freedom = n - 1 + shrinkage
        scale = (squares + shrinkage * pooled) * ((1 + 1 / n) / freedom)[:, None, None] + ridge
        return Student(mean, np.linalg.cholesky(scale), freedom)

    def log_density(self, signal: NDArray[np.float64]) -> NDArray[np.float64]:
        """(runs, c, d) -> (runs, c)."""
        from scipy.special import gammaln

        d, nu = signal.shape[-1], self.freedom
        white = np.linalg.solve(self.factor, (signal - self.mean).transpose(1, 2, 0))
        spread = np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(1)
        start = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu * np.pi) - spread
        return start - (nu + d) / 2 * np.log1p((white**2).sum(1).T / nu)


@dataclass(frozen=True, eq=False)
class MultiLira:
    """log p(signals | in) - log p(signals | out), one Student law for each side of each challenge.

    kind: node or edge. logits: queries of which every logit is a signal: the node's own, or those of the two ends.
    scalars: queries of which only the signal of `Lira` is one. Logits are log-probabilities, centred, without the last
    class, which follows from the others. shrinkage: 32 for logits and 8 for scalars alone; chosen on one pool of runs
    and confirmed on others, see benchmarks/RESULTS.md.
    """

    kind: str = "node"
    logits: tuple[str, ...] = ("posteriors@0-hop",)
    scalars: tuple[str, ...] = ("posteriors@full",)
    shrinkage: float = 32.0
    laws: tuple[Student, Student] | None = None

    def __post_init__(self) -> None:
        if not self.shrinkage > 0:
            raise ValueError(f"shrinkage={self.shrinkage}: must be above 0; few shadow models do not determine a covariance.")

    @property
    def name(self) -> str:
        return "multi-lira" if self.kind == "node" else "edge-multi-lira"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.logits + self.scalars))

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("node", "label") if self.kind == "node" else ("edge",)

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models, or where they hold a challenge always or never."""
        if pilot is None:
            raise ValueError(f"attack '{self.name}' needs shadow models: fit it on a pilot.")
        signal = self._signals(pilot.release, pilot.challenge)
        inside, outside = (Student.of(signal, side, self.shrinkage) for side in (pilot.bits, ~pilot.bits))
        return dataclasses.replace(self, laws=(inside, outside))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        if self.laws is None:
            raise ValueError(f"attack '{self.name}' has not been fitted: call fit with a pilot first.")
        signal = self._signals(release, challenge)
        return self.laws[0].log_density(signal) - self.laws[1].log_density(signal)

    def _signals(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c, d) float64."""
        node = self.kind == "node"
        rows = [challenge.items] if node else [challenge.items[:, 0], challenge.items[:, 1]]
        every = [logs(release, r, query) for query in self.logits for r in rows]
        single = [(label_logit if node else ends_logit)(release, challenge, query)[..., None] for query in self.scalars]
        return np.concatenate([(z - z.mean(-1, keepdims=True))[..., :-1] for z in every] + single, axis=-1)


@dataclass(frozen=True, eq=False)
class Together:
    """The sum of several likelihood ratios: they err in different places, so that their sum errs less than each."""

    attacks: tuple[Attack, ...]
    name: str = "together"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for a in self.attacks for n in a.needs))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(k for k in self.attacks[0].kinds if all(k in a.kinds for a in self.attacks))

    def fit(self, pilot: Pilot | None) -> Self:
        return dataclasses.replace(self, attacks=tuple(a.fit(pilot) for a in self.attacks))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        return np.asarray(sum(a.score(release, challenge) for a in self.attacks))


def strongest(kind: str = "node", near: str = "posteriors@0-hop", far: str = "posteriors@full") -> Together:
    """Our strongest attack with many shadow models: two of the above on two queries, or twice on one, summed."""
    few = MultiLira(kind, logits=(), scalars=tuple(dict.fromkeys((near, far))), shrinkage=8.0)
    return Together((few, MultiLira(kind, (near,), (far,))), name="strongest" if kind == "node" else "edge-strongest")
