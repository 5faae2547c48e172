"""`audit findings` writes rows that results.json accepts, names an unknown id, and fits a terminal."""

import io
import json

import pytest
from rich.console import Console

from gnnaudit.audit.cli.findings import findings
from gnnaudit.audit.findings.finding import run
from gnnaudit.audit.findings.page import table
from gnnaudit.audit.findings.systems.all_findings import FINDINGS
from gnnaudit.audit.key import Key
from gnnaudit.reports.results import parse


def test_the_command_writes_rows_that_results_accept(tmp_path, capsys):
    findings(["vesper-truncation", "progap-node-delta"], tmp_path, "test", True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "findings.json").read_text())
    held = parse({"schema": 1, "run": {"name": "findings"}, "rows": printed["rows"]}).rows
    verdicts = {row.id: row.verdict for row in held}
    assert verdicts == {"vesper-truncation": "refuted", "progap-node-delta": "argued"}
    page = (tmp_path / "findings.html").read_text()
    assert page.count("<svg") == 2
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_an_unknown_finding_is_named(tmp_path):
    with pytest.raises(ValueError, match="no-such"):
        findings(["no-such"], tmp_path, "test", True)


@pytest.mark.nightly
def test_the_table_fits_a_terminal_of_80_columns():
    names = ("gap-degree-cap", max(FINDINGS, key=len), "progap-node-delta")
    shown = Console(width=80, record=True, file=io.StringIO())
    shown.print(table([run(FINDINGS[name], Key("findings", "test")) for name in names]))
    text = shown.export_text()
    assert all(name in text for name in names)
    assert "repaired" in text
    assert "…" not in text
