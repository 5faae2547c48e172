"""The claim under audit: epsilon, delta, the protected unit, and the neighbouring relation."""

from dataclasses import dataclass
from enum import StrEnum

from .arguments import check_type, is_number, member, shown, words


class Relation(StrEnum):
    """How two neighbouring graphs differ in one unit."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"


class Unit(StrEnum):
    """The protected unit: the part in which two neighbouring graphs differ."""

    DIRECTED_EDGE = "directed-edge"
    UNDIRECTED_EDGE = "undirected-edge"
    NODE = "node"  # a node with its features, label and all its edges
    FEATURES = "features"  # one node's own features and label (local privacy); the edges are public

    @property
    def relation(self) -> Relation:
        """How neighbouring graphs differ in a claim about this unit: an edge or a node is there or not, features have others in
        their place.
        """
        return Relation.REPLACE if self is Unit.FEATURES else Relation.ADD_REMOVE


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta)-differential privacy of one `unit` against an adversary who sees `exposes`.

    epsilon: nats, at least 0; infinity claims nothing. delta: in [0, 1), chosen without private data. exposes: names of what the
    adversary sees, at least one. tuned_over: the number of trainings on private data from which one was chosen for release; each
    of them costs privacy. It is 1 if nothing was chosen on private data. relation: by default that of the unit, which the audits
    test. unit and relation may also be given as their values, such as unit="node". Raises ValueError for values of other types or
    outside those ranges.
    """

    epsilon: float
    delta: float
    unit: Unit = Unit.UNDIRECTED_EDGE
    relation: Relation = None  # type: ignore[assignment]  # __post_init__ puts that of the unit here
    exposes: tuple[str, ...] = ("posteriors",)
    tuned_over: int = 1

    def __post_init__(self) -> None:
        if not (is_number(self.epsilon) and self.epsilon >= 0):
            known = "must be a number of at least 0; use inf for a model without privacy."
            raise ValueError(f"epsilon={shown(self.epsilon)}: {known}")
        if not (is_number(self.delta) and 0 <= self.delta < 1):
            raise ValueError(f"delta={shown(self.delta)}: must be in [0, 1). A common choice is below 1 / (number of units).")
        if not (is_number(self.tuned_over) and self.tuned_over >= 1 and self.tuned_over % 1 == 0):
            known = "must be a whole number of trainings, 1 or more; 1 for no choice."
            raise ValueError(f"tuned_over={shown(self.tuned_over)}: {known}")
        exposes = words("exposes", self.exposes, '("posteriors",)')
        if not exposes:
            raise ValueError('exposes=(): must name what the adversary sees, such as ("posteriors",).')
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "tuned_over", int(self.tuned_over))
        object.__setattr__(self, "unit", member("unit", self.unit, Unit))
        object.__setattr__(
            self, "relation", self.unit.relation if self.relation is None else member("relation", self.relation, Relation)
        )
        object.__setattr__(self, "exposes", exposes)

    def __str__(self) -> str:
        chosen = f", best of {self.tuned_over} trainings" if self.tuned_over > 1 else ""
        return f"epsilon={self.epsilon:g}, delta={self.delta:g} per {self.unit} ({self.relation}){chosen}"


def check_claim(claim: object) -> None:
    """Raises ValueError unless `claim` is a Claim."""
    check_type("claim", claim, Claim, "a Claim, such as Claim(epsilon=1.0, delta=1e-5).")
