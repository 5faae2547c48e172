"""Claims about features: what a user sends is released, so the rows of this user count. Truths are closed forms."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import released

GRAPH = load("campus:n=120:degree=6")
RATE, FLIP, BITS = 0.9, 0.25, 30


def sent(graph, array):
    return released(np.zeros((graph.nodes, graph.classes))) | {"told": array}


def plain(graph, seed):
    return sent(graph, graph.y)


def public(graph, seed):
    return sent(graph, graph.degree)


def geometric(rng, size):
    p = 1 - np.exp(-RATE)
    return rng.geometric(p, size) - rng.geometric(p, size)


def histogram(graph, seed):
    """A new label moves two counts by 1: 2 RATE."""
    counts = np.bincount(graph.y, minlength=graph.classes)
    return sent(graph, counts + geometric(np.random.default_rng(seed), graph.classes))


def ages(graph, seed):
    """A new label moves the age by at least 10: 10 RATE."""
    return sent(graph, 20 + 10 * graph.y + geometric(np.random.default_rng(seed), graph.nodes))


def bits(graph, seed):
    """Each user flips BITS copies of one bit: BITS ln 3 in all."""
    data = np.repeat(graph.x[:, :1] > 0.5, BITS, axis=1)
    return sent(graph, data ^ (np.random.default_rng(seed).random(data.shape) < FLIP))


def seldom(graph, seed):
    """Signs of noisy values that a user moves by a hundredth of the noise: no tried user changes a sign."""
    clean = 0.01 * (graph.y[:20] == 0)
    return sent(graph, clean + np.random.default_rng(seed).standard_normal(20) > 0)


def seldom_whole(graph, seed):
    """The same with noise of whole numbers, which the recorder does not follow to the count."""
    return sent(graph, (graph.y[:20] == 0) + 500 * geometric(np.random.default_rng(seed), 20) > 100)


def random_start(graph, seed):
    """Weights that start at random numbers and learn from public data: no user moves them, although they are data plus noise."""
    weights = np.random.default_rng(seed).standard_normal((3, graph.classes))
    place = np.arange(graph.nodes)[:, None] % np.array([2, 3, 5])
    weights = weights + 0.1 * place.T @ np.eye(graph.classes)[np.arange(graph.nodes) % graph.classes]
    return sent(graph, (place @ weights).argmax(1))


def audited(train, epsilon, folder, delta=0.0):
    ledger = dp.RandomizedResponseDpEvent(2 * FLIP, 2) if train is bits else None
    model = Looped(train, unit=Unit.FEATURES, releases=("posteriors", "told"), events=ledger)
    case = Case(model, Claim(epsilon, delta, Unit.FEATURES))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("features"), 3, 1e-9))


def code(train, epsilon, folder, delta=0.0):
    outcome = audited(train, epsilon, folder, delta)
    return judge(Claim(epsilon, delta, Unit.FEATURES), (), outcome.bounds, 1.5).exit_code


def test_labels_that_are_sent_as_they_are_are_refuted_and_public_numbers_are_not(tmp_path):
    assert code(plain, 1.8, tmp_path) == 1
    assert code(public, 1.8, tmp_path) == 0


def test_random_weights_that_no_secret_moves_hide_nothing(tmp_path):
    assert code(random_start, 1.8, tmp_path) == 0


@pytest.mark.parametrize(("train", "truth"), [(histogram, 2 * RATE), (ages, 10 * RATE), *nightly((bits, BITS * np.log(3)))])
def test_what_one_user_sends_has_the_epsilon_of_its_closed_form(train, truth, tmp_path):
    assert code(train, 0.98 * truth, tmp_path / "less") == 1
    more = audited(train, 51 * RATE if train is ages else 1.02 * truth, tmp_path / "more")
    assert not any(b.refuted for b in more.bounds)


def test_noise_that_hides_every_tried_change_leaves_no_reach(tmp_path):
    outcome = audited(seldom_whole, 1.0, tmp_path, 1e-6)
    assert not any(b.refuted for b in outcome.bounds)
    assert "told" not in outcome.covers or not any(np.isfinite(b.notices) for b in outcome.bounds)
    assert "may hide nothing" in outcome.reach


def test_noisy_values_that_are_only_compared_support_a_claim_above_their_own_cost(tmp_path):
    """No tried change is seen in the release, but the noisy values are known, and a user moves one of them by 0.01."""
    outcome = audited(seldom, 1.0, tmp_path, 1e-6)
    assert {"posteriors", "told"} <= set(outcome.covers)
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(float(epsilon_of(0.01, 1e-6)), rel=1e-2)
    assert not any(b.refuted for b in outcome.bounds)
    assert not any(b.refuted for b in audited(seldom, 0.01, tmp_path / "less", 1e-6).bounds)
