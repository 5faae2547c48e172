"""One line for each claim of a run: the claim, its upper and lower bounds, and the verdict."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..accounting.checks.conditions import Condition
from ..accounting.claim import Claim, Unit
from ..accounting.upper.accountants import Upper
from .evidence import CODES, Verdict, contradicting, judge, lowest, refuting, weakest_link
from .files import grouped
from .results import AccountRow, AttackRow, BoundRow, Results, Row, SkippedRow, UtilityRow

if TYPE_CHECKING:
    from ..accounting.lower.bounds import Bound

UNITS = {
    Unit.UNDIRECTED_EDGE: "an undirected edge",
    Unit.DIRECTED_EDGE: "a directed edge",
    Unit.NODE: "a node with its edges",
    Unit.FEATURES: "a node's own features and label",
    None: "nobody",
}


# kinds of non-edges that homophily alone separates from edges; reports show attacks on them separately and never as leakage
BESIDE = ("random", "2-hop")


COVERED = {  # unit -> the games whose secret is protected by an epsilon for this unit
    Unit.UNDIRECTED_EDGE: ("edge",),
    Unit.DIRECTED_EDGE: ("edge",),
    Unit.NODE: ("edge", "node", "label"),
    Unit.FEATURES: ("label",),
    None: (),
}


class Key(NamedTuple):
    """Identifies a claim. Tables never mix claims on different units."""

    unit: Unit | None
    model: str
    mode: str
    epsilon: float


@dataclass(frozen=True)
class Line:
    """One claim. upper: the tightest valid upper bound (nats) and its accountant. lower: the row of the largest lower bound, or
    of the one that the verdict names, if it is refuted.

    noticing: the row of `weakest_link`, whose smallest detectable violation the verdict states. own: True for a user's own model,
    for whose ledger only its author vouches.
    """

    key: Key
    delta: float | None
    upper: tuple[float, str] | None
    lower: BoundRow | None
    bounds: tuple[BoundRow, ...]
    accounts: tuple[AccountRow, ...]
    verdict: Verdict
    noticing: BoundRow | None = None
    own: bool = False

    @property
    def contradicted(self) -> bool:
        """Whether a lower bound that counts exceeds the upper bound, so that the ledger does not describe what was run."""
        counts = self.verdict.kind in ("refuted", "exceeds")
        return bool(counts and self.upper and self.lower and self.lower.value > self.upper[0])

    @property
    def upper_is(self) -> str:
        """A warning about the upper bound, if a reader could overestimate what it covers; else an empty string."""
        if self.contradicted:
            return "that of the ledger; a lower bound exceeds it, so the ledger does not describe what was run"
        return "that of the model's own ledger, which its author declares" if self.upper and self.own else ""

    @property
    def no_upper(self) -> str:
        """Why no accountant gives an upper bound; an empty string if one does, or if none was asked."""
        computed = [a for a in self.accounts if a.computed]
        if not computed or any(a.value is not None and a.is_upper_bound for a in computed):
            return ""
        reasons = {a.unsupported for a in computed if a.unsupported}
        return reasons.pop() if len(reasons) == 1 else "no accountant bounds the ledger"


def key(row: Row) -> Key:
    return Key(row.unit, row.model, row.mode, row.epsilon)


def as_text(text: str) -> str:
    """The text as one line of Markdown without tags, links and images: a name may contain HTML and scripts."""
    return " ".join(text.split()).replace("<", "&lt;").replace("[", "\\[")


def name(model: str, mode: str) -> str:
    """The name of a model with its mode, such as "gap (paper)"."""
    return f"{model} ({mode})" if mode else model


def name_at(model: str, mode: str, epsilon: float) -> str:
    """The name of a model at a budget: "gap (paper), ε = 1"."""
    return f"{name(model, mode)}, ε = {budget(epsilon)}"


def claimed(line: Line) -> str:
    """The numbers of a claim: "ε = 1, δ = 1e-05"."""
    return f"ε = {budget(line.key.epsilon)}" + ("" if line.delta is None else f", δ = {line.delta:g}")


def claim_and_verdict(line: Line) -> str:
    """One line: the model, its claim and the verdict, as in "gap (sound), ε = 1, δ = 1e-05 for a node: not refuted; …"."""
    return f"{name(line.key.model, line.key.mode)}, {claimed(line)} for {UNITS[line.key.unit]}: {line.verdict.sentence}"


def one_delta(claims: Iterable[Line]) -> str:
    """For example ", δ = 1e-05" if all claims have the same delta, else ""."""
    deltas = {line.delta for line in claims}
    return f", δ = {deltas.pop():g}" if len(deltas) == 1 and None not in deltas else ""


def deltas(claims: Iterable[Line]) -> str:
    """Every claimed delta with its unit, as in "δ = 1e-05 for an undirected edge"; "" if nothing is claimed."""
    each = dict.fromkeys((line.delta, line.key.unit) for line in claims if line.delta is not None and line.key.unit)
    return f"δ = {', '.join(f'{delta:g} for {UNITS[unit]}' for delta, unit in each)}" if each else ""


def headline(claims: Sequence[Line]) -> str:
    """The first sentence of a report: how many claims were refuted, exceeded or inconclusive, and which."""
    if not claims:
        return "This run tested no claim."
    one, many = len(claims) == 1, f"of {len(claims)} claims"
    refuted = [line for line in claims if line.verdict.kind == "refuted"]
    exceeding = [line for line in claims if line.verdict.kind == "exceeds"]
    said = []
    if refuted:
        several = f"{len(refuted)} {many} {'is' if len(refuted) == 1 else 'are'} refuted"
        said.append(f"{'The claim is refuted' if one else several}: {_listed(refuted)}.")
    if exceeding:
        several = "ledger" if len(exceeding) == 1 else "ledgers"
        which = "The ledger" if one else f"The {several} of {len(exceeding)} {many}"
        ends = "contradicts the code or its claim" if len(exceeding) == 1 else "contradict the code or their claims"
        said.append(f"{which} {ends}: {_listed(exceeding)}.")
    if said:
        return " ".join(said)
    what = "The claim was not refuted" if one else f"None of the {len(claims)} claims was refuted"
    weak = [line for line in claims if line.verdict.exit_code == 3]
    if not weak:
        return f"{what}."
    if one:
        return f"{what}, {'but its test is inconclusive' if weak[0].bounds else 'because no audit tested it'}: {_listed(weak)}."
    return f"{what}; the tests of {'all ' if len(weak) == len(claims) else ''}{len(weak)} are inconclusive: {_listed(weak)}."


def _listed(claims: Sequence[Line]) -> str:
    """The first four of these claims, and how many more there are."""
    more = f" and {len(claims) - 4} more" if len(claims) > 4 else ""
    return ", ".join(f"{name(line.key.model, line.key.mode)} at {claimed(line)}" for line in claims[:4]) + more


def budget(epsilon: float, infinity: str = "∞") -> str:
    """An epsilon as text. infinity: the text for an infinite epsilon."""
    return infinity if math.isinf(epsilon) else f"{epsilon:g}"


def lines(results: Results) -> list[Line]:
    """As `lines_of`, for a run."""
    return lines_of(results.rows, results.run.notices)


def claims_of(results: Results) -> list[Line]:
    """The lines of a run that claim a finite epsilon."""
    return [line for line in lines(results) if math.isfinite(line.key.epsilon)]


def lines_of(rows: Sequence[Row], notices: float) -> list[Line]:
    """A line for each claim with an account row or a bound row; refuted claims first. No other function decides the verdicts of a
    run.

    notices: the violation that a test must be able to detect, as a factor of the noise.
    """
    accounts, bounds = [r for r in rows if isinstance(r, AccountRow)], [r for r in rows if isinstance(r, BoundRow)]
    keys = dict.fromkeys(key(r) for r in (*accounts, *bounds))
    causes = why_untested(row for row in rows if isinstance(row, SkippedRow))
    found = [
        _line(k, [a for a in accounts if key(a) == k], [b for b in bounds if key(b) == k], notices, causes.get(k)) for k in keys
    ]
    worst_first = list(CODES)
    return sorted(found, key=lambda line: (worst_first.index(line.verdict.kind), math.isinf(line.key.epsilon)))


def why_untested(rows: Iterable[SkippedRow]) -> dict[Key, str]:
    """Why no audit tested a claim, if none did: the whole model was skipped, or each audit of the plan was."""
    rows = list(rows)
    found = {key(row): row.reason for row in rows if of_case(row)}
    audits = grouped((row for row in rows if not of_case(row) and row.what.startswith("audit ")), key)
    for place, left in audits.items():
        one = f"{left[0].what.removeprefix('audit ')} was skipped, because {left[0].reason}"
        many = f"all {len(left)} audits of the plan were skipped; the report gives the reasons"
        found.setdefault(place, one if len(left) == 1 else many)
    return found


def of_case(row: SkippedRow) -> bool:
    """Whether the row skips a whole model at one budget, rather than one audit or attack."""
    return row.what == f"{row.model} {row.mode} epsilon={row.epsilon:g}"


def of_contract(row: SkippedRow) -> bool:
    """Whether the row names failed clauses of the model contract, rather than something that was left out."""
    return row.what.startswith("contract: ")


def _line(k: Key, accounts: list[AccountRow], bounds: list[BoundRow], notices: float, cause: str | None) -> Line:
    computed = [a for a in accounts if a.computed]
    ceiling = [Upper(a.accountant, a.value, a.is_upper_bound, a.unsupported, 0.0) for a in computed]
    tests = [_bound(b) for b in bounds]
    delta = next((r.delta for r in (*accounts, *bounds) if r.delta is not None), None)
    claimed = tuple(dict.fromkeys(array for b in bounds for array in b.claimed)) or ("posteriors",)
    claim = Claim(k.epsilon, delta or 0.0, k.unit or Unit.NODE, exposes=claimed)
    from_ledger = all(a.from_ledger for a in accounts)
    verdict = judge(claim, ceiling, tests, notices, from_ledger=from_ledger)
    if cause and not bounds and verdict.kind == "inconclusive":
        verdict = dataclasses.replace(verdict, sentence=f"{verdict.sentence}: {cause}")

    def row_of(test: Bound | None) -> BoundRow | None:
        return next((b for b, t in zip(bounds, tests, strict=True) if t is test), None)

    largest = max(bounds, key=lambda b: b.value, default=None)
    best = row_of(refuting(tests)) if verdict.kind == "refuted" else largest  # the column and the verdict name one bound
    noticing = row_of(weakest_link(claim, tests))
    own = any(a.own for a in accounts)
    upper = lowest(ceiling)
    # an inconclusive verdict on a contradiction states both bounds, so the column of the upper bound stays empty
    shown = None if verdict.kind == "inconclusive" and contradicting(upper, tests) else upper
    return Line(k, delta, shown, best, tuple(bounds), tuple(accounts), verdict, noticing, own)


def _bound(row: BoundRow) -> Bound:
    """The bound of a row, with the fields that a verdict needs."""
    from ..accounting.lower.bounds import SAME, Bound

    conditions = tuple(Condition(c["what"], c["how"], c.get("detail", "")) for c in row.conditions)
    refuted = row.verdict == "refuted" or (row.value > row.epsilon and any(c.how == "assumed" for c in conditions))
    notices, reach = (math.inf if value is None else value for value in (row.notices, row.reach))
    same = {name: getattr(row, name) for name in SAME} | {"notices": notices, "reach": reach, "conditions": conditions}
    trials, covers = (row.rounds, 0), row.detectable_by
    return Bound(**same, epsilon=row.value, alpha=1 - row.confidence, trials=trials, refuted=refuted, p_value=None, covers=covers)


def units(rows: Iterable[Row | Key]) -> list[Unit | None]:
    """The units that occur, in the order of UNITS."""
    present = {r.unit for r in rows}
    return [u for u in UNITS if u in present]


def shows_leakage(row: AttackRow) -> bool:
    """Whether success is leakage: the attack reads the model, and homophily alone does not explain its success."""
    return row.negatives not in BESIDE and not row.baseline


def strongest(attacks: Iterable[AttackRow]) -> list[AttackRow]:
    """For each model, budget and game, the attack with the largest AUC. Random and 2-hop non-edges do not count."""
    best: dict[tuple[Key, str], AttackRow] = {}
    for row in filter(shows_leakage, attacks):
        place = (key(row), row.game)
        if place not in best or row.auc > best[place].auc:
            best[place] = row
    return list(best.values())


def rivals(attacks: Iterable[AttackRow]) -> Counter[tuple[Key, str]]:
    """The number of attacks from which `strongest` chooses, for each model, budget and game."""
    return Counter((key(row), row.game) for row in filter(shows_leakage, attacks))


def best_marked(rows: Sequence[Any]) -> list[Any]:
    """The rows, with `best_of` set in the row of the strongest attack on each model, budget and game."""
    attacks = [row for row in rows if isinstance(row, AttackRow)]
    best, among = {id(row) for row in strongest(attacks)}, rivals(attacks)
    return [row.model_copy(update={"best_of": among[key(row), row.game]}) if id(row) in best else row for row in rows]


def chance(results: Results) -> dict[str, float]:
    """Metric -> the score without learning: 0.5 for roc_auc; for accuracy the share of the largest class, if known."""
    classes = results.run.data.get("classes")
    sizes = [float(size) for size in classes] if isinstance(classes, list) else []
    return {"roc_auc": 0.5} | ({"accuracy": max(sizes) / sum(sizes)} if sum(sizes) else {})


def interval(ends: tuple[float, float] | None) -> str:
    """An interval as text, such as "0.692–0.716"; an empty string for None, and for an interval of width 0."""
    return "" if ends is None or ends[0] == ends[1] else f"{ends[0]:.3f}–{ends[1]:.3f}"


def spread(row: UtilityRow) -> str:
    """The 95 % interval of a utility in percent, such as "34.7–40.4"; "" for a single training. If all trainings have one value,
    Student's interval has width 0, which looks like certainty, so the text says that they agree.
    """
    if row.ci95 is None:
        return ""
    low, high = row.ci95
    return f"{100 * low:.1f}–{100 * high:.1f}" if high > low else f"all {row.runs} trainings agree"


def may_be_chance(row: UtilityRow, level: Mapping[str, float]) -> bool:
    """Whether the interval of a utility, or else its value, reaches down to the score without learning."""
    return row.metric in level and (row.ci95[0] if row.ci95 else row.value) <= level[row.metric]


def inapplicable(rows: Iterable[SkippedRow]) -> dict[str, list[SkippedRow]]:
    """Name and mode of a model -> its skipped audits and attacks, but for whole models and for audits at infinite epsilon."""
    left = [row for row in rows if not of_case(row) and not (math.isinf(row.epsilon) and row.what.startswith("audit "))]
    return grouped(left, lambda row: name(row.model, row.mode))


def skips(rows: Iterable[SkippedRow]) -> list[tuple[str, str, str, str]]:
    """(what, model, budgets, reason) as text; skipped rows of one model with the same budgets and reason are merged. what: "" if
    a whole model was skipped.
    """
    at: dict[tuple[str, str, str], dict[str, dict[str, None]]] = {}
    for row in rows:
        modes = at.setdefault(("" if of_case(row) else row.what, row.model, row.reason), {})
        modes.setdefault(row.mode, {})[budget(row.epsilon)] = None
    together: dict[tuple[str, str, str], list[str]] = {}
    for (what, model, reason), modes in at.items():
        alike: dict[str, list[str]] = {}
        for mode, budgets in modes.items():
            alike.setdefault(", ".join(budgets), []).append(mode)
        for budgets_alike, of in alike.items():
            together.setdefault((name(model, ", ".join(of)), budgets_alike, reason), []).append(what)
    return [(listed(whats), who, budgets, reason) for (who, budgets, reason), whats in together.items()]


def listed(whats: Iterable[str]) -> str:
    """Merges names, for example "audit a", "audit b" and "c" into "audits a, b; c"."""
    whats = list(whats)
    audits = [what.removeprefix("audit ") for what in whats if what.startswith("audit ")]
    others = [what for what in whats if not what.startswith("audit ")]
    words = [f"audit{'s' * (len(audits) > 1)} {', '.join(audits)}"] if audits else []
    return "; ".join([*words, *([", ".join(others)] if others else [])])


def utility(results: Results) -> dict[tuple[Unit | None, str, str], dict[float, UtilityRow]]:
    """(unit, model, mode) -> budget -> the first row with a metric on the test nodes."""
    table: dict[tuple[Unit | None, str, str], dict[float, UtilityRow]] = {}
    for row in results.of(UtilityRow):
        if row.split == "test":
            table.setdefault((row.unit, row.model, row.mode), {}).setdefault(row.epsilon, row)
    return table
