"""A run as a Markdown card for a model's README: the claims, the results of the audit, and its limits."""

import math
from pathlib import Path

from .. import results
from ..files import write_text
from ..results import Results
from ..rounding import down, percent, up
from ..summary import UNITS, Line, as_text, budget, claims_of, headline, name

HEAD = ("model", "protects", "claimed ε", "δ", "proved at least", "detectable ε", "upper bound", "verdict")


def write(run_dir: Path) -> Path:
    """Writes RUN/card.md from RUN/results.json, and returns its path. Raises ValueError if the run cannot be read."""
    return write_text(Path(run_dir) / "card.md", to_markdown(results.read(run_dir)))


def to_markdown(found: Results) -> str:
    """The card: a headline, one table row for each claim, the version, day and graph of the run, and the limits of an audit."""
    claims = claims_of(found)
    run = found.run
    rows = [HEAD, tuple("---" for _ in HEAD), *map(_row, claims)]
    graph = ", ".join(
        str(part) for part in (run.data.get("name"), f"{run.data['nodes']} nodes" if "nodes" in run.data else None) if part
    )
    version, day = run.versions.get("gnnaudit", ""), run.started[:10] or "an unknown day"
    notes = dict.fromkeys(
        f"- {as_text(name(c.key.model, c.key.mode))}: the upper bound is {c.upper_is}." for c in claims if c.upper_is
    )
    granted = dict.fromkeys(b.granted for c in claims for b in (c.lower, c.noticing) if b is not None and b.granted)
    return "\n".join(
        [
            "## Privacy audit",
            "",
            as_text(headline(claims)),
            "",
            *(f"| {' | '.join(_cell(text) for text in row)} |" for row in rows),
            "",
            *notes,
            "- Detectable ε: the best attack notices noise that is too small for this ε with 90 % probability.",
            "  Other violations may go unnoticed, unless the verdict names them.",
            f"- All lower bounds hold together with {percent(1 - run.alpha)} confidence. ε is in nats.",
            as_text(f"- Audited by gnnaudit {version} on {day}, on the graph {graph or 'unknown'}."),
            *(as_text(f"- Some bounds hold {more}.") for more in granted),
            "- An audit can refute a claim and never proves one. It tests this code on this graph.",
            "",
        ]
    )


def _row(line: Line) -> tuple[str, ...]:
    noticed = line.noticing.detectable_epsilon if line.noticing else None
    return (
        name(line.key.model, line.key.mode),
        UNITS[line.key.unit],
        budget(line.key.epsilon),
        "–" if line.delta is None else f"{line.delta:g}",
        "–" if line.lower is None else _lower(line.lower.value, line.key.epsilon),
        "unknown" if noticed is None else up(noticed, 3),
        up(line.upper[0]) if line.upper else "none known",
        line.verdict.sentence,
    )


def _lower(bound: float, claim: float) -> str:
    return "infinite" if math.isinf(bound) else down(bound, beyond=claim)


def _cell(text: str) -> str:
    """The text, escaped so that it neither ends a table cell nor becomes markup."""
    return as_text(text).replace("|", "\\|")
