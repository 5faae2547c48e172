"""Where the claim, what was run and what was seen meet: the evidence on one claim, and the verdict on it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..accounting.claim import Claim, Relation, Unit
from .files import lists, plain, tuples, write_text
from .rounding import at_least, up

if TYPE_CHECKING:
    from ..accounting.lower.bounds import Bound
    from ..accounting.upper.accountants import Upper

GRID = 1e-3  # relative; the accountants' own grids differ by less, so a smaller excess is no news


@dataclass(frozen=True)
class Verdict:
    """kind: refuted, exceeds, inconclusive or not-refuted. exit_code: what a CI job returns for it."""

    kind: str
    sentence: str
    exit_code: int


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about one claim on one model, and all that a reader needs to check it.

    ledger: the text of the event tree that was run. uppers: what each accountant makes of it. bounds: what was seen.
    curves: plottable lists, see `figures`: "tradeoff" {"claimed", "ledger", "observed": [false positive rates, false
        negative rates], "band"}, "roc" {attack: [fpr, tpr]}, "histograms" {label: [edges, counts]}.
        "residuals" {"expected", "observed": normal and seen quantiles, "count"}.
    reach: what the games could see. read: the released arrays that were looked at. randomness: where the coins came from.
    assumptions: what is taken to be public. seconds: spent on the game, training included.
    """

    claim: Claim
    model: str
    mode: str
    game: str
    ledger: str = ""
    uppers: tuple[Upper, ...] = ()
    bounds: tuple[Bound, ...] = ()
    curves: Mapping[str, Any] = field(default_factory=dict)
    reach: str = ""
    read: tuple[str, ...] = ()
    randomness: str = ""
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "curves", lists(plain(self.curves)))  # arrays become lists, so that values compare

    @property
    def file_name(self) -> str:
        """Unique among the claims and games of a run; the unit is part of it because one game can test two units."""
        parts = (self.model, self.mode, f"{self.claim.epsilon:g}", self.claim.unit.value, self.game)
        return "-".join(re.sub(r"[^\w.-]+", "_", p) for p in parts) + ".json"

    def to_json(self) -> str:
        """Strict JSON; `from_json` gives the same value back."""
        return json.dumps(plain(dataclasses.asdict(self)), indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Evidence:
        """Raises ValueError when a field is missing or wrong. Fields that this version does not know are passed over."""
        from ..accounting.upper.accountants import Upper

        document = json.loads(text)
        try:
            known = _known(Evidence, document)
            known["claim"] = _claim(document["claim"])
            known["uppers"] = tuple(_value(Upper, u) for u in document["uppers"])
            known["bounds"] = tuple(_bound(b) for b in document["bounds"])
            known["assumptions"] = tuple(document["assumptions"])
            known["read"] = tuple(document.get("read", ()))
            return Evidence(**known)
        except (KeyError, TypeError) as error:
            raise ValueError(f"evidence: {error}; the file was not written by this tool, or is damaged.") from None


def write(evidence: Evidence, run_dir: Path) -> Path:
    """Writes RUN/evidence/<model>-<mode>-<epsilon>-<unit>-<game>.json."""
    return write_text(Path(run_dir) / "evidence" / evidence.file_name, evidence.to_json())


def read_all(run_dir: Path) -> list[Evidence]:
    """All evidence of a run, in the order of the file names. Raises ValueError naming a file that cannot be read."""
    found = []
    for path in sorted((Path(run_dir) / "evidence").glob("*.json")):
        try:
            found.append(Evidence.from_json(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return found


class Look(Protocol):
    """What a verdict reads of a lower bound."""

    @property
    def epsilon(self) -> float: ...
    @property
    def alpha(self) -> float: ...
    @property
    def shape(self) -> str: ...
    @property
    def refuted(self) -> bool: ...
    @property
    def notices(self) -> float: ...  # the smallest violation that it would have noticed, as a factor
    @property
    def reach(self) -> float: ...  # the true epsilon of that violation
    @property
    def method(self) -> str: ...
    @property
    def confirmed(self) -> bool | None: ...  # whether fresh coins refuted too, where that was tried
    @property
    def against(self) -> str: ...  # what falls if it refutes: the claim, or the ledger alone
    @property
    def assumed(self) -> tuple[str, ...]: ...  # what it rests on and nobody proved or checked
    @property
    def failed(self) -> tuple[str, ...]: ...  # the conditions whose failure withdrew it


class Ceiling(Protocol):
    """What a verdict reads of an upper bound."""

    @property
    def accountant(self) -> str: ...
    @property
    def epsilon(self) -> float | None: ...
    @property
    def is_upper_bound(self) -> bool: ...
    @property
    def unsupported(self) -> str | None: ...


def judge(
    claim: Claim, ceiling: Sequence[Ceiling], bounds: Sequence[Look], notices: float = 1.5, *, from_ledger: bool = True
) -> Verdict:
    """Whether the claim stands against what was run and what was seen.

    ceiling: upper bounds of the ledger in the claim's own unit; leave it empty when the ledger counts another unit.
    bounds: all the looks at this claim, each with the share of alpha that it spent.
    notices: the violation that the plan asks to be noticed, as a factor.
    from_ledger: whether the claim follows from the ledger and from nothing else, as one that was calibrated does.

    A look that fresh coins did not confirm refutes nothing, and neither does one that rests on what nobody checked. A look
    against the ledger says that the code is not as private as its own ledger; the claim falls with the ledger if it has no
    other ground. A look may also find that the ledger is not of what was run, without an epsilon above the claim: then nothing
    bounds what was run.
    """
    unsure = [b for b in bounds if b.refuted and b.assumed]
    refuting = [b for b in bounds if b.refuted and b.confirmed is not False and not b.assumed]
    worst = max(refuting, key=lambda b: (b.against == "claim", b.epsilon), default=None)
    if worst is not None:
        sure = " (confirmed with fresh coins)" if worst.confirmed else ""
        if worst.epsilon <= claim.epsilon:
            return Verdict("exceeds", f"the ledger is not of what was run: {worst.method}{sure}", 1)
        seen = f"{_seen(worst)} against a claim of {claim.epsilon:g}{sure}"
        if worst.against == "claim":
            return Verdict("refuted", f"refuted: {seen}", 1)
        if from_ledger:
            return Verdict(
                "refuted", f"refuted: {seen}; the code is not as private as its own ledger, the claim's only ground", 1
            )
        return Verdict("exceeds", f"the code is not as private as its own ledger: {seen}; the claim itself is not refuted", 1)
    if math.isinf(claim.epsilon):
        most = max(bounds, key=lambda b: b.epsilon, default=None)
        return Verdict("not-refuted", f"nothing is claimed{f'; {_seen(most)} was seen' if most else ''}", 0)
    best = lowest(ceiling)
    if best is not None and best[0] > claim.epsilon * (1 + GRID):
        sentence = f"the ledger exceeds the claim: it costs {up(best[0])} ({best[1]}) against a claim of {claim.epsilon:g}"
        return Verdict("exceeds", sentence, 1)
    if not bounds:
        return Verdict("inconclusive", "inconclusive: no audit looked at this claim", 3)
    if unsure:
        most = max(unsure, key=lambda b: b.epsilon)
        return Verdict("inconclusive", f"inconclusive: {_seen(most)}; nobody checked that", 3)
    if any(b.refuted for b in bounds):
        return Verdict("inconclusive", "inconclusive: refuted once, and not again with fresh coins", 3)
    sharpest = min(bounds, key=lambda b: b.notices)
    noticed = f"a true epsilon above {up(sharpest.reach, 3)} would have been noticed"
    if sharpest.notices <= notices:
        return Verdict("not-refuted", f"not refuted; {noticed}", 0)
    if math.isinf(sharpest.notices):
        why = next((f"; a bound was withdrawn: {b.failed[0]}" for b in bounds if b.failed), "")
        sentence = f"inconclusive: not refuted, but how large a violation would have been noticed is not known{why}"
        return Verdict("inconclusive", sentence, 3)
    factor = f"a factor of {up(sharpest.notices, 3)}; the plan asks for {notices:g}"
    return Verdict("inconclusive", f"inconclusive: not refuted, but only {noticed} ({factor})", 3)


def lowest(ceiling: Sequence[Ceiling]) -> tuple[float, str] | None:
    """The tightest valid upper bound and its accountant; None when no accountant could tell."""
    valid = [(u.epsilon, u.accountant) for u in ceiling if u.is_upper_bound and not u.unsupported and u.epsilon is not None]
    return min(valid, default=None)


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Of a whole run: 1 if any claim fell, else 3 if any test was too weak or nothing was looked at, else 0."""
    codes = {v.exit_code for v in verdicts} or {3}
    return next((code for code in (1, 3) if code in codes), 0)


def _seen(bound: Look) -> str:
    return at_least(bound.epsilon, bound.alpha, bound.shape, bound.assumed)


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: lists(document[f.name]) for f in dataclasses.fields(kind) if f.name in document}


def _value(kind: type[Any], document: Mapping[str, Any]) -> Any:
    return kind(**{name: tuples(value) for name, value in _known(kind, document).items()})


def _bound(document: Mapping[str, Any]) -> Bound:
    from ..accounting.lower.bounds import Bound
    from ..accounting.lower.conditions import Condition

    bound: Bound = _value(Bound, document)
    conditions = tuple(_value(Condition, c) for c in document.get("conditions", ()))
    return dataclasses.replace(bound, conditions=conditions)


def _claim(document: Mapping[str, Any]) -> Claim:
    return Claim(
        epsilon=float(document["epsilon"]),
        delta=float(document["delta"]),
        unit=Unit(document["unit"]),
        relation=Relation(document["relation"]),
        exposes=tuple(document["exposes"]),
    )
