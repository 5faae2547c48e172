"""The counts of a graph that a recipe needs before training, and the type of an entry in the catalogue of systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Unit

if TYPE_CHECKING:
    from .base import Model
    from .graph.graph import Graph


@dataclass(frozen=True)
class Facts:
    """Counts of a graph. A recipe is made from them.

    The node set, the split and the classes are public. The number of arcs is not: only the papers' own rule for
    delta reads it, in mode "paper".
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


Factory = Callable[[str, Facts, bool], "Model"]


@dataclass(frozen=True)
class System:
    """One entry of the catalogue: a factory, the protected unit, what the adversary sees, and the source.

    make(mode, facts, private): the recipe before its noise is set. Its hyper-parameters are those of the authors' own scripts,
    which differ between private and non-private training; none is tuned on the graph.
    node_level: fields of the recipe in the authors' node-level scripts, if the system has a node-level version. baseline: whether
    the system is for comparison only; a plan then runs it only if the plan names it.

    Methods of the model give the epsilon that a paper prints, that its theorem gives and that its code computes: `Model.printed`,
    and `StatesTheorem` and `HasReleasedCode` in capabilities.py.
    """

    make: Factory
    protects: str
    sees: str
    source: str
    node_level: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False


def default_delta(unit: Unit, mode: str, facts: Facts) -> float:
    """A power of ten below one over the number of units.

    "sound": the number of units is taken from public counts alone: the nodes for node claims, and 100 times the nodes for edge
    claims, because the number of edges is secret. "paper": the papers' rule, one decimal digit for each digit of the number of
    arcs or training nodes. Claims of local mechanisms have delta 0.
    """
    if unit is Unit.FEATURES:
        return 0.0
    if unit is Unit.NODE:
        return 10.0 ** -len(str(facts.train if mode == "paper" else facts.nodes))
    return 10.0 ** -(len(str(facts.arcs)) if mode == "paper" else len(str(facts.nodes)) + 2)
