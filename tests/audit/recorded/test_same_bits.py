"""Two draws that a generator makes of the same random bits are found, whatever their laws."""

import copy
import random

import numpy as np
import pytest
import torch
from scipy import stats

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.recorded.reuse import same_bits
from gnnaudit.models.recorder import recording

GRAPH = load("campus:n=160:degree=8")


def drawn(draw):
    """What is said of the draws of a function."""
    with recording() as recorded:
        draw()
    return same_bits(recorded.draws)


def seeded(seed=7):
    return np.random.default_rng(seed)


def torch_seeded(seed=7):
    torch.manual_seed(seed)
    return torch


def python_seeded(seed=7):
    random.seed(seed)
    return random


def copied():
    one = seeded()
    one.random(3)
    two = copy.deepcopy(one)
    one.normal(size=40)
    two.laplace(size=40)


def restored():
    torch_seeded()
    before = torch.get_rng_state()
    torch.randn(40)
    torch.set_rng_state(before)
    torch.rand(40)


def shifted():
    one, two = seeded(), seeded()
    one.normal(size=10)
    one.laplace(size=40)
    two.normal(size=40)


def of_two_types():
    seeded().standard_normal(40, dtype=np.float32)
    seeded().standard_normal(40)


SAME = {
    "two generators of NumPy": lambda: (seeded().laplace(size=40), seeded().normal(size=40)),
    "the global generator of NumPy": lambda: (
        np.random.seed(7), np.random.normal(size=40), np.random.seed(7), np.random.uniform(size=40)
    ),
    "the global generator and a RandomState": lambda: (
        np.random.seed(7), np.random.normal(size=40), np.random.RandomState(7).laplace(size=40)
    ),
    "the global generator of PyTorch": lambda: (torch_seeded().randn(40), torch_seeded().rand(40)),
    "a generator of PyTorch": lambda: (
        torch_seeded().randn(40), torch.rand(40, generator=torch.Generator().manual_seed(7))
    ),
    "a distribution of PyTorch": lambda: (
        torch_seeded().randn(40), torch_seeded().distributions.Laplace(0.0, 1.0).sample((40,))
    ),
    "noise after another seed": lambda: (
        torch_seeded(8).randn(()), torch_seeded().rand(40), torch.randn(()), torch_seeded().randn(40)
    ),
    "the global generators of NumPy and PyTorch": lambda: (
        np.random.seed(7), torch_seeded(), np.random.normal(size=40), torch.randn(40)
    ),
    "a seed of 64 bits, of which two libraries use 32": lambda: (
        np.random.seed((2**40 + 7) % 2**32), torch_seeded(2**40 + 7), np.random.permutation(40), torch.rand(40)
    ),
    "Python and NumPy after the same many seeds": lambda: (
        python_seeded(7), np.random.seed([7]), random.gauss(0, 1), np.random.normal(size=40)
    ),
    "a split, initial weights, and noise of both libraries": lambda: (
        np.random.seed(7), torch_seeded(), np.random.permutation(40), torch.nn.Linear(8, 5),
        np.random.laplace(size=40), torch.randn(40),
    ),
    "a shuffle and noise": lambda: (seeded().permutation(40), seeded().normal(size=40)),
    "an order and coins": lambda: (torch_seeded().randperm(40), torch_seeded().bernoulli(torch.full((40,), 0.5))),
    "initial weights and noise": lambda: (torch_seeded().nn.Linear(8, 5), torch_seeded().randn(40)),
    "single numbers of Python": lambda: (python_seeded().gauss(0, 1), python_seeded().expovariate(1)),
    "numbers of SciPy": lambda: (
        stats.norm.rvs(size=40, random_state=7), np.random.RandomState(7).laplace(size=40)
    ),
    "a copied generator": copied,
    "a restored state": restored,
    "the numbers after others": shifted,
    "numbers of two types": of_two_types,
}  # fmt: skip

APART = {
    "one generator": lambda: [(rng := seeded()), rng.laplace(size=40), rng.normal(size=40)],
    "two seeds": lambda: (seeded(7).laplace(size=40), seeded(8).normal(size=40)),
    "a seed and a path": lambda: (seeded([7, 0]).laplace(size=40), seeded([7, 1]).normal(size=40)),
    "spawned generators": lambda: [g.normal(size=4) if i % 2 else g.laplace(size=4) for i, g in enumerate(seeded().spawn(20))],
    "two libraries": lambda: (seeded().laplace(size=40), torch_seeded().randn(40), python_seeded().random()),
    "the same numbers again": lambda: (seeded().normal(size=40), seeded().normal(size=40)),
    "the same numbers again, and others after them": lambda: [
        seeded().normal(size=40), (rng := seeded()), rng.normal(size=40), rng.laplace(size=40)
    ],
    "a split and initial weights": lambda: (
        np.random.seed(7), torch_seeded(), np.random.permutation(40), torch.nn.Linear(8, 5), torch.randn(40)
    ),
    "no numbers": lambda: [(rng := seeded()), rng.laplace(size=0), rng.normal(size=40)],
    "whole numbers without choice": lambda: [(rng := seeded()), rng.integers(0, 1, 5), rng.normal(size=40)],
    "an order of one": lambda: [(rng := seeded()), rng.permutation(1), rng.normal(size=40)],
    "global generators with seeds of their own": lambda: (
        np.random.seed(7), torch_seeded(8), python_seeded(7), np.random.normal(size=40), torch.randn(40), random.random()
    ),
    "a generator for each node": lambda: [seeded([7, node]).normal(size=3) for node in range(30)],
    "numbers of which PyTorch makes two at once": lambda: [torch_seeded(), *[torch.randn(()) for _ in range(6)], torch.rand(3)],
    "wide numbers of which PyTorch makes two at once": lambda: [
        torch_seeded(), *[torch.randn((), dtype=torch.float64) for _ in range(6)], torch.rand(3)
    ],
    "numbers of which Python makes two at once": lambda: [
        python_seeded(), *[random.gauss(0, 1) for _ in range(6)], random.random()
    ],
    "numbers of which NumPy makes two at once": lambda: [
        (old := np.random.RandomState(7)), *[old.normal() for _ in range(6)], old.rand()
    ],
    "the system": lambda: (random.SystemRandom().gauss(0, 1), random.SystemRandom().random()),
}  # fmt: skip


@pytest.mark.parametrize("draw", SAME.values(), ids=SAME)
def test_draws_of_the_same_random_bits_are_found(draw):
    said = drawn(draw)
    assert "test_same_bits.py, line " in said
    assert "made of the same random bits" in said


@pytest.mark.parametrize("draw", APART.values(), ids=APART)
def test_draws_of_other_random_bits_and_the_same_numbers_are_not(draw):
    assert drawn(draw) == ""


def two_counts(graph, seed, other):
    sums = graph.degree + np.random.default_rng(seed).laplace(0, 4.0, graph.nodes)
    return {"a": sums, "b": graph.degree + np.random.default_rng(other).normal(0, 4.0, graph.nodes)}


def one_seed(graph, seed):
    return two_counts(graph, seed, seed)


def own_seeds(graph, seed):
    return two_counts(graph, seed, [seed, 1])


def constant_seed(graph, seed):
    return two_counts(graph, 42, 42)


@pytest.mark.parametrize(("train", "doubted"), [(one_seed, True), (own_seeds, False)])
def test_a_model_whose_noise_of_two_laws_is_made_of_the_same_bits_gets_a_doubt_about_all_arrays(train, doubted):
    found = Recorded(Case(Looped(train, releases=("a", "b")), Claim(3.0, 1e-6)), GRAPH, Key("t")).examination
    assert not found.fault
    assert ("made of the same random bits" in found.doubts.get("", "")) == doubted


def test_noise_of_two_laws_from_one_constant_seed_is_still_a_fault():
    found = Recorded(Case(Looped(constant_seed, releases=("a", "b")), Claim(3.0, 1e-6)), GRAPH, Key("t")).examination
    assert found.fault
