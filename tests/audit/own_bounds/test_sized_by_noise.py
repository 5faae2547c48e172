"""Noise whose size an earlier noisy value decides. One run then shows what it costs with one size, and not what it costs on
average over runs. At delta = 0 each run can refute a claim; at a larger delta only the average can.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import delta_of
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...nightly import nightly

GRAPH, DELTA, FIRST, SMALL, LARGE = load("campus:n=120:degree=6"), 1e-3, 20.0, 1.0, 4.0


def of_two_sizes(graph, seed):
    """Two noisy numbers of edges. Whether the first one is odd, which half of all runs are, decides the noise of the second."""
    rng, edges = np.random.default_rng(seed), graph.edges.shape[1]
    one = edges + rng.normal(0, FIRST)
    two = edges + rng.normal(0, SMALL if np.floor(one) % 2 else LARGE)
    return {"one": np.array([one]), "two": np.array([two])}


def true_epsilon():
    """Half of the runs have either size, with either move: the delta of the pair is the mean of both."""
    mus = [np.hypot(1 / FIRST, 1 / size) for size in (SMALL, LARGE)]
    return float(brentq(lambda epsilon: np.mean([delta_of(mu, epsilon) for mu in mus]) - DELTA, 0.1, 9))


def stars(clipped):
    """The noise of a number of two-stars follows a noisy largest degree. It is large enough only if degrees are clipped at it."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        bound = graph.degree.max() + rng.laplace(0, 5.0)
        most = int(np.clip(np.round(bound), 2, graph.nodes - 1))
        degree = np.minimum(graph.degree, most) if clipped else graph.degree
        found = (degree * (degree - 1) / 2).sum() + rng.laplace() * 4 * (most - 1)
        return {"one": np.array([bound]), "two": np.array([found])}

    return train


def audited(train, claim, seed):
    case = Case(Looped(train, releases=("one", "two")), replace(claim, exposes=("one", "two")))
    return differential(Setting(case, GRAPH, None, Key("sized", seed), 3, 1e-4))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
@pytest.mark.usefixtures("thorough")
def test_a_run_with_little_noise_does_not_refute_a_claim_about_the_average(seed):
    truth = true_epsilon()
    outcome = audited(of_two_sizes, Claim(1.01 * truth, DELTA), seed)
    assert not any(bound.refuted for bound in outcome.bounds)
    assert max(bound.epsilon for bound in outcome.bounds) <= truth


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
@pytest.mark.parametrize("clipped", [True, False])
@pytest.mark.usefixtures("thorough")
def test_noise_that_is_too_small_in_some_runs_gets_no_support(clipped, seed):
    """An edge costs at most .2 and, with clipped degrees, 2 (most - 1) / (4 (most - 1)) = .5."""
    outcome = audited(stars(clipped), Claim(0.7, 0.0), seed)
    refuted = any(bound.refuted for bound in outcome.bounds)
    if clipped:
        assert not refuted
        assert set(outcome.covers) == {"one", "two"}
    else:
        assert refuted or not outcome.covers
