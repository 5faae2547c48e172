"""Groups of challenges for which leakage is measured separately: by class, degree and homophily."""

import numpy as np
from numpy.typing import NDArray

from ..models.graph.graph import Graph
from .base import Challenge


def slices(challenge: Challenge, graph: Graph) -> dict[str, NDArray[np.str_]]:
    """For each property, the group of every challenge: (c,) names, the `groups` of `measure_slices`.

    graph: the graph with all challenge edges and nodes, which the report may use although an attacker does not know it. The
    degree of an edge is the sum of the degrees of its ends. "low", "middle" and "high" are thirds of the challenges, not of
    the graph; equal values are in the same group.
    """
    ends = challenge.items.reshape(len(challenge), -1)
    degree = graph.degree[ends].sum(1)
    if ends.shape[1] == 2:
        same = graph.y[ends[:, 0]] == graph.y[ends[:, 1]]
        return {"classes": np.where(same, "same class", "two classes"), "degree": thirds(degree)}
    return {
        "class": graph.y[challenge.items].astype(str),
        "degree": thirds(degree),
        "homophily": thirds(homophily(graph)[challenge.items]),
    }


def homophily(graph: Graph) -> NDArray[np.float64]:
    """(nodes,) float64: the share of the arcs into each node that come from its own class; 0.5 for a node without arcs."""
    send, receive = graph.arcs
    same = np.bincount(receive, weights=graph.y[send] == graph.y[receive], minlength=graph.nodes)
    return np.where(graph.degree > 0, same / np.maximum(graph.degree, 1), 0.5)


def thirds(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.str_]:
    """The third of each value among all values: "low", "middle" or "high"."""
    low, high = np.quantile(values.astype(np.float64), [1 / 3, 2 / 3])
    return np.where(values <= low, "low", np.where(values <= high, "middle", "high"))
