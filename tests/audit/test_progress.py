"""What a log and a terminal are told while cases are studied."""

from __future__ import annotations

import contextlib
import io
import threading

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


def test_an_item_without_stages_tells_nothing_of_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for _ in progress.announced(["mlp", "gap"], {"mlp": 0, "gap": 2}.__getitem__, Console(file=out, width=200)):
        now[0] += 10.0
    assert out.getvalue().splitlines() == ["[1/2] mlp (0:00)", "[2/2] gap (0:10)"]


def test_a_log_says_what_goes_on_within_a_long_case(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, 15.0, step=10.0)
    assert "[1/2] gap epsilon=1: attacks took 0:10; audit game begins (0:20, about 0:40 left)" in lines
    assert len(lines) == 4


def test_short_stages_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, 5.0, step=4.0)
    assert "[1/2] gap epsilon=1: audit game begins (0:08, about 0:16 left)" in lines


@pytest.mark.parametrize("tells", [False, True])
def test_the_time_of_a_long_stage_is_not_put_down_to_the_stage_after_it(monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    now, out = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    took = {"audit differential": 8.0, "audit blackbox": 72.0, "audit one-run": 1.0}
    for _, say in progress.announced(["gap3"], lambda _: len(took), Console(file=out, width=200)):
        for stage, seconds in took.items():
            say(stage)
            now[0] += seconds
            if tells and stage == "audit blackbox":
                say("audit blackbox: 80 trainings", begins=False)
    within = "[1/1] gap3: audit differential took 0:08; audit blackbox: 80 trainings (1:20)"
    after = "[1/1] gap3: audit blackbox took 1:12; audit one-run begins (1:20, about 0:08 left)"
    assert out.getvalue().splitlines() == ["[1/1] gap3 (0:00)", within if tells else after]


def test_a_long_stage_is_named_again_and_again_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out, looks = [0.0], io.StringIO(), []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "beating", lambda look: looks.append(look) or contextlib.nullcontext())

    def seconds(count: int) -> None:
        for _ in range(count):
            now[0] += 1.0
            looks[0]()

    console, count = Console(file=out, width=200), lambda: int(min(100.0, max(0.0, now[0] - 45.0)))
    for _, say in progress.announced(["own epsilon=1"], lambda _: 2, console, counted=count):
        say("contract", begins=False)
        seconds(40)
        say("audit differential")
        seconds(220)
        say("audit blackbox")
        seconds(31)
    assert out.getvalue().splitlines() == [
        "[1/1] own epsilon=1 (0:00)",
        "[1/1] own epsilon=1: contract has run for 0:30 (0:30)",
        "[1/1] own epsilon=1: audit differential has run for 0:30, 25 trainings; docs/own-model.md says how to limit them (1:10)",
        "[1/1] own epsilon=1: audit differential has run for 1:30, 85 trainings (2:10)",
        "[1/1] own epsilon=1: audit differential has run for 3:30, 100 trainings (4:10)",
        "[1/1] own epsilon=1: audit blackbox has run for 0:30 (4:50)",
    ]


def test_the_thread_that_looks_ends_with_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BEAT", 0.001)
    before, looked = threading.active_count(), threading.Event()
    with progress.beating(looked.set):
        assert looked.wait(60)
        (thread,) = [t for t in threading.enumerate() if t.name == "progress"]
    thread.join(60)
    assert not thread.is_alive()
    assert threading.active_count() == before


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0:00"), (59.6, "1:00"), (3599.0, "59:59"), (3661.0, "1:01:01")])
def test_a_time_is_read_as_on_a_clock(seconds: float, shown: str) -> None:
    assert progress.clock(seconds) == shown
