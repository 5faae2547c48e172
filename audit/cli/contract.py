"""`audit contract`: checks the clauses of the model contract on a model."""

from __future__ import annotations

import dataclasses
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json, console, literal, print_json, table

if TYPE_CHECKING:
    from ...models.base import Model


def contract(
    model: Annotated[str, typer.Argument(help="FILE.py:Name, or the name of a system of this package.")],
    mode: Annotated[str, typer.Option(help="paper or sound.")] = "sound",
    json: Json = False,
) -> None:
    """Check the model contract on a model. Each clause that fails is shown with the smallest graph on which it fails. The graphs
    have up to 48 nodes and five features.

    Exit codes: 0 all clauses hold; 1 a clause fails; 2 wrong use.

    Example: audit contract ./mine.py:Mine
    """
    from ...models.facts import Facts
    from ...models.systems import SYSTEMS
    from ..own.contract import SIZES, tiny
    from ..own.model_file import own_models

    if model not in SYSTEMS:
        if near := get_close_matches(model, SYSTEMS, 1):
            raise ValueError(
                f"model={model}: no such system. Did you mean {near[0]}? `audit models` lists all; FILE.py:Name is yours."
            )
        if mode == "paper":
            raise ValueError("--mode paper: has no effect here: a model of your own has one mode. Leave it out.")
    graph = tiny(SIZES[-1])
    made = SYSTEMS[model].make if model in SYSTEMS else next(iter(own_models(None, model).values()))
    raise typer.Exit(show(made(mode, Facts.of(graph), True), json))


def show(model: Model, json: bool) -> int:
    """Checks the model contract, prints the results, and returns the exit code: 0 if no clause fails, 1 if one does."""
    from ..own import contract as clauses
    from ..own.contained import contained
    from ..own.premises import alike

    with contained():
        checks = clauses.contract(model)
    if json:
        print_json([dataclasses.asdict(c) for c in checks])
        return int(any(c.failure for c in checks))
    shown = table("clause", "result", "on which graph it fails, or why it was not tested", title=f"Model contract: {model.name}")
    others = {same[0].name: len(same) - 1 for same in alike(checks)}  # the first clause of a cause -> how many more fail
    for check in checks:
        if check.failure is None:
            shown.add_row(literal(check.name), check.how, literal(check.unasked or ""))
        elif check.name in others:
            more = others[check.name]
            also = f" ({more} more clause{'s fail' if more > 1 else ' fails'} for the same reason)" if more else ""
            shown.add_row(literal(check.name), "FAILS", literal(f"{check.failure}{also}"))
    console().print(shown)
    failed = [check for check in checks if check.failure]
    if hint := next((clauses.hint(check) for check in failed if clauses.hint(check)), None):
        print(hint)  # only the first hint: later failures often follow from the first failure
    return int(bool(failed))
