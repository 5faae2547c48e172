"""Noisy values that are divided by private numbers before they are released."""

import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.size_of_noise import Resized
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")


def class_sums(graph, rng):
    """Noisy sums of rows of length 1 by class, (classes, dim), and the number of training nodes of each class."""
    x = np.asarray(graph.x, dtype=np.float64)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    members = np.eye(graph.classes)[graph.y] * graph.train[:, None]
    total = members.T @ x
    return total + rng.normal(0, 2.0, total.shape), members.sum(0)


def exact_counts(graph, rng):
    total, count = class_sums(graph, rng)
    return {"prototypes": total / np.maximum(count, 1)[:, None]}


def noisy_counts(graph, rng):
    total, count = class_sums(graph, rng)
    count = count + rng.normal(0, 6.0, count.shape)
    return {"prototypes": total / np.maximum(count, 1)[:, None]}


def public_counts(graph, rng):
    return {"prototypes": class_sums(graph, rng)[0] / 15.0}


def mean_of_neighbours(law):
    def release(graph, rng):
        total = graph.adjacency() @ np.asarray(graph.x, dtype=np.float64)[:, :32]
        noise = rng.laplace(0, 20.0, total.shape) if law == "laplace" else rng.normal(0, 8.0, total.shape)
        return {"means": (total + noise) / np.maximum(graph.degree, 1)[:, None]}

    return release


def outcome(release, tmp_path, claim):
    def train(graph, seed):
        return release(graph, np.random.default_rng(seed))

    case = Case(Looped(train, unit=claim.unit, releases=tuple(train(GRAPH, 0))), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("divided"), 2, 1e-4))


NODE, EDGE, PURE = Claim(2.0, 1e-4, Unit.NODE), Claim(1.5, 1e-5, Unit.UNDIRECTED_EDGE), Claim(4.0, 0.0, Unit.UNDIRECTED_EDGE)


@pytest.mark.parametrize(
    ("release", "claim"),
    [(exact_counts, NODE), *nightly((mean_of_neighbours("normal"), EDGE), (mean_of_neighbours("laplace"), PURE))],
)
def test_a_noisy_sum_divided_by_an_exact_count_is_refuted(release, claim, tmp_path):
    (bound,) = [b for b in outcome(release, tmp_path, claim).bounds if b.refuted]
    assert bound.epsilon > claim.epsilon
    assert "is multiplied or divided" in bound.method


@pytest.mark.parametrize("release", [noisy_counts, *nightly(public_counts)])
def test_a_noisy_sum_divided_by_a_noisy_or_public_count_is_not_refuted(release, tmp_path):
    assert not any(b.refuted for b in outcome(release, tmp_path, NODE).bounds)


@pytest.mark.parametrize(("count", "wide", "apart"), [(32, 1.2, 1.0), (8, 1.5, 0.5)])
def test_the_bound_for_clean_values_that_differ_is_that_of_an_event_that_trials_confirm(count, wide, apart):
    bound = Resized("normal", count, 1.0, wide, apart).epsilon(0.02)
    numbers = np.random.default_rng(0).standard_normal((400_000, count))
    narrow, moved = (numbers**2).sum(1), ((wide * numbers + apart / count**0.5) ** 2).sum(1)
    far = [(np.mean(moved > t), np.mean(narrow > t)) for t in np.quantile(narrow, np.linspace(0.1, 0.9999, 400))]
    counted = max(math.log((p - 0.02) / q) for p, q in far if p > 0.05 and q > 1e-4)
    assert counted <= bound + 0.1
    assert bound <= max(counted, math.log(1e4)) + 0.3
    assert bound <= true_epsilon(count, wide, apart, 0.02) * (1 + 1e-2)


def true_epsilon(count, wide, apart, delta):
    """By trials of the log-likelihood ratio, which only depends on the noise along the move and on the length of the rest."""
    random = np.random.default_rng(1)
    z = wide * random.standard_normal((400_000, count))
    z[:, 0] += apart
    far, near = stats.norm(0, wide), stats.norm(0, 1)
    ratios = far.logpdf(z[:, 0] - apart) - near.logpdf(z[:, 0]) + (far.logpdf(z[:, 1:]) - near.logpdf(z[:, 1:])).sum(1)
    grid = np.linspace(0, 40, 4001)
    excess = [np.mean(np.maximum(1 - np.exp(epsilon - ratios), 0)) for epsilon in grid]
    return float(grid[np.argmax(np.array(excess) <= delta)])
