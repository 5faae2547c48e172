"""The systems that come with the harness: how to make each one from public facts, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Unit

if TYPE_CHECKING:
    from .base import Model
    from .graph.graph import Graph


@dataclass(frozen=True)
class Facts:
    """What a recipe may be told of a graph before it is fitted.

    The node set, the split and the classes are public. The number of edges is not: only the papers' own rule for
    delta reads it, in mode `paper`.
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


@dataclass(frozen=True)
class System:
    """One entry: a factory, whom it protects, what its adversary sees, and its source.

    make(mode, facts, private): the recipe before its noise is set. Hyper-parameters are those of the authors' own scripts,
    which differ between private and non-private training; none is tuned on the graph.
    """

    make: Callable[[str, Facts, bool], Model]
    protects: str
    sees: str
    source: str


def default_delta(unit: Unit, mode: str, facts: Facts) -> float:
    """A power of ten below one over the number of units.

    `sound`: from public counts alone: nodes for node claims, nodes / 100 for edge claims (as the number of edges is
    secret). `paper`: the papers' rule, one decimal digit for each digit of the number of arcs or training nodes.
    Local mechanisms are pure: 0.
    """
    if unit is Unit.FEATURES:
        return 0.0
    if unit is Unit.NODE:
        return 10.0 ** -len(str(facts.train if mode == "paper" else facts.nodes))
    return 10.0 ** -(len(str(facts.arcs)) if mode == "paper" else len(str(facts.nodes)) + 2)


def at_unit(recipe: Model, unit: Unit | None, facts: Facts) -> dict[str, Any]:
    """Fields of the recipe that make it protect `unit`, where it comes at node level too; else none.

    Epochs and, for ProGAP as published, depth and layers are those of the authors' node-level scripts; the degree bound stays the
    public default of 100.
    """
    if unit is not Unit.NODE or recipe.unit is unit or recipe.name not in NODE_LEVEL:
        return {}
    return {"unit": unit, "train_nodes": facts.train, **NODE_LEVEL[recipe.name]}


NODE_LEVEL: dict[str, dict[str, int]] = {
    "gap": {"epochs": 10},
    "progap": {"epochs": 5, "depth": 4, "base_layers": 2},
    "mlp": {"epochs": 10},
}


def _gap(mode: str, facts: Facts, private: bool) -> Model:
    from .gap.gap import Gap

    return Gap(mode=mode, hops=2 if private else 5)


def _progap(mode: str, facts: Facts, private: bool) -> Model:
    from .gap.progap import ProGap

    return ProGap(mode=mode, depth=5, learning_rate=0.01 if private else 0.05)


def _mlp(mode: str, facts: Facts, private: bool) -> Model:
    from .gap.mlp import Mlp

    return Mlp(mode=mode)


def _vesper(mode: str, facts: Facts, private: bool) -> Model:
    from .vesper.vesper import Vesper

    return Vesper(mode=mode, n_train=facts.train)


def _lpgnn(mode: str, facts: Facts, private: bool) -> Model:
    from .lpgnn.lpgnn import Lpgnn

    # Steps that the authors use at low budgets on most graphs; labels are not propagated, which presumes strong homophily.
    return Lpgnn(mode=mode, feature_steps=2, label_steps=0)


def _dpar(mode: str, facts: Facts, private: bool) -> Model:
    from .dpar.dpar import Dpar

    if mode == "sound":
        return Dpar(mode=mode, train_nodes=facts.train)
    return Dpar(mode=mode, train_nodes=facts.train, batch=60, node_rate=0.09, epochs=200)


def _privgnn(mode: str, facts: Facts, private: bool) -> Model:
    from .privgnn.privgnn import PrivGnn

    return PrivGnn(mode=mode, classes=facts.classes, queries=50)


def _gnn(kind: str) -> Callable[[str, Facts, bool], Model]:
    def make(mode: str, facts: Facts, private: bool) -> Model:
        from .baselines.gnn import Gnn

        return Gnn(kind, mode=mode)

    return make


def _edgerand(mode: str, facts: Facts, private: bool) -> Model:
    from .baselines.edgerand import EdgeRand

    return EdgeRand(mode=mode, nodes=facts.nodes, layers=1 if private else 2)


def _dpgnn(mode: str, facts: Facts, private: bool) -> Model:
    from .baselines.dpgnn import DpGnn

    return DpGnn(mode=mode, train_nodes=facts.train)


SYSTEMS: dict[str, System] = {
    "gap": System(_gap, "an edge", "posteriors, or the noisy aggregates", "Sajadmanesh et al., USENIX Security 2023"),
    "progap": System(_progap, "an edge", "posteriors, or the noisy aggregates", "Sajadmanesh & Gatica-Perez, WSDM 2024"),
    "vesper": System(_vesper, "an edge", "posteriors, or all that party B receives", "Wu et al., arXiv 2310.20552"),
    "dpar": System(_dpar, "a node with its edges", "posteriors, or noisy PageRank rows and gradients", "Zhang et al., WWW 2024"),
    "privgnn": System(
        _privgnn, "a node with its edges", "posteriors of the student, or its labels", "Olatunji et al., TMLR 2023"
    ),
    "lpgnn": System(_lpgnn, "one node's features and label", "the users' reports", "Sajadmanesh & Gatica-Perez, CCS 2021"),
    "mlp": System(_mlp, "an edge, by not reading any", "posteriors", "baseline without a graph"),
    "edgerand": System(_edgerand, "an edge", "posteriors, or the noisy graph", "randomised response on edges, then GraphSAGE"),
    "dpgnn": System(_dpgnn, "a node with its edges", "posteriors", "Daigavane et al., arXiv 2111.15521"),
    "gcn": System(_gnn("gcn"), "nobody", "posteriors", "Kipf & Welling, ICLR 2017"),
    "sage": System(_gnn("sage"), "nobody", "posteriors", "Hamilton et al., NeurIPS 2017"),
    "gat": System(_gnn("gat"), "nobody", "posteriors", "Veličković et al., ICLR 2018"),
    "gin": System(_gnn("gin"), "nobody", "posteriors", "Xu et al., ICLR 2019"),
}
