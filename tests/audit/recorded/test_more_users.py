"""Users who are not trained on, and users with extreme features, are among the secrets. Truths are closed forms."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-5
NOT_REFUTED, REFUTED = 0, 1
MU = brentq(lambda mu: norm.cdf(mu / 2 - 1 / mu) - np.e * norm.cdf(-mu / 2 - 1 / mu) - DELTA, 0.1, 1)  # epsilon = 1
WIDE = GRAPH.dim


def rows_of(graph):
    return np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x, dtype=float)


def code(train, claim, ledger, folder, key):
    model = Looped(train, unit=claim.unit, events=ledger)
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(folder), Key(key), 3, 1e-9))
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(dataclasses.replace(claim, exposes=("posteriors",)), (), bounds, 1.5).exit_code


def scaled(everybody):
    """Every user sends a row of length 1 at most, with noise. everybody: whether users who are not trained on scale theirs."""

    def train(graph, seed):
        rows = rows_of(graph)
        short = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        sent = np.where((graph.train | everybody)[:, None], short, rows)
        noisy = sent + np.random.default_rng(seed).normal(0, 2 / MU, sent.shape)
        return released(np.tanh(graph.adjacency() @ noisy / 60)[:, : graph.classes])

    return train


@pytest.mark.parametrize("key", ["one", *nightly("two")])
@pytest.mark.parametrize("everybody", [True, False])
def test_users_who_are_not_trained_on_are_tried(everybody, key, tmp_path):
    """A row that is not scaled moves by up to the root of the number of columns, and not by 2."""
    claim = Claim(1.0, DELTA, Unit.FEATURES)
    found = code(scaled(everybody), claim, dp.GaussianDpEvent(1 / MU), tmp_path, key)
    assert (found == NOT_REFUTED) is everybody


def squares(scale):
    """The sum over the training nodes of the squared share of ones in their rows, which 0 and 1 bound."""

    def train(graph, seed):
        total = (rows_of(graph).mean(1) ** 2 * graph.train).sum() + np.random.default_rng(seed).laplace(0, scale, 1)
        return released(np.tile(np.tanh(total / 60 * np.arange(1, graph.classes + 1)), (graph.nodes, 1)))

    return train


@pytest.mark.parametrize("key", ["one", *nightly("two")])
@pytest.mark.parametrize(("scale", "expected"), [(1.0, NOT_REFUTED), (0.7, REFUTED)])
def test_rows_of_the_highest_value_are_tried(scale, expected, key, tmp_path):
    """From a row of zeros to a row of ones the share moves by 1; here the row with the fewest ones has share s, so by 1 - s^2."""
    assert (rows_of(GRAPH).mean(1) ** 2).max() < 0.25
    claim = Claim(1.0, 0.0, Unit.FEATURES)
    assert code(squares(scale), claim, dp.LaplaceDpEvent(1.0), tmp_path, key) == expected
