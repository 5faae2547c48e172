"""`import gnnaudit`: what it offers, that it is quick, and that docs and examples need nothing else."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gnnaudit
from gnnaudit import Claim, audit, load

ROOT = Path(__file__).parent.parent
PROMISED = {"Claim", "Unit", "Graph", "Worlds", "Release", "Looped", "PureDpEvent", "lower", "judge", "audit", "load"}


def test_every_promised_name_is_there_and_every_listed_name_loads():
    assert set(gnnaudit.__all__) >= PROMISED
    for name in gnnaudit.__all__:
        assert getattr(gnnaudit, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Gap'"):
        gnnaudit.Gap  # noqa: B018


def test_importing_it_loads_no_library():
    heavy = "numpy", "scipy", "torch", "dp_accounting", "typer"
    code = f"import sys, gnnaudit; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


def names_of(code: str, module: str = "gnnaudit") -> set[str]:
    """What a piece of code imports from the package, deeper modules with their paths."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == module:
            found |= {".".join([*(node.module or "").split(".")[1:], alias.name]) for alias in node.names}
    return found


def test_examples_and_code_in_docs_use_the_door_alone():
    of_vesper = "two_party.py", "gloo_channel.py"  # show the parties of one system, which are no part of the door
    pieces = {p.name: p.read_text() for p in (ROOT / "examples").rglob("*.py")}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        pieces |= {f"{page.name} {i}": b for i, b in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))}
    assert len(pieces) > 5
    for where, code in pieces.items():
        used = names_of(code)
        if where in of_vesper:
            used = {n for n in used if not n.startswith("models.vesper.")}
        assert used <= {*gnnaudit.__all__, "target.target"}, where  # the program's side is a file of its own, to copy


@pytest.mark.nightly
def test_the_function_audits_what_the_command_audits(tmp_path):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from own_model import Votes
    finally:
        sys.path.pop(0)
    options = {"rounds": 1, "repeats": 2, "seed": "door", "jobs": 1}
    results = audit(Votes(), load("campus:n=300"), Claim(epsilon=1.0, delta=1e-5), out=tmp_path, **options)
    assert (tmp_path / "report.html").exists()
    words = ["run", "--model", f"{ROOT / 'examples/own_model.py'}:Votes", "--data", "campus:n=300", "--epsilon", "1"]
    words += ["--delta", "1e-5", "--attacks", "none", "--mlflow", "none", "--rounds", "1", "--repeats", "2", "--seed", "door"]
    start = [sys.executable, "-c", "from gnnaudit.audit.cli.main import main; main()", *words, "--jobs", "1"]
    done = subprocess.run([*start, "--out", str(tmp_path / "other")], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == results.run.exit_code
    other = gnnaudit.Results.model_validate_json((tmp_path / "other" / "results.json").read_text())
    figures = [(r.audit, r.shape, r.value) for r in results.rows if r.kind == "bound"]
    assert figures
    assert figures == [(r.audit, r.shape, r.value) for r in other.rows if r.kind == "bound"]


def test_a_thing_that_is_no_model_is_told_what_it_lacks():
    with pytest.raises(ValueError, match="model: lacks name, mode, unit"):
        audit(object(), load("campus:n=300"), Claim(1.0, 1e-5))
