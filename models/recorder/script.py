"""Repeats the draws of one run in another: each draw returns the numbers of the first run, or numbers that the caller chose.

The caller passes a `Script` as the `change` of a recording.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .draws.draw import SHIFTED, Diverged, Draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-6  # relative tolerance between two parameters that are not whole numbers


@dataclass(frozen=True, eq=False)
class Script:
    """The numbers with which a run repeats an earlier one. draws: of the earlier run, in order. instead: index of a draw -> the
    numbers to use instead; an empty array leaves the draw random. reports: whether the probabilities of a draw may differ if the
    draw is itself a report. constant: the positions of draws that no seed changes; if the run draws other numbers there, such
    as those of a generator that the graph seeds, they stay as they are.

    If the run has fewer training nodes than the earlier one, and a draw has one number for each of them, or a mask one row, then
    each node keeps its number or its row.
    """

    draws: Sequence[Draw]
    instead: Mapping[int, NDArray[Any]]
    reports: bool = False
    constant: Collection[int] = ()

    @property
    def weights(self) -> frozenset[int]:
        """The positions of the draws that are initial weights."""
        return frozenset(at for at, draw in enumerate(self.draws) if draw.weights)

    def __call__(self, at: int, draw: Draw) -> NDArray[Any] | None:
        """The numbers for draw number `at`; None leaves it random. Raises Diverged if the draw differs from that of the earlier
        run.
        """
        if at >= len(self.draws):
            raise Diverged(draw.line)
        earlier = self.draws[at]
        numbers = self.instead.get(at, earlier.values)
        if (left := of_fewer_nodes(draw, earlier)) is not None:
            return np.compress(left, numbers, earlier.axis) if numbers.size and draw.values.size else None
        own = at in self.constant and at not in self.instead and draw.line == earlier.line
        if own and not np.array_equal(draw.values, earlier.values):
            return None
        if not alike(draw, earlier, self.reports):
            raise Diverged(f"{draw.line}{other_rows(draw, earlier)}")
        return carried(numbers, earlier, draw) if numbers.size else None

    def ended(self, count: int) -> None:
        """Raises Diverged if `count`, the number of draws of the ended run, is below that of the earlier run."""
        if count < len(self.draws):
            raise Diverged(self.draws[count].line)


def of_fewer_nodes(draw: Draw, earlier: Draw) -> NDArray[np.bool_] | None:
    """Which numbers, or rows, of the earlier draw belong to the training nodes of this draw, if both have one for each training
    node and this run has fewer of them; else None. All numbers must be independent of one another and have the same law. Rows of
    noise are left out: a noisy value with fewer rows is another mechanism.
    """
    shape, before = draw.values.shape, earlier.values.shape
    if draw.nodes is None or earlier.nodes is None or len(shape) != len(before) or shape == before:
        return None
    if any(one != two for axis, (one, two) in enumerate(zip(shape, before)) if axis != earlier.axis):  # noqa: B905  (Python 3.9)
        return None
    if len(shape) > 1 and draw.law in SHIFTED:
        return None
    law = _of_each(draw)
    same = law is not None and (draw.law, draw.among, law) == (earlier.law, earlier.among, _of_each(earlier))
    return np.isin(earlier.nodes, draw.nodes) if same and np.isin(draw.nodes, earlier.nodes).all() else None


def other_rows(draw: Draw, earlier: Draw) -> str:
    """Says if a draw differs from that of the earlier run only in its number of rows, as masks with a row for each node do; else
    "".
    """
    shape, before = draw.values.shape, earlier.values.shape
    if draw.law != earlier.law or len(shape) < 2 or shape[1:] != before[1:] or shape == before:
        return ""
    rows = f"{shape[0]} rows of random numbers instead of {before[0]}"
    return f": {rows}; draw them for all nodes"


def _of_each(draw: Draw) -> tuple[float, ...] | None:
    """What describes the law of each number of a draw; None if numbers differ in their law or depend on one another."""
    if draw.chances is not None:
        return tuple(draw.chances.tolist()) if draw.chances.ndim == 1 and draw.among == (0.0, 1.0) else None
    single = np.ndim(draw.loc) == np.ndim(draw.scale) == 0
    return (float(draw.loc), float(draw.scale)) if single and draw.law in (*SHIFTED, "uniform") else None


def alike(one: Draw, other: Draw, reports: bool = False) -> bool:
    """Whether two draws request numbers of the same law, up to location and scale, in an array of the same shape. `carried`
    then replays one for the other. A scale that is 0 in the first draw alone cannot be carried.

    reports: whether probabilities may differ if each number of both draws has its own probabilities.
    """
    if one.law != other.law or one.values.shape != other.values.shape or len(one.parameters) != len(other.parameters):
        return False
    if one.among != other.among or (one.chances is None) != (other.chances is None):
        return False
    if one.chances is not None and not (reports and one.own_chances and other.own_chances):
        assert other.chances is not None
        if one.chances.shape != other.chances.shape or not np.allclose(one.chances, other.chances, rtol=1e-5, atol=1e-8):
            return False
    if one.scale is not other.scale and bool(np.any((np.asarray(one.scale) == 0) & (np.asarray(other.scale) != 0))):
        return False  # numbers without spread do not determine numbers with spread
    return all(_equal(a, b) for a, b in zip(one.parameters, other.parameters))  # noqa: B905  (imported into Python 3.9)


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two parameters are equal; numbers that are not whole may differ by rounding."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind == other.dtype.kind == "f":
        return bool(np.allclose(one, other, rtol=ROUNDING, atol=1e-12, equal_nan=True))
    return bool(np.array_equal(one, other))


def carried(numbers: NDArray[Any], one: Draw, other: Draw) -> NDArray[Any]:
    """`numbers` of draw `one`, shifted and scaled to the location and scale of draw `other`, which may depend on data."""
    if all(a is b or np.array_equal(a, b) for a, b in ((one.loc, other.loc), (one.scale, other.scale))):
        return numbers
    spread = np.where(np.asarray(one.scale) == 0, 1.0, one.scale)
    moved = np.asarray(other.loc + other.scale * ((numbers - one.loc) / spread))
    whole = other.values.dtype.kind in "iu"
    return (np.rint(moved) if whole else moved).astype(other.values.dtype)
