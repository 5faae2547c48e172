"""The claim under audit: epsilon, delta, the protected unit, and the neighbouring relation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """The protected unit: the part in which two neighbouring graphs differ."""

    DIRECTED_EDGE = "directed-edge"
    UNDIRECTED_EDGE = "undirected-edge"
    NODE = "node"  # a node with its features, label and all its edges
    FEATURES = "features"  # one node's own features and label (local privacy); the edges are public


class Relation(StrEnum):
    """How two neighbouring graphs differ in one unit."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta)-differential privacy of one `unit` against an adversary who sees `exposes`.

    epsilon: nats; infinity claims nothing. delta: a public number in [0, 1). tuned_over: the number of trainings on private data
    from which one was chosen for release; each of them costs privacy. 1 if nothing was chosen on private data. Raises ValueError
    for values outside those ranges.
    """

    epsilon: float
    delta: float
    unit: Unit = Unit.UNDIRECTED_EDGE
    relation: Relation = Relation.ADD_REMOVE
    exposes: tuple[str, ...] = ("posteriors",)
    tuned_over: int = 1

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise ValueError(f"epsilon={self.epsilon}: must be at least 0; use inf for a model without privacy.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta={self.delta}: must be in [0, 1). A common choice is below 1 / (number of units).")
        if self.tuned_over < 1 or self.tuned_over != int(self.tuned_over):
            raise ValueError(f"tuned_over={self.tuned_over}: must be a whole number of trainings, 1 or more; 1 for no choice.")
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))

    def __str__(self) -> str:
        chosen = f", best of {self.tuned_over} trainings" if self.tuned_over > 1 else ""
        return f"epsilon={self.epsilon:g}, delta={self.delta:g} per {self.unit} ({self.relation}){chosen}"
