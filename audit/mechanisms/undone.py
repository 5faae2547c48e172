"""Which changes of a noisy value the release undoes: a common change of a row, as log-probabilities do, or a positive factor, as
a division by the length of a row does. The release then shows less than the noisy value.

If the ledger charges for the noise, its proof grants the noisy value to the adversary, and nothing is undone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

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
        steps = np.sort(np.append(LIKELY - own, 0.0))
        if _returns(first, i, along, steps):
            why = "give the same release, as a remainder or an absolute value does; its cost is not known"
            return f"several noisy values at {mechanism.line} {why}"
    return ""


def _returns(first: History, i: int, along: Floats, steps: Floats) -> bool:
    """Whether all released numbers leave the values that they have at one of the `steps`, and return to them between two others.
    The noisy value moves by the steps times `along`, in units of the noise.
    """
    mechanism = first.mechanisms[i]
    one = along.reshape(mechanism.noisy.shape) * mechanism.scale

    def gap(step: float) -> Floats:
        run = repeated(first, {i: mechanism.with_noisy(mechanism.noisy + step * one)})
        return gaps(first, first if run is None else run)

    path = np.array([gap(step) for step in steps])
    size = np.abs(path).max(axis=0)
    seen = size > 10 * rounding(first.play.numbers)
    path, near = path[:, seen], RETURNED * size[seen]
    crossings = [
        (np.abs(path[k + 1] - path[k]).max(), k, start)
        for start in range(len(steps))
        for k in _crossed(path - path[start], near, start)
    ]
    for _, k, start in sorted(crossings)[:RETURNS]:  # where the release changes least, because it may jump past its values
        low, high, left = steps[k], steps[k + 1], path[k] - path[start]
        number = int(np.abs(path[k + 1] - path[k]).argmax())
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            between = gap(middle)[seen] - path[start]
            if (np.abs(between) <= near).all():
                return True
            low, high = (middle, high) if between[number] * left[number] > 0 else (low, middle)
    return False


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
