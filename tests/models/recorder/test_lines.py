"""Which lines of a program's own files run."""

import importlib.util
import sys

import numpy as np
import pytest

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.draws.lines import in_words, lines_run

PROGRAM = """\
import json


def longer(number):
    if number > 3:
        return json.dumps("large")
    text = "small"
    return text
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("program", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return file, module


@pytest.mark.parametrize(("number", "expected"), [(5, {5, 6}), (1, {5, 7, 8})])
def test_the_lines_of_the_taken_branch_run_and_no_line_of_a_library(program, number, expected):
    file, module = program
    before = sys.gettrace()
    with lines_run() as found:
        module.longer(number)
    assert {line for name, line in found if name == str(file)} == expected
    assert not any("json" in name for name, _ in found)
    assert sys.gettrace() is before


def test_lines_in_words():
    assert in_words({("a/mine.py", 12)}) == "mine.py, line 12"
    assert in_words({("a/mine.py", n) for n in (14, 12, 13, 30)}) == "mine.py, lines 12-14 and 30"
    assert in_words([("b.py", 1), ("a.py", 2), ("a.py", 7), ("a.py", 9)]) == "a.py, lines 2, 7 and 9; b.py, line 1"


def test_a_draw_of_an_installed_package_is_named_by_its_path_there_and_by_the_users_line(tmp_path):
    package = tmp_path / "site-packages" / "library" / "mechanisms"
    package.mkdir(parents=True)
    (package / "laplace.py").write_text("def noise(rng):\n    return rng.laplace()\n")
    spec = importlib.util.spec_from_file_location("laplace", package / "laplace.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with recording() as found:
        module.noise(np.random.default_rng(1))
    (draw,) = found.draws
    assert draw.where.startswith("library/mechanisms/laplace.py, line 2 (called from test_lines.py, line ")
