"""What a log and a terminal are told while cases are studied."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gnnaudit.audit import progress


def told(monkeypatch: pytest.MonkeyPatch, quiet: float, step: float = 10.0) -> list[str]:
    """Two cases of three stages, each stage `step` seconds long."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "QUIET", quiet)
    out = io.StringIO()
    for _, say in progress.announced(["gap epsilon=1", "gap epsilon=8"], lambda _: 3, Console(file=out, width=200)):
        for stage in ("accuracy", "attacks", "audit game"):
            say(stage)
            now[0] += step
    return out.getvalue().splitlines()


def test_a_log_says_when_each_case_began_and_how_long_the_rest_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, 1e9) == ["[1/2] gap epsilon=1 (0:00)", "[2/2] gap epsilon=8 (0:30, about 0:30 left)"]


def test_an_item_with_few_stages_counts_less(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stages = {"gap": 4, "mlp": 1}
    for item, say in progress.announced(list(stages), stages.__getitem__, Console(file=out, width=200)):
        for stage in range(stages[item]):
            say(f"audit {stage}")
            now[0] += 10.0
    assert out.getvalue().splitlines()[-1] == "[2/2] mlp (0:40, about 0:10 left)"


def test_a_log_says_what_goes_on_within_a_long_case(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, 15.0, step=10.0)
    assert "[1/2] gap epsilon=1: audit game (0:20, about 0:40 left)" in lines
    assert len(lines) == 4


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (59.6, "1:00"), (3599.0, "59:59"), (3661.0, "1:01:01")])
def test_a_time_is_read_as_on_a_clock(seconds: float, shown: str) -> None:
    assert progress.clock(seconds) == shown
