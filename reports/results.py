"""The rows of results.json. Other programs read these field names: new versions may add fields but never rename them."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..accounting.claim import Unit
from .evidence import Evidence
from .files import number, plain, write_text

Number = Annotated[float, BeforeValidator(number)]  # infinity is "inf" in JSON; NaN is refused
Interval = tuple[Number, Number]
Seconds = Annotated[Number, Field(ge=0, allow_inf_nan=False)]


class Value(BaseModel):
    """A frozen value. Unknown fields are kept, so that later versions can add fields."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


class Run(Value):
    """The run as a whole. seed: how the randomness was seeded; it never contains the key."""

    name: str
    started: str = ""  # ISO 8601
    seconds: Seconds = 0.0  # without the time before the run was resumed
    resumed: bool = False  # whether an earlier start of the run had stored trainings, which this one read
    data: dict[str, Any] = {}
    seed: str = ""
    alpha: Number = 0.05  # alpha of the whole run, before its division among the tests
    notices: Number = 1.5
    versions: dict[str, str] = {}
    machine: dict[str, Any] = {}
    path: str = ""  # the code that trained the models: compiled or torch
    # model -> what torch trained of it although path is "compiled", each with the reason
    in_torch: dict[str, list[str]] = {}
    instruction_set: str = ""  # the processor that this code was compiled for
    command: str = ""
    verdict: str = ""
    exit_code: int = 0
    preset: str = ""  # with "ci" an inconclusive claim is only a warning in JUnit
    observed: list[dict[str, Any]] = []  # the observed ledgers, each with its model, mode, unit and budget
    audited: dict[str, dict[str, str]] = {}  # own model -> its files, with their hashes, and the packages that it requires
    # own model -> the clauses of the contract that were checked: name, result, and detail
    contract: dict[str, list[dict[str, str]]] = {}


class Row(Value):
    """The fields that every row has. epsilon: the budget in nats; infinity if nothing is claimed."""

    model: str
    mode: str = ""
    unit: Unit | None = None
    epsilon: Number = float("inf")
    delta: Number | None = None


class UtilityRow(Row):
    kind: Literal["utility"] = "utility"
    metric: str  # accuracy, macro_f1 or roc_auc
    split: str
    value: Number
    ci95: Interval | None = None
    runs: int
    sigma: Number | None = None


class AccountRow(Row):
    """The epsilon of a ledger by one accountant. value: nats; None if the accountant declines, with the reason in `unsupported`.

    A row of accountant "published" has the epsilon that the paper prints, and in `as_coded` the epsilon that the paper's code
    computes. A row of accountant "warning" has a warning about the ledger or the claim in `unsupported`. own: whether the model
    is a user's own, so that only its author vouches for the ledger. from_ledger: whether only this ledger supports the claim.
    """

    kind: Literal["account"] = "account"
    accountant: str
    value: Number | None = None
    unsupported: str | None = None
    is_upper_bound: bool = True
    note: str = ""
    as_coded: Number | None = None
    own: bool = False
    from_ledger: bool = True

    @property
    def computed(self) -> bool:
        """Whether the row is the answer of an accountant."""
        return self.accountant not in ("published", "warning")


class TuningRow(Row):
    """The epsilon of the best of several trainings on private data, see `accounting.upper.tuning`. Only `audit account` has such
    rows.

    selection: fixed, logarithmic, geometric or poisson. value: nats; None if no accountant bounds it.
    """

    kind: Literal["tuning"] = "tuning"
    tuned_over: int  # the number of trainings if selection is "fixed", otherwise the mean number
    selection: str
    value: Number | None = None
    accountant: str | None = None
    unsupported: str | None = None


class Slice(Value):
    """The AUC of an attack on one group of units: members against non-members of the group."""

    auc: Number
    auc_ci95: Interval
    members: int
    non_members: int


class AttackRow(Row):
    """The success of an attack. tpr_at_fpr: FPR -> TPR. true_positives, false_positives: the counts behind each TPR, summed over
    targets.

    negatives: the kind of non-members. slices: property (class, degree or homophily) -> group -> AUC. baseline: whether the
    attack reads no output of the model, so that its success is not leakage.
    """

    kind: Literal["attack"] = "attack"
    attack: str
    game: str  # node, edge or label
    query: str = ""
    negatives: str = ""
    auc: Number
    auc_ci95: Interval | None = None
    tpr_at_fpr: dict[str, Number] = {}
    true_positives: dict[str, int] = {}
    false_positives: dict[str, int] = {}
    members: int = 0
    non_members: int = 0
    shadows: int = 0
    targets: int = 0
    baseline_auc: Number | None = None  # in the edge game, the AUC of the attack that reads features only, on the same challenges
    baseline: bool = False
    # set for the attack with the largest AUC in its game: the number of attacks from which it was chosen, without a correction
    best_of: int | None = None
    slices: dict[str, dict[str, Slice]] = {}


class BoundRow(Row):
    kind: Literal["bound"] = "bound"
    audit: str
    attack: str
    shape: str  # any, ledger or exact
    value: Number  # nats: with this confidence, the true epsilon is at least `value`
    confidence: Number
    rounds: int
    exposes: list[str] = []
    claimed: list[str] = []  # the arrays that the claim covers
    verdict: str
    notices: Number | None = None  # the smallest detectable violation, as a factor of the noise
    reach: Number | None = None  # the true epsilon of that violation
    detectable_epsilon: Number | None = None  # the same as `reach`; None if unknown
    detectable_by: dict[str, str] | None = None  # array -> the kind of violation that the test would have detected in it
    method: str = ""
    confirmed: bool | None = None  # whether a repetition with fresh randomness refuted too; None if there was none
    theorem: str = ""
    conditions: list[dict[str, str]] = []  # condition, status (proved, checked, granted, assumed or failed) and detail of each
    against: str = "claim"  # what a refutation contradicts: the claim, or the ledger
    withdrawn: Number | None = None  # the bound before a condition failed; value is then 0
    seconds: Seconds = 0.0

    @property
    def granted(self) -> str:
        """What the bound lets the adversary see beyond the arrays that it reads; "" for nothing."""
        return "; ".join(c["what"] for c in self.conditions if c["how"] == "granted")


class FindingRow(Row):
    """A published claim and what was found. Only `audit findings` writes such rows, in findings.json."""

    kind: Literal["finding"] = "finding"
    id: str
    claim: str
    printed_epsilon: Number | None = None
    lower: Number
    confidence: Number
    verdict: str
    source: str = ""


class SkippedRow(Row):
    kind: Literal["skipped"] = "skipped"
    what: str
    reason: str


AnyRow = Annotated[UtilityRow | AccountRow | AttackRow | BoundRow | FindingRow | SkippedRow, Field(discriminator="kind")]
R = TypeVar("R", bound=Row)


class Results(Value):
    """All of results.json."""

    version: Literal[1] = Field(default=1, alias="schema")
    run: Run
    rows: tuple[AnyRow, ...] = ()

    def of(self, kind: type[R]) -> list[R]:
        """The rows of one kind: results.of(UtilityRow)."""
        return [r for r in self.rows if isinstance(r, kind)]


def write(results: Results, run_dir: Path) -> Path:
    """Writes RUN/results.json atomically, and returns its path."""
    return write_text(Path(run_dir) / "results.json", to_json(results))


def to_json(results: Results) -> str:
    return json.dumps(plain(results.model_dump(mode="python", by_alias=True)), indent=1, allow_nan=False)


def read(run_dir: Path) -> Results:
    """The contents of RUN/results.json. Raises ValueError with the missing or damaged file, or the first wrong row and field."""
    path = Path(run_dir) / "results.json"
    if not path.is_file():
        what = "the folder has no such file, so no run has ended there" if path.parent.is_dir() else "no such folder"
        raise ValueError(f"{path}: {what}. Give the folder of a run, as in `audit run --out FOLDER`.")
    way = f"Restore the file, or write it again with `audit run` and the plan in {run_dir}."
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: is damaged: not JSON. {way}") from None
    try:
        return parse(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error} {way}") from None


def parse(document: Any) -> Results:
    """The results in a JSON document of schema 1. Raises ValueError, which names the first wrong row and field."""
    if not isinstance(document, dict):
        raise ValueError(f"is damaged: a JSON {type(document).__name__} instead of an object.")
    if document.get("schema") != 1:
        raise ValueError(f"schema={document.get('schema')!r}: this version reads schema 1.")
    if "rows" not in document:
        raise ValueError("rows: is missing.")
    try:
        return Results.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise ValueError(f"{place}: is missing.") from None
        raise ValueError(f"{place}={first.get('input')!r:.100}: {first['msg'][0].lower()}{first['msg'][1:]}.") from None


def bound_rows(evidence: Evidence, notices: float) -> list[BoundRow]:
    """A row for each lower bound. notices: the violation that the plan asks to detect, as a factor of the noise."""
    claim = evidence.claim
    common: dict[str, Any] = {"model": evidence.model, "mode": evidence.mode, "unit": claim.unit}
    common |= {"epsilon": claim.epsilon, "delta": claim.delta, "seconds": evidence.seconds}
    common |= {"exposes": list(evidence.read or claim.exposes), "claimed": list(claim.exposes)}

    def verdict(refuted: bool, factor: float) -> str:
        return "refuted" if refuted else ("not-refuted" if factor <= notices else "inconclusive")

    return [
        BoundRow(
            **common,
            **b.row(),
            verdict="inconclusive" if b.refuted and b.assumed else verdict(b.refuted, b.notices),
            detectable_epsilon=b.reach if math.isfinite(b.reach) else None,
            detectable_by=None if b.covers is None else dict(b.covers),
        )
        for b in evidence.bounds
    ]
