"""PrivGNN: both tables with the delta that makes them, theorem 7 and its counter-example, PATE, and the exact noisy argmax."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, multinomial

from gnnaudit.accounting import closed_forms, events
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.models.privgnn import published as paper
from gnnaudit.models.privgnn.privgnn import PrivGnn

from ...nightly import nightly

INVERSE_SCALES = (0.1, 0.2, 0.4, 0.8, 1.0)


@pytest.mark.parametrize(
    ("rate", "delta", "queries", "factor", "values"),
    [
        (0.3, 1e-3, 500, 1, (2.674, 5.691, 13.159, 31.107, 44.070)),
        (0.3, 1e-3, 1000, 1, (3.905, 8.539, 19.813, 55.307, 81.233)),
        (0.3, 1e-4, 500, 1, (3.053, 6.458, 14.310, 33.410, 46.373)),
        (0.3, 1e-4, 1000, 1, (4.454, 9.690, 22.116, 57.609, 83.535)),
        (0.1, 1e-4, 500, 1, (0.969, 1.962, 4.032, 8.729, 11.168)),
        (0.1, 1e-4, 1000, 1, (1.385, 2.830, 5.944, 12.977, 17.732)),
        (0.1, 1e-3, 1000, 1, (1.206, 2.475, 5.208, 11.826, 15.444)),
        (0.1, 1e-5, 500, 1, (1.080, 2.182, 4.479, 9.497, 12.320)),
        (0.1, 1e-5, 1000, 1, (1.543, 3.142, 6.520, 14.128, 18.883)),
        (0.3, 1e-4, 500, 3, (9.646, 10.904, 15.663, 33.410, 46.373)),
        (0.3, 1e-4, 1000, 3, (10.082, 12.598, 22.116, 57.609, 83.535)),
        (0.1, 1e-5, 500, 3, (5.184, 5.585, 7.078, 11.417, 14.479)),
        (0.1, 1e-5, 1000, 3, (6.561, 7.333, 9.375, 17.008, 20.049)),
    ],
)
def test_the_tables_are_factor_one_at_ten_times_the_stated_delta(rate, delta, queries, factor, values):
    for inverse_scale, value in zip(INVERSE_SCALES, values, strict=True):
        assert paper.privgnn_epsilon(inverse_scale, rate, queries, delta, factor) == pytest.approx(value, abs=6e-4)


def test_table_2_to_the_two_digits_that_it_prints():
    table = {500: (2.67, 5.69, 13.15, 31.10, 44.07), 1000: (3.90, 8.53, 19.81, 55.30, 81.23)}
    for queries, printed in table.items():
        for inverse_scale, value in zip(INVERSE_SCALES, printed, strict=True):
            delta = paper.PRINTED_DELTA_FACTOR * 1e-4
            assert math.floor(paper.privgnn_epsilon(inverse_scale, 0.3, queries, delta) * 100) / 100 == value


@pytest.mark.parametrize(
    ("inverse_scale", "alpha", "value"),
    [
        (1.0, 2, 0.6191236300),
        (1.0, 3, 0.7468281411),
        (1.0, 8, 0.9101988012),
        (1.0, 32, 0.9781484250),
        (0.1, 2, 0.0096442078),
        (0.1, 3, 0.0143758126),
        (0.1, 8, 0.0356767734),
        (0.1, 32, 0.0782057586),
    ],
)
def test_renyi_divergence_of_one_laplace_release(inverse_scale, alpha, value):
    from gnnaudit.accounting.upper import rdp

    assert paper.laplace_rdp(alpha, inverse_scale) == pytest.approx(value, abs=6e-11)
    pair = rdp.laplace_pair(1 / inverse_scale)
    assert float(rdp.curve(pair, orders=(float(alpha),))[0]) == pytest.approx(value, abs=6e-11)


@pytest.mark.parametrize(
    ("alpha", "one", "three"),
    [
        (2, 0.0129057127, 0.0129057127),
        (3, 0.0194104595, 0.0558590598),
        (8, 0.0495315120, 0.1594996482),
        (32, 0.1082221108, 0.1436602304),
    ],
)
def test_renyi_divergence_of_one_sampled_label(alpha, one, three):
    from gnnaudit.accounting.upper import rdp

    assert paper.sampled_laplace_rdp(alpha, 0.4, 0.3, 1.0) == pytest.approx(one, abs=1e-10)
    assert paper.sampled_laplace_rdp(alpha, 0.4, 0.3, 3.0) == pytest.approx(three, abs=1e-10)
    by_pair = rdp.curve(dp.PoissonSampledDpEvent(0.3, dp.LaplaceDpEvent(2.5)), orders=(float(alpha),))
    assert float(by_pair[0]) == pytest.approx(one, rel=1e-8)


def test_theorem_7():
    for inverse_scale, value in zip(INVERSE_SCALES, (5.477, 7.993, 17.511, 53.004, 78.930), strict=True):
        assert paper.privgnn_theorem_7(inverse_scale, 0.3, 1000, 1e-4) == pytest.approx(value, abs=6e-4)
    assert paper.privgnn_theorem_7_repaired(0.2, 0.3, 1000, 1e-4) == pytest.approx(12.60, abs=0.005)


def test_theorem_7_has_counter_examples():
    def truth(inverse_scale, rate, delta):
        return curve(events.repeated(dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(1 / inverse_scale)), 1000)).epsilon(delta)

    assert truth(0.4, 0.3, 1e-4) == pytest.approx(19.13, abs=0.005)
    assert paper.privgnn_theorem_7(0.4, 0.3, 1000, 1e-4) == pytest.approx(17.51, abs=0.005)
    for inverse_scale, claimed, at_least in ((0.8, 10.10, 10.916), (1.0, 13.14, 14.535)):
        printed = paper.privgnn_theorem_7(inverse_scale, 0.1, 1000, 1e-4)
        assert printed == pytest.approx(claimed, abs=0.006)
        assert truth(inverse_scale, 0.1, 1e-4) >= at_least > printed


@pytest.mark.parametrize(
    ("inverse_scale", "queries", "value"),
    [
        (0.1, 500, 27.824046010856296),
        (0.2, 500, 87.8240460108563),
        (0.4, 500, 327.82404601085636),
        (0.8, 500, 800.98),
        (1.0, 500, 1000.98),
    ],
)
def test_pate_columns(inverse_scale, queries, value):
    assert paper.pate_printed(inverse_scale, queries, 4e-4) == pytest.approx(value, abs=6e-3 if value > 500 else 1e-9)


def test_pate_charged_like_privgnn():
    for inverse_scale, value in zip(INVERSE_SCALES, (19.2, 49.2, 169, 649, 1001), strict=True):
        assert paper.pate_printed(inverse_scale / 2, 1000, 1e-4) == pytest.approx(value, rel=2e-3)


def test_samples_of_fixed_size():
    for inverse_scale, value in zip(INVERSE_SCALES, (4.88, 11.59, 33.82, 190, 278), strict=True):
        assert paper.fixed_size_epsilon(inverse_scale, 0.3, 1000, 1e-4) == pytest.approx(value, rel=3e-3)


@pytest.mark.parametrize(
    ("classes", "values"),  # at noise scales 1, 2.5, 5, 10
    [
        (2, (0.96484, 0.39634, 0.19945, 0.09992)),
        (5, (1.12752, 0.46647, 0.23440, 0.11728)),
        (7, (1.14323, 0.46376, 0.23124, 0.11528)),
        (10, (1.13736, 0.45137, 0.22386, 0.11142)),
        (41, (1.04386, 0.41237, 0.20555, 0.10263)),
    ],
)
def test_noisy_argmax_on_the_simplex(classes, values):
    for scale, value in zip((1.0, 2.5, 5.0, 10.0), values, strict=True):
        assert closed_forms.noisy_argmax_epsilon(classes, scale) == pytest.approx(value, abs=6e-6)


def test_noisy_argmax_of_two_classes_has_a_closed_form():
    for scale in (0.5, 1.0, 3.0):
        top = 1 - math.exp(-1 / scale) * (2 + 1 / scale) / 4
        assert closed_forms.argmax_top_probability(2, scale) == pytest.approx(top, rel=1e-12)


def test_best_accuracy_of_a_noisy_label():
    assert closed_forms.argmax_top_probability(10, 1.0) == pytest.approx(0.25733566, abs=5e-9)
    assert closed_forms.argmax_top_probability(41, 1.0) == pytest.approx(0.06629695, abs=5e-9)
    drawn = np.random.default_rng(7).laplace(size=(400_000, 10))
    drawn[:, 0] += 1
    seen = float(np.mean(drawn.argmax(axis=1) == 0))
    assert abs(seen - closed_forms.argmax_top_probability(10, 1.0)) < 5 * 0.5 / math.sqrt(
        400_000
    )  # fails once in a million honest runs


def test_noise_on_log_probabilities_protects_far_less():
    for classes, gap, value in ((10, 5, 4.82), (10, 10, 9.14), (10, 20, 18.4), (41, 5, 5.07), (41, 10, 9.31), (41, 20, 18.5)):
        assert closed_forms.noisy_argmax_epsilon(classes, 1 / gap) == pytest.approx(value, rel=4e-3)


def binomial_epsilon(one: float, rate: float, count: int, delta: float) -> float:
    """epsilon of `count` sampled coins, each randomised response with epsilon = one: the loss is linear in a binomial."""
    heads = 1 / (1 + math.exp(-one))
    base, moved = np.array([1 - heads, heads]), np.array([heads, 1 - heads])
    mixed = (1 - rate) * base + rate * moved
    found = []
    for p, q in ((mixed, base), (base, mixed)):
        loss, k = np.log(p / q), np.arange(count + 1)
        total, mass = k * loss[0] + (count - k) * loss[1], binom.pmf(k, count, p[0])
        found.append(brentq(lambda e, t=total, m=mass: float(m @ -np.expm1(np.minimum(e - t, 0))) - delta, 0, 300))
    return max(found)


def multinomial_epsilon(pair, rate, count, delta):
    """The same for a pair over three outcomes, by all numbers of the first and of the second."""
    moved, base = (np.array(side) for side in pair)
    mixed = (1 - rate) * base + rate * moved
    first, second = np.meshgrid(np.arange(count + 1), np.arange(count + 1), indexing="ij")
    inside = first + second <= count
    counts = np.stack([first[inside], second[inside], count - first[inside] - second[inside]])
    found = []
    for p, q in ((mixed, base), (base, mixed)):
        total, mass = np.log(p / q) @ counts, multinomial.pmf(counts.T, count, p)
        found.append(brentq(lambda e, t=total, m=mass: float(m @ -np.expm1(np.minimum(e - t, 0))) - delta, 0, 300))
    return max(found)


def test_noisy_argmax_of_two_classes_end_to_end():
    """It is exactly randomised response."""
    for inverse_scale, value in {0.1: 3.57, 0.4: 20.44}.items():
        found = curve(events.noisy_argmax(2, 1 / inverse_scale, 0.3, 1000)).epsilon(1e-4)
        one = closed_forms.noisy_argmax_epsilon(2, 1 / inverse_scale)
        assert found == pytest.approx(binomial_epsilon(one, 0.3, 1000, 1e-4), rel=1e-5)
        assert found == pytest.approx(value, abs=0.006)


@pytest.mark.parametrize(("scale", "queries"), [(10.0, 300), (2.5, 300), (1.0, 50)])
def test_noisy_argmax_of_ten_classes_end_to_end(scale, queries):
    """Most labels are of neither class and carry no information, so the cost is below that of randomised response of the same
    epsilon.
    """
    found = curve(events.noisy_argmax(10, scale, 0.3, queries)).epsilon(1e-4)
    assert found == pytest.approx(multinomial_epsilon(closed_forms.argmax_pair(10, scale), 0.3, queries, 1e-4), rel=2e-5)
    assert found < 0.7 * binomial_epsilon(closed_forms.noisy_argmax_epsilon(10, scale), 0.3, queries, 1e-4)


@pytest.mark.parametrize(("classes", "scale"), [(4, 1.0), *nightly((3, 0.4), (5, 3.0))])
def test_no_two_posteriors_are_told_apart_more_easily_than_two_that_are_sure(classes, scale):
    """For 100 pairs of posteriors, by an integral over the highest noisy entry: delta of the best set of labels."""
    draw = np.random.default_rng(0)
    entries = draw.dirichlet(np.full(classes, 0.3), 200)
    t = np.linspace(-30 * scale, 30 * scale + 1, 8001)
    below = np.where(t[:, None, None] < entries, np.exp(np.minimum(t[:, None, None] - entries, 0) / scale) / 2, 0)
    above = 1 - np.exp(-np.maximum(t[:, None, None] - entries, 0) / scale) / 2
    falls = np.where(t[:, None, None] < entries, below, above)
    dense = np.exp(-np.abs(t[:, None, None] - entries) / scale) / (2 * scale)
    laws = np.stack([np.trapezoid(dense[..., j] * np.delete(falls, j, 2).prod(2), t, axis=0) for j in range(classes)], 1)
    assert laws.sum(1) == pytest.approx(1.0, abs=1e-4)
    sure, other = (np.array(side) for side in closed_forms.argmax_pair(classes, scale))
    for epsilon in np.linspace(0, closed_forms.noisy_argmax_epsilon(classes, scale), 7):
        most = np.maximum(sure - math.exp(epsilon) * other, 0).sum()
        assert np.maximum(laws[:100] - math.exp(epsilon) * laws[100:], 0).sum(1).max() <= most + 1e-4


@pytest.mark.parametrize("scale", [0.484, *nightly(0.486, 1e5, 0.1, 0.2, 0.3, 1.0, 2.0, 30.0)])
def test_the_charge_for_an_unknown_number_of_classes_is_the_maximum_over_all_numbers(scale):
    counts = [*range(2, 120), *(round(120 * 1.02**k) for k in range(400))]  # up to 330,000
    each = [closed_forms.noisy_argmax_epsilon(c, scale) for c in counts]
    assert closed_forms.costliest_argmax_epsilon(scale) == pytest.approx(max(each), rel=2e-5)
    assert closed_forms.costliest_argmax_epsilon(scale) >= max(each) * (1 - 1e-7)
    assert (np.diff(np.sign(np.diff(each[:118])).astype(int)) <= 0).all()  # rises, then falls


@pytest.mark.parametrize("scale", [1 / 51, 1 / 60, *nightly(1 / 300)])
def test_the_charge_for_little_noise_is_at_least_the_cost_of_any_number_of_classes(scale):
    each = [closed_forms.noisy_argmax_epsilon(2**k, scale) for k in range(1, int(1.5 / scale))]
    assert max(each) <= closed_forms.costliest_argmax_epsilon(scale) <= max(each) + math.log(2)


@pytest.mark.parametrize(("queries", "epsilon"), [(1, 8.0), *nightly((5, 20.0))])
def test_a_calibrated_privgnn_keeps_its_claim_for_any_number_of_classes(queries, epsilon):
    model = calibrate(PrivGnn(queries=queries, rate=1.0), Claim(epsilon, 1e-5, Unit.NODE))
    for classes in (3, 16, 40, 100, 1000):
        assert curve(events.noisy_argmax(classes, model.sigma, 1.0, queries)).epsilon(1e-5) <= epsilon * (1 + 1e-3)


def test_an_unknown_number_of_classes_costs_at_least_what_any_number_does():
    unknown = curve(events.noisy_argmax(0, 2.0, 0.3, 20)).epsilon(1e-4)
    assert all(curve(events.noisy_argmax(c, 2.0, 0.3, 20)).epsilon(1e-4) <= unknown for c in (2, 3, 5, 8, 12, 40))


def test_a_printed_number_is_violated_at_the_stated_delta():
    """Two classes (Credit), lambda = 0.4: printed 19.81 for delta = 1e-4."""
    assert curve(events.noisy_argmax(2, 2.5, 0.3, 1000)).epsilon(1e-4) > 20.4
