"""A noisy value that is released, and released once more with further noise, costs what the first release costs."""

from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Release, Unit
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

    return of(train, epsilon, tmp_path)


def of(train, epsilon, tmp_path):
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


@pytest.mark.parametrize("second", ["of the same bits", "of other bits"])
def test_two_generators_with_one_seed_support_nothing(second, tmp_path):
    """Laplace noise from a generator with the seed of the first one is a function of the first noise."""

    def train(graph, seed):
        counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
        fine = counts + np.random.default_rng(seed).normal(0, STD, counts.shape)
        more = np.random.default_rng(seed if second == "of the same bits" else [seed, 1])
        return {"coarse": fine + more.laplace(0, MORE, counts.shape), "fine": fine}

    found = of(train, 1.001 * FINE, tmp_path)
    assert refuting(found) == []
    assert bool(found.covers) == (second == "of other bits")


def test_a_release_that_depends_on_which_arrays_are_asked_for_is_not_supported(tmp_path):
    """Without the further array, the noise of the released ones is smaller."""

    @dataclass(frozen=True)
    class Asked:
        keep: tuple[str, ...] = ("coarse", "fine")
        name = "asked"
        mode = "own"
        unit = Unit.UNDIRECTED_EDGE
        offers = ("coarse", "fine", "more")
        public = ()
        ledger = dp.GaussianDpEvent(2.0)

        @property
        def releases(self):
            return self.keep

        def with_noise(self, sigma):
            return self

        def printed(self, delta):
            return None

        def footprint(self, graph):
            return 1

        def fit(self, worlds, device="cpu"):
            runs = []
            for run in range(worlds.runs):
                one = worlds.removed(run)
                random = np.random.default_rng(int(one.seeds[0]))
                counts = one.graph.adjacency() @ np.eye(one.graph.classes)[one.graph.y]
                fine = counts + random.normal(0, STD if "more" in self.keep else STD / 4, counts.shape)
                coarse = fine + random.normal(0, MORE, counts.shape)
                runs.append({"coarse": coarse, "fine": fine, "more": np.ones(3)})
            return Release({name: np.stack([each[name] for each in runs]) for name in self.keep}, worlds.watch)

    claim = Claim(1.001 * FINE, DELTA, exposes=("coarse", "fine"))
    found = AUDITS["differential"].run(Setting(Case(Asked(), claim), GRAPH, Store(tmp_path), Key("asked"), 2, 1e-4))
    assert not found.covers
