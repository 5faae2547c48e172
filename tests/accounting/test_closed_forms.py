"""The epsilon of finite channels, against bisection on their privacy profile."""

import math

import numpy as np
import pytest

from gnnaudit.accounting.closed_forms import channel_epsilon
from gnnaudit.accounting.events.types import FiniteDpEvent
from gnnaudit.accounting.upper import exact

from ..nightly import nightly


def profile(p, q, epsilon):
    return np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum()


def test_randomised_response_over_many_classes_is_exact():
    for classes in (2, 3, 10):
        p = math.exp(1.5) / (math.exp(1.5) + classes - 1)
        channel = np.full((classes, classes), (1 - p) / (classes - 1))
        np.fill_diagonal(channel, p)
        assert channel_epsilon(channel) == pytest.approx(1.5, abs=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-3, *nightly(1e-5, 0.05, 0.37)])
def test_both_ways_to_an_exact_epsilon_agree_with_bisection_on_the_profile(delta):
    """Pairs with equal ratios, with outcomes that only one input has, and with equal rows."""
    draw = np.random.default_rng(1)
    for i in range(300):
        p, q = draw.dirichlet(np.full(draw.integers(2, 6), 0.5), size=2)
        if i % 3 == 1:  # an outcome that only one input has
            p[draw.integers(len(p))] = 0.0
            p /= p.sum()
        if i % 3 == 2:  # equal ratios
            p, q = np.repeat(p, 2) / 2, np.repeat(q, 2) / 2
        q = p if i % 50 == 0 else q

        def leaks(e, p=p, q=q):
            return max(profile(p, q, e), profile(q, p, e)) > delta

        low, high = 0.0, 40.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if leaks(middle) else (low, middle)
        truth = 0.0 if not leaks(0.0) else math.inf if leaks(40.0) else high
        for found in (channel_epsilon([p, q], delta), exact.epsilon(FiniteDpEvent(tuple(p), tuple(q)), delta)):
            assert found >= 0
            assert found == truth or found == pytest.approx(truth, abs=1e-9) or found > 30 < truth


def test_an_output_of_one_input_only_is_infinite_until_delta_covers_it():
    channel = [[0.9, 0.1, 0.0], [0.9, 0.05, 0.05]]
    assert channel_epsilon(channel, 0.04) == math.inf
    assert channel_epsilon(channel, 0.06) == 0
    with pytest.raises(ValueError, match="summing to 1"):
        channel_epsilon([[0.5, 0.4], [0.5, 0.5]])
