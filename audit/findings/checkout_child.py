"""A script that runs an experiment on one file of a user's checkout. It needs NumPy, and the packages that the file needs.

`python checkout_child.py ID FILE SEED` prints one JSON document {"without": [...], "present": [...], "note": "..."}: the scores
of independent rounds without and with the protected unit, and a note. The script contains no part of the file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

Scores = tuple[list[float], list[float], str]


class SparseTensor:
    """Replaces torch_sparse.SparseTensor if that package is missing: a 0/1 matrix with the methods that the experiments need."""

    def __init__(self, row: Any, col: Any, sparse_sizes: tuple[int, int]) -> None:
        import torch

        self.dense = torch.zeros(sparse_sizes)
        self.dense[row, col] = 1

    @classmethod
    def from_dense(cls, dense: Any, has_value: bool = True) -> SparseTensor:
        row, col = dense.nonzero(as_tuple=True)
        return cls(row, col, tuple(dense.shape))

    def to_dense(self, dtype: Any = None) -> Any:
        import torch

        return self.dense.to({bool: torch.bool, None: torch.float32}.get(dtype, dtype))

    def set_value(self, value: None) -> SparseTensor:
        return self

    def size(self, axis: int) -> int:
        return int(self.dense.shape[axis])

    def density(self) -> float:
        return float(self.dense.mean())

    def coo(self) -> tuple[Any, Any, None]:
        rows, columns = self.dense.nonzero(as_tuple=True)
        return rows, columns, None

    def t(self) -> SparseTensor:
        return self.from_dense(self.dense.T)

    def __getitem__(self, rows: Any) -> SparseTensor:
        return self.from_dense(self.dense[rows])


def needs_stand_in() -> bool:
    return importlib.util.find_spec("torch_sparse") is None


def load(path: Path) -> ModuleType:
    """Imports the file as a module with the file's own name, after the stand-in for torch_sparse if that package is missing. The
    file's folder comes first on the path, so that worker processes find the module.
    """
    if needs_stand_in():
        stand_in: Any = ModuleType("torch_sparse")
        stand_in.SparseTensor = SparseTensor
        sys.modules["torch_sparse"] = stand_in
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def density_chunk(module: ModuleType, seed: int) -> Scores:
    """Releases a graph whose last chunk is a single row. This row has no edge in one world and one edge in the other.

    The score is the number of ones in the released row; -1 if the mechanism stops with an error.
    """
    import torch
    from torch_sparse import SparseTensor as Sparse  # type: ignore[import-not-found,unused-ignore]

    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    nodes, rounds, scores, stopped = 101, 1500, [], 0
    for edge in (0, 1):
        row = torch.arange(nodes - 1 + edge)
        col = (row + 1) % nodes
        adjacency, seen = Sparse(row=row, col=col, sparse_sizes=(nodes, nodes)), []
        mechanism = module.AsymmetricRandResponse(eps=1.0)
        for _ in range(rounds):
            try:
                seen.append(float(mechanism(adjacency, chunk_size=nodes - 1).to_dense()[-1].sum()))
            # the code computed a negative probability; an adversary who sees the releases also sees this error
            except RuntimeError:
                seen.append(-1.0)
        stopped += seen.count(-1.0)
        scores.append(seen)
    return scores[0], scores[1], f"It stopped with an error in {stopped} of {2 * rounds} releases; this counts as an outcome."


def symmetric_response(module: ModuleType, seed: int) -> Scores:
    """In one world every pair (i, i + 1) has an edge, in the other none has. The scores are the pairs' released entries."""
    import torch

    torch.manual_seed(seed)
    nodes, rounds, scores = 60, 40, []
    for edge in (0, 1):
        one = torch.arange(nodes - 1) if edge else torch.zeros(0, dtype=torch.long)
        data = SimpleNamespace(
            num_nodes=nodes, edge_index=torch.cat([torch.stack([one, one + 1]), torch.stack([one + 1, one])], 1)
        )
        first = torch.arange(nodes - 1)
        answers = [module.Client(1.0, data).AddLDP()[first, first + 1] for _ in range(rounds)]
        scores.append([float(v) for v in torch.cat(answers)])
    return scores[0], scores[1], f"{rounds} graphs of {nodes} nodes; the answers of different pairs are independent."


def pooled_counts(module: ModuleType, seed: int) -> Scores:
    """Nodes j and 20 + j have 40 neighbours in cluster 0, and node j may have one more.

    The score is 1 if the noisy count of node j is larger by exactly 1, else 0.
    """
    slices, rounds, scores = 20, 24, ([], [])  # type: ignore[var-annotated]
    coins = np.random.default_rng(seed)
    for _ in range(rounds):
        present = coins.random(slices) < 0.5
        adjacency = np.zeros((5 * slices, 5 * slices))
        adjacency[: 2 * slices, 2 * slices : 4 * slices] = 1.0
        adjacency[np.flatnonzero(present), 4 * slices + np.flatnonzero(present)] = 1.0
        labels = np.repeat([1, 0], [2 * slices, 3 * slices])
        noise = np.random.default_rng(int(coins.integers(2**62)))
        counts = module.getCommunityCountsMP(np.maximum(adjacency, adjacency.T), labels, 2, noise, dp=True, eps=1.0, num_proc=5)
        for j in range(slices):
            gap = float(counts[j][0]) - float(counts[slices + j][0])
            scores[int(present[j])].append(float(abs(gap - 1) < 1e-9))
    return scores[0], scores[1], f"{rounds} calls, {slices} pairs of nodes in each."


def stored_zeros(module: ModuleType, seed: int) -> Scores:
    """In one world every pair (i, i + 1) has an edge, in the other none has.

    The score of a pair is 1 if the released sparse matrix stores a zero for it, else 0.
    """
    import scipy.sparse as sp

    nodes, rounds, scores = 40, 40, []
    for edge in (0, 1):
        one = np.full(nodes - 1, float(edge))
        adjacency = sp.csr_matrix(sp.diags([one, one], [1, -1], (nodes, nodes)))
        adjacency.eliminate_zeros()
        seen: list[float] = []
        for number in range(rounds):
            worker = object.__new__(module.Worker)
            worker.args = SimpleNamespace(epsilon=1.0, noise_seed=(seed + 2 * number + edge) % 2**32)
            released = worker.perturb_adj_discrete(adjacency.copy()).tocoo()
            stored = {(r, c) for r, c, v in zip(released.row, released.col, released.data, strict=True) if v == 0}
            seen += [float((i, i + 1) in stored) for i in range(nodes - 1)]
        scores.append(seen)
    return scores[0], scores[1], f"{rounds} graphs of {nodes} nodes, each with a noise seed of its own."


def kept_directions(module: ModuleType, seed: int) -> Scores:
    """Releases a star with or without the edge between its centre and one leaf.

    The score is the released entry of this pair; -1 if the mechanism stops with an error.
    """
    import scipy.sparse as sp

    leaves, rounds, scores = 200, 120, []
    for edge in (0, 1):
        rows = np.arange(1, leaves + edge)
        star = sp.csr_matrix((np.ones(rows.size), (rows, np.zeros_like(rows))), (leaves + 1, leaves + 1))
        loader = SimpleNamespace(rng=np.random.default_rng([seed, edge]))
        seen: list[float] = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:  # the code stores decompositions in a folder that it makes
                try:
                    graph = module.LoadData.gaussvdgraph(loader, star + star.T, 1.0, 20, str(Path(folder, "decomposed")))
                    seen.append(float(graph[0, leaves]))
                except ValueError:  # the noisy number of edges is negative; an adversary who sees the releases sees this error
                    seen.append(-1.0)
        scores.append(seen)
    return scores[0], scores[1], f"A star of {leaves} leaves, rank 20, {rounds} releases of each graph."


def pushed_flow(module: ModuleType, seed: int) -> Scores:
    """Releases noisy PageRank values from the centre of a star, with or without the edge from the centre to leaf 1. In both
    worlds an edge joins leaves 1 and 2.

    The score of a round is the log-likelihood ratio of the noisy values.
    """
    import pandas as pd

    np.random.seed(seed % 2**32)
    leaves, rounds, eta = 200, 1000, 1e-6
    star = [(0, leaf) for leaf in range(1, leaves + 1)]
    flows = [
        module.PrivatePushFlowEfficient(
            SimpleNamespace(nodes=leaves + 1, edges=pd.DataFrame([(1, 2), *star[1 - edge :]])), epsilon=1.0, delta=1e-5, eta=eta
        )
        for edge in (0, 1)
    ]
    without, present = (flow.compute_private_pushflow_selected([0], "None")[0] for flow in flows)
    scale = (2 + flows[0].beta) * eta
    seen = [
        [
            float((np.abs(noisy - without) - np.abs(noisy - present)).sum() / scale)
            for noisy in (flow.compute_private_pushflow_selected([0], "Laplacian")[0] for _ in range(rounds))
        ]
        for flow in flows
    ]
    moved = float(np.abs(present - without).sum() / scale)
    return seen[0], seen[1], f"The scores move by {moved:.3g} times the scale of the Laplace noise that epsilon = 1 pays for."


PLAYS = {
    "arr-density-chunk": density_chunk,
    "blink-symrr-diagonal": symmetric_response,
    "eclipse-singular-vectors": kept_directions,
    "linkteller-edgerand": stored_zeros,
    "lpgnet-shared-noise": pooled_counts,
    "pushflow-max-degree": pushed_flow,
}

if __name__ == "__main__":
    missing = needs_stand_in()
    with contextlib.redirect_stdout(sys.stderr):  # the file's own output must not get into the JSON document
        without, present, note = PLAYS[sys.argv[1]](load(Path(sys.argv[2])), int(sys.argv[3]))
    if missing and "torch_sparse" in Path(sys.argv[2]).read_text(encoding="utf-8", errors="replace"):
        note += " torch_sparse is not installed; a stand-in for its SparseTensor was used."
    print(json.dumps({"without": without, "present": present, "note": note}))
