"""Draws of any law that sample before the noise, draws that reorder or cover a noisy value after it, and noise that a secret
other than the worst one shows twice. The honest epsilons are closed forms; the leaks of the same shape have larger ones.
"""

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds.within_run import from_mechanisms

from ....nightly import nightly
from ...recorded.votes import counts, released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-6
KEPT = 0.8


def bound(train, epsilon, delta=DELTA, **options):
    case = Case(Looped(train, **options), Claim(epsilon, delta))
    runs = Recorded(case, GRAPH, Key("draws"))
    return from_mechanisms(case, runs.inside)


def of_each(values, graph):
    """Posteriors that show one number for each node."""
    return released(np.outer(values, np.arange(graph.classes)) / 8)


def ends(graph, joined):
    u, v = graph.edges
    return np.bincount(v, weights=joined[u].astype(float), minlength=graph.nodes)


def sampled_by(joined, noise=1.0):
    """An edge moves one count by 1 if its lower end is in the sample: ln(1 + q (e - 1)) at Laplace noise of scale 1."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        sample = joined(random, graph.nodes)
        return of_each(ends(graph, sample) + random.laplace(0.0, noise, graph.nodes), graph)

    return train


def exponential_keys(random, nodes):
    return np.argsort(np.argsort(random.exponential(size=nodes))) < KEPT * nodes


AMPLIFIED = float(np.log1p(KEPT * (np.e - 1)))


@pytest.mark.parametrize(
    "joined",
    [exponential_keys, *nightly(lambda r, n: r.standard_normal(n) < 0.8416, lambda r, n: r.gumbel(size=n) < 1.5)],
)
def test_a_sample_by_keys_of_any_law_may_hide_a_secret(joined):
    assert not bound(sampled_by(joined), 1.001 * AMPLIFIED, 0.0).refuted


def test_all_nodes_in_the_sample_hide_nothing():
    assert bound(sampled_by(lambda random, nodes: np.ones(nodes, dtype=bool)), 1.001 * AMPLIFIED, 0.0).refuted


def noisy_ends(graph, random):
    return ends(graph, np.ones(graph.nodes, dtype=bool)) + random.laplace(0.0, 1.0, graph.nodes)


def shuffled(graph, seed):
    random = np.random.default_rng(seed)
    return of_each(noisy_ends(graph, random)[random.permutation(graph.nodes)], graph)


def ordered_by_keys(graph, seed):
    random = np.random.default_rng(seed)
    return of_each(noisy_ends(graph, random)[random.standard_normal(graph.nodes).argsort()], graph)


def shuffled_with_mean(graph, seed):
    random = np.random.default_rng(seed)
    noisy = noisy_ends(graph, random)
    return of_each(noisy[random.permutation(graph.nodes)] + noisy.mean(), graph)


def half_of_the_rows(graph, seed):
    random = np.random.default_rng(seed)
    noisy = noisy_ends(graph, random)
    return of_each(np.where(random.permutation(graph.nodes) < graph.nodes / 2, noisy, 0.0), graph)


@pytest.mark.parametrize("train", [shuffled, half_of_the_rows, *nightly(ordered_by_keys, shuffled_with_mean)])
def test_a_shuffle_or_a_sample_after_the_noise_may_hide_a_secret(train):
    assert not bound(train, 0.9, 0.01).refuted


def shuffled_beside_the_rows(graph, seed):
    random = np.random.default_rng(seed)
    noisy = noisy_ends(graph, random)
    return of_each(noisy, graph) | {"shuffled": np.tanh(noisy[random.permutation(graph.nodes)] / 8)[:, None]}


def test_a_shuffle_beside_the_noisy_rows_hides_nothing():
    assert bound(shuffled_beside_the_rows, 0.9, 0.01, releases=("posteriors", "shuffled")).refuted


def weights(law):
    """Noisy counts through random weights, which the adversary knows: every number of a row depends on the row's counts."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        noisy = counts(graph) + 4.0 * random.standard_normal((graph.nodes, graph.classes))
        hidden = np.tanh(noisy @ getattr(random, law)(0.0, 0.3, (graph.classes, 16)))
        return released(hidden @ getattr(random, law)(0.0, 0.5, (16, graph.classes)))

    return train


def test_random_weights_hide_nothing():
    assert bound(weights("normal"), 0.9 * float(epsilon_of(2**0.5 / 4, DELTA))).refuted


def constant_offset(covered):
    """An offset of a constant seed, small or not, and then the noise of the proof, which the recorder may lose."""

    def train(graph, seed):
        clean = torch.from_numpy(counts(graph))
        offset = 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        noisy = (clean + offset) + covered * noise * torch.linspace(3.0, 4.0, clean.shape[1], dtype=torch.float64)
        return released(noisy.numpy())

    return train


def jitter_first(graph, seed):
    draw = torch.Generator().manual_seed(seed)
    clean = torch.from_numpy(counts(graph))
    noise = 4.0 * torch.randn(2, *clean.shape, generator=draw, dtype=torch.float64)
    noisy = clean + 0.01 * torch.randn(clean.shape, generator=draw, dtype=torch.float64)
    return released((noisy + noise[0]).numpy())


@pytest.mark.parametrize("train", [jitter_first, *nightly(constant_offset(1.0))])
def test_noise_that_covers_a_small_noise_may_hide_a_secret(train):
    assert not bound(train, 1.001 * float(epsilon_of(2**0.5 / 3, DELTA))).refuted


def test_noise_of_a_constant_seed_alone_is_refuted():
    assert bound(constant_offset(0.0), 50.0).epsilon == np.inf


def two_views(both):
    """One noise on all neighbours and on those of training nodes: an edge between training nodes moves both sums alike."""

    def train(graph, seed):
        weight = np.where(graph.train, 1.0, 0.5)
        labels = np.eye(graph.classes)[graph.y] * weight[:, None]
        a = graph.adjacency().toarray() * weight[:, None]
        noise = 4.0 * np.random.default_rng(seed).standard_normal(labels.shape)
        full = np.tanh((a @ labels + noise) / 8)
        core = np.tanh(((a * graph.train[:, None] * graph.train if both else a) @ labels + noise) / 8)
        return released(full) | {"core": core}

    return train


def test_a_secret_that_two_views_with_one_noise_show_apart_is_found_among_all_secrets(thorough):
    found = bound(two_views(True), 50.0, releases=("posteriors", "core"))
    assert found.refuted
    assert found.epsilon == np.inf


def test_two_views_that_every_secret_moves_alike_cost_as_much_as_one():
    assert not bound(two_views(False), 1.001 * float(epsilon_of(2**0.5 / 4, DELTA)), releases=("posteriors", "core")).refuted


@pytest.mark.parametrize("order", [1, *nightly(-1)])
def test_noise_that_is_used_twice_with_little_noise_on_top_has_no_cost_and_no_reach(order):
    """Their difference shows an edge behind noise of std .05, although each value alone is behind noise of std 4."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        noise = 4.0 * random.standard_normal((graph.nodes, graph.classes))
        labels = np.eye(graph.classes)[graph.y]
        places = [
            lambda: graph.adjacency() @ labels + noise,
            lambda: (labels + noise) + 0.05 * random.standard_normal(noise.shape),
        ]
        hop, plain = [place() for place in places[::order]][::order]
        return released(np.tanh(hop / 8)) | {"plain": np.tanh(plain / 8)}

    found = bound(train, 1.2 * float(epsilon_of(2**0.5 / 4, DELTA)), releases=("posteriors", "plain"))
    assert found.failed
    assert found.notices == np.inf


def halves(random, shape):
    """Laplace noise as the difference of two exponential draws."""
    return random.exponential(size=shape) - random.exponential(size=shape)


def by_rows(random, shape):
    """Laplace noise by the inverse of its distribution, each row drawn alone."""
    uniform = np.stack([random.random(shape[1]) for _ in range(shape[0])]) - 0.5
    return -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


def mixed_normals(random, shape):
    """Normal noise that a rotation mixes."""
    return 4.0 * random.standard_normal(shape) @ np.linalg.qr(np.random.default_rng(7).standard_normal((shape[1], shape[1])))[0]


def before_a_jitter(noise, scale=1.0):
    """Counts of edges between classes, which an edge moves by 1, with noise of any making and then little noise against ties."""

    def train(graph, seed):
        random, (u, v), one_hot = np.random.default_rng(seed), graph.edges, np.eye(graph.classes)[graph.y]
        clean = np.triu(one_hot[u].T @ one_hot[v] + (one_hot[v].T @ one_hot[u]))
        noisy = (clean + scale * noise(random, clean.shape)) + 0.01 * random.standard_normal(clean.shape)
        return released(np.log(np.maximum(noisy, 1.0))[graph.y]) | {"pairs": noisy}

    return train


@pytest.mark.parametrize("noise", [halves, *nightly(by_rows, mixed_normals)])
def test_noise_of_any_making_before_a_small_noise_may_hide_a_secret(noise):
    assert not bound(before_a_jitter(noise), 2.0, releases=("posteriors", "pairs")).refuted


def test_a_small_noise_on_counts_without_other_noise_is_refuted():
    """The other draws are as before, and change no count."""
    assert bound(before_a_jitter(halves, 0.0), 2.0, releases=("posteriors", "pairs")).refuted
