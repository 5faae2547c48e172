"""The entries of GAP, ProGAP and MLP in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .gap import Gap
    from .mlp import Mlp
    from .progap import ProGap


def _gap(mode: str, facts: Facts, private: bool) -> Gap:
    from .gap import Gap

    return Gap(mode=mode, hops=2 if private else 5)


def _progap(mode: str, facts: Facts, private: bool) -> ProGap:
    from .progap import ProGap

    return ProGap(mode=mode, depth=5, learning_rate=0.01 if private else 0.05)


def _mlp(mode: str, facts: Facts, private: bool) -> Mlp:
    from .mlp import Mlp

    return Mlp(mode=mode)


# node_level holds the epochs of the authors' node-level scripts, and for ProGAP also depth and base_layers. The degree bound
# keeps its default of 100, which is public.
GAP = System(
    make=_gap,
    protects="an edge",
    sees="posteriors, or the noisy aggregates",
    source="Sajadmanesh et al., USENIX Security 2023",
    node_level={"epochs": 10},
)
PROGAP = System(
    make=_progap,
    protects="an edge",
    sees="posteriors, or the noisy aggregates",
    source="Sajadmanesh & Gatica-Perez, WSDM 2024",
    node_level={"epochs": 5, "depth": 4, "base_layers": 2},
)
MLP = System(
    make=_mlp,
    protects="an edge, because it reads none",
    sees="posteriors",
    source="baseline without a graph",
    node_level={"epochs": 10},
    baseline=True,
)
