"""A model in NumPy alone that is audited as a program: each node gets noisy counts of its neighbours' labels.

    audit run --target "python examples/external/noisy_votes.py {worlds} {out}" --epsilon 1

The program does not use gnnaudit: it reads worlds from one folder and writes posteriors to another.
"""

import sys
from pathlib import Path

import numpy as np

NOISE = 2.0  # standard deviation of the noise on every count


def unpack(parts, name, size, runs):
    """(runs, size) bool: the mask `name`; all True if the file has no such mask."""
    if name not in parts:
        return np.ones((runs, size), dtype=bool)
    return np.unpackbits(parts[name], axis=1, count=size).astype(bool)


def posteriors(graph, train, present, watch, seed):
    """(watched, classes) float32: for each watched node, the softmax of the noisy counts of its training neighbours by class."""
    classes = int(graph["y"].max()) + 1
    send, receive = graph["edge_index"][:, present]
    told = train[send]
    votes = np.zeros((len(graph["y"]), classes))
    np.add.at(votes, (receive[told], graph["y"][send[told]]), 1.0)
    votes += NOISE * np.random.default_rng(seed).standard_normal(votes.shape)
    shares = np.exp(votes[watch] - votes[watch].max(axis=1, keepdims=True))
    return (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def main(worlds, out):
    graph = dict(np.load(Path(worlds) / "graph.npz"))
    parts = dict(np.load(Path(worlds) / "worlds.npz"))
    runs, nodes, arcs = len(parts["seeds"]), len(graph["y"]), graph["edge_index"].shape[1]
    train = graph["train_mask"] & unpack(parts, "node_mask", nodes, runs) & unpack(parts, "label_mask", nodes, runs)
    present = unpack(parts, "edge_mask", arcs, runs)
    each = [posteriors(graph, train[k], present[k], parts["watch"], int(parts["seeds"][k])) for k in range(runs)]
    np.save(Path(out) / "posteriors.npy", np.stack(each))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
