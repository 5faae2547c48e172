"""What the audit says it would have noticed is what it says of the same model with less noise."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH, DELTA = load("campus:n=200:degree=10"), 1e-6
SIGMA = 1.5  # an edge moves two degrees by 1
EPSILON = float(epsilon_of(2**0.5 / SIGMA, DELTA))
PERHAPS = "(perhaps only as an inconclusive verdict)"


def degrees(graph, seed, noise):
    noisy = graph.degree + SIGMA * noise * np.random.default_rng(seed).standard_normal(graph.nodes)
    return {"released": np.tanh(noisy / 50)}  # computed from the noisy values, and shows all of them


def between_halves(graph, seed, noise):
    """Noisy numbers of neighbours of even nodes among the odd ones, and the reverse. Such an edge moves two of them."""
    one, other = graph.edges[:, (graph.edges[0] + graph.edges[1]) % 2 == 1]
    counts = np.bincount(np.concatenate([one, other]), minlength=graph.nodes)
    return counts + SIGMA * noise * np.random.default_rng(seed).standard_normal(graph.nodes)


def half_shown(graph, seed, noise):
    """The release shows one of the two numbers."""
    noisy = between_halves(graph, seed, noise)
    return {"released": np.tanh(noisy[::2] / 50)}


def half_of_few(graph, seed, noise):
    """The same for the edges of node 0 alone, so that few secrets move the numbers."""
    ends = graph.edges[:, (graph.edges == 0).any(0)]
    counts = np.bincount(ends.sum(0) % 4, minlength=4) if ends.size else np.zeros(4)
    noisy = np.concatenate([counts, counts]) + SIGMA * noise * np.random.default_rng(seed).standard_normal(8)
    return {"released": np.tanh(noisy[:4] / 50)}


def more_noise_in_common(graph, seed, noise):
    rng = np.random.default_rng(seed)
    noisy = graph.degree + SIGMA * noise * rng.standard_normal(graph.nodes)
    return {"released": noisy + noise * rng.laplace(0, 3)}


def tree(graph, seed, noise):
    """Sums of blocks of 1, 2, 4, and 8 of the nodes' kinds; what is released are their prefix sums."""
    rng = np.random.default_rng(seed)
    leaves = np.bincount(np.minimum(graph.edges[0], graph.edges[1]) % 8, minlength=8).astype(float)
    one, two, four, eight = (leaves.reshape(-1, k).sum(1) + SIGMA * noise * rng.standard_normal(8 // k) for k in (1, 2, 4, 8))
    parts = [one[0], two[0], two[0] + one[2], four[0], four[0] + one[4], four[0] + two[2], four[0] + two[2] + one[6], eight[0]]
    return {"released": np.array(parts)}


def loudest(graph, seed, noise):
    return {"released": np.array([np.argmax(graph.degree + 4.0 * noise * np.random.default_rng(seed).laplace(size=graph.nodes))])}


GAUSS = dp.GaussianDpEvent(SIGMA / 2**0.5)
TREE = dp.GaussianDpEvent(SIGMA / 4**0.5)  # an edge moves one block at each of four levels
OF_TREE = float(epsilon_of(2.0 / SIGMA, DELTA))
KINDS = {
    "all shown": (degrees, GAUSS, Claim(1.001 * EPSILON, DELTA), False),
    "half shown": (half_shown, GAUSS, Claim(1.001 * EPSILON, DELTA), True),
    "half of a few shown": (half_of_few, GAUSS, Claim(1.001 * EPSILON, DELTA), False),
    "more noise in common": (more_noise_in_common, GAUSS, Claim(1.001 * EPSILON, DELTA), True),
    "prefix sums of a tree": (tree, TREE, Claim(1.001 * OF_TREE, DELTA), False),
    "the largest of noisy values": (loudest, PureDpEvent(0.5), Claim(0.501, 0.0), False),
}


def audited(kind, noise, folder):
    train, events, claim, _ = KINDS[kind]
    case = Case(Looped(lambda graph, seed: train(graph, seed, noise), releases=("released",), events=events), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("less", 0), 3, 1e-4))


@pytest.mark.parametrize("kind", KINDS)
def test_the_sentence_says_what_happens_with_less_noise(kind, tmp_path):
    claim, inconclusive = KINDS[kind][2:]
    honest = audited(kind, 1.0, tmp_path / "honest")
    assert not any(b.refuted for b in honest.bounds)
    bound = min(honest.bounds, key=lambda b: b.notices)
    assert claim.epsilon < bound.reach < math.inf
    (sort,) = (honest.covers or {}).values()
    assert inconclusive <= (PERHAPS in sort)
    assert PERHAPS not in sort or kind != "all shown"
    assert ("less noise would not refute the claim" in bound.method) == inconclusive
    less = audited(kind, 0.97 / bound.notices, tmp_path / "less")
    assert any(b.refuted for b in less.bounds) != inconclusive
    assert inconclusive <= all(math.isinf(b.reach) for b in less.bounds)
