"""`audit selftest` reports a missed fault and a false alarm, and exits with 1."""

from typer.testing import CliRunner

from gnnaudit.audit.cli import selftest
from gnnaudit.audit.cli.main import app
from gnnaudit.models.data.loading import load


def test_a_missed_fault_and_a_false_alarm_are_reported_and_fail(monkeypatch):
    assert selftest.verdict(True, False, False) == "MISSED"
    assert selftest.verdict(False, False, True) == "FALSE ALARM"
    assert selftest.verdict(True, True, False) == "undetectable by sampling"
    row = {
        "name": "x",
        "planted": True,
        "audit": "game",
        "kappa": 2.0,
        "claim": 4.0,
        "lower": 0.0,
        "found": "why",
        "seconds": 0.0,
    }
    for result, code in (("caught", 0), ("MISSED", 1), ("FALSE ALARM", 1)):
        monkeypatch.setattr(selftest, "results", lambda *_, result=result: [row | {"result": result}])
        played = CliRunner().invoke(app, ["selftest"])
        assert played.exit_code == code
        assert (f"x: {result}; why" in played.output) == bool(code)


def test_a_model_whose_run_fails_is_reported_and_the_others_are_judged(monkeypatch):
    from gnnaudit.audit.faults import as_strangers as whole
    from gnnaudit.audit.faults.fault import EDGE

    def played(name, *_):
        if name == "broken":
            raise IndexError("Target 2 is out of bounds.")
        return True, "exit 1: refuted"

    monkeypatch.setattr(whole, "everything", lambda facts: [(name, True, EDGE, None) for name in ("broken", "other")])
    monkeypatch.setattr(whole, "whole_run", played)
    broken, other = selftest.as_strangers("seed", load("campus:n=300"))
    assert (broken["result"], other["result"]) == ("MISSED", "caught")
    assert "IndexError: Target 2 is out of bounds." in broken["found"]
