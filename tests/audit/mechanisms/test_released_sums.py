"""A recorded sum of data and noise refutes a claim only if it is a release: the run shows each moved entry, and nothing else
hides it. Each honest model below costs at most the epsilon of HONEST, by the closed form that its docstring names.
"""

from types import SimpleNamespace

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, PureDpEvent, Unit, audit, load
from gnnaudit.audit.recorded.other_numbers import tried_hard

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH = load("campus:n=120:degree=6")
HONEST = Claim(2.26, 1e-6)  # noise of std 2 on one number that moves by 1 costs 2.255
HALF = dp.GaussianDpEvent(2.0)


def drawn(seed, *shape):
    return 2 * np.random.default_rng(seed).standard_normal(shape)


def unread_rows(graph, seed):
    """An edge moves the row of an end by 1 if the other end is a training node, and the rows of training nodes are replaced."""
    noisy = counts(graph) + drawn(seed, graph.nodes, graph.classes)
    noisy[graph.train] = 0.0
    return released(noisy)


def upper_triangle(graph, seed):
    """Noise on the whole matrix, of which the upper triangle is used: an edge is one number."""
    matrix = graph.adjacency().toarray()
    noisy = np.triu(matrix + drawn(seed, *matrix.shape), 1)
    return released((noisy + noisy.T) @ np.eye(graph.classes)[graph.y])


def symmetric(graph, seed):
    """Both entries of an edge have the same number, of std 2."""
    noise = drawn(seed, graph.nodes, graph.nodes)
    matrix = graph.adjacency().toarray() + (noise + noise.T) / 2**0.5
    return released(np.triu(matrix, 1) @ np.eye(graph.classes)[graph.y])


def louder_column(graph, seed):
    """A column with weight 8 gets 8 times the noise, through a slice: its part of the move is that of weight 1."""
    noise, clean = 2**0.5 * drawn(seed, graph.nodes, graph.classes), counts(graph)
    noise[:, -1] *= 8.0
    clean[:, -1] *= 8.0
    return released(clean + noise)


def two_relations(graph, seed):
    """Two relations get noise of std 2 each on two lines, and only the sum of both is used: std 8^.5 on a move of 2^.5."""
    first, second = np.random.default_rng(seed).standard_normal((2, graph.nodes, graph.classes)) * 2
    votes, inner = counts(graph), np.zeros((graph.nodes, graph.classes))
    one = inner + first
    two = votes + second
    return released(one + two)


def public_features(graph, seed):
    """Features from a constant seed are public data, and no noise: all noise is added at the end."""
    x = np.random.default_rng(0).standard_normal((graph.nodes, graph.classes))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return released(x + graph.adjacency() @ x + 2**0.5 * drawn(seed, graph.nodes, graph.classes))


def noise_twice(graph, seed):
    """The same noise is added twice before anything is used."""
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    first = clean + noise
    return released(first + 0.5 * noise)


def laplacian(graph, seed):
    """Degree times row minus the sum of the neighbours' rows: an edge moves it by a difference of two rows, at most .3 twice."""
    rows = np.ones((graph.nodes, graph.classes))
    rows[:, 0] += 0.05 * (np.arange(graph.nodes) % 7)
    noisy = graph.degree[:, None] * rows + drawn(seed, graph.nodes, graph.classes)
    return released(noisy - graph.adjacency() @ rows)


def spectrum(graph, seed):
    """Noise in the Fourier domain."""
    random = np.random.default_rng(seed)
    clean = np.fft.fft(counts(graph), axis=1, norm="ortho")
    return released((clean + 4 * random.standard_normal(clean.shape) + 4j * random.standard_normal(clean.shape)).real)


def bfloat(graph, seed):
    """Sums in a type that NumPy lacks."""
    draw = torch.Generator().manual_seed(seed)
    clean = torch.from_numpy(counts(graph)).bfloat16()
    return released((clean + 4 * torch.randn(clean.shape, generator=draw).bfloat16()).double().numpy())


def both_hops_at_once(graph, seed):
    """One call draws the noise of two hops, and the second sum is no release. Each hop has a half of 1 / 2^2."""
    noise, votes = 2 * drawn(seed, 2, graph.nodes, graph.classes), counts(graph)
    first = votes + noise[0]
    second = graph.adjacency() @ np.clip(first, 0, 1) / graph.classes**0.5 + noise[1]
    return released(second) | {"first": first}


def some_rows(graph, seed):
    """The rows of test nodes are hidden in one array, and used in the other."""
    noisy = counts(graph) + 2**0.5 * drawn(seed, graph.nodes, graph.classes)
    return released(noisy) | {"first": np.where(graph.train[:, None], noisy, 0.0)}


def shares(graph, seed):
    """Distributed noise: each node adds its share to its counts, and only the sum over the nodes is used. An edge within a class
    moves one sum by 2, and the noise of a sum has std 4.
    """
    clean = counts(graph)
    total = (clean + 2 * drawn(seed, *clean.shape) / graph.nodes**0.5).sum(0)
    return released(np.tile(total, (graph.nodes, 1)))


def weighted_mean(graph, seed):
    """The same noise on two values, of which a weighted mean is used: it moves by at most 2^.5."""
    noise, clean = 2**0.5 * drawn(seed, graph.nodes, graph.classes), counts(graph)
    one, two = clean + noise, clean[:, ::-1] + noise
    return released(0.7 * one + 0.3 * two)


EDGES = [public_features, shares]
EDGES += nightly(
    symmetric, laplacian, spectrum, unread_rows, upper_triangle, louder_column, two_relations, noise_twice, weighted_mean
)


def verdict(train, claim=HONEST, events=HALF, **options):
    model = Looped(train, events=events, **options)
    return audit(model, GRAPH, claim, attacks="none", audits="differential", repeats=1, jobs=1).run.verdict


@pytest.mark.parametrize("train", [*EDGES, bfloat])
def test_an_honest_model_whose_sums_are_not_all_released_is_not_refuted(train):
    assert verdict(train) in {"not refuted", "inconclusive"}


@pytest.mark.parametrize("train", [some_rows, *nightly(both_hops_at_once)])
def test_a_number_that_is_noise_in_no_array_may_be_noise_elsewhere(train):
    claim = Claim(3.32, 1e-6)  # two hops of 1/2 each cost 3.3
    assert verdict(train, claim, dp.GaussianDpEvent(2**0.5), releases=("posteriors", "first")) in {"not refuted", "inconclusive"}


def objective(graph, seed):
    """Objective perturbation (Chaudhuri et al. 2011): one random linear term, and ridge regression to its minimum. A node adds a
    gradient of norm 2 at most, so a term with density exp(-|b|) costs 2, and the Hessian a little more.
    """
    random = np.random.default_rng(seed)
    x = np.eye(graph.classes)[graph.y][graph.train]
    direction = random.standard_normal(graph.classes)
    term = random.gamma(graph.classes, 1.0) * direction / np.linalg.norm(direction)
    weights = np.zeros(graph.classes)
    for _ in range(60):
        weights -= 0.01 * (x.T @ (x @ weights - 1) + 50 * weights + term)
    return released(np.tile(weights, (graph.nodes, 1)))


def by_norm(graph, seed):
    """The K-norm mechanism (Hardt and Talwar 2010): a random direction times a gamma number, on counts that a node moves by 1."""
    random = np.random.default_rng(seed)
    clean = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
    direction = random.standard_normal(clean.shape)
    noisy = clean + random.gamma(graph.classes, 0.5) * direction / np.linalg.norm(direction)
    return released(np.tile(noisy, (graph.nodes, 1)))


@pytest.mark.parametrize("train", [by_norm, *nightly(objective)])
def test_normal_numbers_in_a_mechanism_of_pure_privacy_are_no_gaussian_mechanism(train):
    assert verdict(train, Claim(3.0, 1e-6, Unit.NODE), PureDpEvent(3.0), unit=Unit.NODE) in {"not refuted", "inconclusive"}


def differences(graph, seed):
    """The noise of a row is the difference of two numbers, so the sum of all rows has little noise."""
    noise = drawn(seed, graph.nodes + 1, graph.classes)
    return released(counts(graph) + noise[1:] - noise[:-1])


def quieter_column(graph, seed):
    noise, clean = 2**0.5 * drawn(seed, graph.nodes, graph.classes), counts(graph)
    noise[:, -1] *= 0.001
    return released(clean + noise)


def quieter_column_in_torch(graph, seed):
    noise = 8**0.5 * torch.randn(graph.nodes, graph.classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    noise[:, -1] *= 0.001
    return released((torch.from_numpy(counts(graph)) + noise).numpy())


def data_in_the_noise(graph, seed):
    noise = 2**0.5 * drawn(seed, graph.nodes, graph.classes)
    np.add.at(noise, graph.edges[0], 40 * np.eye(graph.classes)[graph.y[graph.edges[1]]])
    return released(noise + np.ones((graph.nodes, graph.classes)))


def fractions(graph, seed):
    """Noise of whole numbers on sums of thirds."""
    random = np.random.default_rng(seed)
    support = np.arange(-60.0, 61.0)
    chances = np.exp(-(support**2) / 32)
    return released(counts(graph) / 3 + random.choice(support, (graph.nodes, graph.classes), p=chances / chances.sum()))


def quiet_rows(graph, seed):
    """Two rows in fifty have little noise, and no array shows the noise itself."""
    scale = np.where(np.arange(graph.nodes) % 50 == 23, 0.02, 2.0)[:, None]
    noisy = counts(graph) + scale * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    return released(np.log1p(np.abs(noisy)))


def private_number(graph, seed):
    """A number of the graph is added to the noise before the noise is added to data."""
    noise = 2**0.5 * drawn(seed, graph.nodes, graph.classes) + float(graph.edges.shape[1] % 2)
    return released(np.log1p(np.abs(counts(graph) + noise)))


@pytest.mark.parametrize(
    "train",
    [private_number, quieter_column, *nightly(quiet_rows, differences, quieter_column_in_torch, data_in_the_noise, fractions)],
)
def test_noise_of_another_size_than_drawn_does_not_pass(train):
    assert verdict(train) != "not refuted"


def minus_the_data(graph, seed):
    """noise - data is data with noise, up to the sign."""
    clean = counts(graph)
    return released(drawn(seed, *clean.shape) - clean)


def test_noise_minus_data_costs_as_much_as_data_plus_noise():
    """An edge moves two rows by 1 each: 2^.5 / 2 costs 3.3."""
    assert verdict(minus_the_data) == "refuted"
    assert verdict(minus_the_data, Claim(3.32, 1e-6), dp.GaussianDpEvent(2**0.5)) == "not refuted"


def test_a_noise_number_is_changed_in_both_directions():
    """A cap hides a change in one direction, so an entry that only grows would look as if it had no noise."""
    block = SimpleNamespace(size=1000)
    made = SimpleNamespace(
        base=SimpleNamespace(draws=[]), others=[[]], free=(), loose={}, on=lambda cell: [SimpleNamespace(block=block)]
    )
    changes = np.array([far[0][1] for _, far in tried_hard(made, "cell")])
    assert ((changes > 0).any(0) & (changes < 0).any(0)).all()
