"""All releases of one node added up: near the truth on an honest model, above the claim on a faulty one."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.accounting.lower.residuals import Moves, added_up
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.pld import epsilon_at_least
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults.in_training import PageRankNotClipped
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.data.loading import load
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap

from ...nightly import nightly

CLAIM = Claim(4.0, 1e-5, Unit.NODE)
MU = mu_of_claim(CLAIM)


def noise(seed, *sizes, scale=1.0):
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal(n) for n in sizes]


def bound(residuals, strengths, claim=CLAIM, alpha=0.05):
    moves = [s if isinstance(s, Moves) else Moves(s) for s in strengths]
    return added_up(residuals, moves, claim, alpha, worth=lambda factor: factor * claim.epsilon)


@pytest.mark.nightly
def test_a_mechanism_that_uses_all_of_its_claim_is_bounded_just_below_it_and_never_refuted_more_often_than_alpha():
    seen = [bound(noise(seed, 4000, 1000), [MU] * 3) for seed in range(400)]
    assert np.median([b.epsilon for b in seen]) == pytest.approx(4.0, rel=0.05)
    alarms = sum(b.refuted for b in seen)
    assert alarms <= 400 * 0.05 + 3 * np.sqrt(400 * 0.05 * 0.95)
    assert alarms > 0  # exact, not conservative


def test_noise_that_is_too_small_by_the_root_of_two_is_refuted_every_time():
    seen = [bound(noise(seed, 4000, 1000, scale=2**-0.5), [MU] * 3, alpha=1e-4) for seed in range(50)]
    assert all(b.refuted for b in seen)
    assert np.median([b.epsilon for b in seen]) == pytest.approx(float(epsilon_of(2**0.5 * MU, CLAIM.delta)), rel=0.05)


@pytest.mark.parametrize(
    "residuals",
    [
        [*noise(1, 4000), *noise(2, 4000, scale=0.7)],  # two sizes of noise
        [np.random.default_rng(3).laplace(size=8000)],
        [np.tile(noise(4, 2000)[0], 2)],
        [np.cumsum(noise(5, 4000)[0]) / 60],
    ],
)
def test_what_is_no_independent_normal_noise_of_one_size_withdraws_the_bound(residuals):
    found = bound(residuals, [5 * MU] * 3)
    assert found.withdrawn is not None
    assert not found.refuted
    assert np.isinf(found.notices)


def test_histories_that_move_differently_withdraw_the_bound():
    assert bound(noise(6, 4000), [MU, 2 * MU]).withdrawn is not None
    assert bound(noise(6, 4000), [MU, 1.01 * MU]).withdrawn is None


@pytest.mark.parametrize(("mu", "step", "rate"), [*nightly((0.0, 0.5, 0.2), (1.5, 0.0, 0.5)), (0.6, 0.3, 0.1)])
def test_a_composition_with_samples_costs_at_least_this_and_little_more(mu, step, rate):
    """The truth is between the two estimates of dp_accounting, of which the other rounds losses up."""
    one = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(1 / step)) if step else dp.NoOpDpEvent()
    plain = [dp.GaussianDpEvent(1 / mu)] if mu else []
    accountant = dp.pld.PLDAccountant().compose(dp.ComposedDpEvent([*plain, dp.SelfComposedDpEvent(one, 40)]))
    at_most = accountant.get_epsilon(1e-5)
    found = epsilon_at_least(mu, np.full(40, step), rate, 1e-5)
    assert 0.99 * at_most < found <= at_most


def test_a_step_that_takes_every_record_is_no_sample():
    steps = np.full(9, MU / 3)
    assert epsilon_at_least(0.0, steps, 1.0, CLAIM.delta) == pytest.approx(4.0, rel=2e-3)
    one, other = (bound(noise(7, 4000), [m] * 3) for m in (Moves(MU), Moves(0.0, steps)))
    assert other.epsilon == pytest.approx(one.epsilon, rel=2e-3)
    assert other.p_value == pytest.approx(one.p_value, abs=0.1)


@pytest.mark.nightly
def test_of_several_histories_the_least_move_of_each_step_counts():
    both = [Moves(0.9, np.array([0.6, 0.61]), 0.3), Moves(0.91, np.array([0.61, 0.6]), 0.3)]
    assert bound(noise(8, 4000), both).epsilon == bound(noise(8, 4000), [Moves(0.9, np.array([0.6, 0.6]), 0.3)] * 2).epsilon


@pytest.fixture(scope="module")
def graph():
    return load("campus:n=600")


def played(model, graph, tmp_path, alpha=1e-3):
    setting = Setting(Case(model, CLAIM), graph, Store(tmp_path), Key("added up"), 1, alpha)
    (found,) = AUDITS["added-up"].run(setting).bounds
    return found


def recipe(graph, kind=Dpar, **fields):
    return kind(train_nodes=int(graph.train.sum()), epochs=4, **fields)


@pytest.mark.nightly
def test_rows_and_gradients_of_dpar_together_come_near_its_claim(graph, tmp_path):
    found = played(calibrate(Dpar(train_nodes=int(graph.train.sum())), CLAIM), graph, tmp_path)
    assert 0.8 * CLAIM.epsilon < found.epsilon < CLAIM.epsilon
    assert found.withdrawn is None


def test_pagerank_rows_that_are_not_clipped_are_refuted(graph, tmp_path):
    honest = calibrate(recipe(graph), CLAIM)
    fields = {f.name: getattr(honest, f.name) for f in dataclasses.fields(honest)}
    assert played(PageRankNotClipped(**fields), graph, tmp_path).refuted


def of_nodes(kind, graph):
    fields = {"unit": Unit.NODE, "max_degree": int(graph.degree.max()), "epochs": 1, "batch": 128}
    return kind(mode="sound", train_nodes=int(graph.train.sum()), **fields)


@pytest.mark.parametrize("kind", [Gap, *nightly(ProGap)])
def test_sums_and_sampled_gradients_together_come_near_the_claim(kind, graph, tmp_path):
    found = played(calibrate(of_nodes(kind, graph), CLAIM), graph, tmp_path)
    assert 0.95 * CLAIM.epsilon < found.epsilon < CLAIM.epsilon
    assert found.reach < 1.1 * CLAIM.epsilon
    assert found.withdrawn is None


@pytest.mark.nightly
def test_a_ledger_that_charges_for_more_noise_than_is_drawn_is_refuted(graph, tmp_path):
    honest = calibrate(of_nodes(Gap, graph), CLAIM)
    assert played(honest.with_noise(honest.sigma / 1.2), graph, tmp_path).refuted


def test_it_refuses_what_it_cannot_add_up(graph):
    assert "hide the canary's gradient" in AUDITS["added-up"].refuses(Case(calibrate(recipe(graph, batch=20), CLAIM), CLAIM))
    assert "not for claims about an undirected edge" in AUDITS["added-up"].refuses(Case(Gap(sigma=1.0), Claim(4.0, 1e-5)))
