"""docs/findings.md agrees with the findings: every entry by its text, the quick ones by running them again."""

import json
import re
import sys
from pathlib import Path

import pytest

from gnnaudit.audit.cli.findings import findings
from gnnaudit.audit.findings.finding import run
from gnnaudit.audit.findings.page import encoded, row
from gnnaudit.audit.findings.systems.all_findings import FINDINGS
from gnnaudit.audit.key import Key

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import make_findings

from ...nightly import nightly

PAGE = make_findings.PAGE.read_text(encoding="utf-8")
QUICK = (
    "gap-isolated-nodes",
    "progap-delta-rule",
    "vesper-truncation",
    "dpar-many-lists",
    "dpgnn-transposed-cap",
    "gap-degree-cap",
)


def test_the_page_has_every_finding_in_order_with_its_text():
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.M) == list(FINDINGS)
    for f in FINDINGS.values():
        assert f"### {f.id}\n\n- *Paper:* {f.paper}\n- *Claim:* {f.claim}\n- *But:* {f.argument}\n- *Run:* " in PAGE, f.id
        assert f"- *Remains true:* {f.remains}\n- *Source:* {f.source}\n" in PAGE, f.id


@pytest.mark.parametrize("name", nightly("gap-degree-cap", among=QUICK))
def test_a_line_of_the_page_is_the_result_of_its_experiment(name):
    again = json.loads(encoded(row(run(FINDINGS[name], Key("findings", "findings")))))
    assert make_findings.line(again) in PAGE, "run `audit findings` and `python docs/make_findings.py`"
    assert make_findings.paragraph(again) in PAGE


@pytest.mark.nightly
def test_the_whole_page_is_the_result_of_its_experiments(tmp_path):
    findings(None, tmp_path, "findings", True)
    assert make_findings.page(json.loads((tmp_path / "findings.json").read_text())["rows"]) == PAGE
