"""Three types: a case (one calibrated model and its claim), the setting of an audit, and the outcome of an audit."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..accounting.claim import Claim, Unit
from ..accounting.lower.bounds import Bound
from ..models.base import Model
from ..models.capabilities import lacks
from ..models.fitted import of_user
from ..models.graph.graph import Graph
from ..reports.observed import Observed
from ..reports.results import SkippedRow
from ..reports.summary import UNITS
from .key import Key
from .storage.store import Store

PROGRAMS = ("audit.own.programs.program", "audit.own.programs.declaration")  # modules whose classes wrap a user's own program


def shown_mode(model: Model) -> str:
    """The mode in tables: "own" for a user's model, since the tool does not know if its claim is sound; else its own mode."""
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
        """The row that says why the run skipped the part `what`. A reason that begins with the model's name loses it."""
        return SkippedRow(**self.where, what=what, reason=reason.removeprefix(f"{self.model.name}: "))

    def lacks(self, protocol: type) -> str | None:
        """Why the model lacks a capability, and for a user's model how it declares the capability; None if it has it."""
        return lacks(self.model, protocol, advice=shown_mode(self.model) == "own")

    def counted(self, graph: Graph) -> Graph:
        """The graph with a directed edge for each arc if the claim is about directed edges; otherwise the graph itself."""
        return graph.as_directed() if self.claim.unit is Unit.DIRECTED_EDGE else graph

    @property
    def follows_from_ledger(self) -> bool:
        """Whether the claim rests on the model's accounting alone: `calibrate` set the noise, and for the unit of the claim."""
        return self.claim.unit is self.model.unit and not noise_of_its_own(self.model)

    @property
    def other_unit(self) -> str:
        """Why the ledger says nothing about the claim: the two are about different units; "" if they are about the same."""
        same = self.claim.unit is self.model.unit
        return "" if same else f"the ledger is about {UNITS[self.model.unit]}, and the claim about {UNITS[self.claim.unit]}"

    def __str__(self) -> str:
        return f"{self.model.name} {shown_mode(self.model)} epsilon={self.claim.epsilon:g}"


@dataclass(frozen=True)
class Outcome:
    """The results of one audit of one case: the lower bounds on epsilon, and how the audit obtained them.

    audit: the name of the audit, which all of its bounds get. curves: arrays to plot. reach: what the audit did and could detect,
    in words. read: the released arrays that it read. covers: array -> the kind of violation that the audit would have detected in
    it; None leaves this to `run.covered`. observed: the mechanisms that the recorder found in a user's model. attack: the name of
    the attack, which those bounds get that name none.
    """

    audit: str
    bounds: tuple[Bound, ...]
    curves: Mapping[str, Any] = field(default_factory=dict)
    reach: str = ""
    read: tuple[str, ...] = ()
    seconds: float = 0.0
    covers: Mapping[str, str] | None = None
    observed: Observed | None = None
    attack: str = ""

    def __post_init__(self) -> None:
        named = tuple(dataclasses.replace(b, audit=self.audit, attack=b.attack or self.attack) for b in self.bounds)
        object.__setattr__(self, "bounds", named)


@dataclass(frozen=True, eq=False)
class Setting:
    """The arguments of every audit: the case, the graph, the store of finished trainings, the randomness, and limits.

    rounds: the number of trainings or draws. alpha: the level of each statistical test of the audit. first: the level of the
    first test of an audit that detects smaller violations with more rounds. If a p-value is below this level, the audit is
    repeated with more rounds. The smallest detectable violation is computed at this level. None stands for alpha. repeats:
    whether this is the repetition of a test that refuted the claim, or nearly did.

    minutes: the time limit of the audit `blackbox`, which then adds rounds until it can decide, and of `distinguisher`. None:
    `blackbox` plays `rounds` rounds, and `distinguisher` has its own limit. patience: `blackbox` does not audit a user's model if
    it estimates that its trainings take more than so many seconds. spent: the seconds that the audits before this one took.
    notices: the violation that `blackbox` must be able to detect, as the factor by which the noise is too small. tell: the
    function that `blackbox` calls with a line about its progress. shared: what the audits of one study of the case found for all
    of them; `replace` keeps it.
    """

    case: Case
    graph: Graph
    store: Store
    key: Key
    rounds: int = 1
    alpha: float = 0.05
    first: float | None = None
    minutes: float | None = None
    patience: float = math.inf
    spent: float = 0.0
    notices: float = 1.5
    tell: Callable[[str], object] = str
    repeats: bool = False
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> float:
        """The level of a first test, after which the audit may be repeated: the larger of `first` and `alpha`."""
        return self.alpha if self.first is None else max(self.first, self.alpha)


def covering(bounds: Iterable[Bound], covers: Mapping[str, str]) -> tuple[Bound, ...]:
    """The bounds, of which those that do not say what they cover get `covers`."""
    return tuple(bound if bound.covers is not None else dataclasses.replace(bound, covers=covers) for bound in bounds)


def offered(model: Model) -> tuple[str, ...]:
    """The names of all arrays that a model can release: its attribute `offers`, or `releases` if it has no such attribute."""
    return tuple(getattr(model, "offers", model.releases))


def noise_of_its_own(model: Model) -> bool:
    """Whether `with_noise` returns the model itself. The tool cannot calibrate such a model, so the audits test it as it is."""
    try:
        return model.with_noise(1.0) is model
    except ValueError:  # a model without noise may refuse a noise level
        return False


def keeping(model: Model, names: tuple[str, ...]) -> Model:
    """The same recipe, with `names` as the arrays that it computes and releases. A recipe without a field `keep` is unchanged."""
    return with_field(model, "keep", names)


def with_field(model: Any, field: str, value: object) -> Any:
    """The same recipe with another value of a field; the model itself if it has no such field."""
    return dataclasses.replace(model, **{field: value}) if field in fields_of(model) else model


def fields_of(model: Any) -> set[str]:
    """The names of a model's fields; the empty set if the model is no dataclass."""
    return {f.name for f in dataclasses.fields(model)} if dataclasses.is_dataclass(model) else set()
