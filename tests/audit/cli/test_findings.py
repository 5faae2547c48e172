"""Every finding: its claim falls, its repaired counterpart stands, and what is only argued is not called refuted."""

from __future__ import annotations

import io
import json
import math

import pytest

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.cli.findings import findings
from gnnaudit.audit.findings import certificates, finding
from gnnaudit.audit.findings.finding import run
from gnnaudit.audit.findings.all_findings import FINDINGS
from gnnaudit.audit.key import Key
from gnnaudit.reports.results import parse

PROVED = [name for name, f in FINDINGS.items() if f.proof != "argued"]
SLOW = ("gap-best-epoch", "vesper-backward-state", "lpgnn-fair-coins")  # trainings; the nightly suite plays all of them
QUICK = [name for name in PROVED if name not in SLOW]
DRAWN = [n for n in PROVED if FINDINGS[n].proof == "experiment"] + ["privgnn-log-probabilities", "privgnn-shared-optimiser"]
FIGURE = finding.Figure("x", "y", {})


@pytest.mark.parametrize("name", QUICK)
def test_the_claim_falls_and_its_repaired_counterpart_stands(name):
    result = run(FINDINGS[name], Key("findings", "test"))
    assert result.verdict == "refuted"
    assert result.certificate.bound.epsilon > result.certificate.claim.epsilon
    assert result.certificate.bound.alpha <= 1e-3
    if result.fixed is not None:
        assert not result.fixed.bound.refuted  # a sound counterpart falls once in ten thousand honest runs


@pytest.mark.nightly
@pytest.mark.parametrize("name", DRAWN)
def test_the_claim_falls_and_its_counterpart_stands_for_twenty_seeds(name):
    results = [run(FINDINGS[name], Key("findings", f"seed {i}")) for i in range(20)]
    assert sum(r.verdict == "refuted" for r in results) == 20
    assert sum(r.fixed is not None and r.fixed.bound.refuted for r in results) == 0  # 2 in 1,000 honest suites


def test_what_is_only_argued_is_never_called_refuted():
    for f in FINDINGS.values():
        if f.proof == "argued":
            exceeded = finding.computed(Claim(1.0, 0.0), 2.0, "", FIGURE)
            assert f.verdict(exceeded) == "argued"


def test_two_libraries_that_disagree_certify_nothing():
    with pytest.raises(ValueError, match="agree"):
        finding.agreed(Claim(1.0, 0.0), {"one": 2.0, "other": 2.1}, "", FIGURE)


def test_a_mixture_of_one_gaussian_is_that_gaussian():
    found = certificates.mixture([1.0], [1.0], 2.0, 1, 1e-5)
    assert found[certificates.LIBRARY] == pytest.approx(float(epsilon_of(0.5, 1e-5)), rel=2e-3)
    assert found[certificates.PRV] == pytest.approx(float(epsilon_of(0.5, 1e-5)), rel=2e-3)


def test_coins_at_delta_zero_cost_their_odds():
    found = certificates.coins(0.75, 0.25, 3, 0.0)
    assert found[certificates.CLOSED] == pytest.approx(3 * math.log(3))


def test_the_command_writes_rows_that_results_can_hold(tmp_path, capsys):
    findings(["lpgnn-scaling", "progap-node-delta"], tmp_path, "test", True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "findings.json").read_text())
    held = parse({"schema": 1, "run": {"name": "findings"}, "rows": printed["rows"]}).rows
    verdicts = {row.id: row.verdict for row in held}
    assert verdicts == {"lpgnn-scaling": "refuted", "progap-node-delta": "argued"}
    page = (tmp_path / "findings.html").read_text()
    assert page.count("<svg") == 2
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_an_unknown_finding_is_named(tmp_path):
    with pytest.raises(ValueError, match="no-such"):
        findings(["no-such"], tmp_path, "test", True)


def test_the_table_fits_a_terminal_of_80_columns():
    from rich.console import Console

    from gnnaudit.audit.findings.page import table

    names = ("gap-degree-cap", max(FINDINGS, key=len), "progap-node-delta")
    shown = Console(width=80, record=True, file=io.StringIO())
    shown.print(table([run(FINDINGS[name], Key("findings", "test")) for name in names]))
    text = shown.export_text()
    assert all(name in text for name in names)
    assert "repaired" in text
    assert "…" not in text
