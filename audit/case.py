"""One system at one budget, the claim that it is held to, and what came of looking at it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..accounting.claim import Claim, Relation, Unit
from ..accounting.upper.calibration import calibrate
from ..models.systems import SYSTEMS, Facts, at_unit, default_delta
from ..reports.results import SkippedRow
from .own.doors import External, own_models
from .params import adjusted, pair

if TYPE_CHECKING:
    from ..accounting.lower.bounds import Bound
    from ..models.base import Model
    from ..models.graph.graph import Graph
    from .plan import Plan


Factory = Callable[[str, Facts, bool], Any]
EDGES = (Unit.DIRECTED_EDGE, Unit.UNDIRECTED_EDGE)


@dataclass(frozen=True)
class Case:
    """A calibrated model and its claim. From here on nobody mentions epsilon to the model."""

    model: Model
    claim: Claim

    @property
    def where(self) -> dict[str, Any]:
        """The columns that every row of results.json carries."""
        return {
            "model": self.model.name,
            "mode": self.model.mode,
            "unit": self.claim.unit,
            "epsilon": self.claim.epsilon,
            "delta": self.claim.delta,
        }

    def skipped(self, what: str, reason: str) -> SkippedRow:
        """The row that says what the plan asked for and was not done, and why."""
        return SkippedRow(**self.where, what=what, reason=reason)

    def counted(self, graph: Graph) -> Graph:
        """The graph with one edge for each unit of the claim: every arc on its own where directed edges are counted."""
        return graph.as_directed() if self.claim.unit is Unit.DIRECTED_EDGE else graph

    def __str__(self) -> str:
        return f"{self.model.name} {self.model.mode} epsilon={self.claim.epsilon:g}"


@dataclass(frozen=True)
class Outcome:
    """What one audit saw of one case: bounds, arrays to plot, how far it could see, which released arrays it read, seconds."""

    audit: str
    bounds: tuple[Bound, ...]
    curves: Mapping[str, Any] = field(default_factory=dict)
    reach: str = ""
    read: tuple[str, ...] = ()
    seconds: float = 0.0


def offered(model: Model) -> tuple[str, ...]:
    """All arrays that a recipe could release; those of one without a choice are the ones it does release."""
    return tuple(getattr(model, "offers", model.releases))


def noise_of_its_own(model: Model) -> bool:
    """Whether `with_noise` changes nothing: then there is nothing to calibrate, and the claim is held against what it is."""
    try:
        return model.with_noise(1.0) is model
    except ValueError:  # it has no noise at all, and says so
        return False


def keeping(model: Model, names: tuple[str, ...]) -> Model:
    """The same recipe, computing and keeping only the arrays called `names`, if it can be told to."""
    if dataclasses.is_dataclass(model) and any(f.name == "keep" for f in dataclasses.fields(model)):
        return dataclasses.replace(model, keep=names)
    return model


def recipes(plan: Plan) -> dict[str, Factory]:
    """The systems that the plan names, and the user's own, as factories by name. Raises ValueError for unknown names."""
    own = own_models(plan.target, plan.model)
    known = {name: system.make for name, system in SYSTEMS.items()} | own
    names = plan.chosen(plan.models, tuple(known), "models") if not own or "models" in plan.model_fields_set else ()
    for name in own.keys() & SYSTEMS.keys() & set(names):
        raise ValueError(f"model={plan.model}: is called '{name}', as a system that is to be run too. Give it another name.")
    return {name: known[name] for name in dict.fromkeys((*own, *names))}


def cases(plan: Plan, graph: Graph, makes: dict[str, Factory]) -> tuple[list[Case], list[SkippedRow]]:
    """Every recipe in every mode at every budget, calibrated; and those that cannot be, with the reason.

    Raises ValueError for a field in `plan.param` that no recipe has.
    """
    facts = Facts.of(graph)
    made: list[Case] = []
    skips: list[SkippedRow] = []
    unused = {text for text in plan.param if pair(text)}
    unit = Unit(plan.unit) if plan.unit else None
    for name, make in makes.items():
        for mode in plan.modes:
            for epsilon in dict.fromkeys(plan.epsilon):
                try:
                    recipe = make(mode, facts, math.isfinite(epsilon))
                    recipe, taken = adjusted(recipe, name, plan.param, at_unit(recipe, unit, facts))
                    unused -= taken
                    case = _case(recipe, plan, facts, epsilon)
                except ValueError as reason:
                    what = f"{name} {mode} epsilon={epsilon:g}"
                    skips.append(SkippedRow(model=name, mode=mode, epsilon=epsilon, what=what, reason=str(reason)))
                    continue
                if all(case.where != other.where for other in made):  # a model of one's own has one mode
                    made.append(case)
    for text in plan.param:
        if text in unused and not skips:
            raise ValueError(f"param={text!r}: none of the chosen models has such a field.")
    return made, skips


def _case(recipe: Model, plan: Plan, facts: Facts, epsilon: float) -> Case:
    """Calibrated to its own unit; claimed, if the plan says so, for another."""
    own_delta = default_delta(recipe.unit, recipe.mode, facts) if plan.delta is None else plan.delta
    relation = Relation.REPLACE if recipe.unit is Unit.FEATURES else Relation.ADD_REMOVE
    own = Claim(epsilon, own_delta, recipe.unit, relation, exposes=offered(recipe))
    unit = Unit(plan.unit) if plan.unit else recipe.unit
    if unit is not recipe.unit and recipe.mode != "paper" and not isinstance(recipe, External):
        raise ValueError(
            f"{recipe.name} protects {recipe.unit}; this plan claims {unit} privacy. "
            f'Use unit = "{recipe.unit}", or leave {recipe.name} out.'
        )
    model = recipe if noise_of_its_own(recipe) else calibrate(recipe, own)
    return Case(model, dataclasses.replace(own, unit=unit))
