"""`audit findings`: repeats the experiments that refute published claims."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from .options import Json, console

OUT = Path("findings")


def findings(
    ids: Annotated[list[str] | None, typer.Argument(help="Findings by id; all of them by default.")] = None,
    out: Annotated[Path, Option(help="Folder for findings.json, findings.html and the figures.")] = OUT,
    seed: Annotated[str, Option(help="A word that seeds all experiments; another word gives other random numbers.")] = "findings",
    json: Json = False,
    checkout: Annotated[
        Path | None,
        Option(
            help="Run the experiment of one finding on this copy of the public code. "
            "Exit code 1: the claim is refuted for that code. 0: it is not."
        ),
    ] = None,
    python: Annotated[
        str | None, Option(help="The interpreter for the code of --checkout. Default: the interpreter of this command.")
    ] = None,
) -> None:
    """Repeat the experiments that refute published claims, and write each bound with its certificate.

    Exit codes: 0 all experiments ran, with any result; 2 wrong use. With --checkout: 1 the claim is refuted for that code, 0 it
    is not.

    Example: audit findings gap-undirected-edge vesper-truncation
    """
    if python is not None and checkout is None:
        raise ValueError(f"--python {python}: has no effect without --checkout. Give the folder of the code, or leave it out.")
    if ids and (twice := next((name for i, name in enumerate(ids) if name in ids[:i]), None)):
        raise ValueError(f"finding {twice!r}: is named twice. Name it once.")
    if checkout is not None:
        if out != OUT:
            raise ValueError(f"--out {out}: has no effect with --checkout, which prints its result. Leave it out.")
        raise typer.Exit(_on_checkout(ids or [], checkout, python or sys.executable, seed, json))
    from rich.progress import track

    from ...reports.files import writable
    from ..findings import page
    from ..findings.finding import run
    from ..findings.systems.all_findings import FINDINGS
    from ..key import Key

    unknown = [name for name in ids or () if name not in FINDINGS]
    if unknown:
        raise ValueError(f"finding {unknown[0]!r}: no finding has this id. The ids are: {', '.join(FINDINGS)}.")
    writable(out)
    key, results = Key("findings", seed), []
    for name in track(ids or tuple(FINDINGS), "findings", console=console(stderr=True), disable=json, transient=True):
        results.append(run(FINDINGS[name], key))
    document = page.document([page.row(result) for result in results], seed)
    page.write(results, document, out)
    if json:
        print(page.encoded(document), end="")
    else:
        page.show(results, out)


def _on_checkout(ids: list[str], folder: Path, python: str, seed: str, json: bool) -> int:
    """Runs one experiment on the code in a folder and prints its result. Returns the exit code."""
    from ..findings import page
    from ..findings.checkout import CHECKOUTS, play
    from ..key import Key

    if len(ids) != 1:
        raise ValueError(
            f"--checkout: needs one finding, {len(ids)} given. These findings have an experiment for a checkout: "
            f"{', '.join(CHECKOUTS)}."
        )
    certificate = play(ids[0], folder, python, Key("findings", seed).fold(ids[0]).fold("checkout"))
    if json:
        rows = [page.tested(ids[0], certificate, certificate.verdict)]
        print(page.encoded(page.document(rows, seed)), end="")
    else:
        print(f"{ids[0]}: {certificate.summary}")
        print(f"Claim {certificate.claim}: {certificate.verdict.replace('-', ' ')}; epsilon is {page.in_words(certificate)}.")
    return int(certificate.bound.refuted)
