"""The small graph of unusual nodes, and what a model promises about its degrees."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.recorded.secrets.worlds import public_bound, small

GRAPH = tiny(48)
MOST = int(GRAPH.degree.max())
BOUND, SIGMA = 2 * MOST, 4.0


def votes(graph, seed):
    """Noisy votes of labelled neighbours. A node with at most BOUND neighbours moves at most BOUND votes, each by 1."""
    labelled = np.eye(graph.classes)[graph.y] * graph.train[:, None]
    noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    sums = graph.adjacency() @ labelled + SIGMA * BOUND**0.5 * noise
    return {"sums": sums, "posteriors": sums - np.logaddexp.reduce(sums, axis=1, keepdims=True)}


class Promised(Looped):
    max_degree = BOUND


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("bound", [MOST, MOST + 1, 40])
def test_no_degree_of_the_small_graph_exceeds_a_bound_that_the_audited_graph_respects(bound, directed):
    both = np.concatenate([GRAPH.edges, GRAPH.edges[::-1]], axis=1)
    graph = dataclasses.replace(GRAPH, edges=both, directed=True) if directed else GRAPH
    made = small(graph, public_bound(Looped(votes, max_degree=bound), graph))
    assert made.degree.max() == bound


@pytest.mark.parametrize("bound", [0, 1, MOST - 1])
def test_a_bound_that_the_audited_graph_breaks_changes_nothing(bound):
    assert public_bound(Looped(votes, max_degree=bound), GRAPH) is None


@pytest.mark.parametrize("kind", [Promised, Looped])
def test_an_honest_model_that_declares_its_bound_on_degrees_is_not_blamed_on_the_small_graph(kind):
    model = kind(votes, unit="node", releases=("posteriors", "sums"), events=dp.GaussianDpEvent(SIGMA))
    claim = Claim(float(epsilon_of(1 / SIGMA, 1e-5)), 1e-5, Unit.NODE, exposes=("posteriors", "sums"))
    found = Recorded(Case(model, claim), GRAPH, Key("promise")).examination
    worst = max(move.euclidean for move in found.moves)
    assert (worst <= 1 / SIGMA) is (kind is Promised)  # the proof: sqrt(BOUND) votes of 1, noise of SIGMA sqrt(BOUND)


def test_a_bound_on_degrees_that_is_no_count_is_refused():
    with pytest.raises(ValueError, match="max_degree=-1: must be a whole number"):
        Looped(votes, max_degree=-1)
