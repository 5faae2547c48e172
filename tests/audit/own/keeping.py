"""Models that keep data from one training for the next, and models that do not. Another process imports this file alone."""

import functools

import numpy as np

KEPT = {}


def sums(graph):
    return graph.adjacency() @ (np.eye(graph.classes)[graph.y] * graph.train[:, None])


def noisy(values, seed):
    values = values + np.random.default_rng(seed).standard_normal(values.shape)
    return {"posteriors": values - np.logaddexp.reduce(values, axis=1, keepdims=True)}


def honest(graph, seed):
    return noisy(sums(graph), seed)


def by_name_and_size(graph, seed):
    """The sums of the first graph of this name and size serve all later ones."""
    return noisy(KEPT.setdefault((graph.name, graph.nodes), sums(graph)), seed)


def by_content(graph, seed):
    """A cache whose key is the data changes nothing."""
    key = (graph.edges.tobytes(), graph.y.tobytes(), graph.train.tobytes())
    return noisy(KEPT.setdefault(key, sums(graph)), seed)


@functools.cache
def table(nodes):
    return {}


def memoised(graph, seed):
    return noisy(table(graph.nodes).setdefault("sums", sums(graph)), seed)


class Remembers:
    """A callable object that stores what it computed first."""

    def __init__(self):
        self.first = None

    def __call__(self, graph, seed):
        if self.first is None or len(self.first) != graph.nodes:
            self.first = sums(graph)
        return noisy(self.first, seed)
