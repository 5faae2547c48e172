"""Groups of challenges that may leak differently: by class, by degree and by how much a node's neighbours agree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.graph.graph import Graph
    from .base import Challenge


def slices(challenge: Challenge, graph: Graph) -> dict[str, NDArray[np.str_]]:
    """For each way to group, the group of every challenge, (c,) words; `measure_slices` reads them.

    graph: the union graph, which whoever prints the report knows, though an attacker may not. An edge has the sum of its
    ends' degrees, and agrees if its ends have one class. Thirds are of the challenges, not of the graph; equal values
    stay together.
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
    """(nodes,): the share of the arcs into each node that come from its own class; one half without any."""
    send, receive = graph.arcs
    same = np.bincount(receive, weights=graph.y[send] == graph.y[receive], minlength=graph.nodes)
    return np.where(graph.degree > 0, same / np.maximum(graph.degree, 1), 0.5)


def thirds(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.str_]:
    """ "low", "middle" or "high" by the terciles of the values."""
    low, high = np.quantile(values.astype(np.float64), [1 / 3, 2 / 3])
    return np.where(values <= low, "low", np.where(values <= high, "middle", "high"))
