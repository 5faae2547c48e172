"""A run as JUnit XML: each claim is a test case, so that any CI system shows the claims that fail."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from .. import results
from ..files import write_text
from ..results import BoundRow, Results, SkippedRow
from ..rounding import several
from ..summary import Line, budget, claimed, claims_of, inapplicable, key, listed, name, of_case, skips

NOT_XML = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # output of a user's program may contain any character


def write(run_dir: Path) -> Path:
    """Writes RUN/junit.xml from RUN/results.json, and returns its path. Raises ValueError if the run cannot be read."""
    return write_text(Path(run_dir) / "junit.xml", to_xml(results.read(run_dir)))


def to_xml(found: Results) -> str:
    """The run as JUnit XML. A claim that is refuted or exceeded is a failure, an inconclusive claim is an error. All audits and
    attacks that do not apply to a model are one skipped case.

    With preset "ci", a claim whose tests are only too weak is skipped with a warning instead, because the author of a pull
    request did not cause that. A claim without any lower bound stays an error, because a model that raises an exception must not
    count as tested. So does a claim if a condition of a test failed: such a test may have found a path past the noise. The error
    gives the reasons why audits were skipped.
    """
    claims = claims_of(found)
    skipped, lenient = found.of(SkippedRow), found.run.preset == "ci"
    whole, parts = [row for row in skipped if of_case(row)], inapplicable(skipped)
    failures = sum(line.verdict.exit_code == 1 for line in claims)
    weak = [line for line in claims if line.verdict.exit_code == 3]
    warned = sum(lenient and line.verdict.weak for line in weak)
    count = {"tests": len(claims) + len(whole) + len(parts), "failures": failures, "errors": len(weak) - warned}
    count["skipped"] = len(whole) + len(parts) + warned
    suite = ET.Element("testsuite", {"name": f"gnnaudit {found.run.name}", **{k: str(v) for k, v in count.items()}})
    suite.set("time", f"{found.run.seconds:.3f}")
    if found.run.started:
        suite.set("timestamp", found.run.started)
    for line in claims:
        _claim(suite, line, [row.reason for row in skipped if key(row) == line.key], lenient)
    for row in whole:
        who = {"classname": f"gnnaudit.{name(row.model, row.mode)}", "name": f"{row.what}, ε = {budget(row.epsilon)}"}
        ET.SubElement(ET.SubElement(suite, "testcase", who), "skipped", {"message": row.reason})
    for model, rows in parts.items():
        who = {"classname": f"gnnaudit.{model}", "name": "what does not apply"}
        skip = ET.SubElement(ET.SubElement(suite, "testcase", who), "skipped")
        skip.set("message", listed(dict.fromkeys(row.what for row in rows)))
        skip.text = "\n".join(f"{what}: {reason}" for what, _, _, reason in skips(rows))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", ET.tostring(root, encoding="unicode", xml_declaration=True)) + "\n"


def _claim(suite: ET.Element, line: Line, skipped: list[str], lenient: bool) -> None:
    unit = str(line.key.unit or "no unit")
    who = f"{name(line.key.model, line.key.mode)} {claimed(line)} per {unit}"
    seconds = max((b.seconds for b in line.bounds), default=0.0)
    case = ET.SubElement(suite, "testcase", {"classname": f"gnnaudit.{unit}", "name": who, "time": f"{seconds:.3f}"})
    if line.verdict.exit_code == 0:
        ET.SubElement(case, "system-out").text = line.verdict.sentence
        return
    if lenient and line.verdict.weak:
        ET.SubElement(case, "skipped", {"message": f"warning: {line.verdict.sentence}"})
        return
    kind = "failure" if line.verdict.exit_code == 1 else "error"
    trouble = ET.SubElement(case, kind, {"type": line.verdict.kind, "message": line.verdict.sentence})
    trouble.text = "\n".join(_bound(b) for b in line.bounds) or "\n".join(dict.fromkeys(skipped))


def _bound(b: BoundRow) -> str:
    sure = {True: ", confirmed with fresh randomness", False: ", NOT confirmed with fresh randomness", None: ""}[b.confirmed]
    method = f"; {b.method}" if b.verdict == "refuted" else ""
    return f"{b.audit}, {b.attack}: at least {b.value:.4g} ({b.shape}), {several(b.rounds, 'round')}{sure}{method}"
