"""`gnnaudit.audit(model, graph, claim)`: what `audit run --model` does, for code that already has a model and a graph."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from ..accounting.arguments import check_type, shown
from ..accounting.claim import Claim, check_claim
from ..models.base import Model
from ..models.graph.checks import check
from ..models.graph.graph import Graph
from ..models.looped import Looped
from ..reports.results import Results, SkippedRow
from ..reports.rounding import at_least
from ..reports.summary import claim_and_verdict, lines
from .own.model_file import checked
from .own.stated_claim import check_tested, claim_of
from .planning.plan import read
from .run import carry_out, write_reports

# option of `audit run` -> the argument of `audit` that replaces it
GIVEN = {
    **dict.fromkeys(("data", "data_dir", "split", "trust"), "graph"),
    **dict.fromkeys(("epsilon", "delta", "unit"), "claim"),
    **dict.fromkeys(("model", "models", "target", "recipe", "checkout", "python", "target_timeout"), "model"),
}


class Audited(Results):
    """The results of `audit`. Printed, they are four lines: claim and verdict, lower bound, audits, report."""

    _report: Path | None = PrivateAttr(None)  # None if the run folder was temporary

    def __str__(self) -> str:
        (line,) = lines(self)
        best = line.lower
        bound = f"{at_least(best.value, 1 - best.confidence, best.shape)}, by {best.audit}" if best else "none"
        audits = ", ".join(dict.fromkeys(row.audit for row in line.bounds)) or "none"
        skipped = ", ".join(row.what.removeprefix("audit ") for row in self.of(SkippedRow) if row.what.startswith("audit "))
        return "\n".join(
            [
                claim_and_verdict(line),
                f"lower bound on ε: {bound}",
                f"audits: {audits}" + (f" (skipped: {skipped})" if skipped else ""),
                f"report: {self._report or 'none, because out=FOLDER was not given'}",
            ]
        )

    __repr__ = __str__


def audit(
    model: Model | Callable[[Graph, int], Mapping[str, Any]],
    graph: Graph,
    claim: Claim | None = None,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> Audited:
    """Audits a model against a claim on a graph, and returns what results.json holds.

    model: a model, or a function train(graph, seed), which counts as `Looped(train, unit=claim.unit)`.
    claim: None stands for the claim that the model states in its attribute `claim`.
    out: the run folder, with report.html, junit.xml and the evidence; None: a temporary folder, which is removed at the end.
    options: those of `audit run` with underscores, such as rounds=10, attacks="lira", audits="all", seed="word". By default,
    unlike `audit run`, this function runs no attacks, writes no MLflow store and trains in this process alone. A script that
    passes jobs=2 needs the line `if __name__ == "__main__":`, as for any process pool. The returned results hold the verdict in
    `.run.verdict` and `.run.exit_code`; printed, they say it in a few lines.

    Raises ValueError for a model that lacks a part of the protocol or refuses the graph; for a graph that breaks the rules of
    `Graph`, or has no edges, no training nodes or no test nodes; for a claim that the audits do not test; for options that do not
    exist or are out of range; and for a folder `out` that holds the run of another plan or that another process uses.
    """
    from rich.console import Console

    made = as_model(model, claim)
    claim = claim_of(made) if claim is None else claim
    if claim is None:
        raise ValueError(f"claim=None: {made.name} states no claim. Give one, such as Claim(epsilon=1.0, delta=1e-5).")
    check(graph)
    check_testable(graph, claim)
    for name, instead in GIVEN.items():
        if name in options:
            raise ValueError(f"{name}={shown(options[name])}: is no option here. The argument {instead} takes its place.")
    check_type("out", out, str | Path | None, "the path of a folder, or None for a temporary one.")
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        chosen: dict[str, Any] = {"attacks": "none", "mlflow": "none", "jobs": 1} | options
        chosen |= {"data": graph.name, "epsilon": (claim.epsilon,), "delta": claim.delta, "unit": str(claim.unit)}
        # no file contains this model, so plan.toml alone does not run it again
        chosen["model"] = f"{made.name}, given in Python"
        plan = read(None, {**chosen, "out": folder if out is None else out})
        makes = {made.name: lambda mode, facts, private: made}
        kept = out is not None or plan.mlflow != "none"  # nobody could read a report in the temporary folder
        publish = write_reports if kept else lambda results, folder, plan: None
        found = carry_out(plan, makes, graph, None, Console(quiet=True), False, publish)
        results = Audited(run=found.run, rows=found.rows)
        results._report = None if out is None else plan.out / "report.html"
        return results


def as_model(given: Any, claim: Claim | None, where: str = "model") -> Any:
    """A model itself, or a function as a model that protects the unit of the claim. Whatever can be called and has no `fit` is a
    function. Raises ValueError, which begins with `where` for what is neither, and for a function without a claim.
    """
    if isinstance(given, type):
        raise ValueError(f"{where}={shown(given)}: is a class. Give a model, such as {given.__name__}(…).")
    if hasattr(given, "fit") or not callable(given):
        checked(given, where)
        return given
    if claim is None:
        raise ValueError("claim=None: a function states no claim. Give one, such as Claim(epsilon=1.0, delta=1e-5).")
    check_claim(claim)
    return Looped(given, unit=claim.unit)


def check_testable(graph: Graph, claim: Claim) -> None:
    """Raises ValueError for a claim that no audit can test, and for a graph without edges, training nodes or test nodes."""
    check_claim(claim)
    check_tested(claim)
    if not graph.edges.shape[1]:
        raise ValueError("edges have shape (2, 0): the graph has no edges, so there is nothing to audit.")
    for name in ("train", "test"):
        if not getattr(graph, name).any():
            raise ValueError(f"{name} holds none of the {graph.nodes} nodes: must hold some, to train and to measure accuracy.")
