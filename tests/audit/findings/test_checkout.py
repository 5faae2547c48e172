"""`audit findings ID --checkout DIR` on stand-ins with the interface of the public files: 1 before the repair, 0 after."""

import json

import pytest
from typer.testing import CliRunner

from gnnaudit.audit.cli.main import app
from gnnaudit.audit.findings.checkout import CHECKOUTS, play
from gnnaudit.audit.findings.systems.all_findings import FINDINGS
from gnnaudit.audit.key import Key

CHUNKS = """
import numpy as np
import torch
from torch_sparse import SparseTensor

class AsymmetricRandResponse:
    def __init__(self, eps):
        self.keep, self.rest = 1 / (1 + np.exp(-0.9 * eps)), 0.1 * eps

    def __call__(self, adj_t, chunk_size=1000):
        n, rows = adj_t.size(0), []
        for start in range(0, n, chunk_size):
            part = adj_t[start : start + chunk_size]
            entries = ENTRIES
            d = np.random.laplace(part.density(), 1 / entries / self.rest)
            share = min(1, max(0, d / (2 * self.keep * d - self.keep - d + 1)))
            there = part.to_dense(dtype=bool)
            rows.append(torch.bernoulli(torch.where(there, self.keep * share, (1 - self.keep) * share)))
        return SparseTensor.from_dense(torch.cat(rows), has_value=False)
"""
PAIRS = """
import math
import torch

class Client:
    def __init__(self, eps, data):
        self.eps, self.data = eps, data

    def AddLDP(self):
        n = self.data.num_nodes
        truth = torch.zeros(n, n, dtype=torch.bool)
        truth[self.data.edge_index[0], self.data.edge_index[1]] = True
        below = (truth ^ (torch.rand(n, n) < 1 / (1 + math.exp(self.eps)))).tril(DIAGONAL)
        return below | below.t()
"""
COUNTS = """
from multiprocessing import Pool
import numpy as np

def part(start, rows, clusters, eps, rng):
    return {start + i: [max(0.0, row[c].sum() + rng.laplace(0, 2 / eps)) for c in clusters] for i, row in enumerate(rows)}

def getCommunityCountsMP(adjacency, labels, num_classes, rng, dp=False, eps=2.0, num_proc=5):
    size = len(adjacency) // num_proc
    clusters = [labels == c for c in range(num_classes)]
    with Pool(2) as pool:
        tasks = [pool.apply_async(part, (i, adjacency[i : i + size], clusters, eps, RNG)) for i in range(0, len(labels), size)]
        return {node: counts for task in tasks for node, counts in task.get().items()}
"""
ZEROS = """
import numpy as np
import scipy.sparse as sp

class Worker:
    def perturb_adj_discrete(self, adj):
        rng, n = np.random.default_rng(self.args.noise_seed), adj.shape[0]
        told, bit = np.triu(rng.random((n, n)) < 2 / (np.exp(self.args.epsilon) + 1), 1), rng.random((n, n)) < 0.5
        add, drop = (sp.csr_matrix((told & side).astype(int)) for side in (bit, ~bit))
        noisy = adj + (add + add.T) - (drop + drop.T)
        noisy.data[noisy.data == -1], noisy.data[noisy.data == 2] = 0, 1
        REPAIR
        return noisy
"""
DIRECTIONS = """
import numpy as np
import scipy.sparse as sp

class LoadData:
    def gaussvdgraph(self, adj, eps, rank, dataset):
        dense = adj.toarray()
        edges = int(dense.sum() / 2 + self.rng.laplace(0, 1 / (0.01 * eps)))
        sigma = np.sqrt(2 * np.log(1.25e5)) * np.sqrt(2) / (0.99 * eps)
        u, s, v = np.linalg.svd(dense)
        low = (u[:, :rank] * np.clip(s[:rank] + self.rng.normal(0, sigma, rank), 0, None)) @ v[:rank]
        NOISE
        low[np.tril_indices_from(low)] = -np.inf
        kept = np.argsort(low, axis=None)[low.size - max(edges, 0) :]
        graph = np.zeros(low.size)
        graph[kept] = 1
        return sp.csr_matrix(graph.reshape(low.shape) + graph.reshape(low.shape).T)
"""
FLOW = """
import numpy as np

class PrivatePushFlowEfficient:
    def __init__(self, graph, epsilon, delta, eta, beta=0.8):
        edges = graph.edges.to_numpy()
        ends, n = np.concatenate([edges, edges[:, ::-1]]), edges.max() + 1
        self.dense = np.zeros((n, n))
        self.dense[ends[:, 0], ends[:, 1]] = 1
        self.degrees, self.epsilon, self.eta, self.beta = self.dense.sum(0), epsilon, eta, beta

    def compute_private_pushflow_selected(self, sources, noise_type):
        walk = 0.5 * (np.eye(len(self.dense)) + self.dense / self.degrees)
        rows = []
        for source in sources:
            flow, sent = np.eye(len(walk))[source], np.zeros(len(walk))
            limit = np.full(len(walk), LIMIT * self.eta)
            limit[source] = 1
            for _ in range(100):
                push = np.minimum(flow, limit - sent)
                sent, flow = sent + push, flow - push + self.beta * walk @ push
            rows.append((1 - self.beta) * sent)
        noise = np.random.laplace(0, (2 + self.beta) * self.eta / self.epsilon, np.shape(rows))
        return np.array(rows) + (noise if noise_type == "Laplacian" else 0)
"""
BOTH = {
    "arr-density-chunk": (CHUNKS.replace("ENTRIES", "n * n"), CHUNKS.replace("ENTRIES", "part.size(0) * n")),
    "blink-symrr-diagonal": (PAIRS.replace("DIAGONAL", "1"), PAIRS.replace("DIAGONAL", "-1")),
    "eclipse-singular-vectors": (
        DIRECTIONS.replace("NOISE", "pass"),
        DIRECTIONS.replace("NOISE", "low = dense + self.rng.normal(0, sigma, dense.shape)"),
    ),
    "linkteller-edgerand": (ZEROS.replace("REPAIR", "pass"), ZEROS.replace("REPAIR", "noisy.eliminate_zeros()")),
    "pushflow-max-degree": (FLOW.replace("LIMIT", "max(self.degrees)"), FLOW.replace("LIMIT", "1")),
    "lpgnet-shared-noise": (COUNTS.replace("RNG", "rng"), COUNTS.replace("RNG", "rng.spawn(1)[0]")),
}


def written(folder, name, text):
    path = folder / CHECKOUTS[name].files[-1]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return folder


def test_each_experiment_has_a_stand_in_and_a_finding():
    assert set(BOTH) == set(CHECKOUTS) <= set(FINDINGS)


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.nightly
def test_the_fault_shows_before_the_repair_and_not_after(name, tmp_path):
    for code, text in zip((1, 0), BOTH[name], strict=True):
        folder = written(tmp_path / str(code), name, text)
        done = CliRunner().invoke(app, ["findings", name, "--checkout", str(folder), "--json"])
        assert done.exit_code == code, done.output
        (row,) = json.loads(done.stdout)["rows"]
        assert row["verdict"] == ("refuted" if code else "not-refuted")  # a sound file is refuted once in ten thousand runs
        assert (row["lower"] > 1) == bool(code)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("blink-symrr-diagonal", None, "holds no src/symrr/client.py"),
        ("blink-symrr-diagonal", "class Other: pass", "does not define Client"),
        ("blink-symrr-diagonal", "import nothing_of_this_name\nClient = None", "No module named 'nothing_of_this_name'"),
        ("gap-degree-cap", "", "no experiment for a checkout has this id"),
    ],
)
def test_a_wrong_folder_or_file_is_one_line(name, text, said, tmp_path):
    import sys

    folder = tmp_path if text is None or name not in CHECKOUTS else written(tmp_path / "wrong", name, text)
    with pytest.raises(ValueError, match=said) as fault:
        play(name, folder, sys.executable, Key("findings", "test"))
    assert "\n" not in str(fault.value)


def test_an_interpreter_that_does_not_exist_is_named(tmp_path):
    folder = written(tmp_path / "one", "blink-symrr-diagonal", BOTH["blink-symrr-diagonal"][0])
    with pytest.raises(ValueError, match="python=/no/python: cannot be started"):
        play("blink-symrr-diagonal", folder, "/no/python", Key("findings", "test"))


def test_two_findings_at_once_are_refused():
    done = CliRunner().invoke(app, ["findings", *list(BOTH)[:2], "--checkout", "."])
    assert isinstance(done.exception, ValueError)
