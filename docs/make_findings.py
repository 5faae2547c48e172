"""Writes docs/findings.md, the table and the text of every finding, from what `audit findings` wrote.

python docs/make_findings.py [findings/findings.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gnnaudit.reports.rounding import down

PAGE = Path(__file__).parent / "findings.md"
PLAYED = Path("findings/findings.json")
TOP = """# Published claims, and what was found

Made by `python docs/make_findings.py` from what `audit findings` wrote: that command plays every entry again, and leaves
`findings.json` and a page with a plot and a paragraph for each. Confidence is 99.99 % where rounds were drawn; "exact" means that
nothing was sampled. Epsilon in nats; edge, node and local epsilons are not comparable with one another. "argued" is reasoned only
and never called refuted. The repaired counterpart went through the same experiment.

**Checking one by hand.** Each entry says by how much the smallest example moves what is released, and by how much it may.
Where noise is Gaussian, a claim of ε at δ allows one μ = move / noise, the one with Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) = δ; a move
r times as large has r μ, and its ε follows from the same equation. For `dpar-many-lists` count the 61 gradients on paper; then

```
python -c "from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.gaussian import *
print(epsilon_of(61 * mu_of_claim(Claim(1, 1e-5)), 1e-5))"
audit findings dpar-many-lists
```
both say 202.5. Figures in the text are rounded, so that other entries agree to three digits.

| finding | claim | whose privacy | printed ε | found ε at least | how | verdict | repaired |
|---|---|---|---|---|---|---|---|
"""


def line(row: dict[str, Any]) -> str:
    """One finding in the table."""
    argued, fixed = row["verdict"] == "argued", row["fixed"]
    how = "argued" if argued else "exact" if row["shape"] == "exact" else f"{sum(row['trials'])} rounds, {row['shape']} shape"
    cells = (
        f"`{row['id']}`",
        row["short"],
        row["unit"],
        f"{row['printed_epsilon']:.4g}",
        "-" if argued else number(row["lower"]),
        how,
        row["verdict"].replace("-", " "),
        "-" if fixed is None else f"{'refuted' if fixed['refuted'] else 'not refuted'} ({number(fixed['lower'])})",
    )
    return f"| {' | '.join(cells)} |"


def number(epsilon: float | str) -> str:
    """A lower bound, rounded down."""
    return "infinite" if epsilon == "inf" else down(float(epsilon))


def paragraph(row: dict[str, Any]) -> str:
    """What is claimed, why it does not hold, what was run and what remains true."""
    told = f"**{row['id']}** ({row['paper']}). {row['claim']} {row['argument']}"
    return f"{told} *Run:* {row['told']} *Remains true:* {row['remains']} *Source:* {row['source']}"


def page(rows: list[dict[str, Any]]) -> str:
    """The whole page, from the rows of findings.json."""
    table = "\n".join(line(row) for row in rows)
    return f"{TOP}{table}\n\n## What is claimed, and what remains true\n\n" + "\n\n".join(map(paragraph, rows)) + "\n"


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else PLAYED
    if not source.is_file():
        sys.exit(f"{source}: there is no such file; `audit findings` writes it.")
    PAGE.write_text(page(json.loads(source.read_text(encoding="utf-8"))["rows"]), encoding="utf-8")
