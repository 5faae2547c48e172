"""The test of the law of released noise, and the smallest factor by which noise must be too small until a claim is refuted."""

import math

import numpy as np
import pytest

from gnnaudit import Claim, Looped
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds import released_noise
from gnnaudit.audit.own_bounds.released_noise import from_release, smallest_factor
from gnnaudit.audit.recorded.laws import LARGEST
from gnnaudit.audit.storage.store import Store

from ...conftest import small_graph

CLAIM = Claim(2.0, 1e-5)
COSTS = {
    "of Laplace noise": (lambda factor: 0.3 * factor, 2.0 / 0.3),
    "of Gaussian noise": (lambda factor: float(epsilon_of(0.17 * factor, 1e-5)), mu_of_claim(CLAIM) / 0.17),
    "infinite from a factor on": (lambda factor: math.inf if factor >= 3.3 else 0.5, 3.3),
    "a step": (lambda factor: 2.5 if factor >= 37.0 else 1.0, 37.0),
    "above the claim by little": (lambda factor: 2.0 * factor**1e-3, 1.0),
}


@pytest.mark.parametrize("name", COSTS)
def test_the_smallest_factor_is_that_of_the_closed_form_and_costs_more_than_the_claim(name):
    cost, truth = COSTS[name]
    calls = []

    def counted(factor):
        calls.append(factor)
        return cost(factor)

    found = smallest_factor(counted, CLAIM.epsilon)
    assert truth <= found <= truth * 1.0011
    assert cost(found) > CLAIM.epsilon
    assert len(calls) <= 26


def test_a_claim_that_is_exceeded_has_the_factor_1_and_one_that_nothing_exceeds_none():
    assert smallest_factor(lambda factor: 2.1 * factor, CLAIM.epsilon) == 1.0
    assert math.isinf(smallest_factor(lambda factor: 1.9 * factor / LARGEST, CLAIM.epsilon))


@pytest.mark.parametrize(("p_value", "said"), [(0.004, False), (0.9e-4, True)])
def test_noise_that_looks_unlike_its_law_by_a_chance_of_one_in_250_withdraws_nothing(p_value, said, tmp_path, monkeypatch):
    """The level is that of every check of a condition, and not that of tests that refute."""
    monkeypatch.setattr(released_noise, "law_p_value", lambda found: p_value)

    def train(graph, seed):
        counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
        return {"counts": counts + 2.0 * np.random.default_rng(seed).standard_normal(counts.shape)}

    claim = Claim(float(epsilon_of(0.5**0.5, 1e-5)) * 1.001, 1e-5)
    case = Case(Looped(train, releases=("counts",), claim=claim), claim)
    found = from_release(Setting(case, small_graph(), Store(tmp_path), Key("law"), 2, alpha=0.05))
    assert not any(bound.refuted for bound in found.bounds)
    assert bool(found.covers) != said
    assert ("does not follow the requested law" in found.reach) == said
