"""The factor by which the noise of a fault is too small, against values computed by hand."""

import math
import re

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian

from gnnaudit.audit.cli.selftest import audited
from gnnaudit.audit.faults.in_sums import GreedyDegreeCap
from gnnaudit.audit.faults.planted import FAULTS
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import Facts
from gnnaudit.models.graph.graph import Graph


def test_the_factor_of_an_uncharged_hop_is_that_of_its_ledger():
    """Two hops charged as one are one Gaussian with sqrt(2) less noise."""
    campus = load("campus:n=600")
    fault = next(f for f in FAULTS if f.name == "one hop not charged, by counting")
    model = fault.model(Facts.of(campus))
    _, lower, found = audited(fault, model, campus, "another")
    claimed, true = (math.sqrt(n) * math.sqrt(2) / model.noise_std for n in (1, 2))
    assert fault.shortfall(model, campus) == pytest.approx(true / claimed)
    cost = re.search(r"which costs epsilon=([0-9.]+) by", found)
    assert cost
    assert float(cost[1]) == pytest.approx(get_epsilon_gaussian(1 / true, 1e-6), rel=2e-3)
    assert lower == 0  # the cost of a ledger is an upper bound and proves no leak


def test_a_greedy_degree_cap_admits_other_edges():
    """By hand: without edge 0 of a path with bound 1, edge 1 is kept, edge 2 is not, and so on along the path."""
    nodes = 6
    split = np.arange(nodes) % 3
    path = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    graph = Graph(np.eye(nodes, dtype=np.float32), split, path, split == 0, split == 1, split == 2)
    whole = np.ones(5, dtype=bool)
    assert GreedyDegreeCap(most=1).bounded(graph, whole).tolist() == [True, False, True, False, True]
    whole[0] = False
    assert GreedyDegreeCap(most=1).bounded(graph, whole).tolist() == [False, True, False, True, False]
