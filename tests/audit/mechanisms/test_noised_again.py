"""A noisy value that the run uses only inside values with more noise is no release of its own."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load

from ..recorded.votes import counts, released

GRAPH = load("campus:n=240")
CLAIM = Claim(2.0, 1e-6)  # noise of std 3.2 on sums that an edge moves by sqrt(2) costs 1.97


def rotated(std):
    """Two servers add half of the variance each, and the first one rotates its sums."""

    def train(graph, seed):
        first, second = (np.random.default_rng([seed, server]) for server in (1, 2))
        rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((graph.classes, graph.classes)))[0]
        clean = counts(graph)
        message = (clean + std / 2**0.5 * first.standard_normal(clean.shape)) @ rotation
        return released(message + std / 2**0.5 * second.standard_normal(clean.shape))

    return Looped(train, events=dp.GaussianDpEvent(std / 2**0.5))


def both_used(std):
    """The first noisy sum is released too, so its own noise is all that hides it."""

    def train(graph, seed):
        first, second = (np.random.default_rng([seed, server]) for server in (1, 2))
        clean = counts(graph)
        message = clean + std / 2**0.5 * first.standard_normal(clean.shape)
        again = message @ np.ones((graph.classes, graph.classes)) + std * second.standard_normal(clean.shape)
        return released(message + np.tanh(again))

    return Looped(train, events=dp.GaussianDpEvent(std / 2**0.5))


@pytest.mark.parametrize(("model", "verdicts"), [(rotated, {"inconclusive", "not refuted"}), (both_used, {"refuted"})])
def test_a_value_behind_more_noise_refutes_nothing_and_a_value_that_is_used_does(model, verdicts):
    """Half of the variance alone costs 2.9, more than the claim."""
    found = audit(model(3.2), GRAPH, CLAIM, attacks="none", audits="differential", repeats=1)
    assert found.run.verdict in verdicts


def test_too_little_noise_behind_more_noise_does_not_pass():
    assert audit(rotated(1.0), GRAPH, CLAIM, attacks="none", audits="differential", repeats=1).run.verdict != "not refuted"
