"""Paths past the noise that are open only where the noise is rare: no recorded run may show them."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.searches.rare_noise import Rare
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.recorder.mechanisms.mechanism import Mechanism

from ....nightly import nightly

GRAPH = load("campus:n=120:degree=6")
SIGMA = 3.0
CLAIM = Claim(1.01 * float(epsilon_of(2**0.5 / SIGMA, 1e-5)), 1e-5)  # an undirected edge moves two rows by 1


def votes(graph):
    return graph.adjacency() @ (np.eye(graph.classes)[graph.y] * graph.train[:, None])


def exact_if_all_are_small(graph, seed):
    """A node of which all noisy votes are below -2 gets the exact majority: Phi(-2 / 3)^6 = 2.6e-4 for a node without votes."""
    exact = votes(graph)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    return {"label": np.where(noisy.max(1) > -2.0, noisy.argmax(1), exact.argmax(1))}


def exact_if_the_sum_is_off(graph, seed):
    """The exact counts of the classes, if their noisy sum is 40 times the standard deviation of a count too large."""
    exact = votes(graph).sum(0)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    return {"counts": exact if noisy.sum() > exact.sum() + 40 * SIGMA else noisy}


def exact_if_near_zero(graph, seed):
    """A noisy row that is shorter than 1.5 is replaced by the exact row: P(chi^2 of 6 < .25) = 2.2e-3 without neighbours."""
    exact = votes(graph)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    return {"rows": np.where(np.linalg.norm(noisy, axis=1, keepdims=True) < 1.5, exact, noisy)}


def zero_if_small(graph, seed):
    """The same with zeros in place of the exact row."""
    exact = votes(graph)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    return {"rows": np.where(np.linalg.norm(noisy, axis=1, keepdims=True) < 1.5, 0.0, noisy)}


def confident(graph, seed):
    """Labels of nodes whose largest noisy vote exceeds a bar, and -1 for others."""
    exact = votes(graph)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    return {"label": np.where(noisy.max(1) > 4.0, noisy.argmax(1), -1)}


def audited(train, claim, tmp_path):
    arrays = tuple(train(GRAPH, 0))
    case = Case(Looped(train, releases=arrays), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rare"), 3, 1e-4))


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("train", [exact_if_all_are_small, exact_if_near_zero])
def test_a_path_that_rare_noise_opens_with_a_probability_above_delta_is_not_supported(train, tmp_path):
    found = audited(train, CLAIM, tmp_path)
    assert not found.covers
    assert any("has a probability of about" in str(condition) for bound in found.bounds for condition in bound.conditions)


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("train", [zero_if_small, confident, *nightly(exact_if_the_sum_is_off)])
def test_a_rare_path_that_delta_permits_and_a_function_of_noisy_values_keep_their_support(train, tmp_path):
    """The noise of the sum of six counts exceeds 40 standard deviations of one with a probability of 3e-60."""
    found = audited(train, CLAIM, tmp_path)
    assert set(found.covers) == set(train(GRAPH, 0))
    assert not any(bound.refuted for bound in found.bounds)


@pytest.mark.usefixtures("built_graphs")
def test_at_delta_zero_no_path_is_too_rare(tmp_path):
    def laplace(graph, seed):
        exact = votes(graph).sum(0)
        noisy = exact + np.random.default_rng(seed).laplace(0, 2.0, exact.shape)
        return {"counts": exact if noisy.min() > exact.max() + 8 else noisy}

    assert not audited(laplace, Claim(1.01, 0.0), tmp_path).covers


@pytest.mark.usefixtures("built_graphs")
def test_the_probability_is_that_of_the_rare_noise(tmp_path):
    """One noisy number of edges, and the exact one if the noise is below -4 times its scale."""

    def train(graph, seed):
        exact = np.array([float(graph.edges.shape[1])])
        noisy = exact + np.random.default_rng(seed).normal(0, 10.0, 1)
        return {"edges": np.where(noisy < exact - 40, exact, noisy)}

    found = audited(train, Claim(0.5, 1e-5), tmp_path)
    said = " ".join(str(c) for bound in found.bounds for c in bound.conditions)
    assert float(said.split("a probability of about ")[1].split()[0].strip(",);")) == pytest.approx(stats.norm.cdf(-4), rel=0.1)


def exact_on_a_tie(graph, seed):
    """The exact majority decides if the two largest noisy votes of a node differ by less than 2e-4, which of two votes happens
    with a probability of up to 3.8e-5.
    """
    exact = votes(graph)
    noisy = exact + np.random.default_rng(seed).normal(0, SIGMA, exact.shape)
    largest = np.sort(noisy, 1)
    return {"label": np.where(largest[:, -1] - largest[:, -2] < 2e-4, exact.argmax(1), noisy.argmax(1))}


@pytest.mark.usefixtures("built_graphs")
def test_noisy_values_that_lie_near_one_another_by_chance_are_looked_for(tmp_path):
    found = audited(exact_on_a_tie, CLAIM, tmp_path)
    assert not found.covers
    assert any("of one another" in str(condition) for bound in found.bounds for condition in bound.conditions)


@pytest.mark.parametrize("kind", [Rare(), Rare(common=True)])
def test_the_probability_of_values_near_one_value_is_that_of_samples(kind):
    """Of three noisy values of different scales. That of a common value is a lower limit, and near the truth for small widths."""
    clean, scale = np.array([0.3, 1.0, -0.5]), np.array([1.0, 2.0, 0.7])
    draw = SimpleNamespace(law="normal")
    first = SimpleNamespace(mechanisms=[Mechanism("", draw, scale, clean, clean.copy())])
    found = kind.chance(first, [(0, 0), (0, 1), (0, 2)], 0.1)
    drawn = clean + scale * np.random.default_rng(5).standard_normal((2_000_000, 3))
    near = np.abs(drawn) <= 0.1 * scale if not kind.common else np.ptp(drawn, axis=1, keepdims=True) <= 2 * 0.1 * scale.min()
    share = near.all(1).mean()
    assert share / 3 < found < 3 * share
