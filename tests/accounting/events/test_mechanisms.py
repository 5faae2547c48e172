"""Ledgers: the event of each mechanism, and the mistakes that an accountant could make with it."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.events.tree import gaussian_mu, parts, scaled
from gnnaudit.accounting.upper import caveats, rdp
from gnnaudit.accounting.upper.exact import epsilon as closed_form
from gnnaudit.accounting.upper.exact import finite_epsilon
from gnnaudit.accounting.upper.tradeoff import curve


def test_noise_multipliers_are_python_floats_whatever_came_in():
    """dp_accounting 0.6 returns an int or a float32 multiplier inside a sample before it has counted the composition."""
    for sigma in (8, np.float32(8), np.int64(8)):
        for ledger in (
            events.gaussian_hops(sigma, 4),
            events.dp_sgd(sigma, 0.05, 640),
            events.message_passing(sigma, 1),
        ):
            assert caveats.doubts(ledger, Claim(1, 1e-5)) == ()
    misread = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.SelfComposedDpEvent(dp.GaussianDpEvent(8), 4)), 640)
    meant = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.SelfComposedDpEvent(dp.GaussianDpEvent(8.0), 4)), 640)
    by_library = dp.rdp.RdpAccountant().compose(misread).get_epsilon(2e-4)
    assert by_library == pytest.approx(0.493, abs=5e-4)
    assert rdp.epsilon(misread, 2e-4) == pytest.approx(1.101, abs=5e-4)
    assert rdp.epsilon(meant, 2e-4) == pytest.approx(1.101, abs=5e-4)
    assert "no Python float" in caveats.doubts(misread, Claim(1, 1e-5))[0]


def test_zero_noise_is_no_privacy_and_zero_steps_are_nothing():
    assert events.gaussian_hops(0, 3) == dp.NonPrivateDpEvent()
    assert events.dp_sgd(0.0, 0.1, 5) == dp.NonPrivateDpEvent()
    assert events.composed(events.gaussian(1.0), events.dp_sgd(0.0, 0.1, 5)) == dp.NonPrivateDpEvent()
    assert events.message_passing_seen(0.0, 2, 0.5, 3) == dp.NonPrivateDpEvent()
    assert events.pate(0.0, 10) == events.noisy_argmax(3, 0.0, 0.1, 10) == dp.NonPrivateDpEvent()
    assert events.gaussian_hops(1.0, 0) == events.dp_sgd(1.0, 0.0, 5) == events.dp_sgd(1.0, 0.5, 0) == dp.NoOpDpEvent()
    assert events.multi_bit(0.0) == events.randomised_response(0.0, 7) == dp.NoOpDpEvent()
    assert events.multi_bit(math.inf) == events.randomised_response(math.inf) == dp.NonPrivateDpEvent()
    assert parts(dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(0.0))) == [(dp.NonPrivateDpEvent(), 1)]


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_impossible_noise_is_refused(bad):
    with pytest.raises(ValueError, match="sigma="):
        events.gaussian(bad)


def test_impossible_counts_and_rates_are_refused():
    with pytest.raises(ValueError, match=r"count=2\.5"):
        events.gaussian_hops(1.0, 2.5)
    with pytest.raises(ValueError, match=r"rate=1\.5"):
        events.dp_sgd(1.0, 1.5, 3)
    with pytest.raises(ValueError, match="layers=0"):
        events.message_passing(1.0, 0)


def test_an_undirected_edge_is_two_directed_ones():
    directed, undirected = events.gaussian_hops(3.0, 4), events.gaussian_hops(3.0 / math.sqrt(2), 4)
    assert gaussian_mu(undirected) == pytest.approx(math.sqrt(2) * gaussian_mu(directed))
    assert gaussian_mu(undirected) == pytest.approx(gaussian_mu(events.gaussian_hops(3.0, 8)))


def test_flattening_counts_every_release_once():
    tree = dp.ComposedDpEvent(
        [
            dp.SelfComposedDpEvent(dp.ComposedDpEvent([dp.GaussianDpEvent(2.0), dp.LaplaceDpEvent(1.0)]), 3),
            dp.GaussianDpEvent(1.0),
            dp.NoOpDpEvent(),
            dp.PoissonSampledDpEvent(1.0, dp.LaplaceDpEvent(1.0)),
            dp.PoissonSampledDpEvent(0.5, dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 4)),
            dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(1.0)),
        ]
    )
    assert parts(tree) == [
        (dp.GaussianDpEvent(1 / math.sqrt(3 / 4 + 1)), 1),
        (dp.LaplaceDpEvent(1.0), 4),
        (dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(1.0)), 2),
    ]


def test_a_fixed_partition_amplifies_nothing():
    assert gaussian_mu(events.dp_sgd_fixed(0.95, 200)) == pytest.approx(math.sqrt(200) / 0.95)
    assert gaussian_mu(events.dp_sgd_fixed(0.95, 200, visits=2)) == pytest.approx(20 / 0.95)


def test_secret_batches_cost_less_than_seen_ones_and_those_less_than_all():
    at = [
        curve(e).epsilon(1e-5)
        for e in (events.dp_sgd(1.0, 0.1, 50), events.dp_sgd_seen(1.0, 0.1, 50), events.gaussian_hops(1.0, 50))
    ]
    assert at[0] < at[1] < at[2]


def test_occurrences_that_never_meet_or_always_meet():
    one = events.dp_sgd_occurrences(1.0, 100, 1, 10, 20)
    assert curve(one).epsilon(1e-5) == pytest.approx(curve(events.dp_sgd_seen(1.0, 0.1, 20)).epsilon(1e-5), rel=1e-6)
    everything = events.dp_sgd_occurrences(2.0, 50, 5, 50, 20)
    assert gaussian_mu(events.gaussian_hops(2.0, 20)) == pytest.approx(math.sqrt(20) / 2)
    assert curve(everything).epsilon(1e-5) == pytest.approx(curve(events.gaussian_hops(2.0, 20)).epsilon(1e-5), rel=1e-6)
    assert events.dp_sgd_capped(2.0, 1.0, 3, 20).event.probabilities == (1.0,)
    alone = events.dp_sgd_capped(1.0, 0.1, 0, 20)
    assert curve(alone).epsilon(1e-5) == pytest.approx(curve(one).epsilon(1e-5), rel=1e-6)


def test_occurrence_probabilities_by_simulation():
    rng = np.random.default_rng(11)
    event = events.dp_sgd_capped(1.0, 0.3, 2, 1)
    shifts = (rng.random(200_000) < 0.3).astype(int) + 2 * rng.binomial(2, 0.3, 200_000)
    for part, probability in zip(event.events, event.probabilities, strict=True):
        shift = 0 if isinstance(part, dp.NoOpDpEvent) else round(5 / part.noise_multiplier)
        assert abs(np.mean(shifts == shift) - probability) < 5 * 0.5 / math.sqrt(200_000)


def test_ldp_spend_exactly_their_epsilon():
    for epsilon in (0.5, 1.0, 3.0):
        for categories in (2, 7, 40):
            assert closed_form(events.randomised_response(epsilon, categories), 0.0) == pytest.approx(epsilon, rel=1e-9)
        assert closed_form(events.multi_bit(epsilon), 0.0) == pytest.approx(epsilon, rel=1e-12)


def test_edge_response_spends_the_log_of_the_worst_ratio():
    assert finite_epsilon(events.edge_response(0.75, 0.25), 0.0) == pytest.approx(math.log(3))
    kept, invented = 0.0477968, 0.0194327
    assert finite_epsilon(events.edge_response(kept, invented), 0.0) == pytest.approx(0.9, rel=1e-4)
    assert closed_form(events.repeated(events.edge_response(kept, invented), 2), 0.0) == pytest.approx(1.8, rel=1e-4)
    assert events.edge_response(0.3, 0.3) == dp.NoOpDpEvent()


def test_one_shot_selection_is_bounded_range():
    ledger = events.page_rank_exponential(0.5, picks=4, rows=70)
    order = (2.0, 8.0)
    assert rdp.curve(ledger, orders=order) == pytest.approx(280 * np.array(order) * 0.5**2 / 8)
    with_values = events.page_rank_exponential(0.5, 4, 70, values_epsilon=1.0)
    assert rdp.epsilon(with_values, 1e-3) > rdp.epsilon(ledger, 1e-3)


def test_bounded_range_profile_is_the_largest_over_all_two_point_pairs():
    from gnnaudit.accounting.upper.pld import bounded_range_delta

    epsilon, x = 1.3, np.linspace(-1.3, 1.3, 53)
    best = np.zeros_like(x)
    for t in np.linspace(1e-9, epsilon - 1e-9, 20001):
        below = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
        best = np.maximum(
            best,
            np.maximum(0, below * (math.exp(t) - np.exp(x))) + (1 - below) * np.maximum(0, math.exp(t - epsilon) - np.exp(x)),
        )
    assert bounded_range_delta(epsilon, x) == pytest.approx(best, abs=1e-7)


def test_every_trap_gets_a_sentence():
    claim = Claim(1, 1e-3, Unit.NODE, exposes=("posteriors", "transcript"))
    sampled = events.dp_sgd(1.0, 0.1, 10)
    assert "only a secret sample amplifies privacy" in " ".join(caveats.doubts(sampled, claim))
    assert "above 1/5000" in " ".join(caveats.doubts(sampled, claim, units=5000))
    apart = events.composed(sampled, dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)))
    assert "amplify once" in " ".join(caveats.doubts(apart, Claim(1, 1e-5)))
    together = events.on_sampled_nodes(0.1, events.gaussian(1.0), dp.LaplaceDpEvent(1.0))
    assert caveats.doubts(together, Claim(1, 1e-5)) == ()
    local = events.randomised_response(1.0, 5)
    assert "relation=replace" in " ".join(caveats.doubts(local, Claim(1, 0.0)))
    assert caveats.doubts(local, Claim(1, 0.0, relation=Relation.REPLACE)) == ()
    fixed_size = dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(1.0))
    assert "the relation replace" in " ".join(caveats.doubts(fixed_size, Claim(1, 1e-5)))
    assert caveats.doubts(fixed_size, Claim(1, 1e-5, relation=Relation.REPLACE)) == ()


def test_zero_concentrated_privacy_scales_as_the_gaussian_that_has_it():
    """Noise multiplier sigma has rho = 1 / (2 sigma^2): half the noise, four times rho."""
    once, half = (dp.ZCDpEvent(1 / (2 * sigma**2), 0.1 / sigma) for sigma in (3.0, 1.5))
    found = scaled(once, 2.0)
    assert found.rho == pytest.approx(half.rho)
    assert found.xi == pytest.approx(half.xi)
