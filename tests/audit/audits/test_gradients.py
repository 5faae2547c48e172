"""The gradient canary: its distribution against a simulation of DP-SGD, faults that it detects, honest recipes that pass."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import kstest, norm

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits import gradients
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.games.canaries import own_features
from gnnaudit.audit.instruments.reach import weaker
from gnnaudit.audit.instruments.reported_run import Noisy, recorded
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph.graph import Mask, Worlds

CLAIM = Claim(4.0, 1e-3, Unit.NODE)
DP_MLP = Mlp(layers=1, unit=Unit.NODE, train_nodes=20, batch=10, epochs=5)


@dataclasses.dataclass(frozen=True)
class Quiet(Mlp):
    """Adds half of the noise that its ledger counts."""

    def fit(self, worlds, device="cpu"):
        return Mlp.fit(dataclasses.replace(self, sigma=self.sigma / 2), worlds, device)


@dataclasses.dataclass(frozen=True)
class Unclipped(Mlp):
    """Clips gradients at four times the norm that its noise covers."""

    def fit(self, worlds, device="cpu"):
        loud = dataclasses.replace(self, clip=4 * self.clip, sigma=self.sigma / 4)
        return Mlp.fit(loud, worlds, device)


@dataclasses.dataclass(frozen=True)
class Everyone(Mlp):
    """Trains on every node in every step; its ledger counts secret batches."""

    def fit(self, worlds, device="cpu"):
        whole = dataclasses.replace(self, batch=self.train_nodes, epochs=self.epochs * (self.train_nodes // self.batch))
        return Mlp.fit(whole, worlds, device)


def look(model, graph, tmp_path, rounds=5, alpha=1e-4):
    case = Case(model, CLAIM)
    assert AUDITS["gradients"].refuses(case) is None
    return AUDITS["gradients"].run(Setting(case, graph, Store(tmp_path), Key("gradients"), rounds, alpha)).bounds[0]


def calibrated(kind):
    honest = calibrate(DP_MLP, CLAIM)
    return kind(**{f.name: getattr(honest, f.name) for f in dataclasses.fields(honest)})


@pytest.mark.parametrize("fault", [Quiet, Unclipped, Everyone])
@pytest.mark.nightly
def test_a_training_that_is_less_private_than_its_ledger_is_refuted(fault, graph, tmp_path):
    assert look(calibrated(fault), graph, tmp_path).refuted


@pytest.mark.nightly
def test_an_honest_training_passes(graph, tmp_path):
    assert not look(calibrated(Mlp), graph, tmp_path).refuted  # refuted for one seed in ten thousand at most


@pytest.mark.nightly
def test_dpar_and_gap_at_node_level_pass(graph, tmp_path):
    dpar = calibrate(Dpar(train_nodes=20, sources=0, epochs=10), CLAIM)
    gap = calibrate(Gap(unit=Unit.NODE, train_nodes=20, batch=10, epochs=2), CLAIM)
    assert not look(dpar, graph, tmp_path, rounds=2).refuted
    assert not look(gap, graph, tmp_path, rounds=2).refuted


def test_scores_without_amplification_are_normal_with_sd_one(graph):
    """One step on all nodes of a linear model moves a canary's column by its clipped gradient, m sds of the noise."""
    model = dataclasses.replace(DP_MLP, sigma=2.0, batch=20, epochs=1)
    wider, items = own_features(graph, 600, gradients.SIZE)
    seen = gradients.play(Case(model, CLAIM), wider, items, Key("law"), "cpu")
    assert seen.noise == model.sigma
    np.testing.assert_allclose(seen.moves, 1 / model.sigma, rtol=0.01)
    there = np.pad(seen.bits, (0, 400))
    for bit in (False, True):
        assert kstest(seen.scores[there == bit], norm(bit / model.sigma).cdf).pvalue > 1e-6  # fails once in a million honest runs


def test_scores_of_secret_batches_follow_the_mixture_that_the_theorem_is_about(graph):
    model = dataclasses.replace(DP_MLP, sigma=0.5, batch=5, epochs=1)
    rate, steps = 0.25, 4
    wider, items = own_features(graph, 600, gradients.SIZE)
    seen = gradients.play(Case(model, CLAIM), wider, items, Key("mixture"), "cpu")
    there, rng = np.pad(seen.bits, (0, 400)), np.random.default_rng(0)
    for bit in (False, True):
        drawn = bit & (rng.random((100_000, steps)) < rate)
        noisy = drawn + model.sigma * rng.standard_normal(drawn.shape)
        simulated = np.log1p(-rate + rate * np.exp((noisy - 0.5) / model.sigma**2)).sum(1)
        assert kstest(seen.scores[there == bit], simulated).pvalue > 1e-6  # fails once in a million honest runs


def test_a_canary_that_must_join_adds_its_clipped_gradient_in_every_step(graph):
    model = dataclasses.replace(DP_MLP, layers=3, sigma=2.0)
    wider, items = own_features(graph, 1, gradients.SIZE)
    with_it, without = (
        Worlds(wider, np.array([5], dtype=np.uint64), items, nodes=Mask(items, np.array([[b]]))) for b in (True, False)
    )
    _, run = recorded(model, with_it)
    _, joined = recorded(model, with_it, "cpu", run.releases, gradients.joining(wider, items))
    _, absent = recorded(model, without, "cpu", run.releases)
    assert np.diff([r.samples["mlp"][0].size for r in (absent, joined)]) == 1
    moves = [np.linalg.norm(a.clean - b.clean) for a, b in zip(joined.releases, absent.releases, strict=True)]
    np.testing.assert_allclose(moves, model.clip, rtol=1e-4)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0), (2, 3)])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_features_of_a_layer_are_found_beside_further_inputs(axis, before, after):
    """A column of ones, or other inputs of all nodes, have a gradient whichever planted nodes are there."""
    random, dim, columns = np.random.default_rng(0), 30, np.arange(10, 30)
    there = random.random(20) < 0.4
    releases = []
    for _ in range(3):
        gradient = random.standard_normal((5, before + dim + after))
        gradient[:, before + columns[~there]] = 0
        gradient = gradient if axis else gradient.T
        releases.append(
            Noisy("step", ((1, *gradient.shape), (1, 5)), np.append(gradient.ravel(), np.ones(5)), np.zeros(5), 1.0, 1, 0)
        )
    (place,) = gradients.of_features(releases, dim, columns, there).values()
    assert place.axis == axis
    assert np.array_equal(place.at, before + columns)
    assert not gradients.of_features(releases, dim, columns, ~there)


def test_canaries_worth_half_of_mu_notice_noise_that_is_too_small_by_twice_as_much():
    claimed = float(mu_of_claim(CLAIM))
    bound = Bound(0.0, 0.05, "ledger", "test", (10, 10), False, None, 1.5, 9.0)
    half = weaker(bound, CLAIM, claimed / 2)
    assert half.notices == pytest.approx(3.0)
    assert half.reach == pytest.approx(float(epsilon_of(3 * claimed, CLAIM.delta)))
    assert weaker(bound, CLAIM, 2 * claimed).notices == pytest.approx(1.5)
    assert weaker(bound, CLAIM, 0.0).notices == np.inf


def test_what_it_cannot_look_at_is_said():
    edge = Claim(4.0, 1e-3, Unit.UNDIRECTED_EDGE)
    assert "does not declare ClippedGradients. A model declares it so: set `clip`" in (
        gradients.refuses(Case(object_named("x"), CLAIM)) or ""
    )
    assert "not for claims about an undirected edge" in (AUDITS["gradients"].refuses(Case(Mlp(), edge)) or "")
    assert "another takes its place" in (gradients.refuses(Case(Dpar(mode="paper", batch=60), CLAIM)) or "")


def object_named(name):
    return type("Recipe", (), {"name": name, "mode": "sound"})()
