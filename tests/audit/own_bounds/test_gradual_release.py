"""A noisy value that is released, and released once more with further noise, costs what the first release costs."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...conftest import small_graph

GRAPH, DELTA, STD, MORE = small_graph(), 1e-6, 8**0.5, 3.0
FINE = float(epsilon_of((2 / STD**2) ** 0.5, DELTA))  # an edge moves two counts by 1
TWICE = float(epsilon_of((2 / STD**2 + 2 / MORE**2) ** 0.5, DELTA))
WAYS = {
    "the noisy value": lambda counts, fine, noise, more: fine + more,
    "the noisy value and fresh data": lambda counts, fine, noise, more: fine + counts + more,
    "data with both noises": lambda counts, fine, noise, more: counts + (noise + more),
}


def audited(way, epsilon, tmp_path):
    def train(graph, seed):
        random = np.random.default_rng(seed)
        counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
        noise, more = random.normal(0, STD, counts.shape), random.normal(0, MORE, counts.shape)
        fine = counts + noise
        return {"coarse": WAYS[way](counts, fine, noise, more), "fine": fine}

    claim = Claim(epsilon, DELTA, exposes=("coarse", "fine"))
    case = Case(Looped(train, releases=claim.exposes, events=dp.GaussianDpEvent(2.0), claim=claim), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("gradual"), 2, 1e-4))


def refuting(found):
    return [bound.epsilon for bound in found.bounds if bound.refuted]


@pytest.mark.parametrize(("way", "true"), [("the noisy value", FINE), ("the noisy value and fresh data", TWICE)])
def test_the_true_epsilon_is_supported_and_a_smaller_claim_is_refuted_at_it(way, true, tmp_path):
    honest, false = audited(way, 1.001 * true, tmp_path / "honest"), audited(way, 0.9 * true, tmp_path / "false")
    assert refuting(honest) == []
    assert honest.covers.keys() == {"coarse", "fine"}
    assert refuting(false) == pytest.approx([true], rel=1e-3)
    assert refuting(false)[0] <= true


def test_two_values_that_share_a_noise_are_neither_refuted_nor_supported(tmp_path):
    """Here the epsilon is FINE too, but independent noises would cost TWICE as moves of one each."""
    found = audited("data with both noises", 0.9 * FINE, tmp_path)
    assert refuting(found) == []
    assert not found.covers
