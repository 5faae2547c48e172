"""The programs of recipes, on stand-ins for the public repositories: same interfaces, none of their code."""

import dataclasses
import sys

import numpy as np
import pytest

from gnnaudit import load
from gnnaudit.audit.own.programs.declaration import declared
from gnnaudit.audit.own.programs.files import recipe
from gnnaudit.models.graph.graph import Worlds

LPGNN = {
    "models.py": """
import torch
import torch.nn.functional as F
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import accuracy
from torch_sparse import matmul

class NodeClassifier(torch.nn.Module):
    def __init__(self, input_dim, num_classes, x_steps, y_steps):
        super().__init__()
        self.classes = num_classes

    def loss(self, classes):
        return F.one_hot(classes)

    def forward(self, data):
        smooth = matmul(gcn_norm(data.adj_t, add_self_loops=False), data.x, reduce="sum")
        return smooth[:, : self.classes].softmax(-1), None, None
""",
    "trainer.py": """
import torch

class Trainer:
    def __init__(self, max_epochs, device): pass

    def fit(self, model, data):
        assert data.y.shape[1] == data.num_classes
        assert model.loss(torch.zeros(8, dtype=torch.int64)).shape == (8, data.num_classes)
""",
    "transforms.py": """
import torch

class FeaturePerturbation:
    def __init__(self, mechanism, x_eps, data_range):
        assert (mechanism, x_eps, data_range) == ("mbm", 1.0, (0.0, 1.0))

    def __call__(self, data):
        data.x = data.x + torch.rand_like(data.x)
        return data

class LabelPerturbation:
    def __init__(self, y_eps): pass

    def __call__(self, data):
        data.y = torch.nn.functional.one_hot(data.y, data.num_classes)
        return data
""",
}
BLINK = {
    "src/blink/__init__.py": "from blink.client import Client\nfrom blink.server import Server\n",
    "src/blink/client.py": """
from torch_sparse import SparseTensor

class Client:
    def __init__(self, eps, delta, data):
        assert (eps, delta) == (4.0, 0.1)
        self.data = data

    def AddLDP(self):
        n = self.data.num_nodes
        rows = SparseTensor(row=self.data.edge_index[0], col=self.data.edge_index[1], sparse_sizes=(n, n)).to("cpu").to_dense()
        return rows, rows.sum(1).reshape(n, 1)
""",
    "src/blink/server.py": """
import torch
from torch import nn

def make_model(classes): return Net(classes)

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes, self.trained = classes, False

    def forward(self, x, edges, weights):
        sums = torch.zeros(len(x), self.classes).index_add(0, edges[0], x[edges[1], : self.classes])
        return sums if self.trained and not self.training else 0 * sums

class Server:
    def __init__(self, eps, delta, data, variant):
        self.data = data

    def receive(self, rows, degrees):
        self.est_edge_index = rows.nonzero().T
        degrees.zero_()  # a server may overwrite what it received

    def estimate(self): pass

    def fit(self, model, hparam, iter):
        make_model(classes=self.data.num_classes).trained = True
""",
}
LPGNET = {
    "src/utils.py": "import enum\nDataset = enum.Enum('Dataset', 'Cora')\n",
    "src/graph_utils.py": """
import numpy as np

def getCommunityCountsMP(adjacency, labels, classes, rng, dp, eps):
    assert dp and eps == 2.0
    noise = rng.laplace(size=classes)
    return {i: list(row @ np.eye(classes)[labels] + noise) for i, row in enumerate(adjacency)}
""",
    "src/trainer.py": """
import types
import numpy as np
import torch
import graph_utils

class RunConfig(types.SimpleNamespace): pass

class LoadData: pass

def train_mmlp_on_dataset(config, dataset, device, dp, seeds):
    loaded, rng = LoadData(dataset, dp=False, rng_seed=seeds[0]), np.random.default_rng(seeds[0])
    labels = torch.stack([loaded.train_labels, loaded.val_labels, loaded.test_labels]).max(0).values.clamp(min=0).numpy()
    for _ in range(config.nl):
        rows = loaded.train_adj_orig_csr.toarray()
        graph_utils.getCommunityCountsMP(rows, labels, loaded.num_classes, rng, dp, config.eps / config.nl)
    parts = torch.stack([(loaded.train_labels >= 0), (loaded.val_labels >= 0), (loaded.test_labels >= 0)], 1).float()
    scores = torch.cat([20 * parts, torch.zeros(len(parts), loaded.num_classes - 3)], 1)
    return types.SimpleNamespace(all_outs=[(loaded.test_labels, scores)])
""",
}
DPDGC = {
    "core/loggers.py": "class Logger:\n    @staticmethod\n    def setup(enabled, config): pass\n",
    "core/methods/node.py": """
from types import SimpleNamespace
import torch
from torch_geometric.sampler.utils import to_csc
from torch_sparse import SparseTensor, matmul

class EdgePrivDPDGC:
    def __init__(self, num_features, num_classes, epsilon, delta, device, **size):
        assert epsilon == 1 and delta == "auto"
        self.classes, self.noise_scale, self.norm_scale = num_classes, 5.0, size["norm_scale"]
        self._adj_encoder = SimpleNamespace()

    def perturb(self, x):
        return x + self.noise_scale * self.norm_scale * torch.randn_like(x)

    def fit(self, data):
        rows, nodes = data.adj_t.t(), data.num_nodes
        assert len(rows.coo()[0]) == data.num_edges
        order = torch.arange(nodes - 1, -1, -1)
        row, col, _ = rows[order, :].coo()
        assert (row.diff() >= 0).all()
        again = SparseTensor(row=row, col=col, sparse_sizes=(nodes, nodes)).to("cpu")
        sums = (again.to_torch_sparse_coo_tensor() @ data.x)[order]
        assert torch.equal(sums, again.to_dense()[order] @ data.x)
        self._adj_encoder.mlp_adj = layer = torch.nn.Linear(nodes, 64)
        self.perturb(layer(again.to_dense()[order]).detach())
        self.scores = sums[:, : self.classes]

    def predict(self):
        return self.scores.softmax(-1)
""",
}


@pytest.fixture(scope="module")
def graph():
    return load("campus:n=160:degree=8")


def released(name, files, graph, folder, runs=1):
    """The release of trainings with different seeds, by the recipe `name` on a checkout that holds `files`."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    model = declared(recipe(name), checkout=folder, python=sys.executable)
    return model.fit(Worlds.of(graph, np.arange(runs, dtype=np.uint64)))


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.nightly
def test_lpgnn_propagates_the_reports_that_are_released(graph, tmp_path):
    release = released("lpgnn", LPGNN, graph, tmp_path, runs=2)
    first, second = release["reports"] - graph.x
    assert (first >= 0).all()
    assert (first < 1).all()
    assert not np.array_equal(first, second)
    half = np.maximum(graph.degree, 1) ** -0.5
    smooth = half[:, None] * (graph.adjacency() @ (half[:, None] * release["reports"][0]))
    assert np.exp(release["posteriors"][0]) == pytest.approx(softmax(smooth[:, : graph.classes]), abs=1e-5)


@pytest.mark.nightly
def test_blink_releases_what_users_send_and_what_the_trained_network_answers(graph, tmp_path):
    release = released("blink", BLINK, graph, tmp_path)
    rows = graph.adjacency().toarray()
    assert np.array_equal(release["reports"][0], np.column_stack([rows, rows.sum(1)]))
    assert np.exp(release["posteriors"][0]) == pytest.approx(softmax(rows @ graph.x[:, : graph.classes]), abs=1e-5)


@pytest.mark.nightly
def test_lpgnet_gets_labels_by_part_and_releases_its_noisy_counts(graph, tmp_path):
    release = released("lpgnet", LPGNET, graph, tmp_path, runs=2)
    assert release["transcript"].shape == (2, 2, graph.nodes, graph.classes)
    noise = release["transcript"] - graph.adjacency() @ np.eye(graph.classes)[graph.y]
    assert np.ptp(noise, axis=2) == pytest.approx(0, abs=1e-4)  # the stand-in gives all nodes one noise; 1e-4 is rounding
    assert np.unique(noise[:, :, 0].round(3)).size == 4 * graph.classes  # fresh for each run, layer and class
    part = release["posteriors"][0].argmax(-1)
    assert np.array_equal(part, np.select([graph.train, graph.val], [0, 1], 2))


@pytest.mark.nightly
def test_dpdgc_gets_the_rows_of_the_adjacency_matrix_and_releases_its_noisy_embedding(graph, tmp_path):
    arcs = graph.as_directed()
    one_way = dataclasses.replace(arcs, edges=arcs.edges[:, 1:])  # the transposed matrix is another one
    release = released("dpdgc", DPDGC, one_way, tmp_path)
    expected = softmax(one_way.adjacency() @ graph.x[:, : graph.classes])
    assert np.exp(release["posteriors"][0]) == pytest.approx(expected, abs=1e-5)
    assert release.public["noise_std"] == pytest.approx(5e-3)
    noise = release["aggregates"][0, 0] - one_way.adjacency() @ release["inputs"][0, 0]
    assert noise.std() == pytest.approx(5e-3, rel=0.1)  # of 10,240 values
