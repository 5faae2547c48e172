"""A program is called by the first file that its command names."""

import pytest

from gnnaudit.audit.own.programs.files import script_name
from gnnaudit.audit.planning.plan import read
from gnnaudit.audit.planning.planned_cases import recipes


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py {worlds} {out}", "train"),
        ("env/bin/python -u noisy-votes.v2.py {worlds} {out}", None),  # a point within a name
        ("python -m package.train {worlds} {out}", None),
        ("./run.sh {worlds} {out}", "run"),
        ("./python3.11 {worlds} {out}", None),
        ("bash run.sh {worlds} {out} train.py", "run"),
    ],
)
def test_the_name_is_that_of_the_first_file_but_an_interpreter(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("train.py", "noisy-votes.v2.py", "run.sh", "python3.11"):
        (tmp_path / file).touch()
    assert script_name(command) == name


@pytest.mark.parametrize(("file", "name"), [("train.py", "train"), ("gap.py", "target")])
def test_a_program_with_the_name_of_a_system_keeps_the_general_name(file, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).touch()
    plan = read(None, {"target": f"python {file} {{worlds}} {{out}}", "epsilon": "1"})
    assert list(recipes(plan)[1]) == [name]
