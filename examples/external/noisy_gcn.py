"""A graph network in plain PyTorch that is audited as a program: one noisy sum of features over neighbours, then a small network.

    audit run --target "python examples/external/noisy_gcn.py {worlds} {out}" --epsilon 6.58 --delta 1e-5

The program needs torch and numpy, in its own environment. It does not use gnnaudit: it reads worlds and writes posteriors.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

NOISE = 1.0  # standard deviation. Rows have length 1, so an undirected edge changes the sums by sqrt(2): epsilon 6.58 at 1e-5
EPOCHS = 60


def unpack(parts, name, size, runs):
    """(runs, size) bool: the mask `name`; all True if the file has no such mask."""
    if name not in parts:
        return np.ones((runs, size), dtype=bool)
    return np.unpackbits(parts[name], axis=1, count=size).astype(bool)


def posteriors(x, y, classes, arcs, train, seed):
    """(nodes, classes) probabilities after one training. arcs: (2, m), the arcs of this run. train: (nodes,) bool."""
    coins = torch.Generator().manual_seed(seed)
    sums = torch.zeros_like(x).index_add_(0, arcs[1], x[arcs[0]])
    seen = torch.cat([x, sums + NOISE * torch.randn(x.shape, generator=coins)], dim=1)
    network = nn.Sequential(nn.Linear(seen.shape[1], 16), nn.ReLU(), nn.Linear(16, classes))
    for weights in network.parameters():
        nn.init.normal_(weights, std=0.1, generator=coins)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02, weight_decay=5e-4)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(seen[train]), y[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return network(seen).softmax(1)


def main(worlds, out):
    graph, parts = dict(np.load(Path(worlds) / "graph.npz")), dict(np.load(Path(worlds) / "worlds.npz"))
    runs, nodes, m = len(parts["seeds"]), len(graph["y"]), graph["edge_index"].shape[1]
    here = unpack(parts, "node_mask", nodes, runs)
    train = graph["train_mask"] & here & unpack(parts, "label_mask", nodes, runs)
    present = unpack(parts, "edge_mask", m, runs)
    x, y = nn.functional.normalize(torch.from_numpy(graph["x"])), torch.from_numpy(graph["y"])
    classes, watch = int(y.max()) + 1, torch.from_numpy(parts["watch"])
    told = []
    for k in range(runs):
        arcs = torch.from_numpy(graph["edge_index"][:, present[k]])
        told.append(posteriors(x, y, classes, arcs, torch.from_numpy(train[k]), int(parts["seeds"][k]))[watch].numpy())
    np.save(Path(out) / "posteriors.npy", np.stack(told))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2])
