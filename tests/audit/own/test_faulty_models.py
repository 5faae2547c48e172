"""A user's model that fails ends the run with exit code 2 and one line with its file and line, or the value that is wrong."""

import json

import numpy as np
import pytest

from gnnaudit.audit.cli import main
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import TRACEBACK, place
from gnnaudit.audit.planning.cores import usable_cores
from gnnaudit.models.data.loading import load
from gnnaudit.models.fitted import fitted
from gnnaudit.models.looped import Looped

FILE = """
import os
from dataclasses import dataclass
import numpy as np
from dp_accounting import GaussianDpEvent
from gnnaudit import Looped, Release, Unit

@dataclass(frozen=True)
class Mine:
    name = {name}
    mode = {mode}
    unit = Unit.UNDIRECTED_EDGE
    releases = {releases}
    public = ()
    ledger = {ledger}
    def with_noise(self, sigma): return self
    def printed(self, delta): return None
    def footprint(self, graph): return {footprint}
    def fit(self, worlds, device="cpu"):
        rows = []
        for run in range(len(worlds)):
            graph, random = worlds.removed(run).graph, np.random.default_rng(worlds.seeds[run])
            noisy = graph.adjacency() @ np.eye(graph.classes)[graph.y] + 9 * random.standard_normal((graph.nodes, graph.classes))
            rows.append((noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True))[worlds.watch])
        rows = np.array(rows, dtype=np.float32)
        {fit}
        return Release({{"posteriors": rows}}, worlds.watch)
"""
GOOD = {
    "name": '"mine"',
    "mode": '"sound"',
    "releases": '("posteriors",)',
    "ledger": "GaussianDpEvent(6.4)",
    "footprint": "1 << 20",
    "fit": "pass",
}
PLAN = ("--data", "campus:n=300", "--epsilon", "1", "--attacks", "none", "--audits", "none", "--repeats", "2", "--mlflow", "none")


def refused(folder, monkeypatch, *options):
    """Calls `audit run` with these options in a folder, and checks that it ends with exit code 2."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["audit", "run", *options])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2


def outcome(folder, monkeypatch, capsys, *words, **changed):
    """The exit code, and what was printed on stdout and stderr."""
    (folder / "mine.py").write_text(FILE.format(**GOOD | changed))
    command = ["audit", "run", "--model", f"{folder / 'mine.py'}:Mine", *PLAN, "--jobs", "1", "--out", "run", *words]
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as end:
        main.main()
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"fit": "raise RuntimeError('boom\\ntwo')"}, "mine.py, line 26: RuntimeError: boom"),
        ({"fit": "assert False"}, "mine.py, line 26: AssertionError"),
        ({"fit": "rows[9]"}, "mine.py, line 26: IndexError"),
        ({"fit": "os._exit(0)"}, "mine.py, line 26: RuntimeError: SystemExit: the model called os._exit(0)"),
        ({"fit": "raise SystemExit(0)"}, "mine.py, line 26: RuntimeError: SystemExit: 0"),
        ({"fit": "again = lambda: again(); again()"}, "RecursionError"),
        ({"fit": "return None"}, "fit returned NoneType; expected a gnnaudit.Release"),
        ({"fit": "return {'posteriors': rows}"}, "fit returned dict"),
        ({"fit": "rows = rows[:, :3]"}, "'posteriors' has shape"),
        ({"fit": "rows = rows[0]"}, "the run axis comes first"),
        ({"fit": "rows = list(rows)"}, "must be a NumPy array"),
        ({"fit": "rows = np.exp(rows)"}, "not logarithms of probabilities"),
        ({"fit": "rows = rows * np.nan"}, "holds NaN"),
        ({"fit": "return Release({}, worlds.watch)"}, "declares ['posteriors'] and releases []"),
        ({"name": "7"}, "name=7: must be a text"),
        ({"mode": '"loud"'}, "mode='loud': must be 'sound'"),
        ({"releases": '"posteriors"'}, "releases='posteriors': must be a tuple of words"),
        ({"ledger": "None"}, "ledger=None: must be a DpEvent"),
        ({"footprint": "'1GB'"}, "footprint returned '1GB'; must be a whole number"),
        ({"footprint": "1 // 0"}, "mine.py, line 18: ZeroDivisionError"),
        ({"name": '"mine"; os._exit(0)'}, "mine.py:Mine: line 10: SystemExit: the model called os._exit(0)"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value.values())),
)
def test_a_model_that_fails_is_wrong_use_in_one_line(changed, told, tmp_path, monkeypatch, capsys):
    code, _, said = outcome(tmp_path, monkeypatch, capsys, "--quiet", **changed)
    assert code == 2
    assert "Traceback" not in said
    (line,) = [text for text in said.splitlines() if text.startswith("audit: ")]
    assert told in line


def test_what_a_model_prints_does_not_mix_with_the_results(tmp_path, monkeypatch, capsys):
    noisy = {"name": "'mine'; print('loaded')", "fit": "print('loss 0.3')"}
    code, printed, said = outcome(tmp_path, monkeypatch, capsys, "--json", **noisy)
    assert code == 3
    assert json.loads(printed)["run"]["exit_code"] == 3
    assert "loaded" in said
    assert "loss 0.3" in said
    monkeypatch.setattr("sys.argv", ["audit", "contract", "mine.py:Mine", "--json"])
    with pytest.raises(SystemExit):
        main.main()
    assert json.loads(capsys.readouterr().out)


def test_a_capability_that_raises_skips_the_audits_that_use_it_and_no_others(tmp_path, monkeypatch, capsys):
    broken = f"{GOOD['ledger']}\n    def channels(self, dim, classes): return {{}}['k']"
    code, printed, said = outcome(tmp_path, monkeypatch, capsys, "--json", "--audits", "exact,differential", ledger=broken)
    rows = json.loads(printed)["rows"]
    (reason,) = (row["reason"] for row in rows if row.get("what") == "audit exact")
    assert "FiniteChannels of mine cannot be read: " in reason
    assert "mine.py, line 16: KeyError: 'k'" in reason
    assert any(row.get("audit") == "differential" for row in rows)
    assert code in (0, 1, 3)
    assert "Traceback" not in said


def test_a_model_that_changes_the_working_directory_does_not_split_the_run_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "elsewhere").mkdir()
    outcome(tmp_path, monkeypatch, capsys, fit="os.chdir('elsewhere') if os.path.isdir('elsewhere') else None")
    assert (tmp_path / "run" / "report.html").is_file()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def train(): pass", "train(): must take a graph and a seed"),
        ("def train(graph, seed):\n    return {}['posteriors']", "mine.py, line 3: KeyError: 'posteriors'"),
        ("def train(graph, seed): exit()", "mine.py, line 2: RuntimeError: SystemExit"),
        ("def train(graph, seed): return 3", "train returned int; expected"),
        ("def train(graph, seed): return {'posteriors': 'low'}", "has type <U3; expected real numbers"),
    ],
)
def test_a_function_that_fails_is_wrong_use_in_one_line(body, told, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(f"from gnnaudit import Looped\n{body}\nmodel = Looped(train)\n")
    refused(tmp_path, monkeypatch, "--model", "mine.py:model", *PLAN, "--jobs", "1", "--quiet")
    (line,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("audit: ")]
    assert told in line


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("None", 'train returned NoneType; expected {"sums": array}'),
        ("exit('no data')", "mine.py, line 2: RuntimeError: SystemExit: no data"),
        ("{'sums': graph.adjacency()}", "'sums' is a csr_array; expected an array, such as its `toarray()`"),
    ],
)
def test_a_function_without_posteriors_that_returns_no_arrays_is_wrong_use_too(returned, told, tmp_path, monkeypatch, capsys):
    text = f"from gnnaudit import Looped\ndef train(graph, seed): return {returned}\nmodel = Looped(train, releases=('sums',))\n"
    (tmp_path / "mine.py").write_text(text)
    refused(tmp_path, monkeypatch, "--model", "mine.py:model", *PLAN, "--audits", "differential")
    assert f"audit: nothing was tested. train (own), ε = 1: {told}." in capsys.readouterr().err


CLOSURE = """
import numpy as np
from gnnaudit import Looped

def make(noise):
    def train(graph, seed):
        votes = graph.adjacency() @ np.eye(graph.classes)[graph.y]
        votes = votes + noise * np.random.default_rng(seed).standard_normal(votes.shape)
        return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)}
    return Looped(train)

model = make(9.0)
"""


def of_closure(folder, monkeypatch, capsys, *words):
    """The exit code, and what was printed on stderr."""
    (folder / "mine.py").write_text(CLOSURE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["audit", "run", "--model", "mine.py:model", *PLAN, *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    return end.value.code, capsys.readouterr().err


def test_a_function_that_no_worker_can_load_is_refused_before_any_training_if_workers_are_asked_for(
    tmp_path, monkeypatch, capsys
):
    code, told = of_closure(tmp_path, monkeypatch, capsys, "--jobs", "2", "--quiet")
    assert code == 2
    assert "Define it at the top level of its file, or use --jobs 1." in told


@pytest.mark.skipif(usable_cores() == 1, reason="a machine with one core starts no worker processes")
def test_a_function_that_no_worker_can_load_is_trained_in_one_process_which_the_run_says(tmp_path, monkeypatch, capsys):
    code, told = of_closure(tmp_path, monkeypatch, capsys)
    assert code == 3
    assert "This run trains in one process." in told
    assert "[1/1] train" in told


def test_the_line_names_the_model_once(tmp_path, monkeypatch, capsys):
    code, _, err = outcome(tmp_path, monkeypatch, capsys, "-q", fit="rows = rows * np.nan")
    assert code == 2
    (line,) = (line for line in err.splitlines() if line.startswith("audit: "))
    assert line.replace("mine.py", "").count("mine") == 1, line


def test_the_sentence_about_a_functions_result_names_it_once():
    train = Looped(lambda graph, seed: {"logits": graph.x}, name="train")
    with pytest.raises(ValueError, match=r"^train: train returned \['logits'\], not 'posteriors'\."):
        fitted(train, Game(load("campus:n=300"), "edge", np.arange(4), Key("door")).rounds(1).worlds)


def said_of(program, folder, monkeypatch, capsys):
    """The lines on stdout and stderr, without the progress, when `audit run` audits this program. Checks the exit code."""
    (folder / "prog.py").write_text(program)
    refused(folder, monkeypatch, "--target", "python prog.py {worlds} {out}", *PLAN, "--out", "run")
    return [line for line in "".join(capsys.readouterr()).splitlines() if not line.startswith("[1/1] ")]


def test_a_program_that_fails_is_one_line_with_its_cause_and_the_file_of_its_output(tmp_path, monkeypatch, capsys):
    said = said_of("print('begun')\nraise RuntimeError('bad thing')\n", tmp_path, monkeypatch, capsys)
    failed = f"python ended with exit code 1: {tmp_path}/prog.py, line 2: RuntimeError: bad thing."
    cause = f"{failed} Its output is in {tmp_path}/run/target.log."
    assert said == [f"audit: nothing was tested. prog (own), ε = 1: {cause}"]
    assert "begun" in (tmp_path / "run" / "target.log").read_text()


def test_a_program_that_writes_wrong_files_is_one_line_with_the_file_of_its_output(tmp_path, monkeypatch, capsys):
    said = said_of("import sys\nprint('begun', file=sys.stderr)\n", tmp_path, monkeypatch, capsys)
    (line,) = (line for line in said if line.startswith("audit: "))
    assert "posteriors.npy: missing" in line
    assert line.endswith(f"Its output is in {tmp_path}/run/target.log.")


ENDINGS = [
    (
        f'{TRACEBACK}\n  File "a.py", line 3, in f\n    g()\n  File "{np.__file__}", line 9, in g\nValueError: bad',
        "a.py, line 3: ",
    ),
    ('  File "a.py", line 1\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n', "a.py, line 1: "),
    (f'{TRACEBACK}\n  File "a.py", line 1\nKeyError: 1\n\n{TRACEBACK}\n  File "b.py", line 7\nKeyError\n', "b.py, line 7: "),
    (f'{TRACEBACK}\n  File "a.py", line 3, in f\nValueError: bad\n\nlost 3 of 4 files\n', ""),
    (f'{TRACEBACK}\n  File "<frozen runpy>", line 3, in f\nValueError: bad\n', ""),
    ("Segmentation fault\n", ""),
]


@pytest.mark.parametrize(("errors", "told"), ENDINGS)
def test_the_place_of_a_programs_error_is_that_of_its_own_code(errors, told):
    assert place(errors) == told


SIZED = """
import numpy as np
from gnnaudit import Looped

def train(graph, seed):
    votes = graph.adjacency() @ np.ones((300, 1)) + 9.0 * np.random.default_rng(seed).standard_normal((300, graph.classes))
    return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)}

model = Looped(train)
"""


@pytest.mark.parametrize("more", [(), ("--minutes", "1")])
def test_an_audit_that_a_models_own_error_ends_names_file_and_line(more, tmp_path, monkeypatch, capsys):
    """The error is a ValueError of NumPy, because the crafted graph has another number of nodes."""
    (tmp_path / "mine.py").write_text(SIZED)
    monkeypatch.chdir(tmp_path)
    words = (*PLAN, "--audits", "blackbox", "--jobs", "1", "--out", "run", *more)
    monkeypatch.setattr("sys.argv", ["audit", "run", "--model", "mine.py:model", *words])
    with pytest.raises(SystemExit):
        main.main()
    rows = json.loads((tmp_path / "run" / "results.json").read_text())["rows"]
    (reason,) = (row["reason"] for row in rows if row.get("what") == "audit blackbox")
    assert "mine.py, line 6: ValueError: matmul" in reason
