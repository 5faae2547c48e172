"""A lower bound for releases that show only the direction of a noisy value, or of each of its rows, as rows of length one do.

A direction tells in which of several nested cones around an axis the noisy value lies. The probability of a cone is that of a
normal number, along the axis, above a multiple of the length across the axis, which is an independent noncentral chi variable.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from ....accounting.events.types import FiniteDpEvent
from ....accounting.upper.exact import finite_epsilon
from ....models.recorder.mechanisms.mechanism import Mechanism
from ...mechanisms.inside import Inside
from ...mechanisms.reading import EACH, farthest
from ...mechanisms.undone import scaled, undoes_factors
from ...recorded.laws import NOTHING, SLACK, composed
from ...recorded.study import Shifts

Floats = NDArray[np.float64]

AXES = 17  # of cones, in the plane of the mean and the move
EDGES = np.arange(-9.0, 9.25, 0.25)  # of the cones, in units of the noise across the mean direction
NARROW = 0.995  # largest cosine of the angle between a cone and its axis
NODES, WEIGHTS = np.polynomial.legendre.leggauss(512)  # of the integral over the length across the axis
FAR = 12.0  # in units of the noise: where that integral is cut off


@dataclass(frozen=True)
class Directions:
    """Which noisy values of a run the release shows only up to positive factors.

    axes: mechanism -> the axis along which each part has a factor of its own, None for one factor of the whole value. known:
    those of them whose cost is computed. why: what the release undoes, in words.
    """

    axes: Mapping[int, int | None]
    known: frozenset[int]
    why: str

    def cost(self, mechanisms: Sequence[Mechanism], moves: Shifts, delta: float) -> float:
        """A lower bound on the epsilon (nats) of what the release shows of these moves, which are as `Mechanism.over` gives them:
        of the directions `known`, and of all other values with normal noise. The rest counts as 0.
        """
        events, square = list[FiniteDpEvent](), 0.0
        for i, (m, by) in enumerate(zip(mechanisms, moves, strict=True)):
            if i in self.known:
                events += cones(_blocks(m.clean / m.scale, self.axes[i]), _blocks(by, self.axes[i]), delta)
            elif i not in self.axes and m.law == "normal":
                square += m.size(by) ** 2
        gaussian = {dp.GaussianDpEvent(1 / (math.sqrt(square) * (1 - SLACK))): 1} if square > NOTHING**2 else {}
        return composed(gaussian | Counter(events), delta)

    def seen(self, mechanisms: Sequence[Mechanism], moves: Shifts, least: Shifts) -> Shifts:
        """The moves, if of each the release shows `least`. A value `known` moves as far as `moves`, unless `least` is shorter
        than the part of its move across the noisy value: then less by the same factor.
        """
        kept = list(least)
        for i in self.known:
            noisy, by = (_blocks(each, self.axes[i]) for each in (mechanisms[i].noisy / mechanisms[i].scale, moves[i]))
            length = np.linalg.norm(noisy, axis=1, keepdims=True)
            unit = np.divide(noisy, length, out=np.zeros_like(noisy), where=length > 0)
            across = float(np.linalg.norm(by - (by * unit).sum(axis=1, keepdims=True) * unit))
            kept[i] = moves[i] * (min(1.0, float(np.linalg.norm(least[i])) / across) if across else 1.0)
        return tuple(kept)

    def reason(self, epsilon: float) -> str:
        """Why a claim is not refuted although the noisy values cost more. epsilon: the result of `cost`."""
        cost = f"what it shows is known to cost {epsilon:.3g}" if epsilon else "the cost of directions is not known"
        return f"{self.why}; {cost}; if your proof releases the values themselves, declare a ledger of Gaussian or Laplace events"


def directions(within: Inside, shifts: Shifts) -> Directions | None:
    """The noisy values of which the release shows only directions; None if there are none. Tests the EACH mechanisms that the
    worst secret moves farthest; if more move, those not tested count as directions whose cost is not known.
    """
    first, worst = within.run, within.worst
    in_order = farthest(first, shifts)
    axes = {i: undone for i in in_order[:EACH] if (undone := scaled(first, i, shifts[i]))}
    if not axes:
        return None
    sums = {i for group in within.sums for i in group}
    one_world = worst is not None and worst.base is None and not worst.half
    known = frozenset(
        i
        for i, (axis, *others) in axes.items()
        if one_world
        and first.mechanisms[i].law == "normal"
        and first.mechanisms[i].plain
        and i not in within.undone.keys() | sums
        and not {0, 1} <= {axis, *others}
        and not undoes_factors(first, i, shifts[i], axis, sign=-1)
    )
    lines = " and at ".join(dict.fromkeys(first.mechanisms[i].line for i in axes))
    why = f"the release shows no more than directions of the noisy values, or of rows of them, at {lines}"
    untested = dict.fromkeys(in_order[EACH:])
    return Directions({i: each[0] for i, each in axes.items()} | untested, known, why)


def _blocks(values: Floats, axis: int | None) -> Floats:
    """The parts of an array that have a direction each, one in each row. axis: see `scaled`."""
    return values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def cones(means: Floats, moves: Floats, delta: float) -> list[FiniteDpEvent]:
    """What tells the directions of normal vectors with covariance 1, one for each vector that moves. means, moves: one vector in
    each row; in the other world the means are means + moves. delta: for which the axis of the cones is chosen.
    """
    moved = np.linalg.norm(moves, axis=1) > NOTHING
    return [_of_cones(mean, move, delta) for mean, move in zip(means[moved], moves[moved], strict=True)]


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
