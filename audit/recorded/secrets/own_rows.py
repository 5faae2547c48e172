"""Finds the rows of an absent node in the values of mechanisms.

A claim about nodes does not compare the absent node's own released rows. A row of a mechanism is left out too if the run without
the node reads it for nothing but these released rows. Then every other released number has the same distribution for each value
of the row, and the adversary learns from the other rows alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Located = tuple[int, "Place"]  # the number of a mechanism or a source, and a place in its values


@dataclass(frozen=True, eq=False)
class Place:
    """Where the rows of absent nodes may be in an array: along `axis`, at the positions `at`.

    exact: whether the axis has one position for each node, so that no other layout is possible along it.
    """

    axis: int
    at: NDArray[np.int64]
    exact: bool

    def mask(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """The entries of an array of this shape that are at the place."""
        found = np.zeros(shape, dtype=bool)
        np.moveaxis(found, self.axis, 0)[self.at] = True
        return found

    def left_out(self, by: Floats, shared: Sequence[int] = ()) -> Floats:
        """A move without the rows at this place, which become NaN. shared: axes along which all entries have one noise number.
        Along them, the rows move as the other rows do, because a smaller move would look like a difference without noise.
        """
        kept = by.copy()
        rows = np.moveaxis(kept, self.axis, 0)
        others = np.delete(rows, self.at, axis=0)
        rows[self.at] = others[0] if self.axis in shared and len(others) else np.nan
        return kept


def own_places(shape: tuple[int, ...], nodes: int, hidden: NDArray[np.int64]) -> Iterator[Place]:
    """Yields the places where an array of this shape may hold the rows of the nodes `hidden`: along each axis with one position
    for each node, or with several, node by node or in as many blocks of all nodes.
    """
    for axis, size in enumerate(shape):
        each, rest = divmod(size, nodes)
        if rest or not each:
            continue
        if each == 1:
            yield Place(axis, hidden, True)
            continue
        yield Place(axis, (hidden[:, None] * each + np.arange(each)).ravel(), False)
        yield Place(axis, (hidden[:, None] + nodes * np.arange(each)).ravel(), False)


def private(tried: Sequence[Located], alone: Callable[[Sequence[Located], Sequence[Located]], bool]) -> list[Located]:
    """Those of some places whose values the run reads for nothing but the absent nodes' own rows.

    alone(changed, own): whether other values at the places `changed` change nothing but released rows of the absent nodes and
    values at the places `own`. The search tests all places together. If they are read for something else, it keeps those that
    are not, each tested alone, and repeats.
    """
    left = list(tried)
    while left and not alone(left, left):
        kept = [each for each in left if alone([each], left)]
        left = kept if len(kept) < len(left) else []
    return left
