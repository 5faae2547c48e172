"""A program in NumPy with the structure of GAP: two hops of noisy sums of unit rows, then a linear classifier.

    audit run --target examples/external/two_hops.toml --epsilon 4 --delta 1e-5 --unit undirected-edge

`gnnaudit.target` needs NumPy alone. If gnnaudit is not installed, copy its file target.py beside this one.
"""

import sys

import numpy as np

from gnnaudit.target import target

HOPS = 2


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def softmax(scores):
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def train(run, sigma):
    """For one run: the noisy sums of every hop, the rows that were summed, and the class probabilities of all nodes."""
    rng = run.generator()
    send, receive = run.edge_index
    inputs, sums = [unit(run.x)], []
    for _ in range(HOPS):
        total = np.zeros_like(inputs[-1])
        np.add.at(total, receive, inputs[-1][send])
        sums.append(total + sigma * rng.standard_normal(total.shape))
        inputs.append(unit(sums[-1]))
    seen = np.hstack([*inputs, np.ones((run.nodes, 1))])
    told = seen[run.train_mask]
    weights = np.linalg.solve(told.T @ told + np.eye(seen.shape[1]), told.T @ np.eye(run.classes)[run.y[run.train_mask]])
    return sums, inputs[:HOPS], softmax(4 * seen @ weights)


with target() as runs:
    for run in runs:
        sums, inputs, posteriors = train(run, sigma=float(sys.argv[3]))
        run.release(posteriors, aggregates=sums, inputs=inputs)
