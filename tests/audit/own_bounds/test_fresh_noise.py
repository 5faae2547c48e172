"""Moves that depend on earlier noisy values, as those of gradients do, are judged by runs with fresh noise."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy import stats

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.claim import Unit
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.searches import further_runs
from gnnaudit.audit.own_bounds.other_runs import ERROR, FIRST, RUNS, SEEDS, SHARE, ratios
from gnnaudit.audit.recorded.seeds import FURTHER
from gnnaudit.audit.second_look import confirmed
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.recorder import Draw
from gnnaudit.models.recorder.mechanisms.mechanism import Mechanism

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
STEPS, DELTA, CLIP = 10, 1e-3, 1.0


def descent(law, first, decay, clip=CLIP):
    """Full-batch gradient descent with clipped gradients. The noise shrinks by `decay` in each step."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        labels, weights = np.eye(graph.classes)[graph.y], np.zeros((graph.x.shape[1], graph.classes))
        noise = {"normal": rng.normal, "laplace": rng.laplace}[law]
        for step in range(STEPS):
            scores = graph.x @ weights
            errors = np.exp(scores - scores.max(1, keepdims=True))
            errors = errors / errors.sum(1, keepdims=True) - labels
            norms = np.linalg.norm(errors, axis=1) * np.linalg.norm(graph.x, axis=1)
            errors *= (np.minimum(1, clip / np.maximum(norms, 1e-9)) * graph.train)[:, None]
            weights = weights - 0.05 * (graph.x.T @ errors + noise(0, first * decay**step, weights.shape))
        return {"weights": weights}

    return train


def audited(train, ledger, epsilon, tmp_path, seed=0, delta=DELTA):
    claim = Claim(epsilon, delta, Unit.NODE)
    case = Case(Looped(train, unit=Unit.NODE, releases=("weights",), events=ledger, claim=claim, name="mine"), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("fresh", seed), alpha=0.05)).bounds


def true_epsilon(first, decay):
    return float(epsilon_of(math.sqrt(sum((first * decay**step) ** -2 for step in range(STEPS))), DELTA))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_noise_that_shrinks_from_step_to_step_is_refuted(seed, tmp_path):
    ledger = dp.SelfComposedDpEvent(dp.GaussianDpEvent(5.0), STEPS)
    bounds = audited(descent("normal", 5.0, 0.8), ledger, true_epsilon(5.0, 1.0), tmp_path, seed)
    refuting = [bound for bound in bounds if bound.refuted]
    assert refuting
    assert all(bound.epsilon <= true_epsilon(5.0, 0.8) for bound in refuting)
    assert any(f"{RUNS} runs with other seeds" in bound.method for bound in refuting)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 12))])
@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_a_claim_of_the_true_epsilon_is_not_refuted(decay, seed, tmp_path):
    events = [dp.GaussianDpEvent(5.0 * decay**step) for step in range(STEPS)]
    bounds = audited(descent("normal", 5.0, decay), dp.ComposedDpEvent(events), true_epsilon(5.0, decay), tmp_path, seed)
    assert not any(bound.refuted for bound in bounds)


def test_at_delta_zero_the_largest_ratio_is_the_bound(tmp_path):
    """A clipped gradient has length 1 or less, so the sum of its absolute values is at most the root of the number of weights."""
    most = math.sqrt(GRAPH.dim * GRAPH.classes)
    truth = sum(most / (8.0 * 0.8**step) for step in range(STEPS))
    bounds = audited(descent("laplace", 8.0, 0.8), dp.LaplaceDpEvent(1.0), truth, tmp_path, delta=0.0)
    assert not any(bound.refuted for bound in bounds)
    bounds = audited(descent("laplace", 8.0, 0.8), dp.LaplaceDpEvent(1.0), 3.0, tmp_path, delta=0.0)
    (refuting,) = [bound for bound in bounds if bound.refuted]
    assert f"in 1 of {RUNS} runs with other seeds" in refuting.method
    assert 3.0 < refuting.epsilon <= truth


def mechanism(law, noise, values=(), chances=None):
    clean = np.zeros(noise.shape) if chances is None else chances
    return Mechanism("line", Draw(law, noise, "line"), 2.0, clean, noise if values else 2.0 * noise, values=values)


@pytest.mark.parametrize("law", [stats.norm, stats.laplace])
def test_the_ratio_of_a_noisy_number_is_that_of_the_densities_in_both_worlds(law):
    noise, by = law.rvs(size=(40, 3), random_state=1), np.random.default_rng(0).normal(size=(40, 3))
    name = {stats.norm: "normal", stats.laplace: "laplace"}[law]
    noisy = 2.0 * noise
    expected = law.logpdf(noisy, 0.0, 2.0) - law.logpdf(noisy, 2.0 * by, 2.0)
    np.testing.assert_allclose(ratios(mechanism(name, noise), by), expected, atol=1e-12)


def test_the_ratio_of_a_report_is_that_of_the_probabilities_of_its_value():
    chances, by = np.tile([0.7, 0.3], (4, 1)), np.array([[-0.4, 0.4], [0.0, 0.0], [-0.4, 0.4], [0.1, -0.1]])
    report = mechanism("uniform", np.array([0.0, 1.0, 1.0, 0.0]), values=(0.0, 1.0), chances=chances)
    np.testing.assert_allclose(ratios(report, by), np.log([0.7 / 0.3, 1.0, 0.3 / 0.7, 0.7 / 0.8]), atol=1e-12)


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_the_bound_from_sampled_ratios_seldom_exceeds_the_true_epsilon(mu):
    """At a level of 1 in 20 in place of ERROR: 4,000 samples of the ratios of one Gaussian mechanism, N(mu^2 / 2, mu^2)."""
    assert ERROR < 0.05
    found = mu * np.random.default_rng(0).standard_normal((4000, RUNS)) + mu**2 / 2
    rank = RUNS // SHARE
    rate = stats.beta.ppf(0.05, rank, RUNS - rank + 1)
    epsilons = np.sort(found)[:, -rank] + math.log1p(-DELTA / rate)
    wrong = int((epsilons > epsilon_of(mu, DELTA)).sum())
    assert stats.binom.sf(wrong - 1, 4000, 0.05) > 1e-6


@pytest.mark.parametrize("decay", [0.8, 0.7])
def test_the_repetition_of_a_refutation_records_runs_of_its_own(decay, tmp_path):
    ledger, epsilon = dp.SelfComposedDpEvent(dp.GaussianDpEvent(5.0), STEPS), true_epsilon(5.0, 1.0)
    claim = Claim(epsilon, DELTA, Unit.NODE)
    model = Looped(descent("normal", 5.0, decay), unit=Unit.NODE, releases=("weights",), events=ledger, claim=claim, name="mine")
    setting = Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("again"), alpha=0.05)
    audit = AUDITS["differential"]
    first, again = confirmed(audit, audit.run(setting), setting)
    (one,), (other,) = ([bound for bound in outcome.bounds if bound.refuted] for outcome in (first, again))
    assert one.confirmed
    assert one.epsilon != other.epsilon
    assert max(one.epsilon, other.epsilon) <= true_epsilon(5.0, decay)


def test_runs_that_a_bound_counts_are_no_runs_that_chose_the_secret():
    fresh = set(range(FIRST, FIRST + RUNS))
    assert len(fresh) == RUNS
    assert fresh.isdisjoint({*FURTHER, *further_runs.RUNS, *further_runs.ASKED, *SEEDS, 0})
    assert set(FURTHER).isdisjoint({*further_runs.RUNS, *SEEDS, 0})
