"""Trains the official Blink (Zhu, Tan and Xiao 2023) from a checkout of its repository. This file contains none of its code.

    python blink.py WORLDS OUT CHECKOUT EPSILON DELTA [posteriors]

DELTA: the share of epsilon that Blink spends on degrees. This program needs the packages that the checkout imports;
docs/recipes.md lists versions. With `posteriors`, it releases only the posteriors.
"""

import sys
from pathlib import Path
from types import ModuleType

sys.path[:0] = [str(Path(sys.argv[3], "src")), str(Path(__file__).parents[1])]

import torch
import torch_geometric  # noqa: F401  imported before the stand-in, which PyG must not take for torch_sparse
from target import target


class SparseTensor:
    """A 0/1 matrix with those methods of torch_sparse.SparseTensor that Blink uses."""

    def __init__(self, row, col, sparse_sizes):
        self.matrix = torch.zeros(sparse_sizes)
        self.matrix[row, col] = 1

    def to(self, device):
        return self

    def to_dense(self):
        return self.matrix


try:
    import torch_sparse  # noqa: F401
except ImportError:
    sys.modules["torch_sparse"] = stand_in = ModuleType("torch_sparse")
    stand_in.SparseTensor = SparseTensor

import blink

torch.set_num_threads(1)
epsilon, delta = map(float, sys.argv[4:6])
made, make_model = [], blink.server.make_model


def watched(**options):
    made.append(make_model(**options))
    return made[-1]


blink.server.make_model = watched
with target() as runs:
    for run in runs:
        run.seed_everything()
        data = run.data()
        data.num_classes = run.classes
        reports = blink.Client(epsilon, delta, data).AddLDP()
        server = blink.Server(epsilon, delta, data, variant=0)
        server.receive(*(report.clone() for report in reports))
        server.estimate()
        server.fit("gcn", {"do": 0.5, "lr": 0.01, "wd": 0.001}, iter=100)
        made[-1].eval()
        with torch.no_grad():
            found = made[-1](data.x, server.est_edge_index, None).softmax(-1)
        run.release(found) if sys.argv[6:] == ["posteriors"] else run.release(found, reports=torch.cat(reports, 1))
