"""A release that shows the noise itself besides the noisy value shows the clean value: its epsilon is infinite."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH = load("campus:n=120:degree=6")
EDGE = Claim(3.32, 1e-6)  # noise of std 2 on two rows that move by 1 costs 3.308


def noisy(graph, seed):
    noise = 2 * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    return counts(graph) + noise, noise


def centred(graph, seed):
    """The columns of the release add up to the exact column sums of the data."""
    values, noise = noisy(graph, seed)
    return released(values - np.asarray(noise).mean(0))


def logged(graph, seed):
    """Squares of the noise, and the noisy values without their signs: both together give few candidates for the data."""
    values, noise = noisy(graph, seed)
    return released(np.abs(values)) | {"spread": np.square(np.asarray(noise)).mean(1)}


def plain(graph, seed):
    return released(np.abs(noisy(graph, seed)[0]))


def with_weights(graph, seed):
    """Random weights are shown as they are, but are no noise."""
    random = np.random.default_rng(seed)
    values = counts(graph) + 2 * random.standard_normal((graph.nodes, graph.classes))
    weights = random.uniform(-1, 1, (graph.classes, graph.classes))
    return released(np.abs(values)) | {"spread": np.asarray(weights)}


def shown_coins(graph, seed):
    """Bits by randomised response, and the coins that flipped them."""
    bits = graph.x[:, :1] > 0.5
    coins = np.random.default_rng(seed).random(bits.shape) < 0.25
    return released(np.zeros((graph.nodes, graph.classes))) | {"bits": bits ^ coins, "spread": np.asarray(coins).mean(0)}


def hidden_coins(graph, seed):
    bits = graph.x[:, :1] > 0.5
    coins = np.random.default_rng(seed).random(bits.shape) < 0.25
    return released(np.zeros((graph.nodes, graph.classes))) | {"bits": bits ^ coins}


def audited(train, claim, releases, folder):
    case = Case(Looped(train, unit=claim.unit, releases=releases), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("shown"), 3, 1e-4))


@pytest.mark.parametrize(("train", "releases"), [(centred, ("posteriors",)), *nightly((logged, ("posteriors", "spread")))])
def test_noise_that_the_release_shows_hides_nothing_and_the_verdict_says_so(train, releases, tmp_path):
    outcome = audited(train, EDGE, releases, tmp_path)
    assert not any(np.isfinite(b.notices) for b in outcome.bounds if not b.refuted)
    line = noisy.__code__.co_firstlineno + 1
    assert f"the release shows the noise itself, drawn at test_shown_noise.py, line {line}" in outcome.reach


@pytest.mark.parametrize(("train", "releases"), [*nightly((plain, ("posteriors",))), (with_weights, ("posteriors", "spread"))])
def test_noise_that_only_the_noisy_value_shows_has_its_closed_form(train, releases, tmp_path):
    outcome = audited(train, EDGE, releases, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(3.308, rel=1e-3)
    assert min(b.reach for b in outcome.bounds) < 3.4


@pytest.mark.parametrize(("train", "known"), [(shown_coins, False), (hidden_coins, True)])
def test_coins_that_the_release_shows_hide_no_bits(train, known, tmp_path):
    """A bit costs ln 3 if the coins are secret."""
    releases = ("posteriors", "bits", "spread") if train is shown_coins else ("posteriors", "bits")
    outcome = audited(train, Claim(1.11, 0.0, Unit.FEATURES), releases, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert ("shows the noise itself" in outcome.reach) != known
