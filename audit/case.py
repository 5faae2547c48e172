"""The case (one calibrated system with its claim), the setting of an audit, and the outcome of an audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Claim, Unit
from ..models.fitted import of_user
from ..reports.results import SkippedRow

if TYPE_CHECKING:
    from ..accounting.lower.bounds import Bound
    from ..models.base import Model
    from ..models.graph.graph import Graph
    from ..reports.observed import Observed
    from .key import Key
    from .storage.store import Store


PROGRAMS = ("audit.own.program", "audit.own.declaration")  # modules whose classes wrap a user's own program


def shown_mode(model: Model) -> str:
    """The model's mode. It is "own" for a user's model, because this package cannot say whether its claim is sound."""
    own = of_user(model) or type(model).__module__.partition(".")[2] in PROGRAMS
    return "own" if own else model.mode


EDGES = (Unit.DIRECTED_EDGE, Unit.UNDIRECTED_EDGE)


@dataclass(frozen=True)
class Case:
    """A calibrated model and its claim. The model stores its noise level; only the claim states an epsilon."""

    model: Model
    claim: Claim

    @property
    def where(self) -> dict[str, Any]:
        """The columns by which every row of results.json names the case."""
        return {
            "model": self.model.name,
            "mode": shown_mode(self.model),
            "unit": self.claim.unit,
            "epsilon": self.claim.epsilon,
            "delta": self.claim.delta,
        }

    def skipped(self, what: str, reason: str) -> SkippedRow:
        """The row that reports a part of the plan that was skipped, and why."""
        return SkippedRow(**self.where, what=what, reason=reason)

    def counted(self, graph: Graph) -> Graph:
        """The graph with one edge for each unit of the claim: every arc is an edge if the claim counts directed edges."""
        return graph.as_directed() if self.claim.unit is Unit.DIRECTED_EDGE else graph

    @property
    def follows_from_ledger(self) -> bool:
        """Whether only the ledger supports the claim: the noise was calibrated by the ledger, for the unit of the claim."""
        return self.claim.unit is self.model.unit and not noise_of_its_own(self.model)

    def __str__(self) -> str:
        return f"{self.model.name} {shown_mode(self.model)} epsilon={self.claim.epsilon:g}"


@dataclass(frozen=True)
class Outcome:
    """The results of one audit of one case: the lower bounds on epsilon, and how the audit obtained them.

    curves: arrays to plot. reach: what the audit did and could detect, in words. read: the released arrays that it read.
    covers: array -> the kind of violation that the audit would have detected in it; None if that is not known for each array.
    observed: the mechanisms that the tool recorded in the training, as a ledger.
    """

    audit: str
    bounds: tuple[Bound, ...]
    curves: Mapping[str, Any] = field(default_factory=dict)
    reach: str = ""
    read: tuple[str, ...] = ()
    seconds: float = 0.0
    covers: Mapping[str, str] | None = None
    observed: Observed | None = None


@dataclass(frozen=True, eq=False)
class Setting:
    """The arguments of every audit: the case, the graph, the store of finished parts, the randomness, and its limits.

    rounds: trainings or draws. alpha: the level of each of the audit's statistical tests, and so of its bounds. first: a level
    that concerns audits which detect smaller violations with more rounds. Such an audit is repeated if a p-value of its first run
    is below `first`, and its smallest detectable violation is computed for this level. None stands for alpha.

    minutes: the time limit of audits that add rounds until they can decide; with None they play `rounds`. notices: the violation
    that these audits must be able to detect, as a factor of the noise. tell: a function that they call with their progress.
    """

    case: Case
    graph: Graph
    store: Store
    key: Key
    rounds: int = 1
    alpha: float = 0.05
    first: float | None = None
    minutes: float | None = None
    notices: float = 1.5
    tell: Callable[[str], object] = str

    @property
    def level(self) -> float:
        """The level of a first test, after which the audit may be repeated."""
        return self.alpha if self.first is None else max(self.first, self.alpha)


def offered(model: Model) -> tuple[str, ...]:
    """All arrays that a model can release. A model without a choice of arrays offers exactly those that it releases."""
    return tuple(getattr(model, "offers", model.releases))


def noise_of_its_own(model: Model) -> bool:
    """Whether `with_noise` changes nothing. Such a model is not calibrated: the audits test the claim on the model as it is."""
    try:
        return model.with_noise(1.0) is model
    except ValueError:  # `with_noise` of a model without noise may raise
        return False


def keeping(model: Model, names: tuple[str, ...]) -> Model:
    """The same recipe, which computes and keeps only the arrays `names` if it has a field `keep`."""
    return with_field(model, "keep", names)


def with_field(model: Any, field: str, value: object) -> Any:
    """The same recipe with another value of a field. A model that has no such field is returned as it is."""
    return dataclasses.replace(model, **{field: value}) if field in fields_of(model) else model


def fields_of(model: Any) -> set[str]:
    """The names of a recipe's fields; none if the model is no dataclass."""
    return {f.name for f in dataclasses.fields(model)} if dataclasses.is_dataclass(model) else set()
