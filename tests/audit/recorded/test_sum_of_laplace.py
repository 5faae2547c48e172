"""Two Laplace numbers on each entry: their sum costs what the larger one costs, and not a move that is divided among both."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

GRAPH, SMALL, LARGE = load("campus:n=120:degree=6"), 0.6, 2.4
COST = 2 / LARGE  # an edge moves two degrees by 1


def degrees(graph, seed):
    random = np.random.default_rng(seed)
    return {"degrees": graph.degree + random.laplace(0, SMALL, graph.nodes) + random.laplace(0, LARGE, graph.nodes)}


def log_density(x):
    """Of the sum of both numbers, in closed form."""
    tails = LARGE * np.exp(-np.abs(x) / LARGE) - SMALL * np.exp(-np.abs(x) / SMALL)
    return np.log(tails / (2 * (LARGE**2 - SMALL**2)))


def test_no_output_tells_more_than_the_larger_number_costs():
    x = np.linspace(-60.0, 60.0, 120_001)
    ratio = float(np.max(log_density(x) - log_density(x - 1)))
    assert ratio == pytest.approx(1 / LARGE, rel=1e-6)
    assert ratio < SMALL / (SMALL**2 + LARGE**2) + LARGE / (SMALL**2 + LARGE**2)  # what a divided move would seem to cost


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_claim_that_the_larger_number_keeps_is_not_refuted(delta):
    claim = Claim(1.01 * COST, delta)
    case = Case(Looped(degrees, releases=("degrees",), claim=claim), claim)
    bounds = differential(Setting(case, GRAPH, None, Key("laplace"))).bounds
    assert not any(bound.refuted for bound in bounds)
    assert max(bound.epsilon for bound in bounds) <= COST
