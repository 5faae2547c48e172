"""A lower bound for releases that show only the direction of a noisy value, or of each of its rows, as rows of length one do.

A direction tells in which of several nested cones around an axis the noisy value lies. The probability of a cone is that of a
normal number, along the axis, above a multiple of the length across the axis, which is an independent noncentral chi variable.
"""

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from ...accounting.events.types import FiniteDpEvent
from ...accounting.upper.exact import finite_epsilon
from ..mechanisms.inside import Inside, moving
from ..mechanisms.reading import EACH, farthest
from ..mechanisms.undone import each_alone, scaled, undoes_factors
from ..recorded.laws import NOTHING, composed
from ..recorded.study import Shifts

Floats = NDArray[np.float64]

AXES = 17  # of cones, in the plane of the mean and the move
EDGES = np.arange(-9.0, 9.25, 0.25)  # of the cones, in units of the noise across the mean direction
NARROW = 0.995  # largest cosine of the angle between a cone and its axis
NODES, WEIGHTS = np.polynomial.legendre.leggauss(512)  # of the integral over the length across the axis
FAR = 12.0  # in units of the noise: where that integral is cut off


def directions(within: Inside, shifts: Shifts, delta: float) -> tuple[float, str]:
    """The epsilon (nats) that directions of noisy values prove, and why no more is known; infinite and "" if the release shows
    more than directions. Tests the EACH mechanisms that the worst secret moves farthest.
    """
    first, worst = within.run, within.worst
    for i in farthest(first, shifts)[:EACH]:
        if not (axes := scaled(first, i, shifts[i])):
            continue
        mechanism, epsilon = first.mechanisms[i], 0.0
        one_world = worst is not None and worst.base is None and not worst.half and moving(first, shifts) == {i}
        whole = i not in within.undone and not any(i in group for group in within.sums) and not {0, 1} <= {*axes}
        noise = mechanism.law == "normal" and each_alone(mechanism)
        if one_world and whole and noise and not undoes_factors(first, i, shifts[i], axes[0], sign=-1):
            means, moves = (_blocks(each, axes[0]) for each in (mechanism.clean / mechanism.scale, shifts[i]))
            epsilon = of_cones(means, moves, delta)
        why = f"the release does not change if positive numbers multiply the noisy value, or rows of it, at {mechanism.line}"
        proved = (
            f"the directions that it shows are known to cost {epsilon:.3g}" if epsilon else "the cost of directions is not known"
        )
        way = "if your proof releases the value itself, declare a ledger of Gaussian or Laplace events"
        return epsilon, f"{why}; {proved}; {way}"
    return math.inf, ""


def _blocks(values: Floats, axis: int | None) -> Floats:
    """The parts of an array that have a direction each, one in each row. axis: see `scaled`."""
    return values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def of_cones(means: Floats, moves: Floats, delta: float) -> float:
    """A lower bound on the epsilon (nats) at `delta` of the directions of normal vectors with covariance 1. means, moves: one
    vector in each row; in the other world the means are means + moves.
    """
    moved = np.linalg.norm(moves, axis=1) > NOTHING
    events = [_of_cones(mean, move, delta) for mean, move in zip(means[moved], moves[moved], strict=True)]
    return composed(Counter(events), delta) if events else 0.0


def _of_cones(mean: Floats, move: Floats, delta: float) -> FiniteDpEvent:
    """Between which two of several cones around the best axis a vector lies, in both worlds."""
    size, free = float(np.linalg.norm(move)), mean.size - 1
    along = float(mean @ move) / size
    across = float(np.linalg.norm(mean - along * move / size))
    length = math.sqrt(mean.size + along**2 + across**2)
    events = []
    for angle in np.linspace(-np.pi / 2, np.pi / 2, AXES):
        cosine, sine = math.cos(angle), math.sin(angle)
        here = along * cosine + across * sine
        cosines = np.unique(np.clip((here + EDGES) / length, -NARROW, NARROW)) if free else np.zeros(1)
        worlds = [(start * cosine + across * sine, start * sine - across * cosine) for start in (along, along + size)]
        events.append(FiniteDpEvent(*(tuple(_between(cosines, *world, free).tolist()) for world in worlds)))
    return max(events, key=lambda event: finite_epsilon(event, delta))


def _between(cosines: Floats, along: float, rest: float, free: int) -> Floats:
    """The probabilities that the cosine of the angle between a normal vector and an axis lies below the first of `cosines`,
    between two of them, and above the last one. along, rest: the mean along the axis, and across it in `free` dimensions.
    """
    middle = math.sqrt(free + rest**2)
    lengths = max(0.0, middle - FAR) + (middle + FAR - max(0.0, middle - FAR)) * (1 + NODES) / 2
    chances = WEIGHTS * lengths * stats.ncx2.pdf(np.square(lengths), free, rest**2) if free else WEIGHTS
    chances /= chances.sum()
    limits = (cosines / np.sqrt(1 - np.square(cosines)))[:, None] * lengths
    below, above = ndtr(limits - along) @ chances, ndtr(along - limits) @ chances
    # a difference of two probabilities near 1 would be rounding, so each part is computed from the smaller side
    parts = np.where(cosines[1:] + cosines[:-1] < 0, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], np.maximum(parts, 0.0), above[-1:]])
