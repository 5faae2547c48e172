"""Likelihood-ratio attacks against scipy's densities, and relative ones against their definitions by brute force."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import multivariate_t, norm

from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.membership.lira import Lira, Moments, ends_logit
from gnnaudit.attacks.membership.multi_lira import MultiLira, SumOfRatios, laws_of, strongest
from gnnaudit.attacks.membership.rmia import Relative
from gnnaudit.attacks.signals import label_logit, neighbours_logit
from gnnaudit.models.base import Release

QUERY = "posteriors"


@pytest.fixture
def pilot(noise_release):
    return Pilot(*noise_release)


def test_the_published_form_is_the_ratio_of_two_normal_densities_of_each_nodes_own(pilot):
    fitted = Lira(query=QUERY, shrinkage=0).fit(pilot)
    phi = label_logit(pilot.release, pilot.challenge)
    for i in (0, 33, 79):
        inside, outside = phi[pilot.bits[:, i], i], phi[~pilot.bits[:, i], i]
        laws = [norm(side.mean(), side.std(ddof=1)) for side in (inside, outside)]
        expected = laws[0].logpdf(phi[:, i]) - laws[1].logpdf(phi[:, i])
        np.testing.assert_allclose(fitted.score(pilot.release, pilot.challenge)[:, i], expected)


def test_offline_is_how_far_the_target_stands_above_the_shadows_without_it(pilot):
    fitted = Lira(query=QUERY, shrinkage=0, online=False).fit(pilot)
    phi = label_logit(pilot.release, pilot.challenge)
    out = phi[~pilot.bits[:, 4], 4]
    np.testing.assert_allclose(fitted.score(pilot.release, pilot.challenge)[:, 4], (phi[:, 4] - out.mean()) / out.std(ddof=1))


def test_offline_reads_nothing_of_the_shadows_that_hold_the_node(pilot):
    phi = label_logit(pilot.release, pilot.challenge)
    first, second = (Moments.of(np.where(pilot.bits, phi + shift, phi), pilot.bits, online=False) for shift in (0, 100))
    np.testing.assert_array_equal(first.mean_out, second.mean_out)
    np.testing.assert_array_equal(first.variance_out, second.variance_out)


def test_means_drawn_together_tell_more_than_those_of_four_shadows_each():
    rng = np.random.default_rng(0)
    usual, bits = 2 * rng.normal(size=4000), np.arange(8)[:, None] % 2 == np.arange(4000) % 2
    signal = usual + (1 + 0.2 * usual) * bits + rng.normal(size=bits.shape)
    own, drawn = (Moments.of(signal, bits, shrinkage) for shrinkage in (4, None))
    errors = [np.abs(m.mean_in - m.mean_out - 1 - 0.2 * usual).mean() for m in (own, drawn)]
    assert errors[1] < 0.6 * errors[0]


def test_neighbours_are_averaged_where_they_are_watched(noise_release):
    release, challenge, _ = noise_release
    seen = Release({QUERY: release[QUERY][:, ::2]}, release.watch[::2])
    challenge = dataclasses.replace(challenge, items=np.array([3, 4, 50]))
    found = neighbours_logit(seen, challenge)
    phi, (send, receive) = label_logit(release, dataclasses.replace(challenge, items=np.arange(80))), challenge.known.arcs
    for column, node in enumerate(challenge.items):
        near = [u for u, v in zip(send, receive, strict=True) if v == node and u % 2 == 0]
        np.testing.assert_allclose(found[:, column], phi[:, near].mean(1))
    alone = dataclasses.replace(challenge, known=dataclasses.replace(challenge.known, edges=challenge.known.edges[:, :0]))
    assert not neighbours_logit(seen, alone).any()


def test_infinite_shrinkage_is_one_variance_for_all_and_finite_lies_between():
    rng = np.random.default_rng(0)
    signal, bits = rng.normal(size=(12, 50)) * rng.uniform(1, 3, 50), np.arange(12)[:, None] % 2 == np.arange(50) % 2
    own, some, pooled = (Moments.of(signal, bits, s).variance_in for s in (0, 8, np.inf))
    assert np.ptp(pooled) == 0
    assert pooled[0] == pytest.approx(own.mean())  # every node has six shadows in
    assert ((some - own) * (pooled - some) >= 0).all()


def test_a_node_that_no_shadow_held_borrows_the_shift_of_the_others():
    rng = np.random.default_rng(0)
    bits = rng.random((20, 30)) < 0.5
    bits[:, 7] = False
    signal = rng.normal(size=bits.shape) * 0.01 + 5 * bits
    moments = Moments.of(signal, bits)
    assert moments.mean_in[7] - moments.mean_out[7] == pytest.approx(5, abs=0.05)
    assert np.isfinite(moments.variance_in).all()


def test_students_law_is_scipys_and_its_scale_that_of_the_conjugate_posterior():
    rng = np.random.default_rng(1)
    signal, side = rng.normal(size=(20, 6, 3)) @ rng.normal(size=(3, 3)), np.arange(20)[:, None] % 2 == np.arange(6) % 2
    shrinkage = 10.0
    law, _ = laws_of(signal, side, shrinkage, groups=np.arange(6))  # each challenge keeps its own means
    new = rng.normal(size=(4, 6, 3))
    residuals = [signal[side[:, i], i] - signal[side[:, i], i].mean(0) for i in range(6)]
    pooled = sum(r.T @ r for r in residuals) / (6 * 9)
    for i in range(6):
        freedom = 10 - 1 + shrinkage
        scale = (residuals[i].T @ residuals[i] + shrinkage * pooled) * (1 + 1 / 10) / freedom
        expected = multivariate_t(signal[side[:, i], i].mean(0), scale, df=freedom).logpdf(new[:, i])
        np.testing.assert_allclose(law.log_density(new)[:, i], expected, rtol=1e-6)


def test_the_signals_of_an_edge_do_not_depend_on_the_order_of_its_ends_for_the_distance(noise_release):
    release, challenge, _ = noise_release
    items = np.array([[0, 1], [2, 3]])
    forth, back = (Challenge("edge", challenge.known, i) for i in (items, items[:, ::-1]))
    np.testing.assert_allclose(ends_logit(release, forth, QUERY), ends_logit(release, back, QUERY))
    assert MultiLira("edge", (QUERY,), (QUERY,))._signals(release, forth).shape == (40, 2, 7)


def test_a_sum_of_ratios_is_their_sum(pilot):
    parts = (Lira(query=QUERY), MultiLira("node", (QUERY,), ()))
    both = SumOfRatios(parts).fit(pilot).score(pilot.release, pilot.challenge)
    each = [a.fit(pilot).score(pilot.release, pilot.challenge) for a in parts]
    np.testing.assert_allclose(both, each[0] + each[1])
    assert strongest().needs == ("posteriors@0-hop", "posteriors@full", "posteriors@half")
    assert (strongest("edge", QUERY).kinds, strongest("edge", QUERY).needs) == (("edge",), (QUERY,))


def test_base_is_the_log_ratio_to_the_mean_over_shadows(pilot):
    p = np.exp(pilot.release["posteriors"].astype(np.float64))
    own = np.take_along_axis(p, pilot.challenge.known.y[None, :, None], 2)[:, :, 0]
    scores = Relative(query=QUERY, alpha=0.9).fit(pilot).score(pilot.release, pilot.challenge)
    np.testing.assert_allclose(scores, np.log(own) - 0.9 * np.log(own.mean(0)), atol=1e-5)
    out = np.array([own[~pilot.bits[:, i], i].mean() for i in range(80)])
    offline = Relative(query=QUERY, online=False, guess=0.3).fit(pilot).score(pilot.release, pilot.challenge)
    np.testing.assert_allclose(offline, np.log(own) - np.log((1.3 * out + 0.7) / 2), atol=1e-5)


def test_rmia_counts_the_nodes_whose_ratio_is_gamma_times_smaller(pilot):
    ratio = np.exp(Relative(query=QUERY).fit(pilot).score(pilot.release, pilot.challenge)[5])
    count = np.array([(x / ratio >= 2).sum() for x in ratio])
    share = (count + 0.5) / 81
    scores = Relative(query=QUERY, gamma=2.0).fit(pilot).score(pilot.release, pilot.challenge)[5]
    np.testing.assert_allclose(scores, np.log(share / (1 - share)), atol=1e-9)


def test_rmia_and_base_order_nodes_alike_at_gamma_one(pilot):
    base, rmia = (Relative(query=QUERY, gamma=g).fit(pilot).score(pilot.release, pilot.challenge) for g in (None, 1.0))
    assert (np.argsort(base) == np.argsort(rmia)).all()


@pytest.mark.parametrize("attack", [Lira(), MultiLira(), Relative()])
def test_shadow_attacks_ask_for_a_pilot(attack, noise_release):
    with pytest.raises(ValueError, match="needs shadow models"):
        attack.fit(None)
    with pytest.raises(ValueError, match="has not been fitted"):
        attack.score(*noise_release[:2])


def test_a_shrinkage_out_of_range_is_refused():
    with pytest.raises(ValueError, match="shrinkage=-1: must be at least 0"):
        Lira(shrinkage=-1)
    with pytest.raises(ValueError, match="shrinkage=0: must be above 0"):
        MultiLira(shrinkage=0)
