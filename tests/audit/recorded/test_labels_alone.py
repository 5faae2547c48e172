"""Sums of rows for each class: a user who changes the label alone moves two of them by the whole row."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH, COLUMNS = load("campus:n=120:degree=6"), 2
CLAIM = Claim(1.001, 0.0, Unit.FEATURES, exposes=("sums",))


def bounds_of(most, tmp_path, seed=0):
    """The bounds for noise that suffices for a user who moves the sums of `most` in absolute value.

    The first rows are 1 in all columns, and no other row is above 0. So a user with other features leaves or enters one sum, and
    only the first ones move two, if they keep their features.
    """

    def train(graph, seed):
        x = np.asarray(graph.x)
        ones = np.repeat((x[:, :1] >= np.sort(GRAPH.x[:, 0])[-3]).astype(float), COLUMNS, axis=1)
        sums = np.eye(graph.classes)[graph.y].T @ ones
        return {"sums": sums + most * np.random.default_rng(seed).laplace(size=sums.shape)}

    case = Case(Looped(train, releases=("sums",), unit=Unit.FEATURES, events=dp.LaplaceDpEvent(1.0)), CLAIM)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("label", seed), 3, 1e-4)).bounds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_noise_for_a_user_who_leaves_one_sum_is_refuted_at_twice_the_claim(seed, tmp_path):
    bound = max(bounds_of(COLUMNS, tmp_path, seed), key=lambda b: b.epsilon)
    assert bound.refuted
    assert bound.epsilon == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_noise_for_a_user_who_leaves_one_sum_and_enters_another_is_not_refuted(seed, tmp_path):
    bounds = bounds_of(2 * COLUMNS, tmp_path, seed)
    assert not any(b.refuted for b in bounds)
    assert max(b.epsilon for b in bounds) == pytest.approx(1.0, rel=1e-3)
