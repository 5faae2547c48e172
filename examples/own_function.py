"""A function of one graph and one seed that is audited as a model: each node gets noisy counts of its neighbours' labels.

audit contract examples/own_function.py:model
audit run --model examples/own_function.py:model --epsilon 3.31 --delta 1e-6 --attacks none
"""

import dp_accounting as dp
import numpy as np

from gnnaudit import Looped

NOISE = 2.0  # standard deviation. An undirected edge changes two counts by 1, so the sensitivity is sqrt(2)


def train(graph, seed):
    """Log-probabilities, (nodes, classes), of one run. Edges and nodes that are absent from the run are not in the graph."""
    labelled = np.eye(graph.classes)[graph.y] * graph.train[:, None]
    noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    votes = graph.adjacency() @ labelled + NOISE * noise
    return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)}


model = Looped(train, events=dp.GaussianDpEvent(NOISE / 2**0.5))
