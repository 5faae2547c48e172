"""Graphs, and many subgraphs of one graph as masks."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .graph import Graph, Mask, Worlds

__getattr__ = lazily(__name__, Graph="graph", Mask="graph", Worlds="graph")
