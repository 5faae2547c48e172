"""`audit run`: calibrate, train, attack, bound, judge, report. Everything finished is on disk before the next step starts."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.lower.bounds import divide
from ..attacks.registry import ATTACKS
from ..models.data.loading import describe, load_described
from ..models.facts import Facts
from ..reports import evidence as evidence_files
from ..reports import results as result_files
from ..reports.evidence import Evidence, Verdict, exit_code, judge
from ..reports.results import AccountRow, BoundRow, Results, Run, SkippedRow
from .audits.registry import AUDITS, Audit
from .case import Case, Outcome, Setting
from .leakage.pool import membership
from .leakage.utility import utility
from .ledgers import account_rows, uppers, warnings
from .planned_cases import Factory, cases, recipes
from .second_look import confirmed, marked
from .storage.executor import executor
from .storage.run_folder import arithmetic, machine, opened, randomness, root_key, versions, write_spec
from .storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from ..accounting.upper.accountants import Upper
    from ..models.data.loading import Facts as GraphFacts
    from ..models.graph.graph import Graph
    from .key import Key
    from .plan import Plan


def run(plan: Plan, json: bool = False, quiet: bool = False, verbose: bool = False) -> int:
    """Carries out the plan and returns the exit code: 0 not refuted, 1 refuted, 3 too weak to notice what was asked.

    quiet: no progress and no tables. verbose: a line for each audit, with what it saw.
    """
    from rich.console import Console

    makes = recipes(plan)
    graph, facts = load_described(plan.data, plan.data_dir, plan.split)
    results = carry_out(
        plan, makes, graph, facts, Console(stderr=True, quiet=quiet), verbose, partial(publish, json=json, quiet=quiet)
    )
    return results.run.exit_code


def carry_out(
    plan: Plan,
    makes: Mapping[str, Factory],
    graph: Graph,
    facts: GraphFacts | None,
    console: Console,
    verbose: bool,
    publish: Callable[[Results, Path, Plan], None],
) -> Results:
    """Studies every case that the plan and `makes` give on the graph, and writes the run folder; `publish` makes the rest of it.

    makes: name -> (mode, facts, private) -> Model. Raises ValueError for names that do not exist and for a folder in use.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    audits, _ = asked(plan)
    with opened(plan) as folder, executor(plan.jobs, plan.ray) as execute:
        write_spec(folder)
        key = root_key(plan, folder)
        store = Store(folder, memory=plan.memory, device=plan.device, execute=execute, fresh=plan.fresh)
        todo, skips = cases(plan, graph, makes)
        taken = sum(a.looks for a in audits for c in todo if a.refuses(c) is None)
        alpha = divide(plan.alpha, max(1, taken))  # before anything is looked at: a union bound over all looks
        rows: list[Any] = []
        verdicts: list[Verdict] = []
        written: set[Path] = set()
        for case in announced(todo, console):
            secret = key.fold(case.model.name, case.model.mode, repr(case.claim.epsilon))
            ceiling = uppers(case)
            try:
                studied, outcomes = study(case, graph, store, secret, plan, alpha)
            except ValueError as reason:  # a model that refuses this graph; the others go on
                studied, outcomes = [case.skipped(str(case), str(reason))], [Outcome("account", ())]
                verdicts.append(Verdict("inconclusive", str(reason), 3))
            seen = [testimony(case, outcome, ceiling, plan) for outcome in outcomes]
            written |= {evidence_files.write(one, folder) for one in seen}
            studied += [row for one in seen for row in result_files.bound_rows(one, plan.notices)]
            studied += ledger_rows(case, ceiling, Facts.of(graph))
            verdicts.append(judge(case.claim, ceiling, [b for o in outcomes for b in o.bounds], plan.notices))
            if verbose:
                console.print("\n".join(f"  {text}" for text in told(studied)), highlight=False, markup=False)
            rows += studied
        rows += skips
        for path in set((folder / "evidence").glob("*.json")) - written:
            path.unlink()  # of another plan in the same folder: the report would show it as this one's
        code = exit_code(verdicts)
        summary = Run(
            name=folder.name,
            started=started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - clock,
            data=describe(graph, facts),
            seed=randomness(plan),
            alpha=plan.alpha,
            notices=plan.notices,
            versions=versions(),
            machine=machine(),
            **arithmetic(),
            command=shlex.join(["audit", *sys.argv[1:]]),
            verdict=verdict_line(code, rows),
            exit_code=code,
            preset=plan.preset or "",
        )
        results = Results(run=summary, rows=tuple(rows))
        result_files.write(results, folder)
        publish(results, folder, plan)
    return results


def announced(todo: list[Case], console: Console) -> Iterator[Case]:
    """The cases one by one: a bar with the time left on a terminal, a line each in a log."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(todo))
        for number, case in enumerate(todo, 1):
            if not console.is_terminal:
                console.print(f"[{number}/{len(todo)}] {case}", highlight=False)
            progress.update(bar, description=str(case))
            yield case
            progress.advance(bar)


def asked(plan: Plan) -> tuple[list[Audit], tuple[str, ...]]:
    """The audits and the names of the attacks that the plan asks for. Raises ValueError for unknown names."""
    audits = [AUDITS[name] for name in plan.chosen(plan.audits, tuple(AUDITS), "audits")]
    return audits, plan.chosen(plan.attacks, tuple(ATTACKS), "attacks")


def study(case: Case, graph: Graph, store: Store, key: Key, plan: Plan, alpha: float) -> tuple[list[Any], list[Outcome]]:
    """Rows on what a case is good for, what leaks, and what was not done; and what the audits saw, the ROC curves first.

    Raises ValueError where the model refuses the graph.
    """
    audits, attacks = asked(plan)
    used = utility(case, graph, store, key, plan.repeats)
    leaks = membership(case, graph, store, key, attacks, plan.shadows, plan.targets)
    outcomes, skips = [Outcome("account", (), {"roc": leaks.rocs})], [*leaks.skips]
    for audit in audits:
        seen: tuple[Outcome, ...] = ()
        try:
            if reason := audit.refuses(case):
                raise ValueError(reason)
            setting = Setting(case, graph, store, key, plan.rounds, alpha)
            seen = (audit.run(replace(setting, key=key.fold(audit.name))),)
            seen = confirmed(audit, seen[0], setting)
        except ValueError as fault:  # such as a model that takes no other graph, or a graph too small for two worlds
            skips.append(case.skipped(f"audit {audit.name}{' again' if seen else ''}", str(fault)))
            seen = tuple(marked(first, held=False) for first in seen)  # nobody is blamed by one look
        outcomes += seen
    return [*used, *leaks.rows, *skips], outcomes


def ledger_rows(case: Case, ceiling: tuple[Upper, ...], facts: Facts) -> list[AccountRow]:
    """What every accountant says, and what none of them can see."""
    rows = [AccountRow.model_validate(row) for row in account_rows(case, ceiling)]
    common: dict[str, Any] = {**case.where, "accountant": "warning", "is_upper_bound": False}
    return [*rows, *(AccountRow(**common, unsupported=sentence) for sentence in warnings(case, facts))]


def verdict_line(code: int, rows: list[Any]) -> str:
    """What came of a run, and which of the named systems it says nothing about, as they were skipped at every budget."""
    verdict = {0: "not refuted", 1: "refuted", 3: "too weak"}[code]
    seen = {row.model for row in rows if not isinstance(row, SkippedRow | AccountRow)}
    missing = dict.fromkeys(row.model for row in rows if row.model not in seen)
    return f"{verdict}; not looked at: {', '.join(missing)}" if missing else verdict


def testimony(case: Case, outcome: Outcome, ceiling: tuple[Upper, ...], plan: Plan) -> Evidence:
    return Evidence(
        claim=case.claim,
        model=case.model.name,
        mode=case.model.mode,
        game=outcome.audit,
        ledger=str(case.model.ledger),
        uppers=ceiling,
        bounds=outcome.bounds,
        curves=outcome.curves,
        reach=outcome.reach,
        read=outcome.read,
        randomness=randomness(plan),
        assumptions=case.model.public,
        versions=versions(),
        seconds=outcome.seconds,
    )


def told(rows: list[Any]) -> Iterator[str]:
    """A line for each bound and for each thing that was not done."""
    for row in rows:
        if isinstance(row, BoundRow):
            yield f"{row.audit} ({row.attack}, {row.shape}): at least {row.value:.3g}, {row.verdict}, {row.seconds:.1f} s"
        elif isinstance(row, SkippedRow):
            yield f"{row.what}: not done, {row.reason}"


def publish(results: Results, folder: Path, plan: Plan, json: bool = False, quiet: bool = False) -> None:
    """The table on the terminal, the HTML report, JUnit, and the MLflow mirror."""
    from rich.console import Console

    from ..reports.formats import html, junit, mlflow_mirror, table

    if json:
        print(result_files.to_json(results))
    elif not quiet:
        table.show(results, Console())
    html.render(folder)
    junit.write(folder)
    if plan.mlflow != "none":
        mlflow_mirror.mirror(folder, plan.mlflow)
    if not (json or quiet):
        end = f"{results.run.verdict.capitalize()} (exit code {results.run.exit_code}). Report: {folder / 'report.html'}"
        Console(stderr=True, soft_wrap=True).print(end, highlight=False, markup=False)
