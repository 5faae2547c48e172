"""`audit findings`: repeats the experiments that refute published claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from .options import Json


def findings(
    ids: Annotated[list[str] | None, typer.Argument(help="Findings by id; all of them by default.")] = None,
    out: Annotated[Path, Option(help="Folder for findings.json, findings.html and the figures.")] = Path("findings"),
    seed: Annotated[str, Option(help="Any word. Another word gives other randomness in all experiments.")] = "findings",
    json: Json = False,
) -> None:
    """Repeat the experiments that refute published claims, and write each bound with its certificate.

    Exit codes: 0 all experiments ran, whatever they found; 2 wrong use.

    Example: audit findings gap-undirected-edge vesper-truncation
    """
    from ..findings import page
    from ..findings.all_findings import FINDINGS
    from ..findings.finding import run
    from ..key import Key

    unknown = [name for name in ids or () if name not in FINDINGS]
    if unknown:
        raise ValueError(f"finding {unknown[0]!r}: no finding has this id. The ids are: {', '.join(FINDINGS)}.")
    key, results = Key("findings", seed), []
    for name in page.progress(ids or tuple(FINDINGS), quiet=json):
        results.append(run(FINDINGS[name], key))
    document = page.document(results, seed)
    page.write(results, document, out)
    if json:
        print(page.encoded(document), end="")
    else:
        page.show(results, out)
