"""A nearly tight bound from one run: the exact move of the means, divided by an upper confidence limit of the noise sd."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..checks.conditions import Condition, checked, proved
from ..checks.independence import not_normal, sum_of_zero, uncorrelated
from ..claim import Claim
from ..upper.pld import epsilon_at_least
from .bounds import Bound, resting
from .detection.power import smallest

Array = NDArray[np.float64]
SMALLEST = 1e-12  # smallest variance, relative to the largest one, so that weights stay finite where noise is absent
ROUNDING = 1e-9  # residuals below this share of the claimed noise sd are rounding errors, not noise
ALIKE = "the noise is normal, of one variance and independent"
ABSENT = proved(ALIKE, "no entry reaches a thousandth of the claimed noise")
# entries below this share of the claimed noise sd count as free of noise: fewer than one in a thousand normal draws are smaller
SILENT = 1e-3
MOST_SORTED = 1_000_000  # largest number of residuals in the normality test
COARSE = 2e-4  # nats: grid of privacy losses in a search
FARTHEST = 12.0  # noise sds: the largest move that is composed on a grid
SAMPLED = proved("samples are secret and Poisson", "this package draws them; 'differential' tests their coins")
STEADY = 0.05  # largest relative difference between the moves along several histories


def noise_at_most(residuals: ArrayLike, alpha: float) -> float:
    """With probability 1 - alpha the sd of independent centred normal residuals is at most this (chi-squared, exact); inf without
    residuals.
    """
    r = np.asarray(residuals, float)
    if not r.size:
        return math.inf
    return math.sqrt(float(np.dot(r.ravel(), r.ravel())) / (2 * float(special.gammaincinv(r.size / 2, alpha))))


def factorised(residuals: ArrayLike, moves: ArrayLike, claim: Claim, alpha: float = 0.05) -> Bound:
    """A lower bound on the epsilon of Gaussian releases from the noise of one or a few runs.

    residuals: (runs, stages, rows, columns) float, (release - its mean on the graph that was used) / claimed noise sd; a stage is
    one noisy release, such as a hop. In an honest run they are independent N(0, 1). moves: (moved rows, stages, columns) float,
    the differences of the means between the two neighbouring graphs, divided by the claimed noise sd. A replay computes the means
    exactly.

    The bound is the epsilon of mu = ||moves|| / (chi-squared upper limit of the noise sd). Half of alpha is spent on all noise
    together, or all of alpha if there are fewer than four rows. The rest is spent on two linear combinations ("views") of the
    noise, which detect noise that is too small in some directions only. One view is the best weighting of stages and columns, the
    other the difference of neighbouring rows. The weights of a view come from the first half of the rows, its bound from the
    second half. If pairs of rows are equal in the first half of the columns, the second view is instead their difference in the
    other columns. Noise below a billionth of the claimed size proves epsilon = infinity. A view is used only if tests do not
    reject that its entries are normal, of one variance and independent. If no view passes, the bound is withdrawn. Raises
    ValueError for other shapes, NaN, infinities, and no residuals.
    """
    r, d = np.asarray(residuals, float), np.asarray(moves, float)
    if r.ndim != 4 or d.ndim != 3 or d.shape[1:] != (r.shape[1], r.shape[3]):
        raise ValueError(
            f"residuals {r.shape}, moves {d.shape}: need (runs, stages, rows, columns) and (moved, stages, columns)."
        )
    if not np.isfinite(r).all() or not np.isfinite(d).all() or not r.size:
        raise ValueError(f"residuals {r.shape} and moves {d.shape} must be finite, and there must be some.")
    strength = float(np.linalg.norm(d))
    views = {"all noise": (r, strength), **_views(r, d)}
    shares = {
        name: alpha if len(views) == 1 else alpha / 2 if name == "all noise" else alpha / 2 / (len(views) - 1) for name in views
    }
    mus = {name: _over(move, noise_at_most(x, shares[name])) for name, (x, move) in views.items()}
    rows = rows_alike(r)  # tested on all residuals once, because each view combines all runs
    tested = {name: alike(x, rows, whole=name == "all noise") for name, (x, _) in views.items()}
    standing = [name for name in mus if tested[name].how != "failed"] or list(mus)
    best = max(standing, key=lambda name: mus[name])
    epsilon = float(gaussian.epsilon_of(mus[best], claim.delta))
    claimed = gaussian.mu_of_claim(claim)
    p_value = min(_p_value(*views[name], claimed) * alpha / shares[name] for name in standing)
    notices, reach = _notices(claim, claimed, strength, r.size, shares["all noise"])
    method = "replay and residuals" if best == "all noise" else f"replay and residuals, {best}"
    refuted, p_value = epsilon > claim.epsilon, min(1.0, p_value)
    bound = Bound(epsilon, alpha, "ledger", method, (r.size, 0), refuted, p_value, notices, reach, against="ledger")
    theorem = "mu = move of the means / chi-squared upper limit of the noise (Dong et al. 2022 for its epsilon)"
    moved = proved("the means move by the stated distance", "a replay computed the moves along the released history")
    return resting(bound, theorem, moved, tested[best])


@dataclass(frozen=True)
class Moves:
    """How far one secret moves all means along one history of released values, in noise sds.

    plain: the Euclidean norm of the moves of all mechanisms on all records. steps: (n,) for each mechanism on a secret Poisson
    sample, the norm of its move if the secret is in the sample. rate: the probability that the secret is in the sample.
    """

    plain: float
    steps: Array = field(default_factory=lambda: np.zeros(0))
    rate: float = 1.0

    def epsilon(self, factor: float, delta: float, interval: float = 5e-5) -> float:
        """A lower bound (nats) on the epsilon of the composition at `delta`, if all noise is smaller by this factor. interval:
        the grid of privacy losses, nats.
        """
        alone = float(gaussian.epsilon_of(_over(self.plain, 1 / factor if factor else math.inf), delta))
        if not self.steps.any():
            return alone
        capped = min(factor, FARTHEST / float(np.linalg.norm([self.plain, *self.steps])))  # the privacy losses must fit the grid
        return max(alone, epsilon_at_least(self.plain * capped, self.steps * capped, self.rate, delta, interval))

    def factor(self, claim: Claim) -> float:
        """The factor on the moves at which the composition costs the claimed epsilon; infinity if no factor does. With sampled
        mechanisms it is rounded up and at least one half.
        """
        if not self.steps.any():
            claimed = gaussian.mu_of_claim(claim)
            return claimed / self.plain if self.plain else math.inf
        return smallest(lambda factor: self.epsilon(factor, claim.delta, COARSE) > claim.epsilon, low=0.5, near=1.002)


def added_up(
    residuals: Sequence[Array], moves: Sequence[Moves], claim: Claim, alpha: float = 0.05, *, worth: Callable[[float], float]
) -> Bound:
    """A lower bound on the epsilon of the composition of all Gaussian releases that one secret moves, with or without sampling.

    residuals: for each kind of release, (entries,) float, its noise divided by the claimed noise sd. moves: one value for each
    recorded history; the move of each mean is taken given everything that was released before it. worth: maps a factor by which
    all noise is too small to the true epsilon of this violation, for `reach` of the bound.

    Each mechanism counts with its smallest move over the histories, divided by a chi-squared upper limit of the noise sd. The
    bound is the epsilon of their composition. Suppose that each mechanism of an adaptive composition leaks, on every history, at
    least as much as the matching mechanism of a fixed list. Then the composition leaks at least as much as the list (Dong et al.
    2022, Corollary 3.3, in the reverse direction). The bound is withdrawn if the moves along the recorded histories differ by
    more than STEADY, or if a test rejects that the noise is normal, of one variance and independent. Raises ValueError for NaN,
    infinities, and no residuals or histories.
    """
    every, sizes = np.concatenate([np.ravel(r) for r in residuals]), [float(np.linalg.norm([m.plain, *m.steps])) for m in moves]
    if not np.isfinite(every).all() or not np.isfinite(sizes).all() or not every.size or not sizes:
        raise ValueError(f"{every.size} residuals and {len(sizes)} histories must be finite, and there must be some.")
    at_most = noise_at_most(every, alpha)
    factor = 1 / at_most if at_most >= ROUNDING else math.inf
    paired = len({m.steps.size for m in moves}) == 1
    least = Moves(min(m.plain for m in moves), np.min([m.steps for m in moves], axis=0) if paired else np.zeros(0), moves[0].rate)
    epsilon, needed = least.epsilon(factor, claim.delta), least.factor(claim)
    notices, _ = _notices(claim, needed, 1.0, every.size, alpha)
    bound = Bound(
        epsilon,
        alpha,
        "ledger",
        "all releases added up",
        (every.size, 0),
        epsilon > claim.epsilon,
        _p_value(every, 1.0, needed),
        notices,
        worth(notices) if math.isfinite(notices) else math.inf,
        against="ledger",
    )
    theorem = "the composition of (moves along the released history / chi-squared upper limit of the noise)"
    spread = max(sizes) / min(sizes) - 1 if min(sizes) else math.inf
    detail = f"the smallest move of {len(sizes)} histories is used; they differ by {spread:.2%}"
    steady = Condition("the means move as far along other histories", "checked" if spread <= STEADY else "failed", detail)
    drawn = [SAMPLED] if any(m.steps.size for m in moves) else []
    return resting(bound, theorem, steady, *drawn, alike_in_parts(residuals))


def alike_in_parts(residuals: Sequence[Array]) -> Condition:
    """Checks that the noise of several kinds of releases is normal, has the same variance in all of them, and is independent."""
    parts = [np.ravel(np.asarray(r, float)) for r in residuals]
    every = np.concatenate(parts)
    if float(np.abs(every).max()) < SILENT:
        return ABSENT
    mean = float(np.square(every).mean())
    sizes = np.array([r.size for r in parts])
    # The cube root of a mean of squares is nearly normal, of variance 2 / (9 n) (Wilson and Hilferty 1931).
    roots = np.cbrt([float(np.square(r).mean()) / mean for r in parts]) - 1 + 2 / (9 * sizes)
    p_values = [float(special.chdtrc(max(len(parts) - 1, 1), float((np.square(roots) * 9 * sizes / 2).sum())))]
    p_values += [not_normal(r[:: max(1, r.size // MOST_SORTED)]) for r in parts]
    p_values += [uncorrelated(r[:-1], r[1:], fewest=1) for r in parts]
    p_values.append(0.0 if repeats(every) else 1.0)
    return checked(ALIKE, "law, variances, neighbours and repeated numbers", min(1.0, len(p_values) * min(p_values)))


def repeats(numbers: Array) -> bool:
    """Whether three consecutive numbers occur twice. Single float32 numbers can be equal by rounding."""
    order = np.sort(numbers[:-2])
    begins = np.flatnonzero(np.isin(numbers[:-2], order[1:][order[1:] == order[:-1]]))
    triples = np.sort(np.ascontiguousarray(numbers[begins[:, None] + np.arange(3)]).view([("", numbers.dtype)] * 3).ravel())
    return bool((triples[1:] == triples[:-1]).any())


def alike(x: Array, rows: float, *, whole: bool) -> Condition:
    """Checks that the entries x of a view are normal, of one variance and independent.

    rows: the p-value of `rows_alike` for all residuals. whole: whether the view is "all noise", so that x has the axes of
    `factorised`.

    If no entry reaches a thousandth of the claimed noise, the noise is practically absent and its distribution does not matter.
    """
    if float(np.abs(x).max()) < SILENT:
        return ABSENT
    p_values = [not_normal(x.ravel()[:: max(1, x.size // MOST_SORTED)]), rows]
    if whole:
        conditions = assumptions(x)
        p_values += [conditions[name] for name in ("columns", "stages", "rows", "duplicates")]
    return checked(ALIKE, "law, variances and correlations", min(1.0, len(p_values) * min(p_values)))


def rows_alike(r: Array) -> float:
    """p-value of the hypothesis that all rows have one variance, by a chi-squared test of their sums of squares. r: (runs,
    stages, rows, columns).
    """
    # variance of each column in each stage, because columns may differ
    spread = np.sqrt(np.square(r).mean(axis=(0, 2), keepdims=True))
    there = spread[0, :, 0] > 0
    squares = np.square(np.divide(r, spread, out=np.zeros_like(r), where=spread > 0)).sum(axis=(0, 1, 3))
    each, mean = r.shape[0] * int(there.sum()), float(squares.mean())
    if squares.size < 2 or mean == 0:
        return 1.0
    # The cube root of a sum of squares is nearly normal, of variance 2 / (9 each) (Wilson and Hilferty 1931).
    roots = np.cbrt(squares / mean)
    return float(special.chdtrc(squares.size - 1, float(np.square(roots - roots.mean()).sum()) * 9 * each / 2))


def assumptions(residuals: ArrayLike) -> Mapping[str, float]:
    """p-values of hypotheses about the residuals of `factorised`, by name.

    variance: all residuals have variance 1. mean: they have mean 0. normality: they are normal (Kolmogorov's distance). columns:
    all columns have one variance. stages, rows: consecutive stages or rows are not correlated. duplicates: 0 if there are at
    least three columns and two rows are equal, else 1.
    """
    r = np.asarray(residuals, float)
    n, flat = r.size, r.ravel()
    square = float(np.dot(flat, flat))
    tail = float(special.gammainc(n / 2, square / 2))
    variances = (r**2).sum(axis=(0, 1, 2))
    each = n // r.shape[3]
    pooled = square / r.shape[3]
    spread = float((((variances - pooled) / pooled) ** 2).sum() * each / 2) if pooled > 0 else 0.0
    rows = np.ascontiguousarray(r.reshape(-1, r.shape[3]))
    repeats = r.shape[3] >= 3 and len(np.unique(rows.view([("", rows.dtype)] * r.shape[3]))) < len(rows)
    return {
        "variance": min(1.0, 2 * min(tail, 1 - tail)),
        "mean": sum_of_zero(float(flat.sum()), square),
        "normality": not_normal(flat[:: max(1, n // MOST_SORTED)]),
        "columns": float(special.chdtrc(r.shape[3] - 1, spread)) if r.shape[3] > 1 else 1.0,
        "stages": uncorrelated(r[:, :-1], r[:, 1:], fewest=1),
        "rows": uncorrelated(r[:, :, :-1], r[:, :, 1:], fewest=1),
        "duplicates": 0.0 if repeats else 1.0,
    }


def _views(r: Array, d: Array) -> dict[str, tuple[Array, float]]:
    """Linear views of the residuals r with moves d, by name: the entries of the view, which should be independent and of one
    variance, and the move of the mean in this view. Empty for fewer than four rows.
    """
    half = r.shape[2] // 2
    if half < 2:
        return {}
    pilot, test = r[:, :, :half], r[:, :, half:]
    stages = _correlation_inverse(np.moveaxis(pilot, 1, 0).reshape(r.shape[1], -1))
    columns = (pilot**2).mean(axis=(0, 1, 2))
    weights = np.einsum("kl,mlc->mkc", stages, d) / np.maximum(columns, SMALLEST * max(float(columns.max()), SMALLEST))
    gains = np.einsum("mkc,mkc->m", weights, d)
    row = int(np.argmax(gains))
    scale = float(np.linalg.norm(weights[row])) or 1.0
    chosen = r.shape[3] // 2  # these columns choose the pairs; honest noise in the others does not depend on the choice
    a, b = _equal_rows(r[0, 0, :, :chosen]) if chosen else (np.arange(0), np.arange(0))
    if a.size:
        what, difference, move = "the difference of equal rows", (r[:, :, a] - r[:, :, b])[..., chosen:], d[..., chosen:]
    else:
        even, follow = test.shape[2] // 2 * 2, _slope(pilot[:, :, :-1], pilot[:, :, 1:])
        what, difference, move = "the difference of neighbouring rows", test[:, :, :even:2] - follow * test[:, :, 1:even:2], d
    return {
        "weighted stages and columns": (np.einsum("kc,akbc->ab", weights[row] / scale, test), float(gains[row]) / scale),
        what: (difference, float(np.linalg.norm(move))),
    }


def _correlation_inverse(x: Array) -> Array:
    """The inverse of the matrix of second moments of x (variables, samples). Directions without variance get a small variance."""
    values, vectors = np.linalg.eigh(x @ x.T / x.shape[1])
    return np.asarray((vectors / np.maximum(values, SMALLEST * max(float(values[-1]), SMALLEST))) @ vectors.T)


def _equal_rows(rows: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Disjoint pairs of rows that differ by less than SILENT in every column. rows: (rows, columns)."""
    order = np.argsort(rows[:, 0])
    equal = np.abs(np.diff(rows[order], axis=0)).max(axis=1) < SILENT
    place = np.arange(equal.size)
    # `equal` compares neighbours in the sorted order. since: length of the run of equal neighbours that ends here. Neighbours are
    # paired where this length is odd, so no row is in two pairs
    since = place - np.maximum.accumulate(np.where(equal, -1, place))
    taken = np.flatnonzero(equal & (since % 2 == 1))
    return order[taken], order[taken + 1]


def _slope(x: Array, y: Array) -> float:
    square = float((y**2).sum())
    return float((x * y).sum()) / square if square > 0 else 0.0


def _over(move: float, sd: float) -> float:
    return 0.0 if move == 0 else math.inf if sd < ROUNDING else move / sd


def _p_value(x: Array, move: float, claimed: float) -> float:
    """The p-value of the hypothesis that mu is at most `claimed`, in a view with entries x and this move of the mean."""
    if math.isinf(claimed) or move == 0:
        return 1.0
    return float(special.gammainc(x.size / 2, float((x**2).sum()) * (claimed / move) ** 2 / 2))


def _notices(claim: Claim, claimed: float, strength: float, entries: int, alpha: float) -> tuple[float, float]:
    """`notices` and `reach` of a Bound, for noise that is too small everywhere."""
    if math.isinf(claimed) or strength == 0 or claimed == 0:
        return math.inf, math.inf
    usual, rare = special.gammaincinv(entries / 2, 0.9), special.gammaincinv(entries / 2, alpha)
    kappa = math.sqrt(usual / rare) * max(claimed / strength, 1.0) if rare > 0 else math.inf
    return kappa, float(gaussian.epsilon_of(kappa * claimed, claim.delta))
