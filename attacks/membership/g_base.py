"""G-BASE: node membership from the change of the losses of all nearby nodes if the node is removed."""

import dataclasses
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ...models.base import Release
from ...models.graph.graph import Graph
from ...models.random.streams import stream
from ..base import Challenge, Untrained

QUERIED = 400  # challenges in one query, so that its graph stays small


class GraphQuery(Protocol):
    """Models that answer a query about any graph with log-probabilities (runs, nodes, classes) float32."""

    def __call__(self, graph: Graph) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class GraphBase(Untrained):
    """Lassila et al. 2025, with "model-independent" sampling: every other node is a member with probability 1/2.

    For each sample of the members, the gain is the log-likelihood of the labels of the node and of nearby nodes with the node in
    the graph, minus the log-likelihood of the labels of nearby nodes without the node. The score is the log odds of the mean over
    samples of sigmoid(gain of the target - alpha * log mean exp gain of shadows).

    target: the models under attack. shadows: models that are independent of the targets' bits. samples: the number of samples.
    hops: the largest distance at which the removal of the node has an effect, twice the number of layers. The known graph of the
    challenge must have the edges of all challenge nodes.
    """

    target: GraphQuery | None = None
    shadows: GraphQuery | None = None
    samples: int = 8
    alpha: float = 1.0
    hops: int = 4
    seed: int = 0
    name: str = "g-base"
    needs: tuple[str, ...] = ("graph queries",)
    kinds: tuple[str, ...] = ("node",)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c) float64. Raises ValueError without a target and shadows."""
        if self.target is None or self.shadows is None:
            raise ValueError(f"attack '{self.name}' queries the models: give it a target and shadows.")
        random, guesses = stream(self.seed, "members"), []
        for _ in range(self.samples):
            member = random.random(challenge.known.nodes) < 0.5
            gains = [self._gains(query, challenge, member) for query in (self.target, self.shadows)]
            usual = logsumexp(gains[1], axis=0) - np.log(len(gains[1]))
            guesses.append(gains[0] - self.alpha * usual)
        z = np.clip(np.stack(guesses), -700, 700)
        return np.log(expit(z).mean(0)) - np.log(expit(-z).mean(0))

    def _gains(self, query: GraphQuery, challenge: Challenge, member: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The gain of each challenge for one sample of the members: (runs, c)."""
        found, step = [], QUERIED
        for first in range(0, len(challenge), step):
            near, start, own = neighbourhoods(challenge.known, challenge.items[first : first + step], member, self.hops)
            rows = np.arange(near.nodes)
            with_node = query(near)[:, rows, near.y].astype(np.float64)
            kept = ~np.isin(near.edges, own).any(0)
            without = query(dataclasses.replace(near, edges=near.edges[:, kept]))[:, rows, near.y].astype(np.float64)
            without[:, own] = 0
            found.append(np.add.reduceat(with_node - without, start, axis=1))
        return np.concatenate(found, axis=1)


def neighbourhoods(
    graph: Graph, items: NDArray[np.int64], member: NDArray[np.bool_], hops: int
) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """One graph that has, for each item, the subgraph of the item and the members within `hops` of it as a separate part.

    Returns the graph, the first node of each item's part, (c,), and the item's own node in it, (c,). Raises ValueError for a
    directed graph.
    """
    if graph.directed:
        raise ValueError("the graph is directed: G-BASE needs an undirected one.")
    n, joined = graph.nodes, graph.adjacency()
    # maps a node to those of its neighbours that are members
    towards = sp.csr_array(joined @ sp.diags_array(member.astype(np.float32)))
    reach = sp.csr_array((np.ones(len(items), dtype=np.float32), (np.arange(len(items)), items)), shape=(len(items), n))
    for _ in range(hops):
        reach = sp.csr_array(reach + reach @ towards)
        reach.data[:] = 1
    reach.eliminate_zeros()
    reach.sort_indices()
    node = reach.indices.astype(np.int64)
    part = np.repeat(np.arange(len(items)), np.diff(reach.indptr))
    key = part * n + node  # ascending; the result has one node for each key
    around = sp.coo_array(joined[node])  # maps a node of the result to its neighbours; those in the same part are kept
    other = part[around.row] * n + around.col
    place = np.searchsorted(key, other).clip(max=len(key) - 1)
    once = (key[place] == other) & (around.row < place)
    none = np.zeros(len(node), dtype=bool)
    edges = np.stack([around.row[once], place[once]]).astype(np.int64)
    near = dataclasses.replace(graph, x=graph.x[node], y=graph.y[node], edges=edges, train=none, val=none, test=none)
    return near, reach.indptr[:-1].astype(np.int64), np.searchsorted(key, np.arange(len(items)) * n + items)
