"""Finds the secret that moves values farthest by a search that removes secrets one by one.

Moves of many secrets may cancel in a sum over the whole graph. Then a search that removes groups of them finds none.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....models.capabilities import Effort
from ....models.graph.graph import Graph, Worlds
from ...case import EDGES
from .worlds import UNUSUAL, Absence, lacking, with_other_labels

SECONDS = 4.0  # of processor time
ENDS = 32  # number of secrets of low degrees, and of high ones, that are tried first
FOUND = 3  # largest number of secrets that are found


def farthest_alone(whole: Worlds, unit: Unit, effort: Effort, sizes: Callable[[Absence], Sequence[float]]) -> list[int]:
    """The edges or nodes whose absence alone moves all values together, or one of them, farthest: at most FOUND, the farthest
    first. All are tried until SECONDS have passed, see `in_turn`. For a claim about features, the label of each node is changed
    alone too. None if the model asks for little effort, and on the small graph of unusual nodes, whose secrets are few.

    sizes: how far each value moves in a world; empty if the world cannot be compared.
    """
    if not effort.thorough or whole.graph.name == UNUSUAL:
        return []
    until = time.process_time() + SECONDS
    farthest: dict[int, tuple[float, int]] = {}  # a value, or -1 for all of them -> the largest move, and its secret
    for secret in in_turn(whole.graph, unit):
        if time.process_time() > until:
            break
        one = np.array([secret])
        worlds = [lacking(whole, unit, one), *([with_other_labels(whole, one)] if unit is Unit.FEATURES else ())]
        for moves in map(sizes, worlds):
            for place, size in enumerate([math.hypot(*moves), *moves], -1):
                farthest[place] = max(farthest.get(place, (0.0, -1)), (size, int(secret)))
    ordered = sorted(farthest.values(), reverse=True)
    return list(dict.fromkeys(secret for size, secret in ordered if size > 0))[:FOUND]


def in_turn(graph: Graph, unit: Unit) -> NDArray[np.int64]:
    """The edges or nodes, those of the lowest and the highest degrees first, in turn, because programs weigh nodes by degree. All
    others follow in a random order.
    """
    degrees = graph.degree[graph.edges].sum(0) if unit in EDGES else graph.degree
    order = np.argsort(degrees, kind="stable")
    ends = np.stack([order[:ENDS], order[::-1][:ENDS]], axis=1).ravel()
    return np.array(list(dict.fromkeys([*ends, *np.random.default_rng(0).permutation(order)])), dtype=np.int64)
