"""The catalogue of systems: how each is made, whom it protects, what its adversary sees, and its source. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Unit
from .facts import Facts

if TYPE_CHECKING:
    from .base import Model

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


def factory(file: str, name: str, fields: Callable[[str, Facts, bool], dict[str, Any]] = lambda *_: {}) -> Factory:
    """A factory that imports the model only when it makes one, so that listing the systems does not load torch.

    file: the module below `models` that defines the model `name`. fields: from the arguments of `System.make`, the fields of the
    recipe that are not the model's defaults, except `mode`.
    """

    def make(mode: str, facts: Facts, private: bool) -> Model:
        made: Model = getattr(import_module(f".{file}", __package__), name)(mode=mode, **fields(mode, facts, private))
        return made

    return make


def _gnn(kind: str, source: str) -> System:
    make = factory("baselines.gnn", "Gnn", lambda mode, facts, private: {"kind": kind})
    return System(make, protects="nobody", sees="posteriors", source=source, baseline=True)


# node_level holds the epochs of the authors' node-level scripts, and for ProGAP also depth and base_layers. The degree bound
# keeps its default of 100, which is public.
SYSTEMS: dict[str, System] = {
    "gap": System(
        make=factory("gap.gap", "Gap", lambda mode, facts, private: {"hops": 2 if private else 5}),
        protects="an edge",
        sees="posteriors, or the noisy aggregates",
        source="Sajadmanesh et al., USENIX Security 2023",
        node_level={"epochs": 10},
    ),
    "progap": System(
        make=factory(
            "gap.progap", "ProGap", lambda mode, facts, private: {"depth": 5, "learning_rate": 0.01 if private else 0.05}
        ),
        protects="an edge",
        sees="posteriors, or the noisy aggregates",
        source="Sajadmanesh & Gatica-Perez, WSDM 2024",
        node_level={"epochs": 5, "depth": 4, "base_layers": 2},
    ),
    "vesper": System(
        make=factory("vesper.vesper", "Vesper", lambda mode, facts, private: {"n_train": facts.train}),
        protects="an edge",
        sees="posteriors, or all messages that party B receives",
        source="Wu et al., arXiv 2310.20552",
    ),
    "dpar": System(
        make=factory(
            "dpar.dpar",
            "Dpar",
            lambda mode, facts, private: (
                {"train_nodes": facts.train} | ({"batch": 60, "node_rate": 0.09, "epochs": 200} if mode == "paper" else {})
            ),
        ),
        protects="a node with its edges",
        sees="posteriors, or noisy PageRank rows and gradients",
        source="Zhang et al., WWW 2024",
    ),
    "privgnn": System(
        make=factory("privgnn.privgnn", "PrivGnn", lambda mode, facts, private: {"classes": facts.classes, "queries": 50}),
        protects="a node with its edges",
        sees="posteriors of the student, or its labels",
        source="Olatunji et al., TMLR 2023",
    ),
    # feature_steps is the authors' choice for low budgets on most graphs. Labels are not propagated, because propagation presumes
    # strong homophily.
    "lpgnn": System(
        make=factory("lpgnn.lpgnn", "Lpgnn", lambda mode, facts, private: {"feature_steps": 2, "label_steps": 0}),
        protects="one node's features and label",
        sees="the users' reports",
        source="Sajadmanesh & Gatica-Perez, CCS 2021",
    ),
    "mlp": System(
        make=factory("gap.mlp", "Mlp"),
        protects="an edge, because it reads none",
        sees="posteriors",
        source="baseline without a graph",
        node_level={"epochs": 10},
        baseline=True,
    ),
    "edgerand": System(
        make=factory(
            "baselines.edgerand", "EdgeRand", lambda mode, facts, private: {"nodes": facts.nodes, "layers": 1 if private else 2}
        ),
        protects="an edge",
        sees="posteriors, or the noisy graph",
        source="randomised response on edges, then GraphSAGE",
        baseline=True,
    ),
    "dpgnn": System(
        make=factory("baselines.dpgnn", "DpGnn", lambda mode, facts, private: {"train_nodes": facts.train}),
        protects="a node with its edges",
        sees="posteriors",
        source="Daigavane et al., arXiv 2111.15521",
        baseline=True,
    ),
    "gcn": _gnn("gcn", "Kipf & Welling, ICLR 2017"),
    "sage": _gnn("sage", "Hamilton et al., NeurIPS 2017"),
    "gat": _gnn("gat", "Veličković et al., ICLR 2018"),
    "gin": _gnn("gin", "Xu et al., ICLR 2019"),
}


def at_unit(recipe: Model, unit: Unit | None, facts: Facts) -> dict[str, Any]:
    """The fields of the recipe that make it protect `unit`, if the system has a node-level version; otherwise none."""
    entry = SYSTEMS.get(recipe.name)
    if unit is not Unit.NODE or recipe.unit is unit or entry is None or not entry.node_level:
        return {}
    return {"unit": unit, "train_nodes": facts.train, **entry.node_level}
