"""Looks for several likely noisy values with the same release, as a remainder has. What the noisy value costs is then not what
the release costs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ...recorded.playing import rounding
from ...recorded.study import History, Shifts
from ..reading import EACH, farthest, repeated
from ..relations import gaps
from ..undone import CHARGED, pays

Floats = NDArray[np.float64]

# in units of the noise: noisy numbers that `folded` tries; at unequal distances, because a remainder may repeat at equal ones
LIKELY = np.sort(np.random.default_rng(0).uniform(-9.0, 9.0, 73))
RETURNED = 1e-3  # of the largest change of a released number: a smaller difference counts as none
HALVINGS = 20  # of the interval in which a release may return to its values
RETURNS = 8  # largest number of these intervals that are halved
SOLVED = 16  # largest number of noisy numbers in a row for which `_found_elsewhere` searches
STARTS, STEPS = 8, 40  # of each search
FEWEST = 8  # steps with which a search is worth its time
SECONDS = 20.0  # of processor time for all searches
APART, MOST = 0.1, 6.0  # in units of the noise: the distance of a second row, and its largest number
BETWEEN = (0.25, 0.5, 0.75)  # of the way to a second row
FAR = 16.0  # added to the numbers of a row, so that a relative step of least squares is about 1 / 100 of the noise
FLAT = 1e-3  # relative: released numbers that change less along a line do not show it


def folded(first: History, shifts: Shifts, together: bool = False) -> str:
    """Why several likely noisy values may give one release, as with a remainder; "" if none are found. Moves the number that the
    secret moves farthest, in the EACH mechanisms that move farthest. together: move all numbers in proportion instead.
    """
    for i in farthest(first, shifts)[:EACH]:
        mechanism = first.mechanisms[i]
        if mechanism.law not in CHARGED or pays(first, i):
            continue
        by = shifts[i].ravel()
        along = by / np.linalg.norm(by) if together else np.arange(by.size) == np.abs(by).argmax()
        own = float(mechanism.units.ravel() @ along)
        walk = _walked(first, i, along, np.sort(np.append(LIKELY - own, 0.0)))
        if _returns(walk) or (not together and _turns(walk) and _found_elsewhere(first, i, int(along.argmax()))):
            why = "give the same release, as a remainder or an absolute value does; its cost is not known"
            return f"several noisy values at {mechanism.line} {why}"
    return ""


@dataclass(frozen=True, eq=False)
class Walk:
    """What a run releases while a noisy value moves along a line. gap: how far the released numbers are from those of the run,
    after a step in units of the noise. path: the same for each of the `steps`, in order. near: a difference up to this counts as
    none. Numbers that do not change along the line are left out.
    """

    gap: Callable[[float], Floats]
    steps: Floats
    path: Floats
    near: Floats


def _apart(first: History, i: int, by: Floats) -> Floats:
    """How far the released numbers are from those of the run, if the noisy numbers of mechanism `i` move by so many units of the
    noise. A number that is then not finite counts as unchanged, and so do all if such a run fails.
    """
    mechanism = first.mechanisms[i]
    run = repeated(first, {i: mechanism.with_noisy(mechanism.noisy + by.reshape(mechanism.noisy.shape) * mechanism.scale)})
    return np.nan_to_num(gaps(first, first if run is None else run), nan=0.0, posinf=0.0, neginf=0.0)


def _walked(first: History, i: int, along: Floats, steps: Floats) -> Walk:
    """The walk of the noisy value of mechanism `i` by the steps times `along`, in units of the noise."""
    path = np.array([_apart(first, i, step * along) for step in steps])
    size = np.abs(path).max(axis=0)
    seen = size > 10 * rounding(first.play.numbers)
    return Walk(lambda step: _apart(first, i, step * along)[seen], steps, path[:, seen], RETURNED * size[seen])


def _returns(walk: Walk) -> bool:
    """Whether all released numbers leave the values that they have at one of the steps, and return to them between two others."""
    steps, path = walk.steps, walk.path
    crossings = [
        (np.abs(path[k + 1] - path[k]).max(), k, start)
        for start in range(len(steps))
        for k in _crossed(path - path[start], walk.near, start)
    ]
    for _, k, start in sorted(crossings)[:RETURNS]:  # where the release changes least, because it may jump past its values
        low, high, left = steps[k], steps[k + 1], path[k] - path[start]
        number = int(np.abs(path[k + 1] - path[k]).argmax())
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            between = walk.gap(middle) - path[start]
            if (np.abs(between) <= walk.near).all():
                return True
            low, high = (middle, high) if between[number] * left[number] > 0 else (low, middle)
    return False


def _turns(walk: Walk) -> bool:
    """Whether some released number rises and falls along the line."""
    changes = np.diff(walk.path, axis=0)
    return bool(((changes > walk.near).any(axis=0) & (changes < -walk.near).any(axis=0)).any())


def _found_elsewhere(first: History, i: int, number: int) -> bool:
    """Whether least squares find a second likely noisy row with the same release, as with cosines of several sums of a row.

    The row is that of a noisy number along the last axis. Near both rows, each change of the row must change the release, and so
    must a change from one to the other: common changes or factors that the release undoes are no second row. If trainings take so
    long that FEWEST steps would take more than SECONDS, none is looked for.
    """
    mechanism = first.mechanisms[i]
    width = mechanism.noisy.shape[-1] if mechanism.noisy.ndim else 1
    if not 1 < width <= SOLVED:
        return False
    row = np.arange(number - number % width, number - number % width + width)
    own = mechanism.units.ravel()[row]

    def apart(units: Floats) -> Floats:
        by = np.zeros(mechanism.noisy.size)
        by[row] = units - own
        return _apart(first, i, by)

    draws, begin = np.random.default_rng(0).standard_normal((STARTS, width)), time.process_time()
    size = np.max([np.abs(apart(start)) for start in draws], axis=0)
    steps = min(STEPS, int(SECONDS / max(time.process_time() - begin, 1e-3) / (width + 1)))
    seen = size > 10 * rounding(first.play.numbers)
    if seen.sum() < width or steps < FEWEST:
        return False

    def gone(far: Floats) -> Floats:
        return apart(far - FAR)[seen] / size[seen]

    def full(row: Floats) -> bool:
        return _full(least_squares(gone, row, jac="3-point", diff_step=1e-2 / FAR, max_nfev=1).jac)

    def level(row: Floats) -> bool:
        return all(np.abs(gone(own + FAR + part * (row - own - FAR))).max() <= RETURNED for part in BETWEEN)

    if not full(own + FAR):
        return False
    for found in (least_squares(gone, start + FAR, diff_step=1e-2 / FAR, max_nfev=steps) for start in draws):
        distinct = np.linalg.norm(found.x - FAR - own) > APART and np.abs(found.x - FAR).max() < MOST
        if distinct and np.abs(found.fun).max() <= RETURNED and full(found.x) and not level(found.x):
            return True
    return False


def _full(slopes: Floats) -> bool:
    """Whether each change of the noisy numbers changes the release. slopes: (released numbers, noisy numbers)."""
    sizes = np.linalg.svd(slopes, compute_uv=False)
    return bool(sizes[-1] > FLAT * sizes[0])


def _crossed(apart: Floats, near: Floats, start: int) -> list[int]:
    """The steps after which all released numbers cross the values that they have at `start`, once some have left these values.
    apart: (steps, numbers), how far the released numbers are from these values.
    """
    away = np.asarray((np.abs(apart) > near).any(axis=1))
    before, after = np.flatnonzero(away[:start]), np.flatnonzero(away[start:]) + start
    crossed = np.flatnonzero((apart[:-1] * apart[1:] <= 0).all(axis=1) & away[:-1] & away[1:])
    return [int(k) for k in crossed if (after.size and k >= after[0]) or (before.size and k < before[-1])]
