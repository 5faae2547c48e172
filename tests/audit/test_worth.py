"""The true epsilon that a smallest detectable violation has, against closed forms and dp_accounting."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.events.tree import gaussian_mu
from gnnaudit.accounting.gaussian import epsilon_of, mu_of
from gnnaudit.audit.audits import replay_sums
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.instruments.reach import worth
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own_bounds.released_noise import from_release
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap


def of_library(event, delta):
    return dp.pld.PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(delta)


@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0])
def test_many_laplace_entries_with_less_noise_cost_what_the_library_says(factor):
    """64 entries of a tenth: 3.24 at factor 1, but 7.09 and 15.92 at 2 and 4, and not 6.48 and 12.96."""
    ledger = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0), 64)
    claim = Claim(of_library(ledger, 1e-5), 1e-5)
    true = of_library(dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0 / factor), 64), 1e-5)
    assert worth(ledger, claim, factor) == pytest.approx(true, rel=1e-3)
    unknown = worth(dp.UnsupportedDpEvent(), claim, factor)
    assert unknown == pytest.approx(max(factor * claim.epsilon, epsilon_of(factor * mu_of(claim.epsilon, 1e-5), 1e-5)), rel=1e-6)
    assert unknown >= true * (1 - 1e-3)


@pytest.mark.parametrize("factor", [1.0, 1.5, 3.0])
def test_at_delta_zero_pure_epsilons_grow_in_proportion_and_samples_dampen_them(factor):
    assert worth(events.repeated(events.PureDpEvent(0.5), 4), Claim(2.0, 0.0), factor) == pytest.approx(2.0 * factor)
    assert worth(dp.UnsupportedDpEvent(), Claim(2.0, 0.0), factor) == 2.0 * factor
    ledger = events.on_sampled_nodes(0.1, events.PureDpEvent(1.0))
    assert worth(ledger, Claim(0.01, 0.0), factor) == pytest.approx(math.log1p(0.1 * math.expm1(factor)))
    assert worth(ledger, Claim(0.01, 0.0, relation=Relation.REPLACE), factor) == pytest.approx(factor)


def test_no_factor_and_noise_that_vanishes_are_worth_everything():
    assert worth(events.gaussian(1.0), Claim(2.0, 1e-5), math.inf) == math.inf
    assert worth(events.PureDpEvent(0.01), Claim(2.0, 1e-5), 1.0) == 2.0  # never less than the claim


class ManyLaplace(strangers.Sums):
    """Laplace noise on rows of sixteen entries, whose ledger composes 32 of them."""

    hops = 1

    @property
    def ledger(self):
        return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 32)

    def noise(self, seed, shape, hop):
        return 4.0 * np.random.default_rng([int(seed), hop]).laplace(size=shape)


@pytest.mark.nightly
def test_the_reach_of_recorded_laplace_noise_is_the_epsilon_of_the_ledger_with_less_noise(tmp_path):
    model = ManyLaplace(sigma=1.0)
    claim = Claim(of_library(model.ledger, 1e-6), 1e-6, Unit.UNDIRECTED_EDGE, exposes=strangers.Sums.offers)
    bounds = from_release(Setting(Case(model, claim), tiny(48), Store(tmp_path), Key("worth"), 1, 1e-9)).bounds
    (bound,) = (b for b in bounds if np.isfinite(b.reach))
    less = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0 / bound.notices), 32)
    assert bound.notices > 1.5
    assert bound.reach == pytest.approx(of_library(less, 1e-6), rel=2e-3)
    assert bound.reach > 1.02 * bound.notices * claim.epsilon


def test_the_reach_of_a_replay_is_that_of_the_gaussian_ledger_with_less_noise():
    model = Gap(sigma=2.0)
    mu = gaussian_mu(model.ledger)
    claim = Claim(float(epsilon_of(mu, 1e-5)), 1e-5, Unit.UNDIRECTED_EDGE)
    bound = replay_sums.replayed(Case(model, claim), 0.0, 2, notices=2.0)
    assert bound.reach == pytest.approx(float(epsilon_of(2 * mu, 1e-5)))
