"""Report-noisy-max with Laplace and with normal noise: if the noisy values cost more than the claim, and the run uses them only
to pick the largest, the index of the largest counts.
"""

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
EDGES = GRAPH.edges.shape[1]
ABOVE = 1.5  # how far one number lies above the other

# The index of the largest of two noisy numbers is 1 with the probability that the difference of two noise numbers exceeds a gap.
BEYOND = {
    "laplace": lambda gap: 1 - np.exp(-gap) * (1 + gap / 2) / 2 if gap > 0 else np.exp(gap) * (1 - gap / 2) / 2,
    "normal": lambda gap: stats.norm.cdf(gap / np.sqrt(2)),
}


def truth(law, factor=1.0):
    """The epsilon of the index at delta 0: the larger log-likelihood ratio of its two values."""
    before, after = BEYOND[law](factor * ABOVE), BEYOND[law](factor * (ABOVE - 1))
    return max(abs(np.log(before / after)), abs(np.log((1 - before) / (1 - after))))


def by_numpy(law):
    def winner(graph, seed):
        rng = np.random.default_rng(seed)
        return {"winner": np.array([np.argmax(two(graph) + getattr(rng, law)(size=2))])}

    return winner


def by_torch(law):
    def winner(graph, seed):
        torch.manual_seed(seed)
        noise = torch.randn(2, dtype=torch.float64) if law == "normal" else torch.distributions.Laplace(0.0, 1.0).sample((2,))
        return {"winner": torch.argmax(torch.from_numpy(two(graph)) + noise).reshape(1).numpy()}

    return winner


def two(graph):
    """Two numbers, of which an edge of GRAPH moves the second by 1. On all other graphs no edge moves it."""
    return np.array([0.0, ABOVE + np.clip(graph.edges.shape[1] - EDGES, -1.0, 0.0)])


def with_value(law):
    """Also releases the largest value, so the index is not all."""

    def winner(graph, seed):
        noisy = two(graph) + getattr(np.random.default_rng(seed), law)(size=2)
        return {"winner": np.array([np.argmax(noisy)]), "value": np.array([np.max(noisy)])}

    return winner


def audited(train, claim, tmp_path, arrays=("winner",)):
    case = Case(Looped(train, unit=claim.unit, releases=arrays), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("largest"), 3, 1e-4))


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("law", BEYOND)
@pytest.mark.parametrize("way", [by_numpy, *nightly(by_torch)])
def test_a_claim_just_above_the_truth_stands_and_one_just_below_falls(way, law, tmp_path):
    epsilon = truth(law)
    fine = audited(way(law), Claim(1.02 * epsilon, 0.0), tmp_path / "fine")
    assert not any(bound.refuted for bound in fine.bounds)
    assert set(fine.covers) == {"winner"}
    broken = audited(way(law), Claim(0.98 * epsilon, 0.0), tmp_path / "broken")
    assert [bound.epsilon for bound in broken.bounds if bound.refuted] == [pytest.approx(epsilon, rel=1e-3)]


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("law", BEYOND)
def test_the_smallest_noise_that_would_be_noticed_is_that_at_which_the_index_costs_the_claim(law, tmp_path):
    claim = Claim(1.2 * truth(law), 0.0)
    factor = optimize.brentq(lambda f: truth(law, f) - claim.epsilon, 1, 3)
    found = audited(by_numpy(law), claim, tmp_path)
    assert min(bound.notices for bound in found.bounds) == pytest.approx(factor, rel=3e-3)


@pytest.mark.usefixtures("built_graphs")
def test_an_index_beside_the_value_does_not_count_alone(tmp_path):
    found = audited(with_value("laplace"), Claim(0.9 * truth("laplace"), 0.0), tmp_path, ("winner", "value"))
    assert not any("pick" in bound.method for bound in found.bounds)


def classes(graph, seed):
    """Which of six classes has most members in training: a node moves one count by 1."""
    counts = np.bincount(graph.y[graph.train], minlength=graph.classes)
    return {"winner": np.array([(counts + np.random.default_rng(seed).laplace(0, 0.5, graph.classes)).argmax()])}


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize(("epsilon", "refuted"), [(2.05, False), (0.9, True)])
def test_a_count_that_falls_by_one_costs_its_move_over_the_scale_at_most(epsilon, refuted, tmp_path):
    """Report-noisy-max of counts that all fall is (move / scale)-private for a node (Dwork and Roth 2014, Claim 3.9)."""
    found = audited(classes, Claim(epsilon, 0.0, Unit.NODE), tmp_path)
    assert any(bound.refuted for bound in found.bounds) == refuted
    assert max(bound.epsilon for bound in found.bounds) <= 2.0
