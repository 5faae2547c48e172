"""K graph networks at once against PyTorch Geometric one by one, and against the physical removal of what is masked."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import nn as pyg

from gnnaudit.models.base import Model
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.engine.dropout import draw
from gnnaudit.models.engine.gnn_layers import KINDS
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.random.streams import stream
from gnnaudit.models.sparse.block_diagonal import Blocks, Operator, features

NODES, DIM, CLASSES = 60, 30, 4


@pytest.fixture(params=["sparse", "dense"])
def graph(request):
    rng = np.random.default_rng(3)
    pairs = np.array([(u, v) for u in range(NODES) for v in range(u + 1, NODES)])
    edges = pairs[rng.choice(len(pairs), 150, replace=False)].T.astype(np.int64)
    x = (rng.random((NODES, DIM)) < 0.08).astype(np.float32) if request.param == "sparse" else rng.normal(size=(NODES, DIM))
    train = rng.random(NODES) < 0.6
    return Graph(
        x.astype(np.float32), rng.integers(CLASSES, size=NODES), edges, train, ~train, np.zeros(NODES, bool), classes=CLASSES
    )


def layer_of_pyg(kind, values, run):
    """A PyTorch Geometric layer that holds the values of one run."""
    v = {n: t[run] for n, t in values.items()}
    inputs, outputs = (v["weight"] if "weight" in v else v["own"]).shape
    if kind == "gcn":
        layer = pyg.GCNConv(inputs, outputs)
        copies = [(layer.lin.weight, v["weight"].T), (layer.bias, v["bias"][0])]
    elif kind == "sage":
        layer = pyg.SAGEConv(inputs, outputs)
        copies = [(layer.lin_l.weight, v["neighbours"].T), (layer.lin_l.bias, v["bias"][0]), (layer.lin_r.weight, v["own"].T)]
    elif kind == "gin":
        inner, outer = torch.nn.Linear(inputs, outputs), torch.nn.Linear(outputs, outputs)
        layer = pyg.GINConv(torch.nn.Sequential(inner, torch.nn.ReLU(), outer))
        copies = [(inner.weight, v["weight"].T), (inner.bias, v["bias"][0])]
        copies += [(outer.weight, v["outer"].T), (outer.bias, v["outer_bias"][0])]
    else:
        heads, units = v["to"].shape
        layer = pyg.GATConv(inputs, units, heads=heads, concat=v["bias"].shape[1] == heads * units)
        copies = [(layer.lin.weight, v["weight"].T), (layer.bias, v["bias"][0])]
        copies += [(layer.att_dst, v["to"][None]), (layer.att_src, v["from"][None])]
    with torch.no_grad():
        for target, value in copies:
            target.copy_(value)
    return layer


def three_worlds(graph, watch=None):
    rng = np.random.default_rng(9)
    nodes = Mask(np.arange(0, NODES, 2), rng.random((3, NODES // 2)) < 0.5)
    edges = Mask(np.arange(0, 150, 3), rng.random((3, 50)) < 0.5)
    watch = np.arange(NODES) if watch is None else watch
    return Worlds(graph, np.array([5, 6, 2**63], dtype=np.uint64), watch, edges=edges, nodes=nodes)


@pytest.mark.parametrize(("kind", "heads"), [*((kind, {}) for kind in KINDS), ("gat", {"heads": 4, "last_heads": 2})])
def test_layers_are_pytorch_geometrics(graph, kind, heads):
    model = Gnn(kind, hidden=16, **heads)
    worlds = dataclasses.replace(three_worlds(graph), nodes=None)
    values = [{n: v.detach() for n, v in layer.items()} for layer in model._start(worlds, "cpu")]
    everyone = [np.arange(NODES)] * 3
    blocks, x = Blocks.of(graph, everyone, worlds.edge_present()), features(graph.x, everyone, "cpu")
    ours = model.forward(values, x, blocks)
    for k in range(3):
        arcs = torch.from_numpy(dataclasses.replace(graph, edges=graph.edges[:, worlds.edge_present()[k]]).arcs)
        hidden = torch.relu(layer_of_pyg(kind, values[0], k)(torch.from_numpy(graph.x), arcs))
        expected = layer_of_pyg(kind, values[1], k)(hidden, arcs)
        torch.testing.assert_close(ours[k], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_pytorchs_adam_on_pytorch_geometrics_layers(graph, kind):
    """30 epochs from the same start, for the graph without its absent nodes; no dropout, which cannot be drawn alike."""
    model = Gnn(kind, hidden=16, dropout=0.0, epochs=30, learning_rate=0.01, weight_decay=5e-4)
    worlds = three_worlds(graph)
    trained = model.train(worlds)
    start = model._start(worlds, "cpu")
    for k in range(3):
        alone = worlds.removed(k)
        first, second = (layer_of_pyg(kind, {n: v.detach() for n, v in layer.items()}, k) for layer in start)
        adam = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
        x, y = torch.from_numpy(graph.x), torch.from_numpy(graph.y)
        arcs, mask = torch.from_numpy(alone.graph.arcs), torch.from_numpy(alone.graph.train)
        for _ in range(30):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(second(torch.relu(first(x, arcs)), arcs)[mask], y[mask]).backward()
            adam.step()
        ours = [{n: v[k : k + 1] for n, v in layer.items()} for layer in trained]
        log_p = torch.from_numpy(model.posteriors(ours, features(graph.x, [np.arange(NODES)], "cpu"), whole(alone.graph)))
        expected = second(torch.relu(first(x, arcs)), arcs).log_softmax(1)
        torch.testing.assert_close(log_p[0], expected, rtol=2e-3, atol=2e-3)


def test_heads_that_a_network_cannot_have_are_named():
    with pytest.raises(ValueError, match="gcn has no heads"):
        Gnn("gcn", heads=4)
    with pytest.raises(ValueError, match="last_heads=0"):
        Gnn("gat", last_heads=0)


def whole(graph):
    return Blocks.of(graph, [np.arange(graph.nodes)], np.ones((1, graph.edges.shape[1]), dtype=bool))


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_node_or_edge_is_an_absent_one(graph, kind):
    model = Gnn(kind, hidden=16, epochs=20, learning_rate=0.01, dropout=0.3)
    worlds = three_worlds(graph)
    together = model.fit(worlds)
    for k in range(3):
        edges = graph.edges[:, worlds.edge_present()[k]]
        rows = np.flatnonzero(worlds.nodes.dense(NODES)[k])
        place = np.full(NODES, -1)
        place[rows] = np.arange(len(rows))
        cut = Graph(
            graph.x[rows],
            graph.y[rows],
            place[edges],
            *(getattr(graph, m)[rows] for m in ("train", "val", "test")),
            classes=CLASSES,
        )
        alone = model.fit(Worlds.of(cut, worlds.seeds[k : k + 1]))
        for query in ("posteriors", "posteriors@0-hop"):
            np.testing.assert_allclose(together[query][k, rows], alone[query][0], rtol=1e-3, atol=1e-4)


def test_queries_differ_only_in_the_graph_they_are_asked_on(graph):
    worlds = three_worlds(graph)
    release = Gnn(hidden=16, epochs=5).fit(worlds)
    absent = np.argwhere(~worlds.nodes.dense(NODES))
    for k, i in absent:  # an absent node is alone in its own world
        np.testing.assert_allclose(release["posteriors"][k, i], release["posteriors@0-hop"][k, i], rtol=1e-5, atol=1e-6)
    assert not np.allclose(release["posteriors@full"], release["posteriors@0-hop"])
    bare = dataclasses.replace(graph, x=0.5 * graph.x, edges=graph.edges[:, :0])
    model, rows = Gnn(hidden=16, epochs=5), [np.arange(NODES)] * 3
    half = model.posteriors(
        model.train(worlds), features(bare.x, rows, "cpu"), Blocks.of(bare, rows, np.ones((3, 0), dtype=bool))
    )
    np.testing.assert_allclose(release["posteriors@half"], half, rtol=1e-5, atol=1e-6)
    sums = np.exp(release["posteriors@full"]).sum(-1)
    np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_a_run_is_the_same_alone_and_in_a_chunk(graph):
    model = Gnn(hidden=16, epochs=20, input_dropout=0.5, learning_rate=0.01)
    worlds = three_worlds(graph, watch=np.array([7, 2, 40]))
    together, alone = model.fit(worlds), model.fit(worlds[1:2])
    assert together["posteriors"].shape == (3, 3, CLASSES)
    np.testing.assert_allclose(together["posteriors"][1:2], alone["posteriors"], rtol=1e-4, atol=1e-5)
    other = model.fit(dataclasses.replace(worlds[1:2], seeds=worlds.seeds[:1]))
    assert not np.allclose(alone["posteriors"], other["posteriors"], atol=1e-3)


def test_a_masked_label_is_not_learnt(graph):
    model = Gnn(hidden=16, epochs=20, dropout=0.0)
    trained = np.flatnonzero(graph.train)
    mask = Mask(trained, np.arange(len(trained))[None] % 2 == 0)
    worlds = dataclasses.replace(Worlds.of(graph, [4]), labels=mask)
    hidden = graph.train.copy()
    hidden[trained[1::2]] = False
    y = np.where(hidden, graph.y, (graph.y + 1) % CLASSES)  # wrong wherever it must not be read
    expected = model.fit(Worlds.of(dataclasses.replace(graph, train=hidden, y=y), [4]))
    np.testing.assert_allclose(model.fit(worlds)["posteriors"], expected["posteriors"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.25, 0.75, 0.3])
def test_dropout_keeps_the_share_it_should_and_the_mean(share):
    factors = draw(stream(1, "mask"), 100_001, share)
    assert factors.shape == (100_001,)
    assert set(np.unique(factors)) == {np.float32(0), np.float32(1 / (1 - share))}
    assert abs((factors == 0).mean() - share) < 5 * 0.5 / np.sqrt(100_001)  # fails once in a million seeds


def test_an_operator_passes_gradients_through_its_transpose():
    matrix = sp.random_array((12, 9), density=0.4, rng=np.random.default_rng(0), format="csr")
    operator = Operator.of(matrix, "cpu")
    rows = torch.randn(1, 9, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weight = torch.arange(60.0).view(1, 12, 5)
    ((operator @ rows) * weight).sum().backward()
    torch.testing.assert_close(rows.grad[0], torch.from_numpy((matrix.T @ weight[0].numpy()).astype(np.float32)))
    factors = torch.arange(1.0, matrix.nnz + 1)
    scaled = operator.scaled(factors)
    torch.testing.assert_close(scaled.transpose.to_dense(), scaled.matrix.to_dense().T)


def test_it_keeps_the_contract_of_a_model():
    assert isinstance(Gnn(), Model)
    assert Gnn().with_noise(0.0) == Gnn()
    with pytest.raises(ValueError, match="no noise to scale"):
        Gnn().with_noise(1.0)
    with pytest.raises(ValueError, match="must be one of gcn"):
        Gnn("mlp")
