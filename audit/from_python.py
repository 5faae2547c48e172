"""`gnnaudit.audit(model, graph, claim)`: what `audit run --model` does, for code that already has a model and a graph."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .own.model_file import checked
from .planning.plan import Plan
from .run import carry_out, publish

if TYPE_CHECKING:
    from ..accounting.claim import Claim
    from ..models.base import Model
    from ..models.graph.graph import Graph
    from ..reports.results import Results


def audit(model: Model, graph: Graph, claim: Claim, *, out: str | Path | None = None, **options: Any) -> Results:
    """Audits a model against a claim on a graph, and returns what results.json holds.

    out: the run folder, with report.html, junit.xml and the evidence; None: a temporary folder, which is removed at the end.
    options: those of `audit run` with underscores, such as rounds=10, attacks="lira", audits="all", seed="word". By default,
    unlike `audit run`, this function runs no attacks, writes no MLflow store and trains in this process alone. A script that
    passes jobs=2 needs the line `if __name__ == "__main__":`, as for any process pool. The returned results hold the verdict in
    `.run.verdict` and `.run.exit_code`.

    Raises ValueError for a model that lacks a part of the protocol and for options that do not exist.
    """
    from rich.console import Console

    checked(model, "model")
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        chosen: dict[str, Any] = {"attacks": "none", "mlflow": "none", "jobs": 1} | options
        chosen |= {"data": graph.name, "epsilon": (claim.epsilon,), "delta": claim.delta, "unit": str(claim.unit)}
        # no file contains this model, so plan.toml alone does not run it again
        chosen["model"] = f"{model.name}, given in Python"
        plan = Plan(out=Path(out or folder), **chosen)
        makes = {model.name: lambda mode, facts, private: model}
        quietly = partial(publish, json=False, quiet=True)
        return carry_out(plan, makes, graph, None, Console(quiet=True), False, quietly)
