"""The counts of a graph that a recipe needs before training, and the default delta of a claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..accounting.claim import Unit

if TYPE_CHECKING:
    from .graph.graph import Graph


@dataclass(frozen=True)
class Facts:
    """The counts of a graph from which a recipe is made.

    The node set, the split and the classes are public. The number of arcs is not public. Only the papers' own rule for delta
    reads it, in mode "paper".
    """

    nodes: int
    train: int
    classes: int
    features: int
    arcs: int
    directed: bool

    @staticmethod
    def of(graph: Graph) -> Facts:
        train = int(graph.train.sum())
        return Facts(graph.nodes, train, graph.classes, graph.dim, graph.arc_count, graph.directed)


def default_delta(unit: Unit, mode: str, facts: Facts) -> float:
    """A power of ten below one over the number of units; 0 for claims on a node's features, whose mechanisms are local.

    "sound": the number of units comes from public counts alone. It is the number of nodes for node claims, and 100 times the
    nodes for edge claims, because the number of edges is secret. "paper": the papers' rule, 10^-d, where d is the number of
    decimal digits of the number of arcs or training nodes.
    """
    if unit is Unit.FEATURES:
        return 0.0
    if unit is Unit.NODE:
        return 10.0 ** -len(str(facts.train if mode == "paper" else facts.nodes))
    return 10.0 ** -(len(str(facts.arcs)) if mode == "paper" else len(str(facts.nodes)) + 2)
