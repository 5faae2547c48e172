"""`gradients` audits a user's DP-SGD that declares its clipped gradients, and tells another model how to declare them."""

import dataclasses
import sys
from pathlib import Path

import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from own_dpsgd import SoftmaxDpSgd

CLAIM = Claim(4.0, 1e-3, Unit.NODE)
RECIPE = SoftmaxDpSgd(batch=5.0, train_nodes=20, steps=20)


class Quiet(SoftmaxDpSgd):
    """Draws a third of the noise that its ledger charges for."""

    def fit(self, worlds, device="cpu"):
        return SoftmaxDpSgd.fit(dataclasses.replace(self, sigma=self.sigma / 3), worlds, device)


class Plain(SoftmaxDpSgd):
    """Does not declare how a node joins a batch."""

    inclusion_chance = None


def bound(kind, graph, folder):
    model = kind(**dataclasses.asdict(calibrate(RECIPE, CLAIM)))
    case = Case(model, CLAIM)
    assert AUDITS["gradients"].refuses(case) is None
    return AUDITS["gradients"].run(Setting(case, graph, Store(folder), Key("own"), 5, 1e-4)).bounds[0]


@pytest.mark.nightly
def test_less_noise_than_charged_is_refuted(graph, tmp_path):
    assert bound(Quiet, graph, tmp_path / "quiet").refuted


@pytest.mark.nightly
def test_honest_noise_is_not_refuted(graph, tmp_path):
    assert not bound(SoftmaxDpSgd, graph, tmp_path / "honest").refuted  # refuted for one seed in ten thousand at most


@pytest.mark.parametrize("name", ["gradients", "votes", "rows", "residual", "game"])
def test_a_refusal_names_the_missing_capability_and_how_it_is_declared(name):
    refusal = AUDITS[name].refuses(Case(Plain(), CLAIM)) or ""
    assert refusal.startswith("softmax-dpsgd does not declare ")
    assert "A model declares it so: " in refusal


def test_replay_couples_the_batches_of_a_model_whose_coins_follow_places(graph, tmp_path):
    """Without a node, the later coins of its generator would go to other nodes; the repetition gives each node its former
    coin.
    """
    model = calibrate(RECIPE, CLAIM)
    found = AUDITS["replay"].run(Setting(Case(model, CLAIM), graph, Store(tmp_path), Key("own"), 1, 1e-4))
    assert not any(b.refuted for b in found.bounds), found.reach


class Forgetful(SoftmaxDpSgd):
    """Clips at three times the norm that its ledger charges for."""

    def train(self, x, y, classes, random):
        return SoftmaxDpSgd.train(dataclasses.replace(self, clip=3 * self.clip, sigma=self.sigma / 3), x, y, classes, random)


def test_replay_still_sees_a_gradient_that_is_too_long(graph, tmp_path):
    model = Forgetful(**dataclasses.asdict(calibrate(RECIPE, CLAIM)))
    found = AUDITS["replay"].run(Setting(Case(model, CLAIM), graph, Store(tmp_path), Key("own"), 1, 1e-4))
    assert any(b.refuted for b in found.bounds)
