"""`audit contract`: the clauses of the model contract, checked on a model."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, console, print_json, table

if TYPE_CHECKING:
    from ...models.base import Model


def contract(
    model: Annotated[str, typer.Argument(help="FILE.py:Name, or the name of a system of this package.")],
    mode: Annotated[str, typer.Option(help="paper or sound.")] = "sound",
    json: Json = False,
) -> None:
    """Check the model contract on a model. Each clause that fails is shown with the smallest graph on which it fails.

    Exit code 1 if a clause fails.

    Example: audit contract ./mine.py:Mine
    """
    from ...models.facts import Facts
    from ...models.systems import SYSTEMS
    from ..own.contract import SIZES, tiny
    from ..own.model_file import own_models

    graph = tiny(SIZES[-1])
    made = SYSTEMS[model].make if model in SYSTEMS else next(iter(own_models(None, model).values()))
    raise typer.Exit(show(made(mode, Facts.of(graph), True), json))


def show(model: Model, json: bool) -> int:
    """Prints the checks and returns the exit code: 0 if all clauses held, 1 if one failed."""
    from ..own import contract as clauses

    checks = clauses.contract(model)
    if json:
        print_json([dataclasses.asdict(c) for c in checks])
        return int(any(c.failure for c in checks))
    shown = table("clause", "", "smallest example of a failure", title=f"Model contract: {model.name}")
    first: dict[str, str] = {}  # failure -> the clause that it was first seen in
    for check in checks:
        if check.failure is None:
            shown.add_row(check.name, check.how, check.unasked or "")
        else:
            again = first.setdefault(check.failure, check.name)
            shown.add_row(check.name, "FAILS", check.failure if again == check.name else f"as in '{again}'")
    console().print(shown)
    failed = [check for check in checks if check.failure]
    hints = [clauses.HINTS[c.name] for c in failed if c.name in clauses.HINTS and "raised" not in (c.failure or "")]
    if hints:
        print(hints[0])  # the first one only: later failures often follow from the first
    return int(bool(failed))
