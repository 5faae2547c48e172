"""The evidence on one claim, and the verdict that follows from its upper and lower bounds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.arguments import check_items, is_number, shown
from ..accounting.checks.conditions import Condition, is_fault, most_telling
from ..accounting.claim import Claim, Relation, Unit, check_claim
from .files import lists, plain, tuples, write_text
from .rounding import at_least, down, up

if TYPE_CHECKING:
    from ..accounting.lower.bounds import Bound
    from ..accounting.upper.accountants import Upper

ANY = "noise too small"  # the kind of violation that a test detects, unless the test names another
LITTLE = "if it came from too little noise"  # how a verdict names the kind ANY
WORDS = {"refuted": "refuted", "exceeds": "exceeded by the ledger", "inconclusive": "inconclusive", "not-refuted": "not refuted"}
CODES = {"refuted": 1, "exceeds": 1, "inconclusive": 3, "not-refuted": 0}  # kind of a verdict -> exit code; the worst kind first
GRID = 1e-3  # relative excess that is tolerated, because the grids of the accountants cause smaller differences


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim. kind: refuted, exceeds, inconclusive or not-refuted, which determines `exit_code` (CODES). weak:
    whether it is inconclusive because the tests are too weak, and for no other reason.
    """

    kind: str
    sentence: str
    weak: bool = False

    @property
    def exit_code(self) -> int:
        return CODES[self.kind]


@dataclass(frozen=True)
class Evidence:
    """The result of one audit of one claim on one model, with everything that a reader needs to check the result.

    game: the name of the audit. ledger: the event tree as text. uppers: the result of each accountant. bounds: the lower bounds
    of the audit. curves: lists to plot. They are "tradeoff" {"claimed", "ledger", "observed": [false-positive rates,
    false-negative rates], "band"}, "roc" {attack: [fpr, tpr]}, "histograms" {label: [edges, counts]}, "residuals"
    {"expected", "observed": normal and observed quantiles, "count"}, and "moves" {"of": {secret: move}, "by": the unit of
    the moves, "allowed": the largest move that is allowed, "limit": by what}. reach: a sentence on the violations that the
    audit could detect. read: the released arrays that the audit read. randomness: the source of the seeds. assumptions: what
    the model assumes to be public. seconds: duration of the audit, training included. audited: the files of a user's own model or
    program, with their hashes. observed: the mechanisms that the recorder found, see `Observed`.
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
    audited: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "curves", lists(plain(self.curves)))  # arrays become lists, so that values can be compared

    @property
    def file_name(self) -> str:
        """The name of the file, unique within a run. It contains the unit, because one audit can test claims on two units."""
        return stem(self.model, self.mode, f"{self.claim.epsilon:g}", self.claim.unit.value, self.game) + ".json"

    def to_json(self) -> str:
        """The evidence as strict JSON with a checksum. `from_json` is the inverse."""
        document = plain(dataclasses.asdict(self))
        return json.dumps({**document, "sum": _sum(document)}, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Evidence:
        """The evidence from JSON. Raises ValueError for a missing or wrong field or checksum. Unknown fields are ignored."""
        from ..accounting.upper.accountants import Upper

        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("evidence: is damaged: not JSON.") from None
        try:
            if _sum(document) != document.get("sum", _sum(document)):  # version 0.1.0 wrote no checksum
                raise ValueError("evidence: does not have its checksum; the file was changed or is damaged.")
            known = _known(Evidence, document)
            known["claim"] = _claim(document["claim"])
            known["uppers"] = tuple(_value(Upper, u) for u in document["uppers"])
            known["bounds"] = tuple(_bound(b) for b in document["bounds"])
            known["assumptions"] = tuple(document["assumptions"])
            known["read"] = tuple(document.get("read", ()))
            return Evidence(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"evidence: {error}; the file was not written by this tool, or is damaged.") from None


def _sum(document: Mapping[str, Any]) -> str:
    """A checksum that detects damage but no forgery: whoever can write the file can also write a matching checksum."""
    words = json.dumps({name: value for name, value in document.items() if name != "sum"}, sort_keys=True)
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


def stem(*parts: str) -> str:
    """The beginning of the name of an evidence file, from its model, mode, epsilon, unit and audit."""
    return "-".join(re.sub(r"[^\w.-]+", "_", part) for part in parts)


def write(evidence: Evidence, run_dir: Path) -> Path:
    """Writes RUN/evidence/<model>-<mode>-<epsilon>-<unit>-<game>.json."""
    return write_text(Path(run_dir) / "evidence" / evidence.file_name, evidence.to_json())


def read_all(run_dir: Path) -> list[Evidence]:
    """All evidence of a run, in the order of the file names. Raises ValueError with the name of a file that cannot be read."""
    found, folder = [], Path(run_dir) / "evidence"
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: must be the folder with the evidence. Restore it, or run the plan in {run_dir} again.")
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Evidence.from_json(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error} Restore it, or run the plan in {run_dir} again.") from None
    return found


def judge(
    claim: Claim, ceiling: Sequence[Upper], bounds: Sequence[Bound], notices: float = 1.5, *, from_ledger: bool = True
) -> Verdict:
    """The verdict on a claim, given the upper bounds of its ledger and the lower bounds that were measured.

    ceiling: upper bounds of the ledger in the claim's own unit; empty if the ledger counts another unit. bounds: the result of
    every test of this claim. notices: the violation that the plan asks to detect, as a factor of the noise. from_ledger: whether
    only the ledger supports the claim, as for a model whose noise was calibrated by its ledger.

    Each array that the claim exposes has a smallest detectable violation, that of its most sensitive test. The verdict uses
    the largest of these violations. A refutation does not count if a repetition with fresh randomness did not confirm it, or
    if it needs an assumption; such a bound detects no violation either. A refutation of the ledger means that the code is
    less private than its ledger. If only the ledger supports the claim, this also refutes the claim. A test may refute the
    ledger without proving an epsilon above the claim; then no upper bound on the run's epsilon is known. A refutation by
    samples does not say where the fault is, so the sentence also names a fault that a check of another bound found. Raises
    ValueError for arguments of other types or out of range, and for a bound of `lower` for another epsilon or delta.
    """
    _check(claim, ceiling, bounds, notices)
    unsure = [b for b in bounds if b.refuted and b.assumed]
    if worst := refuting(bounds):
        verdict = _refuted(claim, worst, from_ledger)
        clue = "" if worst.shape == "exact" else _withdrawn(bounds)
        also = f"{verdict.sentence}; a possible cause, from a check of another bound: {clue}"
        return dataclasses.replace(verdict, sentence=also) if is_fault(clue) else verdict
    if math.isinf(claim.epsilon):
        most = max(bounds, key=lambda b: b.epsilon, default=None)
        return Verdict("not-refuted", f"no claim to test (epsilon = inf){f'; measured: {_worded(most)}' if most else ''}")
    best = lowest(ceiling)
    above = contradicting(best, bounds)
    if best is not None and above is not None:
        measured = f"{_worded(above)} was measured, and by the accountant {best[1]!r} the ledger costs at most {up(best[0])}"
        return Verdict("inconclusive", f"inconclusive: a contradiction: {measured}; the ledger or the accountant is wrong")
    if best is not None and best[0] > claim.epsilon * (1 + GRID):
        sentence = f"the ledger exceeds the claim: it costs {up(best[0])} ({best[1]}) against a claim of {claim.epsilon:g}"
        return Verdict("exceeds", sentence)
    if not bounds:
        return Verdict("inconclusive", "inconclusive: no audit tested this claim")
    if unsure:
        most = max(unsure, key=lambda b: b.epsilon)
        return Verdict("inconclusive", f"inconclusive: {_worded(most)}; no check supports this assumption")
    why = _withdrawn(bounds)
    if any(b.refuted for b in bounds):
        ending = "a test refuted the claim, but no repetition with fresh randomness did, so this refutation does not count"
        return Verdict("inconclusive", f"inconclusive: {f'{why}; ' if why else ''}{ending}")
    return _not_refuted(claim, bounds, notices, why)


def _refuted(claim: Claim, worst: Bound, from_ledger: bool) -> Verdict:
    """The verdict if a bound refutes the claim or the ledger. worst: the one that says most. from_ledger: as for `judge`."""
    sure = " (confirmed with fresh randomness)" if worst.confirmed else ""
    if worst.epsilon <= claim.epsilon:
        return Verdict("exceeds", f"the ledger does not describe what was run: {worst.method}{sure}")
    measured = f"{_worded(worst, claim.epsilon)} against a claim of {claim.epsilon:g}{sure}"
    if worst.against == "claim":
        told = math.isinf(worst.epsilon) or worst.shape == "exact" or worst.granted
        how = worst.method if " " in worst.method else f"computed by {worst.method}"  # one word is the name of a method
        why = f"; {how}" if told else ""
        why += "".join(f"; this holds {what}" for what in worst.granted)
        return Verdict("refuted", f"refuted: {measured}{why}")
    if from_ledger:
        ground = "the code is less private than its own ledger, and nothing else supports the claim"
        return Verdict("refuted", f"refuted: {measured}; {ground}")
    sentence = f"the code is less private than its own ledger: {measured}; the claim itself is not refuted"
    return Verdict("exceeds", sentence)


def _not_refuted(claim: Claim, bounds: Sequence[Bound], notices: float, why: str) -> Verdict:
    """The verdict if no bound refutes: by what the tests would have detected. why: a bound was withdrawn, or ""."""
    by_array = tests_of(claim, bounds)
    unseen = [array for array, tests in by_array.items() if all(math.isinf(b.notices) for b in tests)]
    if unseen:
        where = "" if len(unseen) == len(by_array) else f" in {' and '.join(unseen)}"
        untested = "; 'replay' tests moves of means, not the size of the noise: add 'residual' or 'differential'"
        unknown = f"the smallest detectable violation{where} is unknown"
        sentence = f"not refuted, and {unknown}{f', because {why}' if why else ''}"
        sentence += untested * (not why and all(b.method.split(":")[0] == "replay" for b in bounds))
        sentence += "".join(f": {b.method}" for b in bounds if b.shape == "exact" and not why)
        if unclaimed := [b for b in bounds if b.covers and math.isfinite(b.reach) and not set(b.covers) & set(by_array)]:
            best = min(unclaimed, key=lambda b: b.reach)
            seen = f"a true epsilon above {up(best.reach, 3)} would have been noticed in {' and '.join(best.covers or ())}"
            sentence += f"; {seen}, which the claim does not name"
        return Verdict("inconclusive", f"inconclusive: {sentence}", weak=not why)
    best_of = {array: min(tests, key=lambda b: b.notices) for array, tests in by_array.items()}
    sharpest = max(best_of.values(), key=lambda b: b.notices)
    left_out = "".join(f"; {sentence}" for sentence in dict.fromkeys(s for b in bounds for s in b.limits))
    noticed = _noticed(up(sharpest.reach, 3), best_of)
    if sharpest.notices <= notices:
        return Verdict("not-refuted", f"not refuted; {noticed}{left_out}")
    factor = f"noise {up(sharpest.notices, 3)} times too small; the plan requires {notices:g}"
    way = ""
    if sharpest.shape == "exact" and sharpest.epsilon:
        computed = f"; the bound of {down(sharpest.epsilon)} is computed, so more rounds do not change it"
        more = "Try data on which one secret moves the noisy values farther, or another --seed"
        way = f"{computed}. {more}, or accept a weaker test with --notices"
    return Verdict("inconclusive", f"inconclusive: not refuted, but only {noticed} ({factor}){left_out}{way}", weak=not why)


def _withdrawn(bounds: Sequence[Bound]) -> str:
    """What a check found that withdrew a bound, and the condition that the bound needs if it was above 0; "" if no bound was
    withdrawn.
    """
    largest = sorted(bounds, key=lambda b: -(b.withdrawn or 0.0))  # first, because of reasons that tell alike the first counts
    failed = [(c, b) for b in largest for c in b.conditions if c.how == "failed"]
    if not failed:
        return ""
    reason = most_telling(c.detail or c.what for c, _ in failed)
    worst, bound = next((c, b) for c, b in failed if (c.detail or c.what) == reason)
    found = worst.detail or f"a check did not confirm that {worst.what}"
    if not bound.withdrawn:
        return found
    return f"{found}; so the bound of {down(bound.withdrawn)} does not count, because it needs that {worst.what}"


def refutes(bound: Bound) -> bool:
    """Whether a bound counts as a refutation: it needs no unchecked assumption, and no repetition contradicted it."""
    return bound.refuted and bound.confirmed is not False and not bound.assumed


def refuting(bounds: Iterable[Bound]) -> Bound | None:
    """The bound that a refutation names: the largest that contradicts the claim itself, or else the ledger; None if none does."""
    return max(filter(refutes, bounds), key=lambda b: (b.against == "claim", b.epsilon), default=None)


def _check(claim: Claim, ceiling: object, bounds: Sequence[Bound], notices: object) -> None:
    from ..accounting.lower.bounds import Bound
    from ..accounting.upper.accountants import Upper

    check_claim(claim)
    check_items("ceiling", ceiling, Upper, "upper bounds, such as upper(ledger, claim).")
    check_items("bounds", bounds, Bound, "lower bounds, such as [lower(scores, bits, claim)].")
    for tested in (bound.claim for bound in bounds):
        if tested is not None and (tested.epsilon, tested.delta) != (claim.epsilon, claim.delta):
            of = f"a bound for the claim of epsilon={tested.epsilon:g}, delta={tested.delta:g}"
            wanted = f"epsilon={claim.epsilon:g}, delta={claim.delta:g}"
            raise ValueError(f"bounds: {of} does not test {wanted}. Compute it with lower(scores, bits, claim) for this claim.")
    if not (is_number(notices) and notices > 1):
        raise ValueError(f"notices={shown(notices)}: must be above 1. It is the factor by which the noise is too small.")


def tests_of(claim: Claim, bounds: Sequence[Bound]) -> dict[str, list[Bound]]:
    """For each array that the claim exposes, the bounds whose tests can detect a violation in this array. A bound that needs an
    assumption refutes nothing, so it detects no violation.
    """
    able = [b for b in bounds if not b.assumed]
    return {array: [b for b in able if b.covers is None or array in b.covers] for array in claim.exposes}


def weakest_link(claim: Claim, bounds: Sequence[Bound]) -> Bound | None:
    """The bound whose smallest detectable violation the verdict states. For each array, take the most sensitive test; of these
    tests, the bound is that of the least sensitive one. None without tests.
    """
    best_of = [min(tests, key=lambda b: b.notices) for tests in tests_of(claim, bounds).values() if tests]
    return max(best_of, key=lambda b: b.notices, default=None)


def _noticed(epsilon: str, best_of: Mapping[str, Bound]) -> str:
    """A clause with the kind of violation that was tested in each array, and the true epsilon from which it is detected."""
    arrays: dict[str, list[str]] = {}
    for array, bound in best_of.items():
        arrays.setdefault((bound.covers or {}).get(array, ANY), []).append(array)
    if list(arrays) == [ANY]:
        return f"a true epsilon above {epsilon} would have been noticed {LITTLE}"
    each = [f"{f'{ANY} in' if sort == ANY else sort} {' and '.join(names)}" for sort, names in arrays.items()]
    return f"a true epsilon above {epsilon} would have been noticed if it came from {', or from '.join(each)}"


def lowest(ceiling: Sequence[Upper]) -> tuple[float, str] | None:
    """(tightest valid upper bound (nats), its accountant); None if no accountant gave one."""
    valid = [(u.epsilon, u.accountant) for u in ceiling if u.is_upper_bound and not u.unsupported and u.epsilon is not None]
    return min(valid, default=None)


def contradicting(best: tuple[float, str] | None, bounds: Sequence[Bound]) -> Bound | None:
    """The largest proved lower bound if it exceeds `best`, the tightest upper bound, so that one of them is wrong; else None."""
    proved = [b for b in bounds if not b.assumed and not b.failed and b.confirmed is not False]
    most = max(proved, key=lambda b: b.epsilon, default=None)
    return most if best and most and most.epsilon > best[0] * (1 + GRID) else None


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """The exit code of a run: 1 if a claim is refuted or exceeded, else 3 if one is inconclusive or there is none, else 0."""
    codes = {v.exit_code for v in verdicts} or {3}
    return next((code for code in (1, 3) if code in codes), 0)


def _worded(bound: Bound, beyond: float = math.inf) -> str:
    return at_least(bound.epsilon, bound.alpha, bound.shape, bound.assumed, beyond)


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: lists(document[f.name]) for f in dataclasses.fields(kind) if f.name in document}


def _value(kind: type[Any], document: Mapping[str, Any]) -> Any:
    return kind(**{name: tuples(value) for name, value in _known(kind, document).items()})


def _bound(document: Mapping[str, Any]) -> Bound:
    from ..accounting.lower.bounds import Bound

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
        tuned_over=int(document.get("tuned_over", 1)),
    )
