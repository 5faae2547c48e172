"""Writes docs/findings.md, the table and the text of every finding, from the output of `audit findings`.

python docs/make_findings.py [findings/findings.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gnnaudit.reports.rounding import down

PAGE = Path(__file__).parent / "findings.md"
RESULTS = Path("findings/findings.json")
TOP = """# Published claims and what was found

`python docs/make_findings.py` writes this page from the output of `audit findings`. That command runs every experiment again and
writes `findings.json` and an HTML page with a plot and a text for each finding. Sampled bounds hold with 99.99 % confidence.
"exact" means computed without sampling. "argued" means that no experiment decides the claim; it is never called refuted. The
column *how* counts the rounds that test the claim; if a text names more rounds, the others chose the threshold. The last column
gives the same experiment on a repaired counterpart, with its lower bound in brackets. The counterpart may claim a larger ε. ε is
in nats. Edge, node and local epsilons are not comparable.

**Checking a finding by hand.** Most entries state the change of the release in the smallest example, and the change that the
noise covers. For Gaussian noise, let μ = change / noise std. A claim of ε at δ allows the μ with
Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) = δ. A change r times as large has r μ, and the same equation gives its ε. For
`dpar-many-lists` the 61 gradients can be counted on paper; then

```
python -c "from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.gaussian import *
print(epsilon_of(61 * mu_of_claim(Claim(1, 1e-5)), 1e-5))"
audit findings dpar-many-lists
```
both give 202.5. The table rounds lower bounds down, and the text rounds to the nearest number, so last digits
may differ by one.

**Checking a copy of the public code.** `audit findings ID --checkout DIR` runs the experiment on the file in a checkout of the
repository that the finding names. Exit code 1 means that the fault shows there, 0 that it does not, 2 that the folder lacks the
file. `arr-density-chunk` (GAP, ProGAP, DPDGC), `blink-symrr-diagonal`, `eclipse-singular-vectors` (1.5 minutes),
`linkteller-edgerand`, `lpgnet-shared-noise` and `pushflow-max-degree` have such an experiment. The file runs in a process of its
own; `--python` names the environment that it needs. No public code comes with this package.

**Finding such patterns in other code.** `audit scan PATH` points at lines of Python source that look like one of these faults. It
runs nothing and judges nothing.

| finding | claim | whose privacy | printed ε | found ε at least | how | verdict | repaired |
|---|---|---|---|---|---|---|---|
"""
PARTS = "*Claim* is what the source states, not what is true. *But* says why it fails, with the smallest example."


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
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
    """A lower bound, rounded down, as text."""
    return "infinite" if epsilon == "inf" else down(float(epsilon))


def paragraph(row: dict[str, Any]) -> str:
    """The claim, why it does not hold, what was run and what remains true."""
    parts = {
        "Paper": row["paper"],
        "Claim": row["claim"],
        "But": row["argument"],
        "Run": row["summary"],
        "Remains true": row["remains"],
        "Source": row["source"],
    }
    return "\n".join([f"### {row['id']}", "", *(f"- *{name}:* {text}" for name, text in parts.items())])


def page(rows: list[dict[str, Any]]) -> str:
    """The page from the rows of findings.json."""
    table = "\n".join(line(row) for row in rows)
    return f"{TOP}{table}\n\n## What is claimed and what remains true\n\n{PARTS}\n\n" + "\n\n".join(map(paragraph, rows)) + "\n"


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    if not source.is_file():
        sys.exit(f"{source}: no such file. `audit findings` writes it.")
    PAGE.write_text(page(json.loads(source.read_text(encoding="utf-8"))["rows"]), encoding="utf-8")
