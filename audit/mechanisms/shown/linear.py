"""A lower bound on what one linear function of a release shows of a move, from runs with new noise."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .view import View, candidates, effects_of

Floats = NDArray[np.float64]

SMALL = 0.03  # of the largest singular value: a smaller one counts as zero
MOVED = 6  # number of noisy values to which the move is added
LEVEL = 1e-4  # probability that the noise of the release is larger than its upper limit
AFFINE = 0.02  # of the move: largest deviation of a number of the release that counts as a linear function of the noisy value


def linear_part(view: View, by: Floats) -> float:
    """A lower bound on the move of one linear function of the release over its noise, as a share of the move of the noisy values;
    0 if no linear function is found. The noise is estimated from runs with new noise, and its upper limit counts.
    """
    return max(_of_one(view, by, centred) for centred in (False, True))


def _of_one(view: View, by: Floats, centred: bool) -> float:
    own = view.row([m.units for m in view.mechanisms])
    probes = view.first.study.effort.probes
    count = probes[len(view.at) > 1]

    def noise(k: int) -> Floats:
        return np.asarray(np.random.default_rng((7, k)).standard_normal(own.shape) - own)

    runs = [view.released(noise(k), centred) for k in range(count)]
    moved = [view.released(noise(k) + by, centred) for k in range(MOVED)]
    middle = [view.released((noise(2 * k) + noise(2 * k + 1)) / 2, centred) for k in range(MOVED // 2)]
    if any(run is None for run in (*runs, *moved, *middle)):
        return 0.0
    released = np.array(runs, dtype=np.float64)
    gaps = np.array(moved) - released[:MOVED]
    fitted = min(count, probes[0]) // 2
    spread = released[:fitted].var(axis=0, ddof=1)
    weights = np.divide(gaps.mean(0), spread, out=np.zeros_like(spread), where=spread > 1e-9 * spread.max(initial=0))
    best = np.zeros_like(weights)
    best[(np.abs(weights) * np.sqrt(spread)).argmax()] = 1.0
    tried = [weights, best, *_decorrelated(view, by, gaps.mean(0), centred)]
    return max(_over_its_noise(w, released[fitted:], gaps, released, np.array(middle)) for w in tried) / float(np.linalg.norm(by))


def _decorrelated(view: View, by: Floats, gap: Floats, centred: bool) -> list[Floats]:
    """For several mechanisms, the weights of the released numbers with the largest move over the noise of the tested entries."""
    if len(view.at) == 1:
        return []
    most = (2 if view.first.study.effort.thorough else 3) * view.first.study.effort.entries
    effect = effects_of(view, candidates(view, by, most), view.elsewhere(0), centred)
    if effect is None:
        return []
    numbers, sizes, _ = np.linalg.svd(effect, full_matrices=False)
    kept = sizes > SMALL * sizes.max(initial=0)
    return [numbers[:, kept] @ ((gap @ numbers[:, kept]) / np.square(sizes[kept]))]


def _over_its_noise(weights: Floats, released: Floats, gaps: Floats, pairs: Floats, middle: Floats) -> float:
    """The move of one weighted sum of the released numbers, over the upper limit of its noise; 0 if this sum is not linear in the
    noisy value. released: numbers of runs with new noise. gaps: how far the move changes them, in MOVED runs. middle:
    the released numbers at the middle of each of the first `pairs`.
    """
    moves, noise = gaps @ weights, released @ weights
    between = (pairs[0 : 2 * len(middle) : 2] + pairs[1 : 2 * len(middle) : 2]) @ weights / 2
    move = float(np.abs(moves).min())
    bent = max(float(np.ptp(moves)), float(np.abs(middle @ weights - between).max()))
    if move == 0 or bent > AFFINE * max(move, float(noise.std())) or float(np.ptp(moves)) > AFFINE * move:
        return 0.0
    df = len(noise) - 1
    limit = float(noise.std(ddof=1)) * math.sqrt(df / float(stats.chi2.ppf(LEVEL, df)))
    return move / limit if limit else 0.0
