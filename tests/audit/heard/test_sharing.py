"""Noise that several mechanisms share: computed again it costs once, on values that move apart it hides nothing, and noise that
is shared in part is not costed. The truth is the closed form of the Gaussian mechanism.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.heard.observed import observe
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH, DELTA, SCALE = load("campus:n=120:degree=6"), 1e-5, 4.0
ONE = 2**0.5 / SCALE  # what an edge moves a sum of unit rows by, over the noise


def counts(graph):
    return graph.adjacency() @ np.eye(graph.classes)[graph.y]


def drawn(seed, *shape):
    return SCALE * np.random.default_rng(seed).standard_normal(shape)


def answer(*noisy):
    shares = np.tanh(np.hstack(noisy))
    return {"posteriors": shares - np.logaddexp.reduce(shares, axis=1, keepdims=True)}


def once(graph, seed):
    return answer(counts(graph) + drawn(seed, graph.nodes, graph.classes))


def computed_again(graph, seed):
    """As a sum over a tree of steps does: the same value with the same noise, added up anew."""
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    return answer(clean + noise, (clean / 2 + clean / 2) + noise)


def disjoint(graph, seed):
    noise, clean = drawn(seed, graph.nodes, 2 * graph.classes), counts(graph)
    return answer(clean + noise[:, : graph.classes], clean + noise[:, graph.classes :])


def running_sums(graph, seed):
    """Continual release: what was added so far, with all noise so far. Honest, at two steps of one sum each."""
    first, second = (drawn([seed, step], graph.nodes, graph.classes) for step in (1, 2))
    clean = counts(graph)
    return answer(clean + first, 2 * clean + (first + second))


def overlapping(graph, seed):
    noise, clean = drawn(seed, graph.nodes, graph.classes + 2), counts(graph)
    return answer(clean + noise[:, : graph.classes], clean + noise[:, 2:])


def doubled(graph, seed):
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    return answer(clean + noise, 2 * clean + noise)


def bound(train, epsilon, tmp_path):
    case = Case(Looped(train), Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("sharing"), 3, 1e-4))
    return max(outcome.bounds, key=lambda b: b.epsilon)


@pytest.mark.parametrize(("train", "moved"), [(once, ONE), (computed_again, ONE), (disjoint, 2**0.5 * ONE)])
def test_what_is_costed_is_the_closed_form(train, moved, tmp_path):
    truth = float(epsilon_of(moved, DELTA))
    found = observe(Case(Looped(train), Claim(truth, DELTA, Unit.UNDIRECTED_EDGE)), GRAPH, Key("sharing"))
    assert found.costs == pytest.approx(truth, rel=5e-3)
    assert not bound(train, truth * 1.001, tmp_path / "honest").refuted
    refuted = bound(train, truth * 0.98, tmp_path / "too small")
    assert refuted.refuted
    assert refuted.epsilon == pytest.approx(truth, rel=5e-3)


@pytest.mark.parametrize("train", [running_sums, overlapping])
def test_noise_that_is_shared_in_part_is_not_costed_and_the_reason_is_said(train, tmp_path):
    model = Looped(train)
    claim = Claim(float(epsilon_of(2**0.5 * ONE, DELTA)), DELTA, Unit.UNDIRECTED_EDGE)
    found = observe(Case(model, claim), GRAPH, Key("sharing"))
    assert found.costs is None
    assert any("is shared by 2 mechanisms" in doubt for doubt in found.doubts)
    assert not bound(train, claim.epsilon, tmp_path).refuted


def test_the_same_noise_on_values_that_move_apart_hides_nothing(tmp_path):
    found = bound(doubled, 100.0, tmp_path)
    assert found.refuted
    assert found.epsilon == np.inf
