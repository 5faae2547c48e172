"""Every input, plan file or program output gives an answer or one line, never a traceback."""

from __future__ import annotations

import contextlib
import datetime
import io
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typer.testing import CliRunner

from gnnaudit.audit.cli.main import app
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.planning.plan import Plan, read
from gnnaudit.models.data.loading import load

FOLDERS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PROGRAM = External(f"{sys.executable} train.py {{worlds}} {{out}}")
STRANGE = [
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e999",
    "infGiB",
    "nanGiB",
    "9" * 400,
    "a,b",
    ",",
    "../..",
    "/",
    "\x00",
    "\n",
    "é💥",
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(STRANGE)
    | st.just(datetime.date(2026, 1, 1))
)
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=3), scalars, max_size=2)
words = st.sampled_from(STRANGE) | st.text(max_size=12)


def said(fault: BaseException, faults: int = 1) -> None:
    """It was bad input, and the user reads one line for each thing that is wrong."""
    assert isinstance(fault, ValueError), repr(fault)
    assert 1 <= len(str(fault).splitlines()) <= faults, str(fault)


@settings(FOLDERS, max_examples=200)
@given(st.dictionaries(st.sampled_from([*Plan.model_fields, "modle"]), values, max_size=4))
def test_any_values_make_a_plan_or_a_line_each(options: dict[str, object]) -> None:
    try:
        read(None, options)
    except Exception as fault:
        said(fault, faults=16)  # a list has a line for each of its entries


def without_null(text: str) -> bool:
    return "\0" not in text


@settings(FOLDERS, max_examples=200)
@given(
    st.builds(
        Plan,
        seed=st.text(min_size=1).filter(without_null),
        out=words.filter(without_null).map(Path),
        data=words.filter(bool).filter(without_null),
        models=st.lists(words.filter(without_null), unique=True).map(tuple),
        epsilon=st.just((0.5, math.inf)),
    )
)
def test_a_plan_that_is_written_down_reads_back_the_same(tmp_path: Path, plan: Plan) -> None:
    path = tmp_path / "plan.toml"
    with contextlib.suppress(UnicodeEncodeError):  # half a character; a folder's plan.toml cannot hold it either
        path.write_text(plan.toml(), encoding="utf-8")
        assert read(path, {}) == plan


@settings(FOLDERS, max_examples=40)
@given(
    st.text(max_size=40).map(str.encode)
    | st.text("score,bitrun01.\n-e\"' ", max_size=60).map(lambda t: f"score,bit\n{t}".encode())
    | st.binary(max_size=40)
)
def test_any_bytes_as_scores_end_in_a_bound_or_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(content)
    answer(["bound", str(path)])


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


arrays = hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(max_dims=4, max_side=3) | st.just((2, 5, 3)), elements=None).map(saved)
damaged = st.tuples(arrays, st.integers(0, 200), st.binary(min_size=1, max_size=3)).map(
    lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :]
)


@settings(FOLDERS, max_examples=150)
@given(arrays | damaged | st.binary(max_size=60) | st.binary(max_size=20).map(lambda b: b"PK\x03\x04" + b))
def test_whatever_a_program_writes_is_posteriors_or_one_line(tmp_path: Path, content: bytes) -> None:
    worlds = Game(load("campus:n=300"), "edge", np.arange(4), Key("fuzz"), watch=np.arange(5)).rounds(2).worlds
    (tmp_path / "posteriors.npy").write_bytes(content)
    try:
        release = PROGRAM.read(tmp_path, worlds)
    except Exception as fault:
        said(fault)
    else:
        assert np.isfinite(release["posteriors"]).all()
        np.testing.assert_allclose(np.exp(release["posteriors"]).sum(-1), 1, atol=1e-4)


def answer(line: list[str]) -> None:
    """The answer, or the error that main() prints as one line."""
    fault = CliRunner().invoke(app, line, standalone_mode=False).exception
    if fault is None or isinstance(fault, SystemExit | OSError | typer.Exit | typer.Abort):
        return
    if not type(fault).__module__.startswith(("click", "typer")):
        said(fault, faults=16)


COMMANDS = [
    ["bound"], ["data", "info"], ["data", "map", "campus:n=300"], ["data", "map"], ["report"], ["mirror"], ["contract"],
    ["compare", "nowhere"], ["findings"], ["account", "--models"], ["account", "--param"], ["account", "--data"],
    ["account", "--mode"], ["account", "--delta"], ["power", "--epsilon"], ["power", "--delta"], ["power", "--kappa"],
    ["power", "--power"], ["run", "--model"], ["run", "--memory"], ["run", "--epsilon"], ["run", "--alpha"],
    ["run", "--preset"], ["run"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@settings(FOLDERS, max_examples=15)
@given(word=words)
@pytest.mark.nightly
def test_any_word_behind_a_command_ends_in_an_answer_or_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer([*command, word, *(["--models", "none of them"] if command[0] == "run" else [])])
