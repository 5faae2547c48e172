"""A user's own graph network: a GraphSAGE layer in plain PyTorch, trained with Opacus. It does not use gnnaudit."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # so small a network is slower on several threads; torch reads this at import

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 20
CLIP = 1.0
SIGMA = 4.5  # noise multiplier of each step
RATE = 5.0
DELTA = 1e-5


class Sage(nn.Module):
    """Predicts a node's class from its own features and from the mean features of the nodes that send to it."""

    def __init__(self, features, classes):
        super().__init__()
        self.own = nn.Linear(features, classes, bias=False)
        self.recorded = nn.Linear(features, classes, bias=False)
        nn.init.zeros_(self.own.weight)
        nn.init.zeros_(self.recorded.weight)

    def forward(self, x, recorded):
        return self.own(x) + self.recorded(recorded)


def means(x, arcs):
    """(nodes, features): for each node, the mean features of the nodes that send to it; zeros if none does."""
    send, receive = arcs
    total = np.zeros_like(x)
    np.add.at(total, receive, x[send])
    return total / np.maximum(np.bincount(receive, minlength=len(x)), 1)[:, None]


def train(x, arcs, y, rows, seed, noise=1.0):
    """Returns the trained network, and the epsilon that Opacus prints for it.

    x: (nodes, features) float32. arcs: (2, m) int64, senders and receivers. y: (nodes,) int64. rows: (n,) int64, nodes to train
    on. noise: a factor on SIGMA. Each step uses all rows, so nothing is sampled.
    """
    recorded = means(x, arcs)
    rows_of = TensorDataset(*(torch.from_numpy(part[rows]) for part in (x, recorded.astype(np.float32), y)))
    network = Sage(x.shape[1], int(y.max()) + 1)
    engine = PrivacyEngine(accountant="rdp")
    private, optimizer, loader = engine.make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=RATE),
        data_loader=DataLoader(rows_of, batch_size=len(rows)),
        noise_multiplier=SIGMA * noise,
        max_grad_norm=CLIP,
        poisson_sampling=False,
        noise_generator=torch.Generator().manual_seed(seed),
    )
    for _ in range(STEPS):
        for own, others, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(private(own, others), labels).backward()
            optimizer.step()
    return network, engine.get_epsilon(DELTA)


def predict(network, x, arcs):
    """(nodes,): the most probable class of each node."""
    with torch.no_grad():
        return network(torch.from_numpy(x), torch.from_numpy(means(x, arcs).astype(np.float32))).argmax(1).numpy()
