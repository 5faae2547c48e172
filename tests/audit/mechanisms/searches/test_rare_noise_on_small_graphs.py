"""Paths past the noise that open on small graphs, where noise crosses a threshold that it never reaches on the given one; and
noise whose size, or whose use, another random number decides.

The truths: Laplace noise of scale 1 lies below -x with a probability of exp(-x) / 2. The first of two noisy values is below 0
with a probability of up to 1/2, and whoever gets the second one then knows both: an edge costs 2.
"""

import math

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ....nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=6")


def edges(graph):
    return float(graph.edges.shape[1])


def exact_below(bar):
    """The exact number of edges, 360 on the graph, if the noisy one is too small."""

    def train(graph, seed):
        noisy = edges(graph) + np.random.default_rng(seed).laplace(0, 1.0)
        return {"out": np.array([edges(graph) if noisy < bar else noisy])}

    return train


def exact_above(bar):
    """The exact number of training nodes, if the noisy one exceeds the number of nodes by so much."""

    def train(graph, seed):
        exact = float(graph.train.sum())
        noisy = exact + np.random.default_rng(seed).laplace(0, 1.0)
        return {"out": np.array([exact if noisy > graph.nodes + bar else noisy])}

    return train


def of_two_signs(bar):
    """Two exact numbers, if the noise of the first one is far below 0 and that of the second one far above."""

    def train(graph, seed):
        exact = np.array([edges(graph), float((graph.y[graph.edges[0]] == graph.y[graph.edges[1]]).sum())])
        noisy = exact + np.random.default_rng(seed).laplace(0, 2.0, 2)
        error = noisy - exact
        return {"out": exact if error[0] < -bar and error[1] > bar else noisy}

    return train


def zero_below(bar):
    def train(graph, seed):
        noisy = edges(graph) + np.random.default_rng(seed).laplace(0, 1.0)
        return {"out": np.array([0.0 if noisy < bar else noisy])}

    return train


def noised_again(graph, seed):
    rng = np.random.default_rng(seed)
    first = edges(graph) + rng.laplace(0, 1.0)
    second = edges(graph) + rng.laplace(0, 1.0)
    return {"out": np.array([np.where(first < 0, second, first)])}


def exact_twice(bar):
    """One exact number twice, added to an array of noise, if the noise has two signs."""

    def train(graph, seed):
        noisy = edges(graph) + np.random.default_rng(seed).laplace(0, 2.0, 2)
        error = noisy - edges(graph)
        return {"out": np.full(2, edges(graph)) if error[0] < -bar and error[1] > bar else noisy}

    return train


def whether_all_classes(bar):
    """Whether each class has a training node, if the noisy size of the smallest class exceeds `bar`, and -1 else. With one node
    in it: exp(1 - bar) / 2.
    """

    def train(graph, seed):
        smallest = float(np.bincount(graph.y[graph.train], minlength=graph.classes).min())
        noisy = smallest + np.random.default_rng(seed).laplace(0, 1.0)
        return {"out": np.array([float(smallest > 0) if noisy > bar else -1.0])}

    return train


def audited(train, claim, folder, name="small"):
    case = Case(Looped(train, releases=("out",)), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key(name), 3, 1e-4))


EDGE, NODE = Claim(1.01, 1e-5), Claim(1.01, 1e-5, Unit.NODE)


@pytest.mark.parametrize(
    ("train", "claim"),
    [
        (exact_below(-6.0), EDGE),
        (exact_above(5.0), NODE),
        (of_two_signs(6.0), EDGE),
        (noised_again, EDGE),
        (exact_twice(2.0), EDGE),
        (whether_all_classes(2.6), Claim(1.01, 1e-2, Unit.NODE)),
    ],
    ids=["below", "above", "two_signs", "noised_again", "twice", "classes"],
)
def test_what_small_graphs_or_rare_noise_open_is_not_supported(train, claim, tmp_path):
    found = audited(train, claim, tmp_path)
    assert not found.covers
    assert all(math.isinf(bound.reach) for bound in found.bounds)


@pytest.mark.parametrize(
    ("train", "claim"),
    [
        (exact_below(-14.0), EDGE),
        (exact_above(14.0), NODE),
        (of_two_signs(16.0), EDGE),
        (zero_below(-6.0), EDGE),
        (noised_again, Claim(2.02, 1e-5)),
        (whether_all_classes(5.7), Claim(1.01, 1e-2, Unit.NODE)),
    ],
    ids=["below", "above", "two_signs", "zero", "noised_again", "classes"],
)
def test_what_delta_permits_and_functions_of_noisy_values_keep_their_support(train, claim, tmp_path):
    found = audited(train, claim, tmp_path)
    assert not any(bound.refuted for bound in found.bounds)
    assert found.covers == {"out": found.covers["out"]}


def by_a_coin(graph, seed):
    """Noise of scale 1 or 10: the density ratio at a distance of 1 is at most exp(.8754)."""
    rng = np.random.default_rng(seed)
    small, large, gate = rng.laplace(0, 1.0), rng.laplace(0, 10.0), rng.laplace(0, 1.0)
    return {"out": np.array([edges(graph) + (small if gate > 0 else large)])}


def by_a_number_of_the_same_draw(graph, seed):
    z = np.random.default_rng(seed).laplace(0, 1.0, 3)
    return {"out": np.array([edges(graph) + (z[0] if z[2] > 0 else 10 * z[1])])}


@pytest.mark.parametrize("names", ["ab", *nightly("cdefgh")])
@pytest.mark.parametrize("train", [by_a_coin, by_a_number_of_the_same_draw])
def test_noise_of_a_size_that_a_hidden_number_decides_refutes_no_claim_that_holds(train, names, tmp_path):
    for name in names:
        assert not any(bound.refuted for bound in audited(train, Claim(0.9, 0.0), tmp_path / name, name).bounds)
