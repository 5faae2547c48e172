"""A path past the noise that is open in few runs. At a large delta the claim may permit it, and among many secrets there is
nearly always one for which it is open in the first run.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.seeds import FURTHER, needed, often
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
# Noise of size 2 is within 6 with a probability of .9973, and an edge moves two degrees. Where the noise is cut off, the two
# arrays differ by it. Their joint law, integrated, has delta .0259 at this epsilon.
CLAIM = Claim(1.3504, 0.03, exposes=("noisy", "cut"))


def cut(graph, seed):
    noise = np.random.default_rng(seed).normal(0, 2.0, graph.nodes)
    again = np.random.default_rng(seed).normal(0, 2.0, graph.nodes)
    return {"noisy": graph.degree + noise, "cut": graph.degree + np.clip(again, -6, 6)}


def with_a_path(graph, seed):
    found = cut(graph, seed)
    return found | {"cut": found["cut"] + 0.01 * (graph.edges.shape[1] % 2)}


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize(("train", "refuted"), [(cut, False), (with_a_path, True)])
def test_only_a_path_that_is_open_in_every_run_refutes_a_claim_with_a_large_delta(train, refuted, seed, tmp_path):
    case = Case(Looped(train, releases=CLAIM.exposes), CLAIM)
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rare", seed), 3, 1e-4)).bounds
    assert any(bound.refuted for bound in bounds) is refuted


def dropped(share):
    """Two sums with the same noise. One leaves out each edge with this probability: they differ if it leaves out the secret."""

    def train(graph, seed):
        one_hot = np.eye(graph.classes)[graph.y]
        keep = np.triu(np.random.default_rng([seed, 9]).random((graph.nodes, graph.nodes)) > share, 1)
        adjacency = graph.adjacency().toarray()
        noise = [np.random.default_rng(seed).normal(0, 2.0, one_hot.shape) for _ in range(2)]
        return {"noisy": adjacency @ one_hot + noise[0], "cut": (adjacency * (keep | keep.T)) @ one_hot + noise[1]}

    return train


# Of the first release alone, the claims are true. At delta = .3 they are so of both: the secret is left out with a probability
# of .2, and .6066 is the epsilon of the first one at the delta that is left.
@pytest.mark.parametrize(
    ("claim", "share", "refuted"),
    [(Claim(0.6127, 0.3), 0.2, False), (Claim(1.5, 1e-2), 0.9, True), *nightly((Claim(2.97, 1e-5), 0.2, True))],
)
def test_noise_that_is_used_twice_with_a_probability_below_delta_refutes_nothing(claim, share, refuted, tmp_path):
    case = Case(Looped(dropped(share), releases=CLAIM.exposes), replace(claim, exposes=CLAIM.exposes))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("dropped"), 3, 1e-4)).bounds
    assert [bound.epsilon for bound in bounds if bound.refuted] == [np.inf] * refuted


def compared(public):
    """A noisy number of edges, and its double if it exceeds a bar: a public one, or the exact number of edges. An edge decides
    this only if the noisy number lies between the two exact ones, which a run in eight does.
    """

    def train(graph, seed):
        edges = graph.edges.shape[1]
        noisy = edges + np.random.default_rng(seed).normal(0, 3.0)
        return {"noisy": noisy, "step": noisy * (1 + (noisy > (300 if public else edges)))}

    return train


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 10))])
@pytest.mark.parametrize("public", [True, False])
def test_a_private_bar_that_decides_in_few_runs_gets_no_support(public, seed, tmp_path):
    claim = Claim(1.01 * float(epsilon_of(1 / 3, 1e-5)), 1e-5)
    case = Case(Looped(compared(public), releases=("noisy", "step")), claim)
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("bar", seed), 3, 1e-4))
    refuted = [bound.epsilon for bound in outcome.bounds if bound.refuted]
    if public:
        assert (set(outcome.covers), refuted) == ({"noisy", "step"}, [])
    else:
        assert refuted == [np.inf] or "step" not in outcome.covers


@pytest.mark.parametrize(("times", "found"), [(24, True), (3, False), (12, True)])
def test_often_is_the_exact_binomial_test(times, found):
    """Under a probability of .05, three of 24 runs or more happen with one of .12, and 12 or more with one of 3.7e-10."""
    assert often(0.05, FURTHER[:times].__contains__) is found
    assert often(0.5, FURTHER[:times].__contains__) is (times == 24)
    assert often(0.0, ().__contains__)
    assert (often(1e-6, FURTHER[1:2].__contains__), often(1e-6, ().__contains__)) == (True, False)


@pytest.mark.parametrize("runs", [3, 7, 24, 25])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3])
def test_what_happens_with_probability_delta_is_seldom_seen_so_often_as_needed(delta, runs):
    """The probabilities are sums of exact fractions."""
    chance = Fraction(delta)
    seen = [math.comb(runs, k) * chance**k * (1 - chance) ** (runs - k) for k in range(runs + 1)]
    enough = needed(delta, runs)
    assert sum(seen[enough:]) <= 1e-7
    assert enough == 2 or sum(seen[enough - 1 :]) > 1e-7  # and no smaller number would do
    assert needed(0.0, runs) == 1
