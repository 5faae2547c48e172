"""The baselines of the private systems: plain graph networks, randomised response on edges, and DP-GNN."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .dpgnn import DpGnn
    from .edgerand import EdgeRand
    from .gnn import Gnn

__getattr__ = lazily(__name__, DpGnn="dpgnn", EdgeRand="edgerand", Gnn="gnn")
