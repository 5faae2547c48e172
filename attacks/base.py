"""The protocol of a membership attack: its inputs and its output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..models.base import Release
    from ..models.graph.graph import Graph

Learnt = TypeVar("Learnt")


@dataclass(frozen=True, eq=False)
class Challenge:
    """The units whose membership the attacker must guess, and the graph that the attacker knows. The secret bits are not here.

    kind: "edge", "node" or "label". known: the public part of the graph. Challenge edges are removed from it, and challenge nodes
    are removed from its training set. items: (c, 2) int64, the ends of edges; (c,) int64, the ids of nodes for the other kinds.
    """

    kind: str
    known: Graph
    items: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.items.shape[0])


@dataclass(frozen=True, eq=False)
class Pilot:
    """Shadow models: runs whose bits the attacker knows. release: that of the K runs. bits: (K, c) bool, True for a member."""

    release: Release
    challenge: Challenge
    bits: NDArray[np.bool_]


class Attack(Protocol):
    """A frozen attack. Its scores are in logit space, so that they do not saturate; a higher score means a member.

    `AttackDefaults` has the values of of_each_unit, public and within that most attacks have.
    """

    @property
    def of_each_unit(self) -> bool: ...  # learns something about each single unit, so scores only units that varied in the pilot

    @property
    def public(self) -> bool: ...  # is fitted on shadow models of public nodes

    @property
    def within(self) -> bool: ...  # is fitted on half of the challenges of the run under attack, and scores the other half

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]: ...  # names of the release arrays that the attack reads

    @property
    def kinds(self) -> tuple[str, ...]: ...  # the kinds of challenge that the attack can answer

    def fit(self, pilot: Pilot | None) -> Self:
        """The attack fitted on shadow models; an attack that needs no shadow models returns itself."""
        ...

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """The scores, (runs, c) float64."""
        ...


class AttackDefaults:
    """The base class of attacks. An attack that differs says so by a field or a class attribute of the same name."""

    of_each_unit, public, within = False, False, False


class Untrained(AttackDefaults):
    """The base class of attacks that learn nothing from a pilot."""

    def fit(self, pilot: Pilot | None) -> Self:
        return self


class OneQuery(AttackDefaults):
    """The base class of attacks that read the answers to one query, the field `query`."""

    query: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)


def shadows_of(attack: Any, pilot: Pilot | None) -> Pilot:
    """The pilot on which an attack is fitted. Raises ValueError without one."""
    if pilot is None:
        raise ValueError(f"attack '{attack.name}' needs shadow models: fit it on a pilot.")
    return pilot


def learnt(attack: Any, found: Learnt | None) -> Learnt:
    """What an attack learnt from a pilot. Raises ValueError if the attack has not been fitted."""
    if found is None:
        raise ValueError(f"attack '{attack.name}' has not been fitted: call fit with a pilot first.")
    return found


def missing(attack: Any, exposes: Iterable[str]) -> str | None:
    """Why the attack cannot run against a model that exposes these arrays; None if it can."""
    lacking = [n for n in attack.needs if n not in set(exposes)]
    if not lacking:
        return None
    names = ", ".join(repr(n) for n in lacking)
    return f"attack '{attack.name}' needs {names}, which this plan does not expose"
