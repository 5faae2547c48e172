"""Compares two runs: which verdicts changed, and which differences in leakage and utility are larger than chance explains."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import results
from .evidence import CODES, WORDS
from .files import plain
from .results import AttackRow, BoundRow, Results, Row, UtilityRow
from .rounding import down, up
from .summary import UNITS, Key, Line, budget, claims_of, key, name, name_at, shows_leakage, units
from .terminal import simple

if TYPE_CHECKING:
    from rich.table import Table

Interval = tuple[float, float]
RANK = tuple(CODES)  # kinds of verdicts, the worst first
RUNS = ("before", "after")  # the headings of the two runs
TAIL = 0.025  # outside a 95 % interval, on each side
ENOUGH = 8  # with fewer targets, Student's quantiles after a Bonferroni correction are several times those of the normal law


@dataclass(frozen=True)
class Difference:
    """One quantity that both runs measured.

    utility: True for utility, False for leakage. first, second: the value in each run. interval: 95 % interval of second - first
    for independent runs; None if one run has no interval. word: "more" or "less" if 0 lies outside the interval at the level of
    a Bonferroni correction over all comparisons of the same kind, else "".
    """

    key: Key
    what: str
    utility: bool
    first: float
    second: float
    interval: Interval | None
    word: str


@dataclass(frozen=True)
class Judged:
    """A claim that at least one of two runs tests. verdicts, delta, lower, upper: one value for each run, bounds in nats; None if
    a run has no such value.

    A run that does not test the claim has no verdict on it. A claim with a larger delta is weaker, so the second run does not
    test the same claim if its delta is larger.
    """

    key: Key
    verdicts: tuple[str | None, str | None]
    delta: tuple[float | None, float | None] = (None, None)
    lower: tuple[float | None, float | None] = (None, None)
    upper: tuple[float | None, float | None] = (None, None)

    @property
    def vanished(self) -> bool:
        return self.verdicts[0] is not None and (self.verdicts[1] is None or self.weaker)

    @property
    def weaker(self) -> bool:
        return None not in self.verdicts and (self.delta[1] or 0.0) > (self.delta[0] or 0.0)

    @property
    def common(self) -> bool:
        return None not in self.verdicts and not self.weaker

    @property
    def changed(self) -> bool:
        return self.common and self.verdicts[0] != self.verdicts[1]

    @property
    def worse(self) -> bool:
        return self.common and RANK.index(str(self.verdicts[1])) < RANK.index(str(self.verdicts[0]))

    @property
    def word(self) -> str:
        """worse, vanished, new, better, or "" for the same verdict."""
        if self.vanished:
            return "vanished"
        if self.verdicts[0] is None:
            return "new"
        return "" if not self.changed else "worse" if self.worse else "better"


def judged(first: Results, second: Results) -> list[Judged]:
    """Every claim of both runs with a finite epsilon: worse first, then vanished, better, new, and equal verdicts."""
    one, other = ({line.key: line for line in claims_of(run)} for run in (first, second))
    pairs = [(k, one.get(k), other.get(k)) for k in dict.fromkeys((*one, *other))]
    found = [Judged(k, *zip(_stated(a), _stated(b), strict=True)) for k, a, b in pairs]
    return sorted(found, key=lambda c: ("worse", "vanished", "better", "new", "").index(c.word))


def _stated(line: Line | None) -> tuple[Any, ...]:
    """The kind of the verdict, delta and the two bounds of a claim; None for each that a run does not have."""
    if line is None:
        return (None,) * 4
    return line.verdict.kind, line.delta, line.lower and line.lower.value, line.upper and line.upper[0]


def exit_code(claims: Sequence[Judged], measured: Sequence[object]) -> int:
    """1 if a verdict is worse; else 3 if a claim vanished or the runs have nothing in common; else 0."""
    if any(c.worse for c in claims):
        return 1
    return 3 if any(c.vanished for c in claims) or not (measured or any(c.common for c in claims)) else 0


def differences(first: Results, second: Results) -> list[Difference]:
    """Every quantity that both runs measured: leakage before utility, and in each of them significant differences first.

    Attacks whose success is no leakage are left out: those that read no output of the model, and those against random and 2-hop
    pairs. A run draws such pairs once for all its targets, so an interval over targets does not contain the error of this draw.
    """
    others = {_place(row): _measured(row) for row in second.rows}
    pairs = [(row, _measured(row), others.get(_place(row))) for row in first.rows]
    both = [(row, a, b) for row, a, b in pairs if a and b]
    many = Counter(isinstance(row, UtilityRow) for row, a, b in both if a.interval and b.interval)
    found = []
    for row, a, b in both:
        utility, interval, word = isinstance(row, UtilityRow), _between(a, b, TAIL), ""
        if corrected := _between(a, b, TAIL / max(1, many[utility])):
            word = "more" if corrected[0] > 0 else "less" if corrected[1] < 0 else ""
        found.append(Difference(key(row), a.what, utility, a.value, b.value, interval, word))
    return sorted(found, key=lambda d: (d.utility, not d.word, -abs(d.second - d.first)))


def show(run_a: Path, run_b: Path, json: bool = False, every: bool = False) -> int:
    """Prints what changed between two run folders, in separate tables for each unit, and returns the exit code.

    json: print one JSON document instead. every: also print unchanged verdicts, and differences that are not significant. Raises
    ValueError for a run that cannot be read.
    """
    from rich.console import Console

    first, second = results.read(run_a), results.read(run_b)
    claims, found = judged(first, second), differences(first, second)
    if json:
        rows = [dataclasses.asdict(d) | {"key": d.key._asdict()} for d in found]
        print(dumps(plain([*map(_document, claims), *rows]), indent=1))
        return exit_code(claims, found)
    console = Console(soft_wrap=True)
    measured = [d for d in found if d.interval]
    say = partial(console.print, highlight=False, markup=False)
    for line in _named(claims):
        say(line)
    if not any(c.common for c in claims) and not found:
        console.print("The two runs have no claim and no measured quantity in common.")
        return exit_code(claims, found)
    names = called(run_a, run_b)
    say(_summary([c for c in claims if c.common], measured, names[1]))
    graphs = [str(run.data.get("digest") or "") for run in (first.run, second.run)]
    if all(graphs) and graphs[0] != graphs[1]:
        graphs_called = " and ".join(str(run.data.get("name", "?")) for run in (first.run, second.run))
        say(f"The runs used different graphs, {graphs_called}. Differences may come from the graphs.")
    targets = min((r.targets for found in (first, second) for r in found.of(AttackRow) if r.targets), default=ENOUGH)
    if targets < ENOUGH:
        console.print(
            f"An attack had only {targets} targets, so only large differences are significant: use --targets {ENOUGH} or more."
        )
    say(f"Before: {names[0]}. After: {names[1]}.")
    for unit in units([*(c.key for c in claims), *(d.key for d in measured)]):
        shown = [c for c in claims if c.key.unit == unit and c.common and (every or c.changed)]
        clear = [d for d in measured if d.key.unit == unit and (every or d.word)]
        if shown or clear:
            console.print(f"\n[bold]{f'ε protects {UNITS[unit]}' if unit else 'Models without a claim'}[/]")
        if shown:
            console.print(_claims(shown))
        if clear:
            console.print(_table(clear))
    return exit_code(claims, found)


def called(run_a: Path, run_b: Path) -> tuple[str, str]:
    """The names of two runs: the names of their folders, or the whole paths if these names are equal."""
    return (str(run_a), str(run_b)) if run_a.name == run_b.name else (run_a.name, run_b.name)


def _named(claims: list[Judged]) -> list[str]:
    """One line for each claim whose verdict is worse or better, that vanished, that is new, or that both runs refute."""
    texts = []
    for c in claims:
        who = f"{name_at(*c.key[1:])} for {UNITS[c.key.unit]}"
        before, after = (WORDS.get(str(kind), "") for kind in c.verdicts)
        if c.weaker:
            now = f"is now claimed only at the larger δ = {c.delta[1] or 0:g}; it was claimed at δ = {c.delta[0] or 0:g}"
            texts.append(f"Vanished: {who} {now}.")
        elif c.vanished:
            texts.append(f"Vanished: {who} was {before}, and the second run does not test it.")
        elif c.word == "new":
            texts.append(f"New: {who} is {after}; the first run did not test it.")
        elif c.word:
            texts.append(f"{c.word.capitalize()}: {who} was {before} and is now {after}.")
        elif c.verdicts[0] == "refuted":
            low = [_shown(bound, down) for bound in c.lower]
            moved = f"the lower bound was {low[0]} and is now {low[1]}" if low[0] != low[1] else f"the lower bound is {low[0]}"
            texts.append(f"Refuted by both: {who}; {moved}.")
    return texts


def _document(claim: Judged) -> dict[str, object]:
    row = dataclasses.asdict(claim) | {"key": claim.key._asdict(), "what": "verdict"}
    word = "changed" if claim.changed else claim.word
    return row | {"word": word, "worse": claim.worse, "first": claim.verdicts[0], "second": claim.verdicts[1]}


def _summary(claims: list[Judged], found: list[Difference], other: str) -> str:
    """Counts of changed verdicts and of significant differences, in one paragraph."""
    parts = [f"{sum(c.changed for c in claims)} of {len(claims)} common verdicts changed."]
    for utility, more, less in ((False, "leaks more", "leaks less"), (True, "is more useful", "is less useful")):
        kind = [d for d in found if d.utility == utility]
        if not kind:
            continue
        counts = [sum(d.word == word for d in kind) for word in ("more", "less")]
        what = "utility metrics" if utility else "attacks"
        changed = (
            f"{more} in {counts[0]} and {less} in {counts[1]}"
            if any(counts)
            else "shows no significant difference from the first"
        )
        parts.append(f"Measured by {len(kind)} {what}, the second run ({other}) {changed}.")
    return f"{' '.join(parts)} Only significant differences count (95 %, Bonferroni over all comparisons of a kind)."


def _claims(claims: list[Judged]) -> Table:
    from rich.markup import escape

    bounds = [f"{what} {run}" for what in ("lower", "upper") for run in RUNS]
    columns = ("model", "ε", *(f"verdict {run}" for run in RUNS), *bounds)
    table = simple(*columns, right=("ε", *bounds), overflow="fold")
    for c in claims:
        bounds = [*(_shown(v, down) for v in c.lower), *(_shown(v, up) for v in c.upper)]
        verdicts = [f"[bold]{WORDS[str(v)]}[/]" if c.changed else WORDS[str(v)] for v in c.verdicts]
        table.add_row(escape(name(c.key.model, c.key.mode)), budget(c.key.epsilon), *verdicts, *bounds)
    return table


def _shown(value: float | None, rounded: Callable[[float], str]) -> str:
    return "-" if value is None else "∞" if math.isinf(value) else rounded(value)


def _table(found: list[Difference]) -> Table:
    from rich.markup import escape

    numbers = (*RUNS, "difference\n95 %")
    table = simple("model", "ε", "what", *numbers, "", right=("ε", *numbers), overflow="fold")
    table.columns[5].no_wrap = table.columns[6].no_wrap = True
    for d in found:
        ends = f"\n[dim]{d.interval[0]:+.3f} to {d.interval[1]:+.3f}[/]" if d.interval else ""
        words = "" if not d.word else (f"{d.word} useful" if d.utility else f"leaks {d.word}")
        worse = d.word == ("less" if d.utility else "more")
        shown = f"[{'red' if worse else 'green'}]{words}[/]" if words else ""
        values = (f"{d.first:.3f}", f"{d.second:.3f}", f"{d.second - d.first:+.3f}{ends}")
        table.add_row(escape(name(d.key.model, d.key.mode)), budget(d.key.epsilon), d.what, *values, shown)
    return table


def _place(row: Row) -> Hashable:
    if isinstance(row, UtilityRow):
        return key(row), row.metric, row.split
    if isinstance(row, AttackRow):
        return key(row), row.attack, row.game, row.query, row.negatives
    if isinstance(row, BoundRow):
        return key(row), row.audit, row.attack, row.shape
    return id(row)  # equals no place in the other run, because rows of this kind are not compared


class _Measured(NamedTuple):
    """A quantity of one run. interval: 95 %, by Student's law with `freedom` degrees of freedom; None if the run has none."""

    what: str
    value: float
    interval: Interval | None
    freedom: float


def _measured(row: Row) -> _Measured | None:
    """What a row measured; None for rows that are not compared."""
    if isinstance(row, UtilityRow):
        return _Measured(f"{row.split} {row.metric}", row.value, row.ci95, _freedom(row.runs))
    if isinstance(row, AttackRow) and shows_leakage(row):
        where = ", ".join(w for w in (row.game, row.query, row.negatives) if w)
        return _Measured(f"AUC of {row.attack} ({where})", row.auc, row.auc_ci95, _freedom(row.targets))
    if isinstance(row, BoundRow):
        return _Measured(f"lower bound by {row.audit}, {row.attack} ({row.shape})", row.value, None, math.inf)
    return None


def _freedom(trainings: int) -> float:
    """The degrees of freedom of an interval over trainings. The interval of a single training is DeLong's, which is normal."""
    return trainings - 1 if trainings > 1 else math.inf


def _between(a: _Measured, b: _Measured, tail: float) -> Interval | None:
    """The interval of b - a for independent runs, with at most `tail` outside on each side; None if a run has no interval.

    Each run's interval is widened by Student's quantiles to the level of `tail`. The two then add in quadrature, which covers at
    least as often as stated for any two variances (Banerjee 1960). The two sides of an interval may differ in length.
    """
    from scipy.special import stdtrit

    if a.interval is None or b.interval is None:
        return None
    wider = [float(stdtrit(x.freedom, 1 - tail) / stdtrit(x.freedom, 1 - TAIL)) for x in (a, b)]
    gap = b.value - a.value
    below = math.hypot(wider[0] * (a.interval[1] - a.value), wider[1] * (b.value - b.interval[0]))
    above = math.hypot(wider[0] * (a.value - a.interval[0]), wider[1] * (b.interval[1] - b.value))
    return gap - below, gap + above
