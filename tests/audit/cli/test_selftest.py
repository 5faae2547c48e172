"""`audit selftest` reports a missed fault and a false alarm, and exits with 1."""

from typer.testing import CliRunner

from gnnaudit.audit.cli import selftest
from gnnaudit.audit.cli.main import app


def test_a_missed_fault_and_a_false_alarm_are_reported_and_fail(monkeypatch):
    assert selftest.verdict(True, False, False) == "MISSED"
    assert selftest.verdict(False, False, True) == "FALSE ALARM"
    assert selftest.verdict(True, True, False) == "undetectable by sampling"
    row = {"name": "x", "planted": True, "audit": "game", "kappa": 2.0, "claim": 4.0, "lower": 0.0, "found": "", "seconds": 0.0}
    for result, code in (("caught", 0), ("MISSED", 1), ("FALSE ALARM", 1)):
        monkeypatch.setattr(selftest, "results", lambda *_, result=result: [row | {"result": result}])
        assert CliRunner().invoke(app, ["selftest"]).exit_code == code
