"""What an attack may know, and what it must return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..models.base import Release
    from ..models.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Challenge:
    """What the attacker is asked, and what it knows beforehand. The bits are not here.

    kind: "edge", "node" or "label". known: the graph that everybody knows: the challenge edges (or the training
    labels of challenge nodes) are left out of it. items: (c, 2) int64 endpoints for edges, (c,) int64 node ids otherwise.
    """

    kind: str
    known: Graph
    items: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.items.shape[0])


@dataclass(frozen=True, eq=False)
class Pilot:
    """Runs whose bits the attacker is told: shadow models. release: K runs. bits: (K, c) bool, True = in."""

    release: Release
    challenge: Challenge
    bits: NDArray[np.bool_]


class Attack(Protocol):
    """A frozen recipe. Scores are in logit space, higher means `in`, and never saturate.

    An attack that learns something about each unit of the pool, as LiRA learns two normal laws, has the class attribute
    `of_each_unit = True`: it is asked about those units alone, not about pairs without a coin.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]: ...  # names of the release arrays it reads

    @property
    def kinds(self) -> tuple[str, ...]: ...  # the kinds of challenge it answers

    def fit(self, pilot: Pilot | None) -> Self:
        """Learns from runs whose bits are known; an attack that needs none returns itself."""
        ...

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, challenges) float64."""
        ...


def missing(attack: Any, exposes: Iterable[str]) -> str | None:
    """Why this attack cannot be run against an adversary's view, or None."""
    lacking = [n for n in attack.needs if n not in set(exposes)]
    if not lacking:
        return None
    names = ", ".join(repr(n) for n in lacking)
    return f"attack '{attack.name}' needs {names}, which this plan does not expose"
