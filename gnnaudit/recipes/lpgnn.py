"""Trains the official LPGNN (Sajadmanesh and Gatica-Perez 2021) from a checkout of its repository, without any of its code here.

    python lpgnn.py WORLDS OUT CHECKOUT MECHANISM EPSILON_X EPSILON_Y LOW HIGH

MECHANISM: mbm (multi-bit), 1bm, lpm (Laplace) or agm (Gaussian). LOW, HIGH: the public range of the features, which LPGNN calls
`data_range`. This program needs the packages that the checkout imports; docs/recipes.md lists versions.
"""

import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

sys.path[:0] = [sys.argv[3], str(Path(__file__).parents[1])]

os.environ["TQDM_DISABLE"] = "1"  # no progress bars

import torch
import torch_geometric
from target import target

try:
    import torch_sparse  # noqa: F401
except ImportError:  # PyG then returns a sparse tensor of PyTorch; `reduce` is always a sum here
    sys.modules["torch_sparse"] = stand_in = ModuleType("torch_sparse")
    stand_in.matmul = lambda adjacency, x, reduce: torch.sparse.mm(adjacency, x)
if not hasattr(torch_geometric.utils, "accuracy"):  # PyG 2.2 no longer has it; LPGNN prints it and does not train on it
    torch_geometric.utils.accuracy = lambda pred, target: float((pred == target).float().mean())

from torch_geometric.transforms import ToSparseTensor
from trainer import Trainer
from transforms import FeaturePerturbation, LabelPerturbation

import models

normalised = models.gcn_norm


def one_matrix(*given, **options):
    """PyG's gcn_norm. For a sparse tensor of PyTorch it returns (matrix, None), and LPGNN expects only the matrix."""
    found = normalised(*given, **options)
    return found[0] if isinstance(found, tuple) else found


models.gcn_norm = one_matrix
models.F = functional = ModuleType("functional")  # LPGNN's loss calls one_hot without the number of classes, and stops with an
functional.__dict__.update(torch.nn.functional.__dict__)  # error if no node has the last class; this one counts all classes
torch.set_num_threads(1)
mechanism, (epsilon_x, epsilon_y, low, high) = sys.argv[4], map(float, sys.argv[5:9])
with target() as runs:
    for run in runs:
        run.seed_everything()
        functional.one_hot = partial(torch.nn.functional.one_hot, num_classes=run.classes)
        data = ToSparseTensor()(run.data())
        data.num_classes = run.classes
        data = FeaturePerturbation(mechanism, epsilon_x, data_range=(low, high))(data)
        reports = data.x.clone()
        data = LabelPerturbation(epsilon_y)(data)
        model = models.NodeClassifier(run.x.shape[1], run.classes, x_steps=4, y_steps=2)
        Trainer(max_epochs=100, device="cpu").fit(model, data)
        model.eval()
        with torch.no_grad():
            run.release(model(data)[0], reports=reports)
