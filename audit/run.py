"""Carries out a plan: calibrates and trains models, attacks them, computes bounds on epsilon, judges the claims and reports."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accounting.lower.bounds import Bound, divide
from ..accounting.upper.accountants import Upper
from ..attacks.registry import ATTACKS, DEPLOYED, GAMES
from ..models.data.loading import Provenance, describe, load_described
from ..models.errors import Refused, Stopped, TrainingFailed
from ..models.facts import Factory, Facts
from ..models.fitted import blamed
from ..models.graph.graph import Graph
from ..models.kernels.ahead import compile_ahead
from ..models.recorder.reads import Watching
from ..reports import evidence as evidence_files
from ..reports import results as result_files
from ..reports.evidence import ANY, Evidence, Verdict, exit_code
from ..reports.files import plain
from ..reports.results import AccountRow, BoundRow, Results, Run, SkippedRow, UtilityRow
from ..reports.rounding import several
from ..reports.summary import best_marked, claim_and_verdict, claims_of, deltas, lines_of, of_case, skips
from ..reports.summary import key as place
from .audits.registry import AUDITS, Audit
from .case import Case, Outcome, Setting, covering, offered
from .key import Key
from .leakage.pool import Measured, membership
from .leakage.utility import utility
from .mechanisms.overview.gate import is_recorded
from .mechanisms.overview.observed import observe
from .mechanisms.overview.recorded_runs import Recorded
from .own.audited import audited
from .own.contained import contained
from .own.contract import Check
from .own.model_file import is_built_in, kept_here
from .own.premises import after_failures, broken, checked_first, clauses, in_words, resting_on
from .planning.ledgers import account_rows, uppers, warnings
from .planning.plan import Plan
from .planning.planned_cases import cases, recipes, without_effect
from .planning.run_folder import arithmetic, machine, opened, randomness, room_taken, root_key, trainings, versions, write_spec
from .progress import Say, announced, print_plain
from .recorded.playing import Played
from .second_look import confirmed, marked
from .storage.executor import executor, helpers
from .storage.store import Store

if TYPE_CHECKING:
    from rich.console import Console

NO_CLAIM = "no claim was tested"
INCONCLUSIVE = "docs/reading-a-report.md has a table of reasons, and what to do about each."
FINITE = "To test one, give a model that protects a unit, and a finite --epsilon."
PATIENCE = 300.0  # seconds that `blackbox` may take on a user's model, by its estimate, in a plan that does not name it


@dataclass(frozen=True)
class Talk:
    """What tells the user how far a case is. say: see `announced`. verbose: whether tracebacks are printed."""

    say: Say
    console: Console
    verbose: bool


def run(plan: Plan, json: bool = False, quiet: bool = False, verbose: bool = False) -> int:
    """Carries out the plan and returns the exit code: 0 not refuted, 1 refuted, 3 inconclusive.

    json: prints the results as JSON. quiet: prints no progress and no tables. verbose: prints a line for each bound and for each
    skipped audit. Raises ValueError for wrong use or if nothing could be tested, and Stopped on Ctrl-C. An OSError or MemoryError
    gets a note that says which command resumes the run.
    """
    from rich.console import Console

    from ..reports.formats.mlflow_mirror import refuse_unknown

    refuse_unknown(plan.mlflow)
    asked(plan)
    plan, makes = recipes(plan)
    graph, facts = load_described(plan.data, plan.data_dir, plan.split, trust=plan.trust, memory=plan.memory)
    console = Console(stderr=True, quiet=quiet, soft_wrap=True)
    compile_ahead(console.print)
    again = "the same command" if "out" in plan.model_fields_set else f"the same command with --out {plan.out}"
    again += " without --fresh" if plan.fresh else ""
    try:
        results = carry_out(plan, makes, graph, facts, console, verbose, partial(publish, json=json, quiet=quiet))
    except KeyboardInterrupt:
        kept = "finished trainings of accuracy, attacks and games are kept; other audits begin again"
        raise Stopped(f"{again[0].upper()}{again[1:]} resumes; {kept}.") from None
    except (OSError, MemoryError) as fault:
        fault.add_note(again)
        raise
    return results.run.exit_code


def carry_out(
    plan: Plan,
    makes: Mapping[str, Factory],
    graph: Graph,
    facts: Provenance | None,
    console: Console,
    verbose: bool,
    publish: Callable[[Results, Path, Plan], None],
) -> Results:
    """Audits every case that the plan and `makes` define, and writes the run folder. `publish` adds the report.

    makes: model name -> factory. A factory takes (mode, facts of the graph, whether epsilon is finite) and returns a model.
    Raises ValueError for wrong use, for a run folder that another process uses or that holds the run of another plan, and if no
    case could be tested.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    Watching.since = time.time()
    audits, _, _ = asked(plan)
    todo, left = cases(plan, graph, makes)
    with opened(plan) as folder, executor(processes(plan, todo, console), plan.ray) as execute:
        resumed = any(trainings(folder))
        key = root_key(plan, folder)
        store = Store(folder.absolute(), memory=plan.memory, device=plan.device, execute=execute)
        files = {case.model.name: about for case in todo if (about := audited(case.model))}
        write_spec(folder, files)
        taken = sum(a.tests for a in audits for c in todo if left_out(a, c, plan) is None)
        alpha = divide(plan.alpha, max(1, taken))  # fixed before any test; a union bound covers all tests
        rows: list[Any] = []
        observed: list[dict[str, Any]] = []
        written: set[Path] = set()
        checked: dict[str, tuple[Check, ...]] = {}
        tested = False
        for case, say in announced(todo, partial(stages_of, plan), console, counted=lambda: Played.runs):
            if case.model.name not in checked:
                say("contract", begins=False)
                with contained():
                    checked[case.model.name] = checked_first(case.model, graph)
                print_plain(console, in_words(case, checked[case.model.name]), end="")
            secret = key.fold(case.model.name, case.model.mode, repr(case.claim.epsilon))
            checks, talk = checked[case.model.name], Talk(say, console, verbose)
            judged, found, accepted = judged_case(case, graph, store, secret, plan, alpha, talk, checks)
            tested = tested or accepted
            observed += [{**case.where, **one.observed} for one in found if one.observed]
            written |= {evidence_files.write(one, folder) for one in found}
            if verbose:
                console.print("\n".join(f"  {text}" for text in summary_lines(judged)), highlight=False, markup=False)
            rows += judged
        rows += left
        for path in set((folder / "evidence").glob("*.json")) - written:
            path.unlink()  # left by another plan in the same folder; the report must not show it
        code = exit_code(line.verdict for line in lines_of(rows, plan.notices)) if tested else 2
        summary = Run(
            name=folder.name,
            started=started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - clock,
            resumed=resumed,
            data=describe(graph, facts),
            seed=randomness(plan),
            alpha=plan.alpha,
            notices=plan.notices,
            versions=versions(),
            machine=machine(),
            **arithmetic(),
            in_torch={name: sorted(stages) for name, stages in store.in_torch.items()},
            command=shlex.join(["audit", *sys.argv[1:]]),
            verdict=verdict_line(code, rows),
            exit_code=code,
            preset=plan.preset or "",
            observed=observed,
            audited=files,
            contract={name: clauses(checks) for name, checks in checked.items() if checks},
        )
        for name, stages in summary.in_torch.items():
            print_plain(console, f"Torch trained parts of {name}: {'; '.join(stages)}.")
        if line := room_taken(folder):
            print_plain(console, line)
        results = Results(run=summary, rows=tuple(best_marked(rows)))
        result_files.write(results, folder)
        publish(results, folder, plan)
    if not tested and (refused := skips(row for row in results.of(SkippedRow) if of_case(row))):
        reasons = " ".join(f"{model}, ε = {budgets}: {reason.rstrip('.')}." for _, model, budgets, reason in refused)
        raise ValueError(f"nothing was tested. {reasons}")
    return results


def processes(plan: Plan, todo: Sequence[Case], console: Console) -> int:
    """The number of worker processes: 1, after a line that says so, if a model cannot be sent to one.

    Raises ValueError for such a model if the plan asks for several, or for a cluster.
    """
    why = next(filter(None, (kept_here(case.model) for case in todo)), "") if plan.jobs > 1 else ""
    if why and ("jobs" in plan.model_fields_set or plan.ray is not None):
        raise ValueError(
            f"{why}. Define it at the top level of its file, or {'leave --ray out' if plan.ray else 'use --jobs 1'}."
        )
    if why:
        console.print(f"{why}. This run trains in one process.", highlight=False, markup=False)
    return 1 if why else plan.jobs


def judged_case(
    case: Case,
    graph: Graph,
    store: Store,
    key: Key,
    plan: Plan,
    alpha: float,
    talk: Talk,
    checks: Sequence[Check],
) -> tuple[list[Any], list[Evidence], bool]:
    """All rows of a case, the evidence of its audits, and whether the model accepted the graph; if not, the others still run.

    For the arguments see `study`.
    """
    ceiling = uppers(case)
    try:
        with contained(), blamed(case.model):
            rows, outcomes = study(case, graph, store, key, plan, alpha, talk, checks)
        accepted = True
    except ValueError as reason:
        if talk.verbose:
            talk.console.print_exception()
        rows, outcomes, accepted = [case.skipped(str(case), str(reason))], [Outcome("account", ())], False
    found = [evidence(case, outcome, ceiling, plan) for outcome in outcomes]
    rows += [row for one in found for row in result_files.bound_rows(one, plan.notices)]
    return [*rows, *ledger_rows(case, ceiling, Facts.of(graph)), *broken(case, checks)], found, accepted


def asked(plan: Plan) -> tuple[list[Audit], tuple[str, ...], tuple[str, ...]]:
    """The audits of the plan, the names of its attacks and of its membership games. Raises ValueError for an unknown name, and
    for a time limit that limits none of these audits.
    """
    audits = [AUDITS[name] for name in plan.chosen(plan.audits, tuple(AUDITS), "audits")]
    if plan.minutes is not None and not any(audit.timed for audit in audits):
        timed = " and ".join(name for name, audit in AUDITS.items() if audit.timed)
        raise without_effect("--minutes", f"it goes with the audits {timed}")
    return audits, plan.chosen(plan.attacks, tuple(ATTACKS), "attacks"), plan.chosen(plan.games, tuple(GAMES), "games")


def left_out(audit: Audit, case: Case, plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str | None:
    """Why the plan makes no such audit of a case, or None. outcomes: of the audits before it, if they are known."""
    every = plan.audits == ("all",)
    if reason := audit.refuses(case):
        return reason
    if every and audit.last_resort and outcomes is not None and decided(case, outcomes, plan):
        return f"the other audits decide this claim; to run it all the same, write --audits {audit.name}"
    return audit.seldom(case) if every and plan.minutes is None else None


def decided(case: Case, outcomes: Sequence[Outcome], plan: Plan) -> bool:
    """Whether the lower bounds so far refute the claim, or would have detected the violation that the plan asks for."""
    return so_far(case, outcomes, plan).kind != "inconclusive"


def so_far(case: Case, outcomes: Sequence[Outcome], plan: Plan) -> Verdict:
    """The verdict on the claim of a case by the lower bounds of some of its audits."""
    found = [bound for outcome in outcomes for bound in with_covers(case, outcome)]
    return evidence_files.judge(case.claim, (), found, plan.notices, from_ledger=case.follows_from_ledger)


def stages_of(plan: Plan, case: Case) -> int:
    """The number of stages of `study` for a case: accuracy, membership attacks, and the audits that apply."""
    audits, attacks, _ = asked(plan)
    trained = 1 + bool(attacks) if DEPLOYED in offered(case.model) else 0
    return trained + sum(left_out(audit, case, plan) is None for audit in audits)


def study(
    case: Case, graph: Graph, store: Store, key: Key, plan: Plan, alpha: float, talk: Talk, checks: Sequence[Check] = ()
) -> tuple[list[Any], list[Outcome]]:
    """Measures accuracy, attacks the model and runs the audits of the plan on one case.

    Returns the rows (accuracy, attacks, skipped parts) and the outcomes. The first outcome holds the ROC curves of the attacks.
    Then each audit that applies has one outcome, or two if it was repeated. The last holds the observed ledger of a user's model.
    alpha: the level of each statistical test. talk: is told of each stage, and of the first audit after which the claim is
    refuted. checks: the results of the model contract, whose clauses the bounds on a user's model assume. Raises ValueError if
    the model refuses the graph, and if a training fails and no audit has a result.
    """
    audits, attacks, games = asked(plan)
    say, refuted = talk.say, False
    used: list[UtilityRow] = []
    failures: dict[str, TrainingFailed] = {}  # part of the run -> the error of a training in it
    refusals: list[Refused] = []
    if DEPLOYED in offered(case.model):
        part, what = "accuracy", ("accuracy", *attacks)
        try:
            say(part)
            used = utility(case, graph, store, key, plan.repeats)
            part, what = "membership attacks", attacks
            if attacks:
                say(part)
            leaks = membership(case, graph, store, key, attacks, plan.shadows, plan.targets, games)
        except TrainingFailed as fault:
            failures[part] = fault
            leaks = Measured(skips=tuple(case.skipped(each, str(fault)) for each in what))
    else:
        without = f"{case.model.name} does not release '{DEPLOYED}'"
        leaks = Measured(skips=tuple(case.skipped(what, without) for what in ("accuracy", *attacks)))
    outcomes, skipped = [Outcome("account", (), {"roc": leaks.rocs})], [*leaks.skips]
    tell = partial(say, begins=False)
    runs = Recorded(case, graph, key.fold("differential"))
    patience = PATIENCE if plan.audits == ("all",) and plan.minutes is None else math.inf
    limits: dict[str, Any] = {"minutes": plan.minutes, "patience": patience, "notices": plan.notices, "tell": tell}
    setting = Setting(case, graph, store, key, plan.rounds, alpha, plan.alpha, **limits, shared={"recorded": runs})
    for audit in audits:
        results: tuple[Outcome, ...] = ()
        begun = Played.runs
        try:
            if reason := left_out(audit, case, plan, outcomes):
                raise ValueError(reason)
            say(f"audit {audit.name}")
            rested = partial(resting_on, case, checks=checks, masks=audit.masks)
            setting = replace(setting, spent=sum(outcome.seconds for outcome in outcomes))
            with blamed(case.model):
                results = (rested(audit.run(replace(setting, key=key.fold(audit.name)))),)
                results = confirmed(audit, results[0], setting, rested)
        except ValueError as fault:  # the audit refuses the case, or the model or the graph does not allow the audit
            if isinstance(fault, TrainingFailed):
                if (number := Played.runs - begun) > 1:
                    fault.args = (f"{fault} (in training {number} of this audit)",)
                failures[f"audit {audit.name}"] = fault
            elif isinstance(fault, Refused):
                refusals.append(fault)
            skipped.append(case.skipped(f"audit {audit.name}{' again' if results else ''}", str(fault)))
            results = tuple(marked(first, ()) for first in results)  # without a repetition no refutation counts
        outcomes += results
        if not refuted and (verdict := so_far(case, outcomes, plan)).kind == "refuted":
            refuted = True
            print_plain(talk.console, f"{case}: audit {audit.name}: {verdict.sentence.partition(';')[0]}")
    faults = [*failures.values(), *refusals]
    if faults and not used and len(outcomes) == 1:  # nothing was measured and no audit has a result
        raise faults[0]
    outcomes = [after_failures(outcome, [f"{part}: {fault}" for part, fault in failures.items()]) for outcome in outcomes]
    if plan.record and is_recorded(case.model):
        try:
            with blamed(case.model):
                found = observe(runs)
        except ValueError as fault:
            return [*used, *leaks.rows, *skipped, case.skipped("observed ledger", str(fault))], outcomes
        counts = ((len(found.mechanisms), "mechanism"), (found.draws, "draw"), (found.tried, "secret"))
        mechanisms, draws, tried = (several(n, what) for n, what in counts)
        text = f"recorded: {mechanisms}, {draws}; {tried} removed one by one"
        outcomes.append(Outcome("recorder", (), {}, text, offered(case.model), observed=found))
    return [*used, *leaks.rows, *skipped], outcomes


def ledger_rows(case: Case, ceiling: tuple[Upper, ...], facts: Facts) -> list[AccountRow]:
    """The rows of all accountants, and one row for each warning about the ledger."""
    rows = [AccountRow.model_validate(row) for row in account_rows(case, ceiling)]
    common: dict[str, Any] = {**case.where, "accountant": "warning", "is_upper_bound": False}
    return [*rows, *(AccountRow(**common, unsupported=sentence) for sentence in warnings(case, facts))]


def verdict_line(code: int, rows: list[Any]) -> str:
    """The verdict of a run in words, and the names of the models of which nothing was tested. code: the exit code."""
    verdict = {0: "not refuted", 1: "refuted", 2: "nothing was tested", 3: "inconclusive"}[code]
    tested = [row for row in rows if not isinstance(row, SkippedRow | AccountRow)]
    if code == 0 and all(math.isinf(row.epsilon) for row in tested):
        verdict = NO_CLAIM
    seen = {row.model for row in tested}
    missing = dict.fromkeys(row.model for row in rows if row.model not in seen)
    return f"{verdict}; not tested: {', '.join(missing)}" if missing else verdict


def evidence(case: Case, outcome: Outcome, ceiling: tuple[Upper, ...], plan: Plan) -> Evidence:
    """The evidence file of one audit."""
    return Evidence(
        claim=case.claim,
        model=case.model.name,
        mode=case.where["mode"],
        game=outcome.audit,
        ledger=str(case.model.ledger),
        uppers=ceiling,
        bounds=with_covers(case, outcome),
        curves=outcome.curves,
        reach=outcome.reach,
        read=outcome.read,
        randomness=randomness(plan),
        assumptions=case.model.public,
        versions=versions(),
        seconds=outcome.seconds,
        audited=audited(case.model),
        observed=plain(dataclasses.asdict(outcome.observed)) if outcome.observed else {},
    )


def with_covers(case: Case, outcome: Outcome) -> tuple[Bound, ...]:
    """The bounds of an audit, of which those that do not say what they cover get what `covered` says."""
    return covering(outcome.bounds, covered(case, outcome))


def covered(case: Case, outcome: Outcome) -> dict[str, str]:
    """Array -> the kind of violation that the audit would have detected in it, by default any kind.

    A built-in system computes its other arrays from those that the audit read, so the audit covers all arrays of the claim. A
    user's model may compute them in another way, so for such a model only the arrays that the audit read count.
    """
    if outcome.covers is not None:
        return dict(outcome.covers)
    return dict.fromkeys(case.claim.exposes if is_built_in(case.model) else outcome.read, ANY)


def summary_lines(rows: list[Any]) -> Iterator[str]:
    """Yields a line for each bound and for each skipped part."""
    for row in rows:
        if isinstance(row, BoundRow):
            yield f"{row.audit} ({row.attack}, {row.shape}): at least {row.value:.3g}, {row.verdict}, {row.seconds:.1f} s"
        elif isinstance(row, SkippedRow):
            yield f"{row.what}: skipped, {row.reason}"


def publish(results: Results, folder: Path, plan: Plan, json: bool = False, quiet: bool = False) -> None:
    """Prints the tables, or the results as JSON, or with `quiet` a line for each claim; then writes the reports."""
    from rich.console import Console

    from ..reports.formats import table

    claims = claims_of(results)
    if json:
        print(result_files.to_json(results))
    elif results.run.exit_code == 2:
        pass  # nothing was tested, and the error says why
    elif not quiet:
        table.show(results, Console())
    else:
        for line in claims:
            print(claim_and_verdict(line))
        for row in results.of(SkippedRow):
            if of_case(row) and place(row) not in {line.key for line in claims}:
                print(f"audit: {row.what}: {row.reason}", file=sys.stderr)
    write_reports(results, folder, plan)
    if json and results.run.verdict == NO_CLAIM:
        print(f"audit: {NO_CLAIM}. {FINITE}", file=sys.stderr)
    if not json and results.run.exit_code != 2:
        known, kinds = deltas(claims), {line.verdict.kind for line in claims}
        code = f"exit code {results.run.exit_code}{'; ' * bool(known)}{known}"
        of_ledgers = "exceeds" in kinds and "refuted" not in kinds
        verdict = "a ledger contradicts the code or its claim" if of_ledgers else results.run.verdict
        way = f" {FINITE}" if verdict == NO_CLAIM else f" {INCONCLUSIVE}" if "inconclusive" in kinds else ""
        end = f"{verdict[0].upper()}{verdict[1:]} ({code}).{way} Report: {folder / 'report.html'}"
        Console(stderr=True, soft_wrap=True).print(end, highlight=False, markup=False)


def write_reports(results: Results, folder: Path, plan: Plan) -> None:
    """Writes the HTML report, junit.xml and the card for a README, and copies the results into MLflow."""
    from ..reports.formats import card, html, junit, mlflow_mirror

    with helpers(plan.jobs) as workers:
        html.render(folder, workers, plan.jobs)
    junit.write(folder)
    card.write(folder)
    if plan.mlflow != "none":
        mlflow_mirror.mirror(folder, plan.mlflow)
