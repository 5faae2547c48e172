"""The entries of EdgeRand, DP-GNN and the plain graph networks in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .dpgnn import DpGnn
    from .edgerand import EdgeRand
    from .gnn import Gnn


def _edgerand(mode: str, facts: Facts, private: bool) -> EdgeRand:
    from .edgerand import EdgeRand

    return EdgeRand(mode=mode, nodes=facts.nodes, layers=1 if private else 2)


def _dpgnn(mode: str, facts: Facts, private: bool) -> DpGnn:
    from .dpgnn import DpGnn

    return DpGnn(mode=mode, train_nodes=facts.train)


def _gnn(kind: str, source: str) -> System:
    def make(mode: str, facts: Facts, private: bool) -> Gnn:
        from .gnn import Gnn

        return Gnn(kind, mode=mode)

    return System(make, protects="nobody", sees="posteriors", source=source, baseline=True)


EDGERAND = System(
    make=_edgerand,
    protects="an edge",
    sees="posteriors, or the noisy graph",
    source="randomised response on edges, then GraphSAGE",
    baseline=True,
)
DPGNN = System(
    make=_dpgnn,
    protects="a node with its edges",
    sees="posteriors",
    source="Daigavane et al., arXiv 2111.15521",
    baseline=True,
)
GCN = _gnn("gcn", "Kipf & Welling, ICLR 2017")
SAGE = _gnn("sage", "Hamilton et al., NeurIPS 2017")
GAT = _gnn("gat", "Veličković et al., ICLR 2018")
GIN = _gnn("gin", "Xu et al., ICLR 2019")
