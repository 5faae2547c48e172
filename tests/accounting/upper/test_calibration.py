"""Calibration: never above the claim, never a ten-thousandth more noise than needed, and a reason for every refusal."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import dp_accounting as dp
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.upper.accountants import upper
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.models.gap import published
from gnnaudit.models.vesper import published as vesper

from ...nightly import nightly


@dataclass(frozen=True)
class Recipe:
    """The smallest model that calibration accepts."""

    make: Callable[[float], dp.DpEvent]
    sigma: float = 1.0
    unit: Unit = Unit.NODE
    prints: Callable[[float, float], float] | None = None
    name: str = "recipe"

    @property
    def ledger(self):
        return self.make(self.sigma)

    def with_noise(self, sigma):
        return replace(self, sigma=sigma)

    def printed(self, delta):
        return self.prints(self.sigma, delta) if self.prints else None


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("GNNAUDIT_CACHE", "off")


def node_level(sigma):
    return events.composed(events.gaussian_hops(sigma, 2), events.dp_sgd(sigma, 0.0128, 781 * 3))


RECIPES = {
    "sampled Gaussian": (lambda s: events.dp_sgd(s, 0.01, 1000), 1.0, 1e-5),
    "node level": (node_level, 8.0, 1e-5),
    "seen batches": (lambda s: events.message_passing_seen(s, 2, 0.5, 64), 4.0, 1e-4),
    "sampled labels": (lambda s: events.noisy_argmax(10, s, 0.3, 100), 2.0, 1e-4),
    "one sample for unlike parts": (
        lambda s: events.on_sampled_nodes(0.1, events.gaussian_hops(s, 20), events.dp_sgd(s, 0.3, 40)),
        1.0,
        1e-4,
    ),
}


@pytest.mark.parametrize("name", nightly("node level", "sampled labels", "one sample for unlike parts", among=RECIPES))
def test_the_noise_is_the_smallest_that_keeps_the_claim(name):
    make, epsilon, delta = RECIPES[name]
    claim = Claim(epsilon, delta, Unit.NODE)
    sigma = calibrate(Recipe(make), claim).sigma
    assert name != "node level" or sigma == pytest.approx(0.9869, rel=1e-4)
    assert curve(make(sigma)).epsilon(delta) <= epsilon
    assert curve(make(sigma * (1 - 1e-4))).epsilon(delta) > epsilon


def test_known_noise():
    found = calibrate(Recipe(RECIPES["sampled Gaussian"][0]), Claim(1, 1e-5, Unit.NODE), relative=1e-3)
    assert found.sigma == pytest.approx(1.41463, rel=1e-3)


@pytest.mark.parametrize(
    ("hops", "epsilon", "sigma"), [(2, 0.25, 21.793054), (2, 1, 5.974640), (2, 4, 1.687897), (3, 8, 1.130917)]
)
def test_gaussian_hops_take_the_closed_form(hops, epsilon, sigma):
    found = calibrate(Recipe(lambda s: events.gaussian_hops(s, hops)), Claim(epsilon, 1e-6, Unit.NODE))
    assert found.sigma == pytest.approx(sigma, rel=3e-5)  # the known values were accepted within 1e-3 of the claim
    assert epsilon * (1 - 1e-8) < published.gap_edge_coded(found.sigma, hops, 1e-6) <= epsilon


def test_a_paper_is_calibrated_by_its_own_accounting():
    def prints(sigma, delta):
        return published.progap_edge_coded(sigma, 2, delta)

    for epsilon, sigma in ((0.25, 23.560137), (1, 6.407631), (4, 1.792980)):
        recipe = Recipe(lambda s: events.gaussian_hops(s, 2), unit=Unit.DIRECTED_EDGE, prints=prints)
        found = calibrate(recipe, Claim(epsilon, 1e-6, Unit.UNDIRECTED_EDGE))
        assert found.sigma == pytest.approx(sigma, rel=2e-4)
        assert prints(found.sigma, 1e-6) <= epsilon


@pytest.mark.nightly
def test_a_paper_with_a_sampled_bound_is_calibrated_by_its_own_accounting():
    rate = events.inclusion(2000, 64, 10, 1)

    def prints(sigma, delta):
        return vesper.vesper_epsilon(sigma, 1, rate, 640, delta)

    recipe = Recipe(lambda s: events.message_passing_seen(s, 1, rate, 640), prints=prints)
    assert calibrate(recipe, Claim(8, 2e-4, Unit.NODE)).sigma == pytest.approx(1.9524, rel=2e-4)


def test_no_claim_is_no_noise():
    assert calibrate(Recipe(lambda s: events.gaussian_hops(s, 2)), Claim(math.inf, 0.0, Unit.NODE)).sigma == 0.0


def test_local_budgets_at_delta_zero():
    def make(sigma):
        total = 1 / sigma if sigma else math.inf
        return events.composed(events.multi_bit(total / 2), events.randomised_response(total / 2, 7))

    found = calibrate(Recipe(make, unit=Unit.FEATURES), Claim(3.0, 0.0, Unit.FEATURES))
    assert 1 / found.sigma == pytest.approx(3.0, rel=1e-8)
    assert 1 / found.sigma <= 3.0


@pytest.mark.nightly
def test_without_a_loss_distribution_the_best_valid_bound_is_taken():
    recipe = Recipe(lambda s: events.repeated(dp.SampledWithoutReplacementDpEvent(1000, 20, dp.GaussianDpEvent(s)), 10))
    claim = Claim(1.0, 1e-5, Unit.NODE, Relation.REPLACE)
    sigma = calibrate(recipe, claim, relative=1e-2).sigma
    by_renyi = [r.epsilon for r in upper(recipe.make(sigma), claim) if r.is_upper_bound and r.epsilon is not None]
    assert 0.97 < min(by_renyi) <= 1.0


def test_bounded_range_selection_uses_the_tighter_of_two_bounds():
    recipe = Recipe(lambda s: events.page_rank_exponential(1 / s, 4, 70) if s else dp.NonPrivateDpEvent())
    claim = Claim(4.0, 1e-3, Unit.NODE)
    found = calibrate(recipe, claim)
    values = [r.epsilon for r in upper(found.ledger, claim) if r.is_upper_bound and r.epsilon is not None]
    assert 4.0 * (1 - 1e-3) < min(values) <= 4.0


def test_another_unit_is_refused_with_the_way_out():
    recipe = Recipe(lambda s: events.gaussian_hops(s, 2), unit=Unit.FEATURES, name="lpgnn")
    said = 'lpgnn protects a node\'s own features; this plan claims undirected-edge privacy. Use unit = "features"'
    with pytest.raises(ValueError, match=re.escape(said)):
        calibrate(recipe, Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE))


@pytest.mark.parametrize(
    ("model", "claim", "said"),
    [
        (None, Claim(1.0, 1e-5), "model=None: lacks name, unit, ledger, with_noise, printed."),
        (Recipe, Claim(1.0, 1e-5), "model=<class .*: is a class."),
        (Recipe(lambda s: events.gaussian(s)), 1.0, "claim=1.0: must be a Claim"),
        (Recipe(lambda s: dp.GaussianDpEvent(-s)), Claim(1.0, 1e-5, Unit.NODE), "ledger: GaussianDpEvent: noise_multiplier=-1.0"),
    ],
)
def test_what_is_no_model_or_no_claim_is_refused(model, claim, said):
    with pytest.raises(ValueError, match=f"^{said}.*$"):
        calibrate(model, claim)


def test_claims_that_no_noise_can_keep_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="epsilon is inf"):
        calibrate(Recipe(lambda s: events.gaussian_hops(s, 2)), Claim(1.0, 0.0, Unit.NODE))
    fixed = Recipe(lambda s: events.composed(events.gaussian_hops(s, 2), events.PureDpEvent(2.0)))
    with pytest.raises(ValueError, match="epsilon is"):
        calibrate(fixed, Claim(1.0, 1e-6, Unit.NODE))
    with pytest.raises(ValueError, match=r"epsilon is 0\.\d+ at every noise multiplier"):
        calibrate(Recipe(lambda s: dp.GaussianDpEvent(20.0)), Claim(1.0, 1e-6, Unit.NODE))
    with pytest.raises(ValueError, match="no accountant bounds the ledger"):
        calibrate(Recipe(lambda s: dp.UnsupportedDpEvent()), Claim(1.0, 1e-5, Unit.NODE))
    with pytest.raises(ValueError, match="relative=0"):
        calibrate(Recipe(node_level), Claim(1.0, 1e-5, Unit.NODE), relative=0)


def test_the_second_calibration_is_read_from_disk_and_tried_at_two_noise_levels(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNAUDIT_CACHE", str(tmp_path))
    calls = []

    def make(sigma):
        calls.append(sigma)
        return events.dp_sgd(sigma, 0.05, 20)

    claim = Claim(1.0, 1e-5, Unit.NODE)
    first = calibrate(Recipe(make), claim).sigma
    assert len(calls) > 4
    calls.clear()
    assert calibrate(Recipe(make), claim).sigma == first
    assert {1.0, 2.0, first} < set(calls)
    assert len(set(calls)) == 4
