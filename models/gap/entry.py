"""The entries of GAP, ProGAP and MLP in the catalogue of systems."""

from __future__ import annotations

from ..facts import System, factory

# node_level holds the epochs of the authors' node-level scripts, and for ProGAP also depth and base_layers. The degree bound
# keeps its default of 100, which is public.
GAP = System(
    make=factory(__name__, "gap.Gap", lambda mode, facts, private: {"hops": 2 if private else 5}),
    protects="an edge",
    sees="posteriors, or the noisy aggregates",
    source="Sajadmanesh et al., USENIX Security 2023",
    node_level={"epochs": 10},
)
PROGAP = System(
    make=factory(
        __name__, "progap.ProGap", lambda mode, facts, private: {"depth": 5, "learning_rate": 0.01 if private else 0.05}
    ),
    protects="an edge",
    sees="posteriors, or the noisy aggregates",
    source="Sajadmanesh & Gatica-Perez, WSDM 2024",
    node_level={"epochs": 5, "depth": 4, "base_layers": 2},
)
MLP = System(
    make=factory(__name__, "mlp.Mlp"),
    protects="an edge, because it reads none",
    sees="posteriors",
    source="baseline without a graph",
    node_level={"epochs": 10},
    baseline=True,
)
