"""The plan of a run: the options of `audit run`, which are also the keys of the [run] table of a plan file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from ...accounting.arguments import shown
from ...models.systems import SYSTEMS
from ..own.programs.files import claim_of, read_toml, recipe
from .cores import usable_cores
from .limits import MOST, MOST_FACTOR, MOST_JOBS, budget, in_words, not_overflowing

MODELS = tuple(name for name, system in SYSTEMS.items() if not system.baseline)
ATTACKS = (  # attacks that read the arrays of every system and train no classifier; "all" takes several times as long
    "label-only",
    "confidence",
    "entropy",
    "modified-entropy",
    "lira",
    "lira-offline",
    "rmia",
    "strongest",
    "link-stealing",
    "link-stealing-2",
    "edge-lira",
    "edge-multi-lira",
    "edge-strongest",
)


def split(value: Any) -> Any:
    """A text "a,b" as ("a", "b"), and a number as a tuple with it; other values stay. Raises ValueError for an empty part."""
    if isinstance(value, str):
        parts = tuple(part.strip() for part in value.split(","))
        if not all(parts):
            raise ValueError("has nothing before, after or between commas" if any(parts) else "names nothing")
        return parts
    return (value,) if isinstance(value, int | float) else value


def one_or_more(value: Any) -> Any:
    """A text as a tuple with it; other values stay."""
    return (value,) if isinstance(value, str) else value


def size(value: Any) -> Any:
    """A text such as "8GiB" in bytes; other values stay. Raises ValueError for other texts and outside 1 MiB to 1024 TiB."""
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "B": 1}
    unit = next((unit for unit in units if str(value).endswith(unit)), "")
    try:
        number = float(str(value).removesuffix(unit)) * units.get(unit, 1)
    except ValueError:
        number = math.nan
    if not 1 << 20 <= number <= 1 << 50:
        raise ValueError(
            "must be from 1MiB to 1024TiB, such as 8GiB. The units are KiB, MiB, GiB and TiB; a number alone counts bytes"
        )
    return int(number) if isinstance(value, str) else value


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values themselves. Raises ValueError if one of them occurs twice."""
    if twice := next((value for i, value in enumerate(values) if value in values[:i]), None):
        raise ValueError(f"names {f'{twice:g}' if isinstance(twice, float) else twice} twice. Name it once")
    return values


Words = Annotated[tuple[str, ...], BeforeValidator(split), AfterValidator(distinct)]
Numbers = Annotated[
    tuple[Annotated[float, Field(gt=0), BeforeValidator(not_overflowing), AfterValidator(budget)], ...],
    BeforeValidator(split),
    Field(min_length=1),
    AfterValidator(distinct),
]


def new_folder() -> Path:
    """A path below runs/, named by the time, at which there is nothing yet."""
    name = f"{datetime.now():%Y-%m-%d-%H%M%S}"
    names = (Path("runs") / (name if again == 1 else f"{name}-{again}") for again in count(1))
    return next(path for path in names if not path.exists())


class Plan(BaseModel):
    """All options of a run. The class is frozen, so that the report prints the plan as it was given."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True)

    data: str = "campus"
    data_dir: Path | None = None
    trust: bool = False  # whether to read data sets whose files can run code, and downloads without a known checksum
    models: Words = MODELS
    mode: Literal["paper", "sound", "both"] = "sound"
    epsilon: Numbers = (1.0, 8.0, float("inf"))
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    unit: Literal["directed-edge", "undirected-edge", "node", "features"] | None = None
    param: Annotated[tuple[str, ...], BeforeValidator(one_or_more)] = ()  # fields of the models: NAME=VALUE or MODEL.NAME=VALUE
    attacks: Words = ATTACKS
    games: Words = ("all",)
    audits: Words = ("all",)
    rounds: int = Field(10, ge=1, le=MOST)  # rounds of the audit game; each tests many canaries at once
    minutes: float | None = Field(None, gt=0, le=MOST)  # time limit of blackbox, which then adds rounds, and of distinguisher
    shadows: int = Field(8, ge=2, le=MOST, multiple_of=2)  # shadow runs, in pairs with complementary bits
    targets: int = Field(4, ge=1, le=MOST)
    repeats: int = Field(10, ge=1, le=MOST)  # trainings over which accuracy is averaged
    seed: str | None = None
    out: Path = Field(default_factory=new_folder)
    mlflow: str | None = None  # None: an SQLite file beside the runs; "none": no copy in MLflow
    device: Literal["cpu", "cuda"] = "cpu"
    memory: Annotated[int, BeforeValidator(size)] = 8 << 30
    jobs: int = Field(default_factory=usable_cores, ge=1, le=MOST_JOBS)
    ray: str | None = None
    target: str | None = None
    recipe: str | None = None  # a declaration that comes with the tool, for the checkout of a public repository
    checkout: Path | None = None
    python: str | None = None  # the Python interpreter of the environment in which the program runs
    target_timeout: float = Field(3600.0, gt=0, le=60 * MOST)  # seconds for one training of the target
    model: str | None = None
    record: bool = True  # whether the mechanisms of a user's own model or program are recorded
    alpha: float = Field(0.05, gt=0, lt=1)
    notices: float = Field(1.5, gt=1, le=MOST_FACTOR)
    fresh: bool = False
    split: int = Field(0, ge=0)  # which public split of the nodes into train, validation and test
    preset: str | None = None  # defaults for options that neither the plan file nor the command line sets

    @field_validator("*", mode="before")
    @classmethod
    def filled(cls, value: Any, info: ValidationInfo) -> Any:
        """The value itself. Raises ValueError for an empty text, a text with a null character or that is no UTF-8, and true or
        false for a number.
        """
        several = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(v, bool) for v in several) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise ValueError("must be a number or a text, not true or false")
        if value == "":
            raise ValueError("is empty. Give a value, or leave the option out")
        if any(isinstance(v, str | Path) and "\0" in str(v) for v in several):
            raise ValueError("contains a null character. Leave it out")
        if any(isinstance(v, str | Path) and str(v) != str(v).encode(errors="replace").decode() for v in several):
            raise ValueError("is no text in UTF-8. Type it again")
        return value

    @property
    def modes(self) -> tuple[str, ...]:
        return ("paper", "sound") if self.mode == "both" else (self.mode,)

    def chosen(self, names: tuple[str, ...], every: tuple[str, ...], what: str) -> tuple[str, ...]:
        """The chosen names: "all" stands for `every`, "none" for no name. Raises ValueError without names or for unknown ones."""
        if not names:
            raise ValueError(f"{what}=: names nothing. Give all, none, or some of {', '.join(every)}.")
        if names in (("all",), ("none",)):
            return every if names == ("all",) else ()
        if len(names) > 1 and (word := next((name for name in names if name in ("all", "none")), None)):
            raise ValueError(f"{what}={','.join(names)}: {word} must stand alone. Give it, or names.")
        for name in names:
            if name not in every:
                raise ValueError(f"{what}={name}: must be all, none, or some of {', '.join(every)}.")
        return names

    @property
    def own_alone(self) -> bool:
        """Whether the plan runs a user's own model and no built-in system."""
        return (self.target or self.recipe or self.model) is not None and "models" not in self.model_fields_set

    @property
    def declaration(self) -> Path | None:
        """The declaration of the program of `target` or `recipe`, or None. Raises ValueError for an unknown recipe."""
        if self.recipe is not None:
            return recipe(self.recipe)
        return Path(self.target) if self.target is not None and self.target.endswith(".toml") else None

    def toml(self) -> str:
        """The plan as a file with which `audit run` repeats the run. `fresh` is left out, so that the run resumes."""
        options = self.model_dump(exclude_none=True, exclude={"fresh"} | ({"models"} if self.own_alone else set())).items()
        return tomli_w.dumps({"run": {name: str(value) if isinstance(value, Path) else value for name, value in options}})

    def differences(self, other: Plan) -> dict[str, tuple[Any, Any]]:
        """Option -> its two values, for the options that differ and change the results."""
        mine, theirs = ({**plan.model_dump(), **({"models": ()} if plan.own_alone else {})} for plan in (self, other))
        return {name: (mine[name], theirs[name]) for name in mine if name not in UNMEASURED and mine[name] != theirs[name]}


EXAMPLES = {"epsilon": "the claimed budget in nats, such as 1, or inf for no claim", "delta": "the claimed delta, such as 1e-5"}
MEASURED = {"minutes": " minutes", "target_timeout": " seconds"}  # the units of the bounds in error messages
UNMEASURED = frozenset(
    {"out", "mlflow", "memory", "jobs", "ray", "fresh", "preset", "trust", "target_timeout"}
)  # these options change no result

PRESETS: dict[str, dict[str, Any]] = {
    # For a pull request: the most sensitive audits, few trainings, no MLflow. An inconclusive claim is a warning in JUnit.
    "ci": {
        "epsilon": (1.0,),
        "attacks": ("confidence", "lira", "edge-lira"),
        # Left out: "transcript" and "gradients", which add half of the time, and "added-up", "blackbox", "one-run" and
        # "distinguisher". The chosen audits test the same noise.
        "audits": ("replay", "differential", "exact", "residual", "game", "votes", "reports", "entries", "rows"),
        "alpha": 1e-4,
        "shadows": 4,
        "targets": 2,
        "repeats": 3,
        "mlflow": "none",
    },
    # For the night: every audit, several budgets, more runs. An inconclusive claim is an error in JUnit.
    "nightly": {"epsilon": (1.0, 4.0, 8.0), "alpha": 1e-4, "rounds": 40, "shadows": 32, "targets": 16},
}


def read(path: Path | None, options: dict[str, Any], usual: Mapping[str, Any] | None = None) -> Plan:
    """The plan: the [run] table of the plan file, overridden by `options`. `usual`, a preset and a declaration give defaults; the
    later ones replace the earlier. Raises ValueError with a sentence for each error.
    """
    table: dict[str, Any] = {}
    if path is not None:
        document, _ = read_toml(path)
        if not document:
            raise ValueError(f"{path}: has no table [run]. A plan is the line [run] and its options below.")
        if strange := [name for name in document if name != "run"]:
            raise ValueError(
                f"{path}: {', '.join(strange)}: must be inside [run]. A plan is the line [run] and its options below."
            )
        table = document.get("run", {})
        if not isinstance(table, dict):
            raise ValueError(f"{path}: [run] must be a table.")
        table = {name.replace("-", "_"): value for name, value in table.items()}
    given = {name: value for name, value in options.items() if value is not None}
    preset = given.get("preset", table.get("preset"))
    if preset is not None and preset not in tuple(PRESETS):
        raise ValueError(f"preset={preset}: must be one of {', '.join(PRESETS)}.")
    usual = {**(usual or {}), **PRESETS.get(preset or "", {})}
    try:
        plan = Plan(**{**usual, **table, **given})
        if plan.declaration is not None:
            plan = Plan(**{**usual, **claim_of(plan.declaration), **table, **given})
        plan.model_fields_set.intersection_update({*table, *given})  # what a default sets was not asked for
        return plan
    except ValidationError as fault:
        raise ValueError(" ".join(dict.fromkeys(_sentence(e) for e in fault.errors()))) from None


def claiming(plan: Plan, claim: Mapping[str, Any]) -> Plan:
    """The plan with the parts of a claim (epsilon, delta, unit) that it does not state. Raises ValueError as `read` does."""
    open_parts = {name: value for name, value in claim.items() if name not in plan.model_fields_set}
    return plan.model_copy(update={name: getattr(read(None, open_parts), name) for name in open_parts})


def _sentence(error: Any) -> str:
    name = str(error["loc"][0]) if error["loc"] else "plan"
    if error["type"] == "extra_forbidden":
        near = get_close_matches(name, Plan.model_fields, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        return f"{name}: no such option.{meant} Options are {', '.join(Plan.model_fields)}."
    if error["type"] == "too_short":
        return f"{name}={shown(error['input'])}: names nothing. Give at least one name."
    if str(error["input"]) == "nan":
        return f"{name}=nan: must be a number{' of' * (name in MEASURED)}{MEASURED.get(name, '')}. {way_out(name)}"
    message = in_words(error["msg"].removeprefix("Value error, ").rstrip("."))
    if error["type"] == "value_error":  # from a validator here, whose message says the way out
        return f"{name}={shown(error['input'])}: {message[0].lower()}{message[1:]}."
    unit = MEASURED.get(name, "") if error["type"].startswith(("greater_than", "less_than")) else ""
    return f"{name}={shown(error['input'])}: {message}{unit}. {way_out(name)}"


def way_out(name: str) -> str:
    """A sentence with a value that the option `name` accepts."""
    if name in EXAMPLES:
        return f"Give {EXAMPLES[name]}."
    usual = Plan.model_fields[name].get_default()
    return f"By default it is {usual}." if isinstance(usual, int | float | str) else "Leave it out for the usual choice."
