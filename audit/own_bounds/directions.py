"""A lower bound for releases that show only the direction of a noisy value, or of each of its rows, as rows of length one do.

A direction tells on which side of a plane through the origin the noisy value lies. The probabilities of this event in both worlds
are those of a normal number, so they prove an epsilon.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ...models.recorder.mechanisms.found import Mechanism
from ..mechanisms.inside import Inside, moving
from ..mechanisms.reading import EACH, farthest
from ..mechanisms.undone import scaled
from ..recorded.laws import NOTHING
from ..recorded.study import Shifts

Floats = NDArray[np.float64]

ANGLES = 1440  # of planes through the origin
PRICES = 65  # of an event's probability in the other world


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
        if one_world and not any(i in group for group in within.sums) and not {0, 1} <= {*axes} and _alone(mechanism):
            means, moves = (_blocks(each, axes[0]) for each in (mechanism.clean / mechanism.scale, shifts[i]))
            epsilon = of_half_spaces(means, moves, delta)
        why = f"the release does not change if positive numbers multiply the noisy value, or rows of it, at {mechanism.line}"
        proved = (
            f"the directions that it shows are known to cost {epsilon:.3g}" if epsilon else "the cost of directions is not known"
        )
        way = "a ledger of Gaussian or Laplace events says that its proof releases the value itself"
        return epsilon, f"{why}; {proved}; {way}"
    return math.inf, ""


def _alone(mechanism: Mechanism) -> bool:
    """Whether each entry has normal noise of its own."""
    shared = mechanism.shared or mechanism.mirrored
    return mechanism.law == "normal" and not shared and bool(mechanism.covered.all())


def _blocks(values: Floats, axis: int | None) -> Floats:
    """The parts of an array that have a direction each, one in each row. axis: see `scaled`."""
    return values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])


def of_half_spaces(means: Floats, moves: Floats, delta: float) -> float:
    """A lower bound on the epsilon (nats) at `delta` of the directions of normal vectors with covariance 1: that of the event
    that each lies on one side of some plane through the origin. means, moves: one vector in each row; in the other world the
    means are means + moves.
    """
    angles = np.linspace(0, 2 * np.pi, ANGLES, endpoint=False)
    logs = []
    for mean, move in zip(means, moves, strict=True):
        if (size := float(np.linalg.norm(move))) > NOTHING:
            along = float(mean @ move) / size
            across = float(np.linalg.norm(mean - along * move / size))
            here = np.cos(angles) * along + np.sin(angles) * across
            logs.append((log_ndtr(here), log_ndtr(here + np.cos(angles) * size)))
    most = 0.0
    for price in np.linspace(0, 1, PRICES):
        for worlds in (0, 1), (1, 0):
            chosen = [(pair[worlds[0]], pair[worlds[1]]) for pair in logs]
            sides = [(less[at], more[at]) for less, more in chosen for at in [int((more - price * less).argmax())]]
            more = math.exp(math.fsum(side[1] for side in sides))
            if more > delta:
                most = max(most, math.log(more - delta) - math.fsum(side[0] for side in sides))
    return most
