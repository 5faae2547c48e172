"""Trains the official LPGNet (Kolluri et al. 2022) from a checkout of its repository. This file contains none of its code.

    python lpgnet.py WORLDS OUT CHECKOUT EPSILON [posteriors]

This program needs the packages that the checkout imports; docs/recipes.md lists versions. With `posteriors`, it releases only the
posteriors.
"""

import os
import sys
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"  # no progress bars
sys.path[:0] = [str(Path(sys.argv[3], "src")), str(Path(__file__).parents[1])]

import numpy as np
import scipy.sparse as sp
import torch
import trainer
from target import target
from utils import Dataset

STACKED = 2  # number of networks that read noisy counts; each gets epsilon / STACKED


class Loaded:
    """The graph of one run, as LPGNet's own loader returns it. A split labels nodes of other splits with -100."""

    def __init__(self, run):
        features, labels = torch.from_numpy(run.x), torch.from_numpy(run.y)
        self.train_features = self.val_features = self.test_features = features
        for part in ("train", "val", "test"):
            setattr(self, f"{part}_labels", labels.where(torch.from_numpy(getattr(run, f"{part}_mask")), -100))
        ones = np.ones(run.edge_index.shape[1], dtype=np.float32)
        adjacency = sp.csr_matrix((ones, tuple(run.edge_index)), (run.nodes, run.nodes))
        self.train_adj_orig_csr = self.val_adj_orig_csr = self.test_adj_orig_csr = adjacency
        self.num_classes, self.test_dataset = run.classes, None

    def val_on_new_graph(self):
        return False

    has_no_val = is_inductive = val_on_new_graph


counts, count = [], trainer.graph_utils.getCommunityCountsMP


def watched(*given):
    counts.append(count(*given))
    return counts[-1]


trainer.graph_utils.getCommunityCountsMP = watched
torch.set_num_threads(1)
with target() as runs:
    for run in runs:
        run.seed_everything()
        counts.clear()
        trainer.LoadData = lambda *given, run=run, **options: Loaded(run)
        config = trainer.RunConfig(eps=float(sys.argv[4]), nl=STACKED, num_epochs=100)
        stats = trainer.train_mmlp_on_dataset(config, Dataset.Cora, "cpu", dp=True, seeds=[run.seed & 0x7FFFFFFFFFFFFFFF])
        found = stats.all_outs[0][1].softmax(-1)
        noisy = np.array([[each[node] for node in range(run.nodes)] for each in counts])
        run.release(found) if sys.argv[5:] == ["posteriors"] else run.release(found, transcript=noisy)
