"""Trains the official GAP (Sajadmanesh et al. 2023) from a checkout of its repository. This file contains none of its code.

    python gap.py WORLDS OUT CHECKOUT EPSILON [posteriors]

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

if not torch_geometric.typing.WITH_TORCH_SPARSE:  # PyG then returns a sparse tensor of PyTorch, which sums in the same way
    stand_in = ModuleType("torch_sparse")
    stand_in.SparseTensor, stand_in.matmul = torch.Tensor, torch.matmul
    sys.modules["torch_sparse"] = stand_in
for name in ("to_csc", "filter_data"):  # node-level GAP imports these names, which PyG 2.3 no longer has
    if not hasattr(torch_geometric.loader.utils, name):
        setattr(torch_geometric.loader.utils, name, None)

from core.loggers import Logger
from core.methods.node import EdgePrivGAP
from torch_geometric.transforms import ToSparseTensor

torch.set_num_threads(1)
with target() as runs:
    Logger.setup(enabled=False, config={})
    for run in runs:
        run.seed_everything()
        method = EdgePrivGAP(run.classes, epsilon=float(sys.argv[4]), device="cpu")
        inputs, sums, aggregate = [], [], method._aggregate

        def watched(x, adj_t, inputs=inputs, sums=sums, aggregate=aggregate):
            inputs.append(x)
            sums.append(aggregate(x, adj_t))
            return sums[-1]

        method._aggregate = watched
        method.fit(ToSparseTensor()(run.data()))
        found = method.predict().softmax(-1)
        alone = sys.argv[5:] == ["posteriors"]
        run.release(found) if alone else run.release(found, aggregates=sums, inputs=inputs, noise_std=method.noise_scale)
