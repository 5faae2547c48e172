"""VESPER: physical removal of edges, its noise, and what its ledger charges."""

from dataclasses import replace

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.canary.gaussian_ratio import LikelihoodRatio
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.vesper.recipe import ARRAYS
from gnnaudit.models.vesper.vesper import Vesper

from ...nightly import nightly
from ..worlds import absent, same

SMALL = {"hidden": 6, "epochs": 6, "n_train": 16, "keep": ARRAYS}
SOUND = [
    Vesper(**SMALL),
    Vesper(**SMALL, aggregator="gcn-floor", floor=2, decoder="gru"),
    Vesper(**SMALL, variant="s2", refreshes=3),
    Vesper(**SMALL, variant="s2", refreshes=2, edge_sampling=0.5, aggregator="mean-floor", floor=2),
    Vesper(**SMALL, variant="s3"),
    Vesper(**SMALL, variant="s3", aggregator="gcn-floor", floor=2),
]
PAPER = [
    Vesper(**SMALL, mode="paper", batch_size=8, fan_out=2),
    Vesper(**SMALL, mode="paper", batch_size=8, aggregator="gcn-truncated", floor=3, decoder="gru"),
    Vesper(**SMALL, mode="paper", variant="gap-resampled", batch_size=8, fan_out=3),
]


EACH = nightly(SOUND[1], SOUND[3], SOUND[5], PAPER[1], among=SOUND + PAPER)


def small_graph(nodes=30, share=0.15, seed=0):
    random = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(random.random((nodes, nodes)) < share, 1)).T.astype(np.int64)
    x = random.standard_normal((nodes, 5)).astype(np.float32)
    train = np.arange(nodes) < 16
    return Graph(x, np.arange(nodes) % 3, edges, train, np.zeros(nodes, bool), ~train)


def worlds(graph, runs=3, watch=(0, 1, 4, 7, 20, 29)):
    random = np.random.default_rng(5)
    items = np.arange(0, graph.edges.shape[1], 3)
    nodes = np.array([2, 4, 11, 20])
    labels = np.array([0, 5])
    return replace(
        Worlds.of(graph, list(range(7, 7 + runs)), np.array(watch)),
        edges=Mask(items, random.random((runs, items.size)) < 0.5),
        nodes=Mask(nodes, random.random((runs, 4)) < 0.5),
        labels=Mask(labels, random.random((runs, 2)) < 0.5),
    )


@pytest.mark.parametrize("model", EACH, ids=str)
def test_a_masked_edge_is_an_absent_edge(model):
    absent(model, worlds(small_graph()), 2e-4)


@pytest.mark.parametrize("model", EACH, ids=str)
def test_a_run_is_the_same_alone_and_in_company(model):
    w = worlds(small_graph())
    same(model.fit(w).part(slice(1, 2)), model.fit(w[1:2]), 2e-4)


@pytest.mark.parametrize("model", EACH, ids=str)
def test_releases_have_the_documented_shapes(model):
    w = worlds(small_graph())
    release = model.fit(w)
    assert tuple(release.arrays) == model.releases
    layers = 2 if model.batched else 3
    messages = layers * (1 if model.variant == "s1" else model.passes + 1)
    assert release["transcript"].shape == (3, messages, 6, 6)
    assert release["posteriors"].shape == (3, 6, 3)
    np.testing.assert_allclose(np.exp(release["posteriors"].astype(float)).sum(-1), 1, atol=1e-5)
    if "aggregates" in release:
        assert release["aggregates"].shape == release["inputs"].shape == (3, 2 * model.passes, 6, 6)


@pytest.mark.parametrize("model", [SOUND[0], SOUND[2], SOUND[4]], ids=str)
def test_aggregates_are_the_sums_of_inputs_plus_noise_of_the_stated_size(model):
    graph = small_graph()
    release = replace(model, sigma=3.0).fit(Worlds.of(graph, list(range(40))))
    sums = np.einsum("vu,khud->khvd", graph.adjacency().toarray(), release["inputs"])
    noise = (release["aggregates"] - sums).ravel() / release.public["noise_std"]
    assert release.public["noise_std"] == pytest.approx(3 * np.sqrt(2))
    # 14 400 draws or more: the relative error of a variance has standard deviation below 1.2 %.
    assert abs(noise.var() - 1) < 0.06  # fails once in a million honest runs
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    norms = np.linalg.norm(release["inputs"], axis=-1)
    assert ((abs(norms - 1) < 1e-5) | (norms == 0)).all()


@pytest.mark.parametrize("model", [SOUND[0], *nightly(SOUND[2])], ids=str)
def test_the_likelihood_ratio_of_an_edge_moves_by_exactly_what_the_ledger_says(model):
    graph = small_graph()
    edge = graph.edges[:, 3]
    without = replace(graph, edges=np.delete(graph.edges, 3, axis=1))
    model = replace(model, sigma=2.0, keep=("aggregates", "inputs"))
    scores = []
    for world, first in ((without, 0), (graph, 1000)):
        release = model.fit(Worlds.of(world, list(range(first, first + 800))))
        scores.append(LikelihoodRatio().score(release, Challenge("edge", without, edge[None]))[:, 0])
    gap, spread = scores[1].mean() - scores[0].mean(), np.concatenate([s - s.mean() for s in scores]).std()
    assert abs(gap - np.sqrt(2 * model.passes) / 2.0) < 5 * np.sqrt(2 / 800)  # fails less than once in a million honest runs
    assert abs(spread - 1) < 5 * np.sqrt(1 / 3200)


def test_noise_is_fresh_in_every_layer_pass_and_run():
    graph = small_graph()
    model = replace(SOUND[2], sigma=100.0)
    drawn = model.fit(Worlds.of(graph, [1, 2]))["aggregates"].reshape(2 * model.passes * 2, -1)
    off_diagonal = np.corrcoef(drawn)[~np.eye(len(drawn), dtype=bool)]
    assert abs(off_diagonal).max() < 6 / np.sqrt(drawn.shape[1])


def test_without_noise_the_ledger_promises_nothing_and_with_noise_it_counts_every_layer_of_every_pass():
    import dp_accounting as dp

    def mu(model):
        accountant = dp.rdp.RdpAccountant(orders=[2.0])
        accountant.compose(model.ledger)
        return accountant._rdp[0]  # alpha mu^2 / 2 at alpha = 2

    assert isinstance(Vesper(sigma=0.0).ledger, dp.NonPrivateDpEvent)
    assert isinstance(Vesper(layers=0).ledger, dp.NoOpDpEvent)
    assert mu(Vesper(sigma=4.0, layers=3)) == pytest.approx(3 / 16)
    assert mu(Vesper(sigma=4.0, layers=2, variant="s2", refreshes=5)) == pytest.approx(10 / 16)
    assert mu(Vesper(sigma=4.0, layers=2, variant="s3", epochs=7, n_train=5)) == pytest.approx(28 / 16)


def test_secretly_sampled_edges_are_charged_as_one_poisson_sample_of_all_layers():
    """The golden values of RDP at sigma / sqrt(2) = 4, order 2: rate 0.06299 -> 2.5588e-4 a refresh."""
    import dp_accounting as dp

    rate = 0.062991495750445
    model = Vesper(sigma=4.0 * np.sqrt(2), variant="s2", refreshes=3, edge_sampling=rate)
    accountant = dp.rdp.RdpAccountant(orders=[2.0, 8.0])
    accountant.compose(model.ledger)
    np.testing.assert_allclose(accountant._rdp, [3 * 0.000255876664784567, 3 * 0.00104804192717731], rtol=1e-6)


def test_sparse_features_are_dense_features():
    import scipy.sparse as sp

    graph = small_graph()
    graph = replace(graph, x=np.where(graph.x > 0.5, graph.x, 0).astype(np.float32))
    sparse = replace(graph, x=sp.csr_array(graph.x))
    for model in (SOUND[2], PAPER[0]):
        same(model.fit(Worlds.of(graph, [1])), model.fit(Worlds.of(sparse, [1])), 2e-4)


def test_paper_mode_promises_nothing_and_says_why():
    import dp_accounting as dp

    assert isinstance(PAPER[0].ledger, dp.NonPrivateDpEvent)
    assert any("without noise" in sentence for sentence in PAPER[0].public)


def test_posteriors_learn_from_edges_when_features_say_little():
    random = np.random.default_rng(0)
    nodes, classes = 240, 2
    y = np.arange(nodes) % classes
    same = y[:, None] == y[None]
    edges = np.argwhere(np.triu(random.random((nodes, nodes)) < np.where(same, 0.10, 0.01), 1)).T.astype(np.int64)
    x = (np.eye(classes)[y] + 1.5 * random.standard_normal((nodes, classes))).astype(np.float32)
    train = np.arange(nodes) < 120
    graph = Graph(x, y, edges, train, np.zeros(nodes, bool), ~train)

    def accuracy(model):
        guess = model.fit(Worlds.of(graph, [0, 1]))["posteriors"].argmax(-1)
        return (guess == y)[:, ~train].mean()

    without = accuracy(Vesper(layers=0, keep=("posteriors",)))
    for variant in ("s1", "s2", "s3"):
        model = Vesper(sigma=0.5, variant=variant, epochs=60, n_train=120, hidden=8, keep=("posteriors",))
        assert accuracy(model) > without + 0.1, variant


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variant": "s4"}, "variant='s4'"),
        ({"aggregator": "gcn-truncated"}, "gcn-truncated"),
        ({"sigma": float("nan")}, "sigma=nan"),
        ({"edge_sampling": 0.5}, "only variant s2"),
        ({"variant": "s2", "refreshes": 0}, "refreshes=0"),
        ({"variant": "s3"}, "n_train=0"),
        ({"mode": "paper"}, "n_train=0"),
        ({"variant": "s3", "n_train": 5, "aggregator": "mean-floor"}, "transposed"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Vesper(**fields)
