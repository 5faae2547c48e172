"""The counts of a graph that a recipe needs before training, and the type of an entry in the catalogue of systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Unit

if TYPE_CHECKING:
    from .base import Model
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


Factory = Callable[[str, Facts, bool], "Model"]


@dataclass(frozen=True)
class System:
    """One entry of the catalogue: a factory, the protected unit, what the adversary sees, and the source.

    make(mode, facts, private): the recipe before its noise is set. Its hyper-parameters are those of the authors' own scripts,
    which differ between private and non-private training; none is tuned on the graph. protects, sees: the unit and the
    adversary's view, in words. source: the paper.
    node_level: the fields that the authors' node-level scripts change, if the system has a node-level version. baseline: whether
    the system is for comparison only; such a system runs only if the plan names it.

    The model itself gives three values of epsilon: the one that the paper prints (`Model.printed`), the one of its theorem
    (`StatesTheorem` in capabilities.py) and the one that its code computes (`HasReleasedCode`).
    """

    make: Factory
    protects: str
    sees: str
    source: str
    node_level: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False


def factory(entry: str, place: str, fields: Callable[[str, Facts, bool], dict[str, Any]] = lambda *_: {}) -> Factory:
    """A factory that imports the model only when it makes one, so that listing the systems does not load torch.

    entry: the `__name__` of the entry's file. place: FILE.CLASS of the model, in the same folder. fields: from the arguments of
    `System.make`, the fields of the recipe that are not the model's defaults, except `mode`.
    """

    def make(mode: str, facts: Facts, private: bool) -> Model:
        file, name = place.split(".")
        module = import_module(f"{entry.rpartition('.')[0]}.{file}")
        made: Model = getattr(module, name)(mode=mode, **fields(mode, facts, private))
        return made

    return make


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
