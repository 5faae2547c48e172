"""Which changes of a noisy value the release undoes: a common change along an axis, as log-probabilities and differences between
classes do, or a positive factor, as a division by the length of a row does. The release then shows less than the noisy value.

If the ledger charges for the noise, its proof grants the noisy value to the adversary, and nothing is undone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse.linalg import lsqr

from ...accounting.events.tree import parts
from ...models.recorder.mechanisms.mechanism import Mechanism
from ..recorded.laws import NOTHING
from ..recorded.playing import rounding
from ..recorded.study import History, close
from .reading import EACH, repeated

Floats = NDArray[np.float64]

SAMPLED = (dp.PoissonSampledDpEvent, dp.SampledWithoutReplacementDpEvent)
CHARGED = {"normal": (dp.GaussianDpEvent, *SAMPLED), "laplace": (dp.LaplaceDpEvent, *SAMPLED)}  # law -> events that charge for it
WIDE = 64  # largest number of entries in a row whose common change is tried
SIZES = 1.0, 8.0  # in units of the noise: common changes


def pays(first: History, i: int) -> bool:
    """Whether the ledger charges for noise of the law of a mechanism; its proof then grants the noisy value to the adversary."""
    charges = CHARGED.get(first.mechanisms[i].law, ())
    return any(isinstance(event, charges) for event, _ in parts(first.study.model.ledger))


def common_changes(first: History, terms: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The mechanisms, without the `terms` of sums, of which the release shows only differences, and along which axes: -1 for
    those within each row, -2 for those between rows. Tests all mechanisms together, and then each, if there are at most EACH.
    """
    found: dict[int, tuple[int, ...]] = {}
    for axis in range(-1, -1 - max((m.noisy.ndim for m in first.mechanisms), default=0), -1):
        some = [i for i, m in enumerate(first.mechanisms) if _has(m, axis) and i not in terms and not pays(first, i)]
        if some and not _in_common(first, some, axis):
            some = [i for i in some if _in_common(first, [i], axis)] if 1 < len(some) <= EACH else []
        found |= {i: (*found.get(i, ()), axis) for i in some}
    return found


def _has(mechanism: Mechanism, axis: int) -> bool:
    """Whether it is an array with this axis, in which each entry has noise of its own."""
    shape = mechanism.noisy.shape
    several = len(shape) >= -axis and 1 < shape[axis] <= WIDE
    return several and mechanism.law in CHARGED and mechanism.plain


def _in_common(first: History, some: Sequence[int], axis: int) -> bool:
    """Whether common changes of these noisy values along the axis change nothing else."""
    for size in SIZES:
        instead = {}
        for i in some:
            m = first.mechanisms[i]
            each = np.random.default_rng((i, int(size))).standard_normal(m.noisy.sum(axis, keepdims=True).shape)
            instead[i] = m.with_noisy(m.noisy + size * float(np.max(m.scale)) * each)
        if not _unchanged(first, repeated(first, instead)):
            return False
    return True


def without_common(mechanism: Mechanism, by: Floats, axes: Sequence[int] = (-1,)) -> Floats:
    """The smallest move that differs from `by` only by common changes along the axes. by: in units of the noise. Smallest for an
    adversary who sees differences: its Euclidean norm under normal noise, else the sum of its entries.
    """
    scale = np.broadcast_to(np.asarray(mechanism.scale, dtype=np.float64), by.shape)
    if len(axes) > 1:
        return _without_several(mechanism, by, 1 / scale, axes)
    rows, weights = np.moveaxis(by, axes[0], -1).copy(), 1 / np.moveaxis(scale, axes[0], -1)
    moved = np.abs(rows).max(axis=-1) > NOTHING
    row, one = rows[moved], weights[moved]
    if mechanism.law == "normal":
        common = (row * one).sum(-1) / np.square(one).sum(-1)
    else:  # the minimum lies at an entry's move, or at 0, which comes first among equals
        tried = np.concatenate([np.zeros((*row.shape[:-1], 1)), row / one], axis=-1)
        sizes = np.abs(row[..., None, :] - tried[..., None] * one[..., None, :]).sum(-1)
        best = (sizes - sizes.min(-1, keepdims=True) <= NOTHING).argmax(-1)
        common = np.take_along_axis(tried, best[..., None], -1)[..., 0]
    rows[moved] = row - common[..., None] * one
    return np.moveaxis(rows, -1, axes[0])


def _without_several(mechanism: Mechanism, by: Floats, weights: Floats, axes: Sequence[int]) -> Floats:
    """As `without_common`, for more than one axis. weights: how far a change of 1 moves each entry, in units of the noise."""
    groups = [np.broadcast_to(np.arange(by.size // by.shape[a]).reshape(by.sum(a, keepdims=True).shape), by.shape) for a in axes]
    changes = sp.hstack([sp.csr_array((weights.ravel(), (np.arange(by.size), g.ravel()))) for g in groups], format="csr")
    if mechanism.law == "normal":
        common = lsqr(changes, by.ravel(), atol=1e-12, btol=1e-12)[0]
    else:  # the least sum of t, where t is at least the absolute value of each entry that is left
        size, one = changes.shape[1], sp.eye_array(by.size)
        least = sp.vstack([sp.hstack([changes, -one]), sp.hstack([-changes, -one])])
        prices = np.concatenate([np.zeros(size), np.ones(by.size)])
        limits = np.concatenate([by.ravel(), -by.ravel()])
        common = linprog(prices, A_ub=least, b_ub=limits, bounds=[(None, None)] * size + [(0, None)] * by.size).x[:size]
    left = by.ravel() - changes @ common
    return np.where(np.abs(left) > NOTHING, left, 0.0).reshape(by.shape)


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


def _unchanged(first: History, other: History | None) -> bool:
    """Whether a run adds noise to the same values and releases the same numbers, up to rounding."""
    if other is None or not close(first.play, other.play):
        return False
    pairs = zip(first.mechanisms, other.mechanisms, strict=True)
    return all((np.abs(o.clean - m.clean) <= 10 * rounding(m.clean)).all() for m, o in pairs)
