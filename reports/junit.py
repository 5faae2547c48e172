"""A run as JUnit XML: each claim is a test, so that any CI system shows which one broke."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

from . import results
from .files import write_text
from .results import Results, SkippedRow
from .summary import Line, budget, lines, name


def write(run_dir: Path) -> Path:
    """Writes RUN/junit.xml from RUN/results.json."""
    return write_text(Path(run_dir) / "junit.xml", to_xml(results.read(run_dir)))


def to_xml(found: Results) -> str:
    """Refuted and exceeded claims fail, claims that were tested too weakly are errors, and skipped rows are skipped."""
    claims = [line for line in lines(found) if math.isfinite(line.key.epsilon)]
    skipped = found.of(SkippedRow)
    failures = sum(line.verdict.exit_code == 1 for line in claims)
    errors = sum(line.verdict.exit_code == 3 for line in claims)
    count = {"tests": len(claims) + len(skipped), "failures": failures, "errors": errors, "skipped": len(skipped)}
    suite = ET.Element("testsuite", {"name": f"gnnaudit {found.run.name}", **{k: str(v) for k, v in count.items()}})
    suite.set("time", f"{found.run.seconds:.3f}")
    if found.run.started:
        suite.set("timestamp", found.run.started)
    for line in claims:
        _claim(suite, line)
    for row in skipped:
        case = ET.SubElement(
            suite, "testcase", {"classname": f"gnnaudit.{row.model}", "name": f"{row.what}, ε = {budget(row.epsilon)}"}
        )
        ET.SubElement(case, "skipped", {"message": row.reason})
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _claim(suite: ET.Element, line: Line) -> None:
    unit = str(line.key.unit or "no unit")
    who = f"{name(line.key.model, line.key.mode)} ε = {budget(line.key.epsilon)} per {unit}"
    seconds = max((b.seconds for b in line.bounds), default=0.0)
    case = ET.SubElement(suite, "testcase", {"classname": f"gnnaudit.{unit}", "name": who, "time": f"{seconds:.3f}"})
    if line.verdict.exit_code == 0:
        ET.SubElement(case, "system-out").text = line.verdict.sentence
        return
    kind = "failure" if line.verdict.exit_code == 1 else "error"
    trouble = ET.SubElement(case, kind, {"type": line.verdict.kind, "message": line.verdict.sentence})
    trouble.text = "\n".join(f"{b.audit}, {b.attack}: at least {b.value:.4g} ({b.shape}), {b.rounds} rounds" for b in line.bounds)
