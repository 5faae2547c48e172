"""Makes the calibrated cases of a plan, and gives the reasons why others cannot be made."""

import ast
import dataclasses
import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from ...accounting.arguments import shown
from ...accounting.claim import Claim, Unit
from ...accounting.events.tree import has_gaussian
from ...accounting.upper.calibration import calibrate
from ...models.base import Model
from ...models.facts import Factory, Facts, default_delta
from ...models.fitted import blamed
from ...models.graph.graph import Graph
from ...models.looped import Looped
from ...models.ranges import check_range
from ...models.systems import SYSTEMS, at_unit
from ...reports.results import SkippedRow
from ..case import Case, fields_of, noise_of_its_own, offered, shown_mode
from ..own.model_file import is_built_in, own_models
from ..own.programs.declaration import declared
from ..own.programs.files import claim_of, script_name
from ..own.programs.program import External
from ..own.stated_claim import stated
from ..recorded.exposed import queries
from .plan import Plan, claiming


class NoSuchClaim(ValueError):
    """The plan claims what no noise of the model can keep: privacy of a unit that it does not protect, or delta = 0."""


def recipes(plan: Plan) -> tuple[Plan, dict[str, Factory]]:
    """The plan with the claim that the user's own model states, if the plan states none, and name -> factory (mode, facts,
    private) -> Model, for the user's own models and the systems of the plan. Raises ValueError for unknown names and for wrong
    use of options.
    """
    limits: dict[str, Any] = {
        "seconds": plan.target_timeout,
        "memory": plan.memory,
        "run": plan.out.resolve(),
        "record": plan.record,
    }
    refuse_unused(plan)
    own = own_models(_program(plan, limits), plan.model)
    known = {name: system.make for name, system in SYSTEMS.items()} | own
    names = () if plan.own_alone else plan.chosen(plan.models, tuple(known), "models")
    if not own and not names:
        raise ValueError("models=none: leaves nothing to run. Name systems, or give --model or --target.")
    for name in own.keys() & SYSTEMS.keys() & set(names):
        way = "Leave it out, or give yours another name."
        raise ValueError(f"models={name}: your own model or program is called '{name}', like a system of this plan. {way}")
    if plan.model is not None:
        *_, make = own.values()
        plan = claiming(plan, stated(make("sound", None, True), f"model={plan.model}"))
    if "epsilon" not in plan.model_fields_set and not (plan.declaration and "epsilon" in claim_of(plan.declaration)):
        for name, factory in own.items():
            if noise_of_its_own(factory("sound", None, True)):
                way = "Give it with --epsilon (and --delta, --unit)" + ", or as its attribute `claim`" * (plan.model is not None)
                raise ValueError(f"epsilon: {name} adds its own noise, and states no claim that could be tested. {way}.")
    return plan, {name: known[name] for name in dict.fromkeys((*own, *names))}


def refuse_unused(plan: Plan) -> None:
    """Raises ValueError for an option that has no effect together with the others."""
    program = plan.target is not None or plan.recipe is not None
    timeout = type(plan).model_fields["target_timeout"].default
    unused = {
        "--target-timeout": (plan.target_timeout != timeout and not program, "it goes with --target or --recipe"),
        "--no-record": (not (plan.record or program or plan.model), "it goes with --model, --target or --recipe"),
        f"--mode {plan.mode}": (plan.own_alone and plan.mode != "sound", "a model of your own has one mode"),
    }
    for option, (ignored, why) in unused.items():
        if ignored:
            raise without_effect(option, why)


def without_effect(option: str, why: str) -> ValueError:
    """The error for an option that has no effect together with the others."""
    return ValueError(f"{option}: has no effect here: {why}. Leave it out, or change the other options.")


def _program(plan: Plan, limits: Mapping[str, Any]) -> External | None:
    """The program that --target or --recipe names; None if neither is given."""
    if plan.recipe is not None and plan.target is not None:
        raise ValueError(f"recipe={plan.recipe}: comes with a program of its own. Leave --target out.")
    if plan.recipe is not None and plan.checkout is None:
        raise ValueError(f"recipe={plan.recipe}: needs --checkout, a folder with the repository that {plan.declaration} names.")
    if plan.declaration is not None:
        return declared(plan.declaration, checkout=plan.checkout, python=plan.python, **limits)
    if given := [name for name in ("checkout", "python") if getattr(plan, name) is not None]:
        raise ValueError(f"{given[0]}={getattr(plan, given[0])}: needs --recipe, or --target with a declaration.")
    if plan.target is None:
        return None
    program = External(plan.target, Unit(plan.unit) if plan.unit else Unit.UNDIRECTED_EDGE, **limits)
    name = script_name(plan.target)
    return program if name is None or name in SYSTEMS else dataclasses.replace(program, name=name)


def cases(plan: Plan, graph: Graph, makes: Mapping[str, Factory]) -> tuple[list[Case], list[SkippedRow]]:
    """The calibrated cases, one for every model, mode and epsilon, and a row with the reason for each case that cannot be made.

    Raises ValueError for wrong use: a field in `plan.param` that no model has; a value that a model refuses; a unit or a delta
    that no model of the plan can claim, or that a model named in the plan cannot claim.
    """
    facts = Facts.of(graph)
    made: list[Case] = []
    skips: list[SkippedRow] = []
    unused = {text for text in plan.param if pair(text)}
    unit = Unit(plan.unit) if plan.unit else None
    named = plan.own_alone or ("models" in plan.model_fields_set and plan.models != ("all",))
    impossible: list[NoSuchClaim] = []
    seen: set[str] = set()  # fields of all models
    all_seen = True
    for name, make in makes.items():
        for mode in plan.modes:
            for epsilon in plan.epsilon:
                taken: set[str] = set()
                as_shown = mode
                recipe = None
                try:
                    recipe = make(mode, facts, math.isfinite(epsilon))
                    seen |= set(fields_of(recipe))
                    as_shown = shown_mode(recipe)
                    taken = {text for text, *_ in fitting(recipe, name, plan.param)}
                    recipe = adjusted(recipe, name, plan.param, at_unit(recipe, unit, facts))
                    unused -= taken
                    with blamed(recipe):
                        case = _case(recipe, plan, facts, epsilon)
                except ValueError as reason:
                    if isinstance(reason, NoSuchClaim):
                        impossible.append(reason)
                        if named:
                            raise
                    elif taken:
                        said = any(text.rpartition(".")[2] in str(reason) for text in taken)
                        raise ValueError(str(reason) if said else f"param={shown(', '.join(sorted(taken)))}: {reason}") from None
                    all_seen = all_seen and recipe is not None
                    what = f"{name} {as_shown} epsilon={epsilon:g}"
                    skips.append(SkippedRow(model=name, mode=as_shown, epsilon=epsilon, what=what, reason=str(reason)))
                    continue
                if all(case.where != other.where for other in made):  # a user's own model has one mode
                    made.append(case)
    if impossible and not made and len(impossible) == len(skips):
        raise impossible[0]
    for text in plan.param:
        if text in unused and all_seen:
            fields = ", ".join(sorted(seen))
            raise ValueError(f"param={text!r}: none of the chosen models has such a field. Their fields: {fields}.")
    return made, skips


def _case(recipe: Model, plan: Plan, facts: Facts, epsilon: float) -> Case:
    """A case whose model is calibrated for its own unit.

    In mode "paper", and for a program, the plan may claim another unit. The claim then has the plan's delta, or the default delta
    of the claimed unit. For other models this raises NoSuchClaim, and for Gaussian noise at delta = 0.
    """
    claimed = Unit(plan.unit) if plan.unit else recipe.unit
    own_delta, delta = (
        default_delta(unit, recipe.mode, facts) if plan.delta is None else plan.delta for unit in (recipe.unit, claimed)
    )
    own = Claim(epsilon, own_delta, recipe.unit, exposes=(*offered(recipe), *queries(recipe)))
    if claimed is not recipe.unit and recipe.mode != "paper" and not isinstance(recipe, External):
        way = f'Use unit = "{recipe.unit}", or leave {recipe.name} out.'
        if isinstance(recipe, Looped):
            way = f"Write Looped(train, unit=Unit.{claimed.name}) if the function protects that, or use --unit {recipe.unit}."
        raise NoSuchClaim(f"unit={claimed}: {recipe.name} protects {recipe.unit}, so it makes no claim about {claimed}. {way}")
    fixed = noise_of_its_own(recipe)
    if own.delta == 0 and math.isfinite(epsilon) and has_gaussian((recipe if fixed else recipe.with_noise(1.0)).ledger):
        usual = "" if plan.delta == 0 else f", the default for a claim on {recipe.unit}"
        way = "Claim a larger delta, such as --delta 1e-5."
        raise NoSuchClaim(f"delta=0{usual}: {recipe.name} adds Gaussian noise, which has no finite epsilon at delta 0. {way}")
    model = recipe if fixed else calibrate(recipe, own)
    return Case(model, dataclasses.replace(own, unit=claimed, delta=delta))


def adjusted(model: Any, name: str, params: Iterable[str], defaults: Mapping[str, Any]) -> Any:
    """The model with its fields set by `defaults`, and then by those entries of `params` that name a field of the model.

    name: the model's name, for MODEL.NAME=VALUE. Raises ValueError for a malformed entry, for sigma, for a refused value, and
    for two values of one field.
    """
    taken = fitting(model, name, params)
    set_by: dict[str, str] = {}
    for text, field, value in taken:
        if field in set_by:
            raise ValueError(f"param={set_by[field]}, param={text}: both set {field} of {name}. Leave one of them out.")
        set_by[field] = text
        usual = getattr(model, field)
        if not same_type(value, usual):
            way = f"(by default {usual!r}). Give a value of the same type."
            raise ValueError(f"{name} does not accept {field}={shown(value)} {way}")
        if is_built_in(model):
            check_range(field, value, usual)
    chosen = {**defaults, **{field: value for _, field, value in taken}}
    return dataclasses.replace(model, **chosen) if chosen else model


def fitting(model: Any, name: str, params: Iterable[str]) -> list[tuple[str, str, Any]]:
    """(text, field, value) of the `params` that name a field of the model. Raises ValueError for a malformed entry."""
    fields = fields_of(model)
    pairs = [(text, *pair(text)) for text in params]
    return [(text, field, value) for text, owner, field, value in pairs if field in fields and owner in ("", name)]


def same_type(value: Any, usual: Any) -> bool:
    """Whether a value may replace `usual`: one of its type or enumeration, an int (no bool) for a float, anything for None."""
    if usual is None or type(value) is type(usual):
        return True
    if isinstance(usual, Enum):
        return value in [member.value for member in type(usual)]
    return isinstance(value, int) and not isinstance(value, bool) and isinstance(usual, float)


def pair(text: str) -> tuple[str, str, Any]:
    """Splits "MODEL.NAME=VALUE" into (model or "", field, value). Raises ValueError for other forms and for sigma."""
    path, equals, value = text.partition("=")
    owner, _, field = path.rpartition(".")
    if not (field and equals):
        raise ValueError(f"param={text!r}: must be NAME=VALUE, e.g. hops=3.")
    if field == "sigma":
        raise ValueError("sigma: --epsilon calibrates the noise; give --epsilon instead.")
    try:
        return owner, field, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two for thousands of signs or brackets
        return owner, field, value
