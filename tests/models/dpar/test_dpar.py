"""DPAR: gradients against autograd and per-row clipping, accounting against golden values, and the contract of models."""

import dataclasses
import math
from contextlib import nullcontext

import dp_accounting as dp
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.dpar.list_dpsgd import How, Trainer
from gnnaudit.models.dpar.neighbour_selection import seated
from gnnaudit.models.dpar.row_products import Lists
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.kernels.compiler import compiled

SMALL = {"sources": 6, "picks": 3, "epochs": 4, "hidden": 5, "source_clip": 0.5}
KEEP = ("posteriors", "rows", "gradients")
PAPER = {"mode": "paper", "node_rate": 0.5, "batch": 4}
RECIPES = {
    "gaussian": Dpar(sigma=0.3, keep=KEEP, **SMALL),
    "gumbel": Dpar(sigma=0.3, mechanism="gumbel", values=True, keep=KEEP, **SMALL),
    "no noise": Dpar(keep=KEEP, **SMALL),
    "sampled": Dpar(sigma=0.3, node_rate=0.7, batch=5, train_nodes=20, keep=KEEP, **SMALL),
    "paper": Dpar(sigma=0.3, keep=KEEP, **SMALL, **PAPER),
}


def random_lists(graph: Graph, runs: int = 2, entries: int = 3) -> list[Lists]:
    rng = np.random.default_rng(0)
    nodes = np.arange(15)
    return [
        Lists(
            nodes,
            rng.random(15) < 0.8,
            rng.integers(0, 15, (15, entries)),
            rng.random((15, entries)) * (rng.random((15, entries)) < 0.7),
        )
        for _ in range(runs)
    ]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("clip", [0.05, 1e9])
@pytest.mark.parametrize(("hidden", "trained_by"), [(5, nullcontext), (20, nullcontext), (5, compiled.unused)])
def test_sums_of_clipped_gradients_equal_those_of_autograd_row_by_row(graph, clip, sparse, hidden, trained_by):
    """Runs the test in the compiled kernel, if there is one, and in torch."""
    if sparse:
        keep = np.random.default_rng(1).random(graph.x.shape) < 0.08
        graph = dataclasses.replace(graph, x=sp.csr_array((graph.x * keep).astype(np.float32)))
    lists = random_lists(graph)
    trainer = Trainer(graph, lists, np.array([1, 2], np.uint64), How(0.0, clip, 1.0, hidden, 0.0, 0.01))
    batch = np.random.default_rng(2).random((2, 15)) < 0.6
    with trained_by():
        got = trainer.gradient(torch.from_numpy(batch.astype(np.float32)))
    dense = torch.from_numpy(graph.x.toarray() if sparse else graph.x)
    for k, own in enumerate(lists):
        sums = [torch.zeros_like(trainer.first[k]), torch.zeros_like(trainer.second[k])]
        for row in np.flatnonzero(batch[k] & own.alive):
            weights = [w[k].clone().requires_grad_() for w in (trainer.first, trainer.second)]
            local = torch.relu(dense[own.nodes] @ weights[0]) @ weights[1] * torch.from_numpy(own.alive)[:, None]
            mean = (torch.from_numpy(own.weights[row]).float()[:, None] * local[own.index[row]]).sum(0)
            loss = torch.nn.functional.cross_entropy(mean, torch.tensor(graph.y[own.nodes[row]]))
            parts = torch.autograd.grad(loss, weights)
            norm = math.sqrt(sum(p.square().sum().item() for p in parts))
            for total, part in zip(sums, parts, strict=True):
                total += part * min(1.0, clip / max(norm, 1e-12))
        for mine, theirs in zip(got, sums, strict=True):
            torch.testing.assert_close(mine[k], theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_a_step_drops_count_neither_in_the_gradients_nor_in_their_norms(graph, sparse):
    """Against training on features from which they are missing."""
    if sparse:
        keep = np.random.default_rng(1).random(graph.x.shape) < 0.08
        graph = dataclasses.replace(graph, x=sp.csr_array((graph.x * keep).astype(np.float32)))
    lists, seeds = random_lists(graph, runs=1), np.array([2], np.uint64)
    how = How(0.0, 0.05, 1.0, 5, 0.0, 0.01, input_dropout=0.5)
    trainer, batch = Trainer(graph, lists, seeds, how), torch.ones(1, 15)
    left = trainer.inputs.features(trainer.x)
    x = np.zeros(graph.x.shape, np.float32)
    x[lists[0].nodes] = left.matrix.to_dense() if sparse else left[0]
    whole = graph.x.toarray() if sparse else graph.x
    assert 0 < (x[:15] == 0)[whole[:15] != 0].mean() < 1
    np.testing.assert_allclose(x[:15][x[:15] != 0], 2 * whole[:15][x[:15] != 0], rtol=1e-6)
    missing = dataclasses.replace(graph, x=sp.csr_array(x) if sparse else x)
    expected = Trainer(missing, lists, seeds, how).gradient(batch)
    for mine, theirs in zip(trainer.gradient(batch, None, left), expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", RECIPES)
def test_the_kernel_and_torch_train_alike(graph, name):
    """The same draws and lists, so the same numbers but for the order of sums."""
    worlds = Worlds.of(graph, [3, 4])
    fast = RECIPES[name].fit(worlds)
    with compiled.unused():
        plain = RECIPES[name].fit(worlds)
    for array in KEEP:
        np.testing.assert_allclose(fast[array], plain[array], atol=1e-4)


def test_the_weights_of_the_first_layer_alone_decay(graph):
    how = How(0.0, 1.0, 1.0, 5, 0.0, 0.01, weight_decay=1e-4)
    trainer = Trainer(graph, random_lists(graph, runs=1), np.array([1], np.uint64), how)
    first, second = trainer.first.clone(), trainer.second.clone()
    trainer.step(np.zeros((1, 15), bool), [np.random.default_rng(0)])
    step = 0.01 * 1e-4 * first / (1e-4 * first.abs() + 1e-8)  # Adam's first
    torch.testing.assert_close(trainer.first, first - step)
    torch.testing.assert_close(trainer.second, second)


def test_a_node_in_many_lists_moves_a_step_by_more_than_one_clip_and_never_by_more_than_the_cap_allows(graph):
    """The released code charges one clip for it. Large features, so that only the listed node matters in each row."""
    x = graph.x.copy()
    x[0] = 1000.0
    graph = dataclasses.replace(graph, x=x)
    clip, nodes = 1.0, np.arange(15)
    for listed in (1, 4, 10):
        index, weights = np.stack([nodes, np.zeros(15, np.int64)], axis=1), np.zeros((15, 2))
        weights[:, 0] = 1.0
        weights[1 : 1 + listed, 1] = 1.0 / (listed + 1)  # its column has norm one, own row included
        weights[0, 0] = 1.0 / (listed + 1)
        sums = []
        for alive in (np.ones(15, bool), nodes > 0):
            trainer = Trainer(graph, [Lists(nodes, alive, index, weights)], np.array([3], np.uint64), How(0, clip, 1, 5, 0, 0.01))
            sums.append(torch.cat([g.flatten() for g in trainer.gradient(torch.ones(1, 15))]))
        moved = (sums[0] - sums[1]).norm().item()
        assert moved <= (1 + 2 * listed) * clip + 1e-4
        if listed >= 4:
            assert moved > 2 * clip


@pytest.mark.parametrize("cap", [1, 2, 4])
def test_no_node_moves_a_step_by_more_than_its_cap_of_clips(graph, cap):
    """The lists are released, so they are the same in both worlds. Large features, so that every row is clipped."""
    graph = dataclasses.replace(graph, x=1000 * graph.x)
    rng, nodes = np.random.default_rng(cap), np.arange(24)
    farthest = 0.0
    for _ in range(4):
        sources = rng.permutation(24)[:8]
        listed = np.stack([rng.permutation(24)[:4] for _ in sources])
        sums = []
        for absent in [None, *nodes]:
            alive = nodes != absent
            index, weights = seated(listed, np.ones(listed.shape), sources, alive, cap, 0.4)
            trainer = Trainer(graph, [Lists(nodes, alive, index, weights)], np.array([3], np.uint64), How(0, 1.0, 1, 5, 0, 0.01))
            sums.append(torch.cat([g.flatten() for g in trainer.gradient(torch.ones(1, 24))]))
        moved = [(sums[0] - other).norm().item() for other in sums[1:]]
        assert max(moved) <= cap + 1e-4
        farthest = max(farthest, *moved)
    assert farthest > 0.6 * cap


def test_a_node_that_goes_empties_its_rows_and_changes_no_other():
    """Brute force: a row stays as it is exactly if it does not name the node."""
    rng, nodes = np.random.default_rng(0), np.arange(30)
    for cap in (1, 2, 3):
        sources, alive = rng.permutation(30)[:12], rng.random(30) < 0.9
        listed = np.stack([rng.permutation(30)[:5] for _ in sources])
        weight = rng.standard_normal(listed.shape)
        index, weights = seated(listed, weight, sources, alive, cap, 0.4)
        named = [np.flatnonzero(((index == v) & (weights > 0)).any(axis=1)) for v in nodes]
        assert max(map(len, named)) == cap
        np.testing.assert_allclose(weights.sum(axis=1)[weights.any(axis=1)], 1)
        for gone in np.flatnonzero(alive):
            less, left = seated(listed, weight, sources, alive & (nodes != gone), cap, 0.4)
            np.testing.assert_array_equal(index, less)
            expected = weights.copy()
            expected[named[gone]] = 0
            np.testing.assert_array_equal(left, expected)


def test_a_whole_step_of_two_worlds_differs_by_at_most_its_cap_of_clips(graph):
    """End to end, with lists of pure noise, so that they are the same with and without the node."""
    model = dataclasses.replace(RECIPES["gaussian"], sigma=1e-9, source_sigma=1e13, epochs=1, dropout=0.0, keep=("gradients",))
    whole = model.fit(Worlds.of(graph, [1]))["gradients"][0, 0]
    moved = []
    for node in np.flatnonzero(graph.train):
        absent = dataclasses.replace(Worlds.of(graph, [1]), nodes=Mask(np.array([node]), np.array([[False]])))
        moved.append(np.linalg.norm(whole - model.fit(absent)["gradients"][0, 0]))
    assert 0.1 < max(moved) <= 1 + 1e-5


def test_the_printed_figures_are_those_of_the_released_code():
    recipe = Dpar(sigma=0.95, source_sigma=0.67 / 0.95, mode="paper", node_rate=0.09, batch=60, epochs=200, train_nodes=2340)
    delta = 2 * 0.09 * 70 * 1e-4 + 1e-3
    (lists, lists_delta), (training, training_delta) = recipe.printed_parts(delta)
    assert lists == pytest.approx(31.0471628, abs=1e-6)
    assert training == pytest.approx(7.0722577, abs=1e-6)  # 211 nodes
    assert (lists_delta, training_delta) == (pytest.approx(1.26e-3), pytest.approx(1e-3))
    assert recipe.printed(delta) == pytest.approx(38.1194205, abs=1e-6)
    picked = dataclasses.replace(recipe, mechanism="gumbel", source_sigma=1 / 1.3 / 0.95, values=True, picks=2)
    assert picked.printed_parts(delta)[0][0] == pytest.approx(24.6153910, abs=1e-6)
    assert dataclasses.replace(picked, values=False).printed_parts(delta)[0][0] == pytest.approx(11.8433496, abs=1e-6)
    assert dataclasses.replace(recipe, mode="sound", batch=0).printed(delta) is None


def test_what_is_printed_is_far_below_what_was_run():
    recipe = Dpar(sigma=0.95, source_sigma=0.67 / 0.95, mode="paper", node_rate=0.09, batch=60, epochs=200, train_nodes=2340)
    delta = 2.26e-3
    true = tightest(upper(recipe.ledger, delta))
    printed = recipe.printed(delta)
    assert true is not None
    assert true.epsilon is not None
    assert printed is not None
    assert true.epsilon > 9 * printed


@pytest.mark.parametrize("name", ["gaussian", "no noise", "paper"])
def test_no_noise_is_no_privacy_and_noise_is_some(name):
    silent = RECIPES[name].with_noise(0.0)
    assert silent.sigma == 0
    assert isinstance(silent.ledger, dp.NonPrivateDpEvent)
    loud = tightest(upper(RECIPES[name].with_noise(50.0).ledger, 1e-4))
    assert loud is not None
    assert loud.epsilon is not None
    assert 0 < loud.epsilon < math.inf


def test_noise_that_everybody_knows_is_none():
    assert isinstance(Dpar(sigma=1.0, fixed_noise=True, **PAPER).ledger, dp.NonPrivateDpEvent)


def test_full_batches_and_gaussian_rows_compose_as_one_gaussian():
    recipe = Dpar(sigma=20.0, source_sigma=0.5, sources=70, epochs=100)
    mu = math.sqrt(70 / 10.0**2 + 100 / 20.0**2)
    from gnnaudit.accounting.gaussian import epsilon_of

    best = tightest(upper(recipe.ledger, 1e-4))
    assert best is not None
    assert best.epsilon == pytest.approx(float(epsilon_of(mu, 1e-4)), rel=1e-3)


def test_calibration_keeps_the_claim_and_sampling_nodes_asks_for_less_noise():
    from gnnaudit.accounting.upper.calibration import calibrate

    claim = Claim(1.0, 1e-4, Unit.NODE)
    whole, sampled = (calibrate(Dpar(node_rate=rate), claim, relative=0.05) for rate in (1.0, 0.1))
    for model in (whole, sampled):
        best = tightest(upper(model.ledger, 1e-4))
        assert best is not None
        assert best.epsilon is not None
        assert best.epsilon <= 1.0 + 1e-9
    assert sampled.sigma < 0.5 * whole.sigma


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_does_not_know_its_batch(graph, name):
    model = RECIPES[name]
    together, alone = model.fit(Worlds.of(graph, [5, 6, 7])), model.fit(Worlds.of(graph, [6]))
    for array in model.releases:
        np.testing.assert_allclose(together[array][1], alone[array][0], atol=1e-5)


@pytest.mark.parametrize("name", RECIPES)
def test_masked_edges_nodes_and_labels_are_absent_ones(graph, name):
    rng = np.random.default_rng(0)
    masks = {
        "edges": Mask(np.arange(30), rng.random((2, 30)) < 0.5),
        "nodes": Mask(np.flatnonzero(graph.train)[:4], rng.random((2, 4)) < 0.5),
        "labels": Mask(np.flatnonzero(graph.train)[6:10], rng.random((2, 4)) < 0.5),
    }
    worlds = dataclasses.replace(Worlds.of(graph, [3, 4]), **masks)
    model = RECIPES[name]
    masked = model.fit(worlds)
    for run in range(2):
        removed = model.fit(worlds.removed(run))
        for array in model.releases:
            np.testing.assert_allclose(masked[array][run], removed[array][0], atol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "gumbel", "no noise"])
def test_an_absent_node_leaves_no_trace_but_its_own_answer(graph, name):
    """Whatever the features and the label of a node that does not exist, the release is the same elsewhere."""
    node = int(np.flatnonzero(graph.train)[0])
    rich = graph.x.copy()
    rich[node] = 50.0
    label = graph.y.copy()
    label[node] = (label[node] + 1) % 3
    others = np.delete(np.arange(graph.nodes), node)
    releases = []
    for own in (graph, dataclasses.replace(graph, x=rich, y=label)):
        worlds = dataclasses.replace(Worlds.of(own, [1], others), nodes=Mask(np.array([node]), np.array([[False]])))
        releases.append(RECIPES[name].fit(worlds))
    for array in RECIPES[name].releases:
        np.testing.assert_array_equal(releases[0][array], releases[1][array])


def test_arcs_are_taken_both_ways_unless_they_are_wanted_as_stored(graph):
    arcs = dataclasses.replace(graph, directed=True)
    silent = dataclasses.replace(RECIPES["no noise"], keep=("rows",))

    def rows(model, on):
        return model.fit(Worlds.of(on, [1]))["rows"]

    np.testing.assert_array_equal(rows(silent, arcs), rows(silent, graph))
    one_way = rows(dataclasses.replace(silent, both_ways=False), arcs)
    assert not one_way.any()  # an arc without its reverse has no effect, and a source's own entry is not released
    published = dataclasses.replace(silent, **PAPER | {"node_rate": 1.0})
    assert ((rows(published, arcs) > 0).sum(axis=2) == 1).all()


def test_one_node_moves_clipped_rows_by_at_most_the_stated_sensitivity(graph):
    node = int(np.flatnonzero(graph.train)[0])
    absent = dataclasses.replace(Worlds.of(graph, [1]), nodes=Mask(np.array([node]), np.array([[False]])))
    loud = dataclasses.replace(RECIPES["gaussian"], sigma=1e-9)  # the clip with negligible noise
    a, b = (loud.fit(worlds)["rows"][0].astype(np.float64) for worlds in (Worlds.of(graph, [1]), absent))
    moved = np.linalg.norm(a - b, axis=1)
    assert moved.max() <= math.sqrt(2) * 0.5 + 1e-6
    assert moved.max() > 0


def test_gradients_carry_the_noise_that_is_charged(graph):
    sums = []
    for sigma in (2.0, 1e-9):
        model = Dpar(sigma=sigma, keep=("gradients",), **SMALL | {"epochs": 1, "sources": 0, "dropout": 0.0})
        sums.append(model.fit(Worlds.of(graph, range(40)))["gradients"][:, 0])
    noise = (sums[0] - sums[1]).ravel()
    assert stats.kstest(noise, stats.norm(scale=2.0).cdf).pvalue > 1e-6  # once in a million honest runs
    assert stats.kstest(noise, stats.norm(scale=4 / 3).cdf).pvalue < 1e-6
    assert stats.kstest(noise, stats.norm(scale=3.0).cdf).pvalue < 1e-6
    listed = Dpar(sigma=2.0, cap=2, clip=0.5)
    assert listed.noise_std == 2.0 * 2 * 0.5


def test_published_batches_are_the_same_in_every_epoch_and_the_last_one_overlaps():
    batches = Dpar(**PAPER | {"batch": 4}, epochs=3)._batches(np.array([1], np.uint64), 10)
    assert len(batches) == 9
    for epoch in range(3):
        for b in range(3):
            np.testing.assert_array_equal(batches[b], batches[3 * epoch + b])
    visits = sum(batch.sum(axis=0) for batch in batches[:3])
    assert sorted(visits.tolist()) == [1] * 8 + [2] * 2


def test_private_pool_nodes_are_answered_from_their_features_alone(graph):
    """Predictions do not depend on their edges, at any noise level."""
    model = Dpar(sources=0, epochs=2, hidden=5)
    inside = (~(graph.val | graph.test))[graph.edges]
    worlds = dataclasses.replace(
        Worlds.of(graph, [1, 1]),
        edges=Mask(
            np.flatnonzero(inside.any(axis=0)),
            np.stack([np.ones(inside.any(axis=0).sum(), bool), np.zeros(inside.any(axis=0).sum(), bool)]),
        ),
    )
    answers = model.fit(worlds)["posteriors"]
    np.testing.assert_array_equal(answers[0], answers[1])
    assert (answers[0] != Dpar(sources=0, epochs=2, hidden=5, smoothing=0).fit(Worlds.of(graph, [1]))["posteriors"][0]).any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "honest"}, "mode='honest': must be 'paper' or 'sound'"),
        ({"mechanism": "laplace"}, "mechanism='laplace'"),
        ({"keep": ("weights",)}, "must name some of posteriors, rows, gradients"),
        ({"picks": 0}, "picks=0, cap=1: sources must be at least 0, picks and cap at least 1"),
        ({"cap": 0}, "cap=0: sources must be at least 0, picks and cap at least 1"),
        ({"node_rate": 0.0}, "node_rate=0.0: must be in"),
        ({"batch": 60}, "train_nodes=0: the public number"),
        ({"mode": "paper"}, "batch=0: must be at least 1 in mode 'paper'"),
        ({"fixed_noise": True}, "only mode 'paper'"),
    ],
)
def test_bad_fields_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Dpar(**fields)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_class_is_refused_before_it_becomes_an_address(graph, label):
    y = graph.y.copy()
    y[np.flatnonzero(graph.train)[2]] = label
    with pytest.raises(ValueError, match=r"must be in 0 … 2, its classes"):
        RECIPES["gaussian"].fit(Worlds.of(dataclasses.replace(graph, y=y, classes=3), [1]))


def test_it_learns_what_its_features_say(graph):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    part = np.split(rng.permutation(300), [200, 220])
    train, val, test = (np.isin(np.arange(300), p) for p in part)
    x = (np.eye(3)[y] + 0.3 * rng.standard_normal((300, 3))).astype(np.float32)
    clear = Graph(x, y, np.sort(rng.choice(300, (2, 600)), axis=0), train, val, test)
    quiet = Dpar(epochs=60, learning_rate=0.05, smoothing=0).fit(Worlds.of(clear, [1, 2]))["posteriors"]
    assert (quiet.argmax(2) == y)[:, test].mean() > 0.9
    np.testing.assert_allclose(np.exp(quiet).sum(axis=2), 1, atol=1e-5)
