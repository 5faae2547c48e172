"""Trains the official DPDGC (Chien et al. 2023), edge level, from a checkout of its repository. This file contains none of its
code.

    python dpdgc.py WORLDS OUT CHECKOUT EPSILON NORM [posteriors]

NORM: the length of the columns of weights for which DPDGC calibrates the noise of its embedding. DPDGC calls it `norm_scale`.
This program needs the packages that the checkout imports; docs/recipes.md lists versions. With `posteriors`, it releases only the
posteriors.
"""

import sys
from pathlib import Path
from types import ModuleType

sys.path[:0] = [sys.argv[3], str(Path(__file__).parents[1])]

import torch
import torch_geometric.loader.utils
from target import target


class SparseTensor:
    """A 0/1 matrix with those methods of torch_sparse.SparseTensor that DPDGC uses. Entries are sorted by row, then by column."""

    def __init__(self, row, col, sparse_sizes):
        order = (row * sparse_sizes[1] + col).argsort()
        self.row, self.col, self.sizes = row[order], col[order], tuple(sparse_sizes)

    def coo(self):
        return self.row.clone(), self.col.clone(), None

    def t(self):
        return SparseTensor(self.col, self.row, self.sizes[::-1])

    def to(self, *given, **options):
        return self

    def to_torch_sparse_coo_tensor(self):
        return torch.sparse_coo_tensor(torch.stack([self.row, self.col]), torch.ones(len(self.row)), self.sizes)

    def to_dense(self):
        return self.to_torch_sparse_coo_tensor().to_dense()

    def __getitem__(self, asked):
        """The rows asked[0], in this order, with all columns."""
        place = torch.full((self.sizes[0],), -1)
        place[asked[0]] = torch.arange(len(asked[0]))
        there = place[self.row] >= 0
        return SparseTensor(place[self.row][there], self.col[there], (len(asked[0]), self.sizes[1]))


sys.modules["torch_sparse"] = stand_in = ModuleType("torch_sparse")
stand_in.SparseTensor, stand_in.matmul, stand_in.eye = SparseTensor, None, None
sys.modules.setdefault("torch_geometric.sampler.utils", torch_geometric.loader.utils)
for name in ("to_csc", "filter_data"):  # imported by modules of the checkout whose methods this program does not use
    for module in (torch_geometric.loader.utils, sys.modules["torch_geometric.sampler.utils"]):
        if not hasattr(module, name):
            setattr(module, name, None)

from core.loggers import Logger
from core.methods.node import EdgePrivDPDGC

torch.set_num_threads(1)
with target() as runs:
    Logger.setup(enabled=False, config={})
    for run in runs:
        run.seed_everything()
        data = run.data()
        data.adj_t = SparseTensor(data.edge_index[0], data.edge_index[1], (run.nodes, run.nodes))  # DPDGC reads its columns
        size = {"batch_size": 64, "encoder_epochs": 2, "epochs": 20, "norm_scale": float(sys.argv[5])}
        method = EdgePrivDPDGC(run.x.shape[1], run.classes, epsilon=float(sys.argv[4]), delta="auto", device="cpu", **size)
        sums, sound = [], method.perturb

        def watched(clean, sums=sums, sound=sound):
            sums.append(sound(clean))
            return sums[-1]

        method.perturb = watched
        method.fit(data)
        found = method.predict()
        if sys.argv[6:] == ["posteriors"]:
            run.release(found)
            continue
        encoder = method._adj_encoder.mlp_adj  # the embedding is the matrix of edges times these weights, plus a bias
        noise = method.noise_scale * method.norm_scale
        run.release(found, aggregates=[sums[0] - encoder.bias], inputs=[encoder.weight.T], noise_std=noise)
