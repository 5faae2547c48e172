"""docs/findings.md says what the findings say: every entry by its text, the quick ones by playing them again."""

import json
import re
import sys
from pathlib import Path

import pytest

from gnnaudit.audit.cli.findings import findings
from gnnaudit.audit.findings.all_findings import FINDINGS
from gnnaudit.audit.findings.finding import run
from gnnaudit.audit.findings.page import encoded, row
from gnnaudit.audit.key import Key

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import make_findings

PAGE = make_findings.PAGE.read_text(encoding="utf-8")
QUICK = (
    "gap-isolated-nodes",
    "progap-delta-rule",
    "vesper-truncation",
    "dpar-many-lists",
    "dpgnn-transposed-cap",
    "gap-degree-cap",
)


def test_the_page_holds_every_finding_in_order_with_its_own_words():
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.M) == list(FINDINGS)
    for f in FINDINGS.values():
        assert f"**{f.id}** ({f.paper}). {f.claim} {f.argument} *Run:* " in PAGE, f.id
        assert f"*Remains true:* {f.remains} *Source:* {f.source}" in PAGE, f.id


@pytest.mark.parametrize("name", QUICK)
def test_a_line_of_the_page_is_what_the_experiment_says_again(name):
    played = json.loads(encoded(row(run(FINDINGS[name], Key("findings", "findings")))))
    assert make_findings.line(played) in PAGE, "run `audit findings` and `python docs/make_findings.py`"
    assert make_findings.paragraph(played) in PAGE


@pytest.mark.nightly
def test_the_whole_page_is_what_the_experiments_say_again(tmp_path):
    findings(None, tmp_path, "findings", True)
    assert make_findings.page(json.loads((tmp_path / "findings.json").read_text())["rows"]) == PAGE
