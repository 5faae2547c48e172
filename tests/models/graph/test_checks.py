"""Which graphs an audit accepts, and what it says about the others."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit.models.graph.checks import check
from gnnaudit.models.graph.graph import Graph, Mask, Worlds

PART = np.arange(40) % 4
GRAPH = Graph(
    x=np.ones((40, 3), np.float32),
    y=np.arange(40) % 3,
    edges=np.array([[7, 0, 1, 2], [9, 1, 5, 7]]),
    train=PART < 2,
    val=PART == 2,
    test=PART == 3,
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"edges": np.zeros((3, 5), int)}, "edges have shape (3, 5): must be (2, m)"),
        ({"edges": np.zeros((2, 5))}, "edges has type float64: must be int64"),
        ({"edges": np.array([[0], [99]])}, "edges hold (0, 99): node ids must be in 0 … 39."),
        ({"edges": np.array([[-1], [3]])}, "edges hold (-1, 3): node ids"),
        ({"edges": np.array([[0, 1], [1, 0]])}, "edges hold (1, 0): an undirected graph lists each edge once, as u < v."),
        ({"edges": np.array([[1], [1]])}, "edges hold (1, 1): an edge from a node to itself."),
        ({"edges": np.array([[5, 0, 5], [6, 1, 6]])}, "edges hold (5, 6) twice (1 such)"),
        ({"edges": [[0], [1]]}, "edges=[[0], [1]]: must be a NumPy array."),
        ({"edges": None}, "edges=None: must be a NumPy array."),
        ({"y": np.zeros(40)}, "y=array([0., 0., "),
        ({"y": None}, "y=None: must be an array of whole numbers"),
        ({"y": np.zeros(40, np.int32)}, "y has type int32: must be int64. Write y.astype(np.int64)."),
        ({"y": -np.ones(40, int)}, "y holds class -1: must be 0 or more."),
        ({"y": np.zeros(0, int)}, "y has shape (0,): the graph has no nodes."),
        ({"classes": 1}, "classes=1: must be at least 3"),
        ({"classes": 3.5}, "classes=3.5: must be at least 3"),
        ({"x": np.ones(40, np.float32)}, "x has shape (40,): must have 2 axes."),
        ({"x": np.ones((40, 3))}, "x has type float64: must be float32."),
        ({"x": np.ones((7, 3), np.float32)}, "x has shape (7, 3): must be (40, features)"),
        ({"x": np.full((40, 3), np.nan, np.float32)}, "x holds NaN or infinity"),
        ({"x": sp.csr_array(np.full((40, 3), np.inf, np.float32))}, "x holds NaN or infinity"),
        ({"x": sp.coo_array(np.ones((40, 3), np.float32))}, "x=<COO"),
        ({"val": PART < 1}, "train and val share 10 nodes, such as node 0: must be disjoint."),
        ({"train": np.arange(10)}, "train has type int64: must be bool."),
        ({"test": np.ones(4, bool)}, "test has shape (4,): must be (40,)"),
        ({"directed": "no"}, "directed='no': must be True or False."),
        ({"name": 3}, "name=3: must be a word"),
    ],
)
def test_a_field_that_breaks_a_rule_is_named_in_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        check(dataclasses.replace(GRAPH, **{"classes": 0} | change))


@pytest.mark.parametrize("change", [{}, {"directed": True, "edges": GRAPH.arcs}, {"x": sp.csr_array(GRAPH.x)}, {"classes": 9}])
def test_a_graph_that_keeps_the_rules_passes_with_edges_in_any_order(change: dict[str, Any]) -> None:
    check(dataclasses.replace(GRAPH, **change))


@pytest.mark.parametrize("graph", ["campus:n=300", 3, None])
def test_what_is_no_graph_is_told_how_to_make_one(graph: object) -> None:
    with pytest.raises(ValueError, match=r"^graph=.*: must be a Graph\. .*load"):
        check(graph)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"graph": None}, "graph=None: must be a Graph."),
        ({"seeds": np.array([0.5])}, "seeds=array([0.5]): float64 of shape (1,); must be whole numbers"),
        ({"seeds": [-1]}, "seeds=[-1]: int64 of shape (1,); must be whole numbers"),
        ({"watch": np.array([99])}, "watch=array([99]): node ids must be in 0 … 39."),
        ({"watch": GRAPH.test}, "watch=array([False, "),
        ({"edges": np.ones((1, 2), bool)}, "edges=array([[ True, True]]): must be a Mask"),
        ({"nodes": Mask(np.arange(3), np.ones((2, 3), bool))}, "nodes: present has shape (2, 3): must be (1, 3)"),
    ],
)
def test_worlds_that_fit_no_graph_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        Worlds(**({"graph": GRAPH, "seeds": [1], "watch": [3]} | change))
