"""All noise of a training is drawn at its start, as one array with a row for each step. Only the last step adds its row to the
release: the rows of earlier steps reach it through gradients.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...nightly import nightly

GRAPH, STEPS, CLIP = load("campus:n=120:degree=6"), 3, 0.25


def gradient_descent(mu, first):
    """Full-batch DP-GD whose releases cost `mu` together. first: whether the noise of all steps is drawn before them."""
    size = CLIP * STEPS**0.5 / mu

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        x, y = np.asarray(graph.x, dtype=float), np.eye(graph.classes)[graph.y]
        x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
        weights = np.zeros((graph.dim, graph.classes))
        noise = rng.normal(0, size, (STEPS, *weights.shape)) if first else None
        for step in range(STEPS):
            logits = x @ weights
            residual = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)) - y
            length = np.linalg.norm(residual, axis=1) * np.linalg.norm(x, axis=1)
            clipped = residual * (graph.train * np.minimum(1, CLIP / np.maximum(length, 1e-9)))[:, None]
            weights = weights - x.T @ clipped - (rng.normal(0, size, weights.shape) if noise is None else noise[step])
        return {"weights": weights}

    return train


def audited(mu, claimed, first):
    claim = Claim(1.01 * float(epsilon_of(claimed, 1e-5)), 1e-5, Unit.NODE)
    case = Case(Looped(gradient_descent(mu, first), releases=("weights",), claim=claim), claim)
    return claim, differential(Setting(case, GRAPH, None, Key("first"), 3, 1e-4)).bounds


@pytest.mark.parametrize("first", [True, *nightly(False)])
def test_steps_whose_noise_is_drawn_before_them_cost_what_they_cost_together(first):
    claim, bounds = audited(0.5, 0.5, first)
    assert not any(bound.refuted for bound in bounds)
    assert min(bound.reach for bound in bounds) <= 1.1 * claim.epsilon


@pytest.mark.parametrize("first", [True, *nightly(False)])
def test_half_the_noise_gets_no_support(first):
    """The last weights show only a function of the three noisy sums, so this does not refute the claim either."""
    _, bounds = audited(1.0, 0.5, first)
    assert all(bound.reach == np.inf for bound in bounds)
    assert max(bound.epsilon for bound in bounds) <= float(epsilon_of(1.0, 1e-5))
