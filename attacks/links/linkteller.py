"""LinkTeller: the influence of one node's features on another node's posterior, for a deployed model that reads the graph when it
answers a query.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Challenge, Untrained

TINY = 1e-30


class Query(Protocol):
    """A deployed model. It maps features of all nodes, dense or sparse (nodes, dim), to log-probabilities (runs, nodes,
    classes).
    """

    def __call__(self, x: Any) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class LinkTeller(Untrained):
    """The change of one end's posterior divided by the relative change of the other end's features, for the direction with the
    larger quotient (Wu et al. 2022).

    query: the model under attack, which answers for the runs of the release. step: the relative change of a node's features.
    normalised: whether to divide by the change of the posterior of the node whose features change. That change is larger for
    nodes with few neighbours. The attack needs one query for each node of a challenge.
    """

    query: Query | None = None
    step: float = 1e-4
    normalised: bool = True
    needs: tuple[str, ...] = ("queries",)
    kinds: tuple[str, ...] = ("edge",)

    @property
    def name(self) -> str:
        return "linkteller-normalised" if self.normalised else "linkteller"

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """The log of the influence, (runs, c) float64. Raises ValueError without a model to query."""
        if self.query is None:
            raise ValueError(f"attack '{self.name}' queries the model: give it a query.")
        nodes, at = np.unique(challenge.items, return_inverse=True)
        moves = influence(self.query, challenge.known.x, nodes, self.step)
        u, v = at.reshape(-1, 2).T
        return symmetric(moves, self.normalised)[:, u, v]


def influence(query: Query, x: Any, nodes: NDArray[np.int64], step: float = 1e-4) -> NDArray[np.float64]:
    """(runs, changed node, observed node) float64: the norm of the change of the observed node's log-probabilities, divided by
    step, if the changed node's features are multiplied by 1 + step.
    """
    start, moved = query(x)[:, nodes].astype(np.float64), []
    for node in nodes:
        scale = np.ones(x.shape[0], dtype=x.dtype)
        scale[node] += step
        rescaled = sp.csr_array(sp.diags_array(scale) @ x) if sp.issparse(x) else x * scale[:, None]
        moved.append(np.linalg.norm(query(rescaled)[:, nodes].astype(np.float64) - start, axis=-1) / step)
    return np.stack(moved, axis=1)


def symmetric(moves: NDArray[np.float64], normalised: bool) -> NDArray[np.float64]:
    """(runs, nodes, nodes): for each pair of nodes, the log of the larger influence of the two directions."""
    if normalised:
        moves = moves / np.maximum(np.diagonal(moves, axis1=1, axis2=2)[:, :, None], TINY)
    return np.log(np.maximum(np.maximum(moves, moves.transpose(0, 2, 1)), TINY))
