"""Which changes of a noisy value the release undoes: a common change of a row, as log-probabilities do, or a positive factor, as
a division by the length of a row does. The release then shows less than the noisy value.

If the ledger charges for the noise, its proof grants the noisy value to the adversary, and nothing is undone.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ...accounting.events.tree import parts
from ...models.recorder.mechanisms.found import Mechanism
from ..recorded.laws import NOTHING
from ..recorded.playing import rounding
from ..recorded.study import History, Shifts
from .reading import EACH, farthest, repeated
from .relations import gaps, same_release

Floats = NDArray[np.float64]

SAMPLED = (dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent)
CHARGED = {"normal": (dp.GaussianDpEvent, *SAMPLED), "laplace": (dp.LaplaceDpEvent, *SAMPLED)}  # law -> events that charge for it
WIDE = 64  # largest number of entries in a row whose common change is tried
SIZES = 1.0, 8.0  # in units of the noise: common changes
# in units of the noise: noisy numbers that `folded` tries; at unequal distances, because a remainder may repeat at equal ones
LIKELY = np.sort(np.random.default_rng(0).uniform(-9.0, 9.0, 73))
RETURNED = 1e-3  # of the largest change of a released number: a smaller difference counts as none
HALVINGS = 20  # of the interval in which a release may return to its values
RETURNS = 8  # largest number of these intervals that are halved
SOLVED = 16  # largest number of noisy numbers in a row for which `_found_elsewhere` searches
STARTS, STEPS = 16, 40  # of each search
FEWEST = 8  # steps with which a search is worth its time
SECONDS = 20.0  # of processor time for all searches
APART, MOST = 0.1, 6.0  # in units of the noise: the distance of a second row, and its largest number
FAR = 16.0  # added to the numbers of a row, so that a relative step of least squares is about 1 / 100 of the noise
FLAT = 1e-3  # relative: released numbers that change less along a line do not show it


def pays(first: History, i: int) -> bool:
    """Whether the ledger charges for noise of the law of a mechanism; its proof then grants the noisy value to the adversary."""
    charges = CHARGED.get(first.mechanisms[i].law, ())
    return any(isinstance(event, charges) for event, _ in parts(first.study.model.ledger))


def common_changes(first: History, terms: Collection[int]) -> frozenset[int]:
    """The mechanisms of which the release shows only differences within each row, without the `terms` of sums. Tests all
    together, and then one by one, if there are at most EACH.
    """
    some = [i for i, m in enumerate(first.mechanisms) if _in_rows(m) and i not in terms and not pays(first, i)]
    if not some or _in_common(first, some):
        return frozenset(some)
    return frozenset(i for i in some if _in_common(first, [i])) if 1 < len(some) <= EACH else frozenset()


def each_alone(mechanism: Mechanism) -> bool:
    """Whether each entry has noise of its own."""
    return not mechanism.shared and not mechanism.mirrored and bool(mechanism.covered.all())


def _in_rows(mechanism: Mechanism) -> bool:
    """Whether it is an array of rows in which each entry has noise of its own."""
    shape = mechanism.noisy.shape
    return mechanism.law in CHARGED and len(shape) > 1 and 1 < shape[-1] <= WIDE and each_alone(mechanism)


def _in_common(first: History, some: Sequence[int]) -> bool:
    """Whether common changes of the rows of these noisy values change nothing else."""
    for size in SIZES:
        instead = {}
        for i in some:
            m = first.mechanisms[i]
            each = np.random.default_rng((i, int(size))).standard_normal((*m.noisy.shape[:-1], 1))
            instead[i] = m.with_noisy(m.noisy + size * float(np.max(m.scale)) * each)
        if not _unchanged(first, repeated(first, instead)):
            return False
    return True


def without_common(mechanism: Mechanism, by: Floats) -> Floats:
    """The smallest move that differs from `by` only by a common change of each row. by: in units of the noise. Smallest for an
    adversary who sees differences within rows: its Euclidean norm under normal noise, else the sum of its entries.
    """
    weights = 1 / np.broadcast_to(np.asarray(mechanism.scale, dtype=np.float64), by.shape)
    moved = np.abs(by).max(axis=-1) > NOTHING
    left, one = by.copy(), weights[moved]
    if mechanism.law == "normal":
        common = (by[moved] * one).sum(-1) / np.square(one).sum(-1)
    else:  # the minimum lies at an entry's move, or at 0, which comes first among equals
        tried = np.concatenate([np.zeros((*by[moved].shape[:-1], 1)), by[moved] / one], axis=-1)
        sizes = np.abs(by[moved][..., None, :] - tried[..., None] * one[..., None, :]).sum(-1)
        best = (sizes - sizes.min(-1, keepdims=True) <= NOTHING).argmax(-1)
        common = np.take_along_axis(tried, best[..., None], -1)[..., 0]
    left[moved] = by[moved] - common[..., None] * one
    return left


def scaled(first: History, i: int, by: Floats) -> list[int | None]:
    """The axes along which positive factors of a noisy value are undone, see `undoes_factors`. by: the move of mechanism `i`."""
    axes = (*(range(by.ndim) if by.ndim > 1 else ()), None)
    return [] if pays(first, i) else [axis for axis in axes if undoes_factors(first, i, by, axis)]


def undoes_factors(first: History, i: int, by: Floats, axis: int | None, sign: int = 1) -> bool:
    """Whether factors of the moved entries of a noisy value are undone. axis: for the last one, each row has a factor of its own;
    None stands for one factor of the whole value. sign: of the factors. by: the move of mechanism `i`.
    """
    mechanism, blocks = first.mechanisms[i], (np.abs(by) > NOTHING).any(axis, keepdims=True)
    factors = np.where(blocks, sign * 2 ** np.random.default_rng(0).uniform(-1, 1, blocks.shape), 1.0)
    return _unchanged(first, repeated(first, {i: replace(mechanism, noisy=mechanism.noisy * factors)}))


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


def _walked(first: History, i: int, along: Floats, steps: Floats) -> Walk:
    """The walk of the noisy value of mechanism `i` by the steps times `along`, in units of the noise."""
    mechanism = first.mechanisms[i]
    one = along.reshape(mechanism.noisy.shape) * mechanism.scale

    def gap(step: float) -> Floats:
        run = repeated(first, {i: mechanism.with_noisy(mechanism.noisy + step * one)})
        return gaps(first, first if run is None else run)

    path = np.array([gap(step) for step in steps])
    size = np.abs(path).max(axis=0)
    seen = size > 10 * rounding(first.play.numbers)
    return Walk(lambda step: gap(step)[seen], steps, path[:, seen], RETURNED * size[seen])


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

    The row is that of a noisy number along the last axis. Near both rows, each change of the row must change the release: common
    changes or factors that the release undoes are no second row. If trainings take so long that FEWEST steps would take more than
    SECONDS, none is looked for.
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
        run = repeated(first, {i: mechanism.with_noisy(mechanism.noisy + by.reshape(mechanism.noisy.shape) * mechanism.scale)})
        return gaps(first, first if run is None else run)

    draws, begin = np.random.default_rng(0).standard_normal((STARTS, width)), time.process_time()
    size = np.max([np.abs(apart(start)) for start in draws], axis=0)
    steps = min(STEPS, int(SECONDS / (time.process_time() - begin) / (2 * width + 1)))
    seen = size > 10 * rounding(first.play.numbers)
    if seen.sum() < width or steps < FEWEST:
        return False

    def solved(start: Floats, most: int) -> Any:
        def gone(far: Floats) -> Floats:
            return apart(far - FAR)[seen] / size[seen]

        return least_squares(gone, start + FAR, jac="3-point", diff_step=1e-2 / FAR, max_nfev=most)

    if not _full(solved(own, 1).jac):
        return False
    for found in (solved(start, steps) for start in draws):
        distinct = np.linalg.norm(found.x - FAR - own) > APART and np.abs(found.x - FAR).max() < MOST
        if distinct and np.abs(found.fun).max() <= RETURNED and _full(found.jac):
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


def _unchanged(first: History, other: History | None) -> bool:
    """Whether a run adds noise to the same values and releases the same numbers, up to rounding."""
    if other is None or not same_release(first, other):
        return False
    pairs = zip(first.mechanisms, other.mechanisms, strict=True)
    return all((np.abs(o.clean - m.clean) <= 10 * rounding(m.clean)).all() for m, o in pairs)
