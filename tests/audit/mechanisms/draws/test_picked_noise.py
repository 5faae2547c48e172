"""Noise that is one of several drawn numbers has their law only if the numbers do not decide which of them it is.

The truth: the smaller of two Laplace numbers of scale b is one of scale b / 2, so an edge costs twice as much. A number that is
drawn again beyond 3 scales has a density of f (1 + p) up to there, and f p beyond, with p = exp(-3): its ratio at a distance of 1
exceeds exp(4) with a probability of more than 1e-4.
"""

import math

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH = load("campus:n=120:degree=6")
CLAIM = Claim(1.01, 1e-4)  # an undirected edge moves the number of edges by 1


def edges(graph):
    return float(graph.edges.shape[1])


def smallest(graph, seed):
    z = np.random.default_rng(seed).laplace(0, 1, 2)
    return {"out": np.array([edges(graph) + z[np.abs(z).argmin()]])}


def drawn_again(graph, seed):
    z = np.random.default_rng(seed).laplace(0, 1, 2)
    return {"out": np.array([edges(graph) + (z[0] if abs(z[0]) < 3 else z[1])])}


def smallest_of_each(graph, seed):
    rng = np.random.default_rng(seed)
    kinds = np.bincount(graph.y[graph.edges].sum(0) % 3, minlength=3)
    pairs = [rng.laplace(0, 1, 2) for _ in kinds]
    return {"out": np.array([count + min(pair, key=abs) for count, pair in zip(kinds, pairs, strict=True)])}


def smallest_of_a_tensor(graph, seed):
    generator = torch.Generator().manual_seed(int(seed) % 2**63)
    z = 4 * torch.randn(3, generator=generator)
    return {"out": np.array([edges(graph) + z[z.abs().argmin()].item()])}


def the_second(graph, seed):
    z = np.random.default_rng(seed).laplace(0, 1, 3)
    return {"out": np.array([edges(graph) + z[1]])}


def of_the_node_with_most_edges(graph, seed):
    z = np.random.default_rng(seed).laplace(0, 1, 3)
    return {"out": np.array([edges(graph) - z[int(graph.degree.argmax()) % 3]])}


def backwards(graph, seed):
    rng = np.random.default_rng(seed)
    kinds = np.bincount(graph.y[graph.edges].sum(0) % 3, minlength=3)
    z = rng.laplace(0, 1, 3)
    return {"out": np.array([count + z[2 - at] for at, count in enumerate(kinds)])}


def audited(train, folder):
    case = Case(Looped(train, releases=("out",)), CLAIM)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("picked"), 3, 1e-4))


@pytest.mark.parametrize("train", [smallest, drawn_again, smallest_of_each, smallest_of_a_tensor])
def test_a_number_that_the_numbers_themselves_pick_is_not_supported(train, tmp_path):
    found = audited(train, tmp_path)
    assert not any(b.refuted for b in found.bounds)
    assert all(math.isinf(b.reach) for b in found.bounds)
    assert any("decide which one is picked" in text for b in found.bounds for text in (c.detail for c in b.conditions))


@pytest.mark.parametrize("train", [the_second, of_the_node_with_most_edges, backwards])
def test_a_number_that_other_things_pick_keeps_its_support(train, tmp_path):
    found = audited(train, tmp_path)
    assert not any(b.refuted for b in found.bounds)
    assert min(b.reach for b in found.bounds) < 1.1
