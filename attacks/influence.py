"""LinkTeller: who moves when one node's features are moved, through an API that reads the private graph at inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Release
    from .base import Challenge, Pilot

TINY = 1e-30


class Query(Protocol):
    """A deployed model: features of all nodes, dense or sparse (nodes, dim), to log-probabilities (runs, nodes, classes)."""

    def __call__(self, x: Any) -> NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class LinkTeller:
    """The norm of the change of one end's output per change of the other's features (Wu et al. 2022), the larger of both ways.

    step: the relative change of a node's features. normalised: divides by how much the moved node moves itself, without
    which nodes with few neighbours seem to have more. Costs one query for each node that some challenge names.
    """

    query: Query
    step: float = 1e-4
    normalised: bool = True
    needs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("edge",)

    @property
    def name(self) -> str:
        return "linkteller-normalised" if self.normalised else "linkteller"

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """The log of the influence, (runs, c)."""
        nodes, at = np.unique(challenge.items, return_inverse=True)
        influence = self._influence(challenge.known.x, nodes)
        if self.normalised:
            influence = influence / np.maximum(np.diagonal(influence, axis1=1, axis2=2)[:, :, None], TINY)
        u, v = at.reshape(-1, 2).T
        return np.log(np.maximum(np.maximum(influence[:, u, v], influence[:, v, u]), TINY))

    def _influence(self, x: Any, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """(runs, moved, seen): how far each of `nodes` moves when one of them is moved, per step."""
        start = self.query(x)[:, nodes].astype(np.float64)
        moved = []
        for node in nodes:
            scale = np.ones(x.shape[0], dtype=x.dtype)
            scale[node] += self.step
            other = (
                sp.csr_array(sp.dia_array((scale[None], [0]), shape=(len(scale),) * 2) @ x)
                if sp.issparse(x)
                else x * scale[:, None]
            )
            moved.append(np.linalg.norm(self.query(other)[:, nodes].astype(np.float64) - start, axis=-1) / self.step)
        return np.stack(moved, axis=1)
