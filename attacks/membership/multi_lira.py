"""LiRA on several signals at once. Its covariances are shrunk, so that few shadow models suffice."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ...models.base import Release
from ..base import Attack, AttackDefaults, Challenge, Pilot, learnt, shadows_of
from ..signals import label_logit, logs, neighbours_logit
from .lira import ends_logit
from .shrinkage import shrunk

NEAR, HALF, FAR = "posteriors@0-hop", "posteriors@half", "posteriors@full"
STRONGEST = {"node": "strongest", "edge": "edge-strongest"}


@dataclass(frozen=True, eq=False)
class Student:
    """The posterior predictive distribution of each challenge's signals: c multivariate Student distributions.

    mean: (c, d). factor: (c, d, d), the lower Cholesky factor of the scale matrix. freedom: (c,), the degrees of freedom.
    """

    mean: NDArray[np.float64]
    factor: NDArray[np.float64]
    freedom: NDArray[np.float64]

    def log_density(self, signal: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log-density of each challenge's signals: (runs, c, d) -> (runs, c)."""
        d, nu = signal.shape[-1], self.freedom
        white = np.linalg.solve(self.factor, (signal - self.mean).transpose(1, 2, 0))
        spread = np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(1)
        start = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu * np.pi) - spread
        return start - (nu + d) / 2 * np.log1p((white**2).sum(1).T / nu)


def laws_of(
    signal: NDArray[np.float64], bits: NDArray[np.bool_], shrinkage: float, groups: NDArray[np.int64]
) -> tuple[Student, Student]:
    """The predictive distributions of each challenge's signals as a member, and as a non-member.

    The model assumes normal signals. Each covariance has an inverse-Wishart prior, which is centred at the covariance pooled over
    all challenges and counts as `shrinkage` observations (Gelman et al., Bayesian Data Analysis, section 3.6). The means of
    members and non-members are shrunk together, towards the means of their group.

    signal: (shadows, c, d). bits: (shadows, c). groups: (c,). Raises ValueError if a challenge is in all shadows or in none.
    """
    sides = [bits, ~bits]
    n = np.stack([side.sum(0) for side in sides], axis=1)
    missing = int((n == 0).any(1).sum())
    if missing:
        raise ValueError(f"{missing} challenges are members in all {len(bits)} shadow models, or in none: use more shadows.")
    means, scales, d = [], [], signal.shape[-1]
    for k, side in enumerate(sides):
        own = side[:, :, None]
        means.append(np.where(own, signal, 0).sum(0) / n[:, k, None])
        rest = np.where(own, signal - means[-1], 0)
        squares = np.matmul(rest.transpose(1, 2, 0), rest.transpose(1, 0, 2))
        pooled = squares.sum(0) / max(1, int((n[:, k] - 1).sum()))
        ridge = 1e-9 * max(float(np.trace(pooled)) / d, 1e-9) * np.eye(d)
        scales.append((squares + shrinkage * pooled) / (n[:, k] - 1 + shrinkage)[:, None, None] + ridge)
    precision = np.zeros((len(n), 2 * d, 2 * d))
    parts = slice(0, d), slice(d, 2 * d)
    for k, part in enumerate(parts):
        precision[:, part, part] = n[:, k, None, None] * np.linalg.inv(scales[k])
    mean, unsure = shrunk(np.concatenate(means, axis=1), precision, groups)
    inside, outside = (
        Student(mean[:, part], np.linalg.cholesky(scales[k] + unsure[:, part, part]), n[:, k] - 1 + shrinkage)
        for k, part in enumerate(parts)
    )
    return inside, outside


@dataclass(frozen=True, eq=False)
class MultiLira(AttackDefaults):
    """log p(signals | in) - log p(signals | out), with one Student distribution for each side of each challenge.

    kind: "node" or "edge". Three fields name the queries that give a kind of signal. logits: queries that give all logits of the
    node, or of both ends of the edge. scalars: queries that give the signal of `Lira`. around: queries that give the mean of the
    signal of `Lira` over the node's watched neighbours. Logits are centred log-probabilities without the last class, which the
    others determine. shrinkage: see `laws_of`. The values 32 for logits and 8 for scalars alone were chosen on one pool of runs
    and confirmed on others: see benchmarks/RESULTS.md. Raises ValueError unless shrinkage is above 0.
    """

    kind: str = "node"
    logits: tuple[str, ...] = (NEAR,)
    scalars: tuple[str, ...] = (FAR,)
    around: tuple[str, ...] = ()
    shrinkage: float = 32.0
    laws: tuple[Student, Student] | None = None
    of_each_unit = True

    def __post_init__(self) -> None:
        if not self.shrinkage > 0:
            raise ValueError(f"shrinkage={self.shrinkage}: must be above 0; few shadow models do not determine a covariance.")

    @property
    def name(self) -> str:
        return "multi-lira" if self.kind == "node" else "edge-multi-lira"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.logits + self.scalars + self.around))

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("node", "label") if self.kind == "node" else ("edge",)

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models, or if all or none of them hold a challenge."""
        pilot = shadows_of(self, pilot)
        challenge = pilot.challenge
        groups = challenge.known.y[challenge.items] if self.kind == "node" else np.zeros(len(challenge), dtype=np.int64)
        laws = laws_of(self._signals(pilot.release, challenge), pilot.bits, self.shrinkage, groups)
        return dataclasses.replace(self, laws=laws)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        (inside, outside), signal = learnt(self, self.laws), self._signals(release, challenge)
        return inside.log_density(signal) - outside.log_density(signal)

    def _signals(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """All signals of every challenge: (runs, c, d) float64."""
        node = self.kind == "node"
        rows = [challenge.items] if node else [challenge.items[:, 0], challenge.items[:, 1]]
        every = [logs(release, r, query) for query in self.logits for r in rows]
        single = [(label_logit if node else ends_logit)(release, challenge, query) for query in self.scalars]
        single += [neighbours_logit(release, challenge, query) for query in self.around]
        return np.concatenate(
            [(z - z.mean(-1, keepdims=True))[..., :-1] for z in every] + [z[..., None] for z in single], axis=-1
        )


@dataclass(frozen=True, eq=False)
class SumOfRatios(AttackDefaults):
    """The sum of several log-likelihood ratios, whose errors partly cancel."""

    attacks: tuple[Attack, ...]
    name: str = "together"
    of_each_unit = True

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


def strongest(kind: str = "node", query: str | None = None) -> SumOfRatios:
    """The strongest attack of this package: the sum of two log-likelihood ratios. One uses only signals of `Lira`, the other all
    logits and one signal of `Lira`.

    query: the only query that the attack uses. None means three queries, for nodes: without edges; without edges and with half of
    the features; and in the whole graph. The signals of the node's neighbours are then used too.
    """
    if query is not None:
        return SumOfRatios((MultiLira(kind, (), (query,), shrinkage=8.0), MultiLira(kind, (query,), (query,))), STRONGEST[kind])
    return SumOfRatios((MultiLira("node", (), (NEAR, FAR, HALF), (NEAR, FAR), shrinkage=8.0), MultiLira()), STRONGEST["node"])
