"""Closed forms, against dp_accounting and brute force."""

import math
from itertools import product

import dp_accounting as dp
import numpy as np
import pytest
from scipy import integrate, stats

from gnnaudit.accounting import closed_forms, events
from gnnaudit.accounting.claim import Claim, Relation
from gnnaudit.accounting.events.tree import Unsupported
from gnnaudit.accounting.upper import caveats, exact
from gnnaudit.accounting.upper.accountants import upper


def library(event, delta):
    return dp.pld.PLDAccountant().compose(event).get_epsilon(delta)


@pytest.mark.parametrize(("scale", "delta"), [(1.0, 1e-5), (0.3, 1e-2), (5.0, 0.05)])
def test_one_laplace_release(scale, delta):
    ledger = dp.LaplaceDpEvent(scale)
    assert exact.epsilon(ledger, delta) == pytest.approx(library(ledger, delta), abs=2e-4)


def brute_force_delta(epsilon, count, target):
    """Over all outcomes of `count` coins with odds e^epsilon."""
    heads = 1 / (1 + math.exp(-epsilon))
    total = 0.0
    for outcome in product((0, 1), repeat=count):
        p = math.prod(heads if o else 1 - heads for o in outcome)
        q = math.prod(1 - heads if o else heads for o in outcome)
        total += max(0.0, p - math.exp(target) * q)
    return total


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 1), (0.5, 5), (1.5, 4), (0.05, 9)])
def test_composition_of_pure_mechanisms(epsilon, count):
    for target in (0.0, 0.3 * epsilon * count, 0.9 * epsilon * count, epsilon * count):
        assert closed_forms.composed_pure_delta(epsilon, count, target) == pytest.approx(
            brute_force_delta(epsilon, count, target), abs=1e-12
        )
    ledger = events.repeated(events.PureDpEvent(epsilon), count)
    at = exact.epsilon(ledger, 1e-3)
    assert closed_forms.composed_pure_delta(epsilon, count, at) <= 1e-3 * (1 + 1e-9)
    assert closed_forms.composed_pure_epsilon(epsilon, count, 0.0) == epsilon * count


def test_many_pure_mechanisms_do_not_overflow():
    assert closed_forms.composed_pure_epsilon(2.0, 3000, 1e-6) < 6000
    assert closed_forms.composed_pure_epsilon(500.0, 3, 1e-6) == pytest.approx(1500, abs=1)


def test_pure_parts_add_up_at_delta_zero():
    ledger = events.composed(
        events.multi_bit(1.0),
        events.randomised_response(0.5, 7),
        dp.LaplaceDpEvent(4.0),
        dp.PoissonSampledDpEvent(0.1, events.PureDpEvent(2.0)),
        events.VisibleMixtureDpEvent((0.4, 0.6), (dp.NoOpDpEvent(), events.PureDpEvent(0.3))),
    )
    wanted = 1.0 + 0.5 + 0.25 + math.log1p(0.1 * math.expm1(2.0)) + 0.3
    assert exact.epsilon(ledger, 0.0) == pytest.approx(wanted, rel=1e-12)


def sampled_answers(rate, matrix):
    """A person in the sample sends a row of a channel, all others send nothing: a further output, which shows no sample."""
    return np.hstack([np.full((len(matrix), 1), 1 - rate), rate * np.asarray(matrix)])


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0])
def test_a_secret_sample_does_not_hide_which_of_two_values_a_person_has(rate):
    """By enumeration of the outputs of all inputs. An accountant that amplifies under replacement says 1.07 at rate 0.1."""
    keep = 1 / (1 + math.exp(-3.0))
    response = np.array([[keep, 1 - keep], [1 - keep, keep]])
    truth = closed_forms.channel_epsilon(sampled_answers(rate, response))
    ledger = events.on_sampled_nodes(rate, events.randomised_response(3.0))
    assert truth == pytest.approx(3.0)
    assert exact.epsilon(ledger, 0.0, Relation.REPLACE) == pytest.approx(truth)
    twice = events.on_sampled_nodes(rate, events.repeated(events.randomised_response(3.0), 2))
    truth = closed_forms.channel_epsilon(sampled_answers(rate, np.kron(response, response)))
    assert exact.epsilon(twice, 0.0, Relation.REPLACE) == pytest.approx(truth)
    best = upper(ledger, Claim(3.0, 0.0, relation=Relation.REPLACE), stored=False)
    assert min(row.epsilon for row in best if row.epsilon is not None) == pytest.approx(3.0)


@pytest.mark.parametrize("rate", [0.01, 0.1, 1.0])
def test_a_secret_sample_hides_whether_a_person_is_there(rate):
    """By enumeration: without the person, and if the sample misses her, the answer is that to the other input."""
    pair = np.array([[0.75, 0.25], [0.25, 0.75]])
    mixed = np.stack([(1 - rate) * pair[1] + rate * pair[0], pair[1]])
    ledger = events.on_sampled_nodes(rate, events.PureDpEvent(math.log(3)))
    assert exact.epsilon(ledger, 0.0) == pytest.approx(closed_forms.channel_epsilon(mixed))


def test_samples_within_a_mixture_and_a_choice_are_not_amplified_under_replacement():
    sampled = dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(0.5))
    mixture = events.VisibleMixtureDpEvent((0.4, 0.6), (dp.NoOpDpEvent(), sampled))
    chosen = dp.dp_event.RepeatAndSelectDpEvent(sampled, 3.0, 1.0)
    for ledger, times in ((sampled, 1), (mixture, 1), (chosen, 3), (events.composed(sampled, sampled), 2)):
        assert exact.epsilon(ledger, 0.0, Relation.REPLACE) == pytest.approx(times * 2.0)
        assert exact.epsilon(ledger, 0.0) == pytest.approx(times * math.log1p(0.1 * math.expm1(2.0)))


def test_a_claim_about_values_on_a_secret_sample_is_commented():
    ledger = dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(0.5))
    told = caveats.doubts(ledger, Claim(2.0, 0.0, relation=Relation.REPLACE))
    assert any("no accountant amplifies it" in sentence for sentence in told)
    assert not any("no accountant" in sentence for sentence in caveats.doubts(ledger, Claim(2.0, 0.0)))


def test_gaussian_ledgers_and_the_two_ends():
    assert exact.epsilon(events.gaussian_hops(10.0, 100), 1e-5) == pytest.approx(4.377178, abs=5e-7)
    assert exact.epsilon(events.gaussian(1.0), 0.0) == math.inf
    assert exact.epsilon(dp.NoOpDpEvent(), 0.0) == 0.0
    assert exact.epsilon(dp.NonPrivateDpEvent(), 1e-5) == math.inf


def test_what_has_no_closed_form_says_so():
    for ledger in (events.dp_sgd(1.0, 0.1, 5), events.repeated(dp.LaplaceDpEvent(1.0), 2), dp.UnsupportedDpEvent()):
        with pytest.raises(Unsupported):
            exact.epsilon(ledger, 1e-5)
    with pytest.raises(Unsupported):
        exact.epsilon(events.composed(events.PureDpEvent(1.0), events.gaussian(1.0)), 0.0)


def test_amplification_of_large_budgets():
    assert closed_forms.amplified(2000.0, 0.5) == pytest.approx(2000 + math.log(0.5))
    assert closed_forms.amplified(1.0, 1.0) == pytest.approx(1.0)
    assert closed_forms.amplified(1e-3, 0.1) == pytest.approx(1e-4, rel=1e-3)


def test_argmax_needs_two_classes():
    with pytest.raises(ValueError, match="classes=1"):
        closed_forms.argmax_top_probability(1, 1.0)


def label_law(posterior, scale):
    """P(each class is the argmax of posterior + Laplace noise), by the trapezium rule."""
    t = np.linspace(-30 * scale, 1 + 30 * scale, 40_001)
    below = [stats.laplace.cdf(t, loc=v, scale=scale) for v in posterior]
    densities = [stats.laplace.pdf(t, loc=v, scale=scale) for v in posterior]
    others = [np.prod([below[j] for j in range(len(posterior)) if j != i], axis=0) for i in range(len(posterior))]
    return np.array([integrate.trapezoid(f * o, t) for f, o in zip(densities, others, strict=True)])


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_no_two_posteriors_are_easier_to_tell_apart_by_a_noisy_label_than_two_sure_ones(classes, scale):
    upper, lower = (np.array(law) for law in closed_forms.argmax_pair(classes, scale))
    sure = label_law(np.eye(classes)[0], scale)
    assert upper == pytest.approx([sure[0], sure[1], sure[2:].sum()][: len(upper)], abs=1e-6)
    draw, targets = np.random.default_rng(0), np.linspace(-2, 2, 9)
    worst = [max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((upper, lower), (lower, upper))) for e in targets]
    for _ in range(8):
        p, q = (label_law(v, scale) for v in draw.dirichlet(np.full(classes, draw.choice([0.05, 0.5])), size=2))
        for e, most in zip(targets, worst, strict=True):
            assert np.maximum(p - math.exp(e) * q, 0).sum() <= most + 1e-6
