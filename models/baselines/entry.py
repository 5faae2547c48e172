"""The entries of EdgeRand, DP-GNN and the plain graph networks in the catalogue of systems."""

from __future__ import annotations

from ..facts import System, factory


def _gnn(kind: str, source: str) -> System:
    make = factory(__name__, "gnn.Gnn", lambda mode, facts, private: {"kind": kind})
    return System(make, protects="nobody", sees="posteriors", source=source, baseline=True)


EDGERAND = System(
    make=factory(
        __name__, "edgerand.EdgeRand", lambda mode, facts, private: {"nodes": facts.nodes, "layers": 1 if private else 2}
    ),
    protects="an edge",
    sees="posteriors, or the noisy graph",
    source="randomised response on edges, then GraphSAGE",
    baseline=True,
)
DPGNN = System(
    make=factory(__name__, "dpgnn.DpGnn", lambda mode, facts, private: {"train_nodes": facts.train}),
    protects="a node with its edges",
    sees="posteriors",
    source="Daigavane et al., arXiv 2111.15521",
    baseline=True,
)
GCN = _gnn("gcn", "Kipf & Welling, ICLR 2017")
SAGE = _gnn("sage", "Hamilton et al., NeurIPS 2017")
GAT = _gnn("gat", "Veličković et al., ICLR 2018")
GIN = _gnn("gin", "Xu et al., ICLR 2019")
