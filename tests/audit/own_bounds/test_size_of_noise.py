"""Noise whose scale depends on a secret: what the recorded scales prove."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.size_of_noise import Resized
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=6")
LAWS = {"laplace": stats.laplace, "normal": stats.norm}


def true_epsilon(law, narrow, wide, apart, delta):
    """By integration of the two densities, in the direction from the wide to the narrow world."""
    p, q = LAWS[law](apart, wide).pdf, LAWS[law](0, narrow).pdf

    def excess(epsilon):
        points = np.linspace(-60 * wide, 60 * wide, 400_001)
        return integrate.simpson(np.maximum(p(points) - math.exp(epsilon) * q(points), 0), x=points) - delta

    return optimize.brentq(excess, 0, 60)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("wide", "delta"), [(1.5, 1e-3), (2.0, 1e-4), (2.5, 2e-4)])
def test_for_one_number_and_equal_clean_values_the_bound_is_the_true_epsilon(law, wide, delta):
    assert Resized(law, 1, 1.0, wide).epsilon(delta) == pytest.approx(true_epsilon(law, 1.0, wide, 0.0, delta), rel=2e-3)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("apart", [0.5, 2.0])
def test_for_clean_values_that_differ_the_bound_is_below_the_true_epsilon(law, apart):
    true = true_epsilon(law, 1.0, 2.0, apart, 1e-4)
    assert 0.5 * true < Resized(law, 1, 1.0, 2.0, apart).epsilon(1e-4) <= true * (1 + 1e-6)


@pytest.mark.parametrize(("law", "power"), [("laplace", 1), ("normal", 2)])
def test_for_many_numbers_the_bound_is_that_of_an_event_that_trials_confirm(law, power):
    """The bound is log(p / q) of one threshold; p and q are counted in 400,000 trials."""
    count, wide = 40, 1.3
    bound = Resized(law, count, 1.0, wide).epsilon(0.05)
    sums = (np.abs(LAWS[law].rvs(size=(400_000, count), random_state=0)) ** power).sum(1)
    far = [(np.mean(wide**power * sums > t), np.mean(sums > t)) for t in np.quantile(sums, np.linspace(0.01, 0.9999, 400))]
    near = [(np.mean(sums < t), np.mean(wide**power * sums < t)) for t in np.quantile(sums, np.linspace(0.01, 0.9999, 400))]
    counted = max(math.log((p - 0.05) / q) for p, q in far + near if p > 0.1 and q > 1e-4)
    assert counted <= bound + 0.1
    assert bound <= max(counted, math.log(1 / 1e-4)) + 0.3


def largest_degree(graph, seed, ledger_scale=1.0):
    """Counts of labelled neighbours with noise for the largest degree of this graph."""
    counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    scale = ledger_scale * graph.degree.max(initial=1)
    return {"counts": counts + scale * np.random.default_rng(seed).standard_normal(counts.shape)}


def local_sensitivity(graph, seed):
    triangles = (graph.adjacency() @ graph.adjacency()).toarray()
    np.fill_diagonal(triangles, 0)
    scale = max(triangles.max(initial=0), 1)
    return {"triangles": triangles.sum() / 6 + np.random.default_rng(seed).laplace(0, scale)}


def scaled_back(graph, seed):
    """Noise of size 1: the factor by which data and noise are multiplied is divided out again."""
    factor = graph.degree.max(initial=1)
    counts = factor * (graph.adjacency() @ np.eye(graph.classes)[graph.y])
    counts = counts + factor * 8.0 * np.random.default_rng(seed).standard_normal(counts.shape)
    return {"counts": counts / factor}


def of_each_node(graph, seed):
    """Noise for the degree of each node, on its own row: the edge that a secret removes changes the scale of two rows."""
    counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    scale = 4.0 * np.maximum(graph.degree, 1)[:, None]
    return {"counts": counts + scale * np.random.default_rng(seed).laplace(size=counts.shape)}


def without_noise(of):
    """Noisy numbers of edges for each class; the classes that `of` names get none."""

    def train(graph, seed):
        ends = graph.y[graph.edges]
        counts = np.array([(ends == label).any(axis=0).sum() for label in range(graph.classes)])
        noise = np.random.default_rng(seed).laplace(0, 2.0, graph.classes)
        noise[of(graph, ends)] = 0.0
        return {"counts": counts + noise}

    return train


def with_three(graph, ends):
    """Classes with three edges."""
    return [label for label in range(graph.classes) if (ends == label).any(axis=0).sum() == 3]


def empty(graph, ends):
    """Classes without nodes, which is public; their number of edges is 0."""
    return [label for label in range(graph.classes) if not (graph.y == label).any()]


def slightly(graph, seed):
    """One number whose scale changes by a factor of at most exp(0.01), as smooth sensitivity allows at delta > 0."""
    edges = graph.edges.shape[1]
    return {"edges": edges + np.random.default_rng(seed).laplace(0, 8.0 * math.exp(0.01 * np.clip(edges - 350, -60, 60)))}


def audited(train, releases, events, claim, tmp_path, key):
    case = Case(Looped(train, releases=releases, events=events), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), key, 3, 1e-4)).bounds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize(
    ("train", "array", "events", "claim", "infinite"),
    [
        (largest_degree, "counts", dp.GaussianDpEvent(4.0), Claim(1.5, 1e-6), False),
        (local_sensitivity, "triangles", dp.LaplaceDpEvent(1.0), Claim(1.0, 0.0), True),
        (of_each_node, "counts", dp.LaplaceDpEvent(1.0), Claim(1.0, 0.0), True),
        (without_noise(with_three), "counts", dp.LaplaceDpEvent(1.0), Claim(1.01, 1e-5), True),
    ],
)
def test_noise_for_the_largest_value_of_the_private_graph_is_refuted(train, array, events, claim, infinite, seed, tmp_path):
    (found,) = (b for b in audited(train, (array,), events, claim, tmp_path, Key("size", seed)) if b.refuted)
    assert "changes the scale of the noise" in found.method
    assert math.isinf(found.epsilon) == infinite
    assert found.epsilon > claim.epsilon


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize(
    ("train", "array", "events", "claim"),
    [
        (scaled_back, "counts", dp.GaussianDpEvent(8.0 / 2**0.5), Claim(1.0, 1e-6)),
        (slightly, "edges", dp.LaplaceDpEvent(1.0), Claim(1.0, 1e-3)),
        (without_noise(empty), "counts", dp.LaplaceDpEvent(1.0), Claim(1.01, 0.0)),
    ],
)
def test_a_scale_that_is_divided_out_again_or_changes_little_refutes_nothing(train, array, events, claim, seed, tmp_path):
    assert not any(b.refuted for b in audited(train, (array,), events, claim, tmp_path, Key("steady", seed)))
