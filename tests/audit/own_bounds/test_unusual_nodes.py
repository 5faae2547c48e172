"""What the small graph of unusual nodes adds to a bound on mechanisms within a run."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.released_noise import ANYWHERE
from gnnaudit.audit.recorded.secrets.worlds import UNUSUAL
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("thorough")
GRAPH = load("campus:n=200:degree=20")
SIGMA, DELTA = 2.0, 1e-6
TRUE = float(epsilon_of(2**0.5 / SIGMA, DELTA))  # an edge between two nodes that have no other moves two rows of norm 1
CLAIM = Claim(1.001 * TRUE, DELTA)


def unit_rows(graph):
    return graph.x / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1e-9)


def mean_of_neighbours(graph, seed, noise=SIGMA):
    mean = graph.adjacency() @ unit_rows(graph) / np.maximum(graph.degree, 1)[:, None]
    return mean + noise * np.random.default_rng(seed).standard_normal(mean.shape)


def told(noisy, graph):
    """Log-probabilities from noisy rows and a public network."""
    weights = np.random.default_rng(7).standard_normal((graph.x.shape[1], graph.classes))
    scores = noisy @ weights
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def honest(graph, seed):
    return {"posteriors": told(mean_of_neighbours(graph, seed), graph)}


def too_little(graph, seed):
    return {"posteriors": told(mean_of_neighbours(graph, seed, 0.6 * SIGMA), graph)}


def all_shown(graph, seed):
    return {"posteriors": np.tanh(mean_of_neighbours(graph, seed, 0.6 * SIGMA))}


def audited(train, tmp_path, key):
    case = Case(Looped(train, events=dp.GaussianDpEvent(SIGMA / 2**0.5)), CLAIM)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), key, 3, 1e-4))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_a_mean_of_few_neighbours_gives_the_reach_that_no_edge_of_the_graph_gives(seed, tmp_path):
    """On the graph an edge costs less than half of the claim, because every node has several neighbours."""
    outcome = audited(honest, tmp_path, Key("mean", seed))
    bound = max(outcome.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert UNUSUAL in bound.method
    assert 0.99 * TRUE < bound.epsilon <= TRUE
    assert TRUE < bound.reach < 1.01 * TRUE
    assert outcome.covers == {
        "posteriors": "too little noise on a value within the run by one factor on every graph, or "
        "a path past the noise that is open on one of the two tested graphs, to"
    }


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_too_little_noise_that_only_unusual_nodes_show_and_the_release_hides_in_part_is_not_passed(seed, tmp_path):
    outcome = audited(too_little, tmp_path, Key("little", seed))
    assert not any(b.refuted for b in outcome.bounds)
    assert all(math.isinf(b.reach) for b in outcome.bounds)
    (failed,) = (why for b in outcome.bounds for why in b.failed)
    assert "the release shows only part of the noisy value" in failed
    assert UNUSUAL in failed


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_too_little_noise_that_only_unusual_nodes_show_is_refuted_if_the_release_shows_it(seed, tmp_path):
    refuted = [b for b in audited(all_shown, tmp_path, Key("shown", seed)).bounds if b.refuted]
    assert refuted
    true = float(epsilon_of(2**0.5 / (0.6 * SIGMA), DELTA))
    assert CLAIM.epsilon < refuted[0].epsilon <= true


@pytest.mark.parametrize(("divided", "where"), [(True, "by one factor on every graph"), (False, ANYWHERE)])
def test_of_released_noise_the_sentence_says_whether_the_given_graph_or_the_small_one_shows_it(divided, where, tmp_path):
    def sums(graph, seed):
        noise = np.random.default_rng(seed).standard_normal(graph.x.shape)
        total = graph.adjacency() @ unit_rows(graph) / (np.maximum(graph.degree, 1)[:, None] if divided else 1)
        return {"sums": total + SIGMA * noise}

    case = Case(Looped(sums, releases=("sums",), events=dp.GaussianDpEvent(SIGMA / 2**0.5)), CLAIM)
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("where"), 3, 1e-4))
    assert outcome.covers == {"sums": f"noise too small {where} in"}
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(TRUE, rel=1e-3)
