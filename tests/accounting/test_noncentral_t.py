"""The noncentral t distribution: right in both tails, monotone, and never without a value."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.detection.power import notices
from gnnaudit.accounting.noncentral_t import MANY, critical_value, tail


def integral(t, freedom, shift):
    """P(T > t) in 25 digits: the integral of the chi density times a normal tail, cut where either of them bends."""
    with mpmath.workdps(25):
        t, n, shift = (mpmath.mpf(x) for x in (t, freedom, shift))
        constant = mpmath.log(2) + n / 2 * mpmath.log(n / 2) - mpmath.loggamma(n / 2)

        def density(u):  # of u = log(s)
            s = mpmath.exp(u)
            return mpmath.exp(constant + n * (u - s * s / 2)) * mpmath.ncdf(shift - t * s)

        low, high = -40 / n - 12 / mpmath.sqrt(n), mpmath.log(1 + 12 / mpmath.sqrt(n))
        bend, sharp = (mpmath.log(shift / t), 1 / shift) if shift > 0 and t > 0 else (mpmath.mpf(0), mpmath.mpf(1))
        cuts = {low + (high - low) * k / 12 for k in range(13)} | {bend + k * sharp for k in (-16, -8, -4, -2, 0, 2, 4, 8)}
        return float(mpmath.quad(density, sorted({min(max(c, low), high) for c in cuts}), maxdegree=5))


@pytest.mark.parametrize(
    ("t", "freedom", "shift"),
    [
        (2.0, 1, 0.5),
        (40.0, 1, 3.0),
        (3.0, 14, 0.0),
        (9.0, 14, 8.0),
        (60.0, 30, 30.0),
        (-1.0, 50, 1.0),
        (31.0, 500, 30.0),
        (50.0, 8896, 41.0),
        (700.0, 4000, 650.0),
        (6.0, 2 * MANY, 1.0),
        (2000.0, 2 * MANY, 1995.0),
    ],
)
def test_a_tail_is_the_integral_in_25_digits(t, freedom, shift):
    assert tail(t, freedom, shift) == pytest.approx(integral(t, freedom, shift), rel=1e-9, abs=0)


def test_a_tail_without_a_shift_is_student_s():
    t, freedom = np.meshgrid(np.linspace(-30, 300, 45), [1, 2, 5, 30, 1000, 10**5])
    np.testing.assert_allclose(tail(t, freedom, 0.0), stats.t.sf(t, freedom), rtol=1e-10)


def random_grid(n):
    draw = np.random.default_rng(7)
    freedom = np.floor(np.exp(draw.uniform(0, math.log(1e9), n)))
    shift = np.exp(draw.uniform(math.log(1e-6), math.log(1e6), n))
    near = shift + 8 * draw.standard_normal(n) * np.sqrt(1 + shift**2 / (2 * freedom))
    far = shift * np.exp(2 * draw.standard_normal(n)) * draw.choice([-1, 1], n)
    return np.where(draw.random(n) < 0.5, near, far), freedom, shift


def test_a_tail_is_a_probability_and_monotone_over_a_wide_random_grid():
    t, freedom, shift = random_grid(4000)
    found = tail(t, freedom, shift)
    assert ((found >= 0) & (found <= 1)).all()  # a NaN would be neither
    assert (tail(t, freedom, 1.001 * shift) >= found * (1 - 1e-9)).all()
    assert (tail(t + 0.001 * np.abs(t), freedom, shift) <= found * (1 + 1e-9)).all()


def test_an_undefined_tail_rejects_nothing():
    assert (tail([math.nan, 1.0, 1.0, 1.0], [5, 0, math.nan, 5], [1.0, 1.0, 1.0, math.nan]) == 1).all()
    assert tail(math.inf, 5, 1.0) == 0
    assert tail(-math.inf, 5, 1.0) == 1
    assert gaussian.mu_lower(1.0, 1.0, 1, 1, 0.05) == 0
    assert gaussian.mu_p_value(1.0, 1.0, 1, 1, 0.0) == 1


@pytest.mark.parametrize("alpha", [0.4, 0.05, 1e-9])
@pytest.mark.parametrize(("freedom", "shift"), [(1, 0.0), (14, 2.0), (10**4, 60.0), (10**7, 3000.0)])
def test_the_critical_value_is_exceeded_with_the_chance_that_was_asked_for(alpha, freedom, shift):
    assert tail(critical_value(alpha, freedom, shift), freedom, shift) == pytest.approx(alpha, rel=1e-9)


def test_the_bound_on_mu_and_its_p_value_agree_and_never_lack_a_value():
    draw = np.random.default_rng(8)
    for _ in range(100):
        n0, n1 = (int(x) for x in np.exp(draw.uniform(math.log(2), math.log(1e6), 2)))
        mu, alpha = math.exp(draw.uniform(-4, 3)), math.exp(draw.uniform(-20, -1))
        difference = mu + draw.uniform(0, 20) * math.sqrt(1 / n0 + 1 / n1)
        bound = float(gaussian.mu_lower(difference, 1.0, n0, n1, alpha))
        assert 0 <= bound <= 1.5 * difference + 10
        if bound > 1e-3:
            assert gaussian.mu_p_value(difference, 1.0, n0, n1, bound) == pytest.approx(alpha, rel=1e-5)


def test_the_smallest_detectable_factor_falls_with_every_round():
    rounds = np.unique(np.geomspace(10, 10**6, 30).astype(int)).tolist() + list(range(4440, 4460, 3))
    factors = [notices(Claim(4, 1e-6), n, n, 0.05, "likelihood-ratio")[0] for n in sorted(rounds)]
    assert all(more <= less for less, more in pairwise(factors))


@pytest.mark.parametrize("n", [100, 4449, 5000])
def test_the_smallest_detectable_factor_is_that_of_a_normal_approximation(n):
    """The estimate of mu has the variance 2 / n + mu^2 / (4 n) for n rounds of each world."""
    claim = Claim(4, 1e-6)
    mu = gaussian.mu_of_claim(claim)
    factor = notices(claim, n, n, 0.05, "likelihood-ratio")[0]
    error = math.sqrt(2 / n + (factor * mu) ** 2 / (4 * n))
    assert (factor - 1) * mu / error == pytest.approx(stats.norm.isf(0.05) + stats.norm.isf(0.1), rel=0.1)
