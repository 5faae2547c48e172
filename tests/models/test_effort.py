"""What a model declares about the work that audits may spend on it, and about where its draws are recorded."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.gate import is_recorded
from gnnaudit.audit.own import contract
from gnnaudit.audit.own.new_process import NotTrained
from gnnaudit.audit.own.premises import checked_first
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.recorded.playing import Played
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.capabilities import FEW, THOROUGH, Effort, RunsElsewhere, effort


def noisy(graph, seed):
    noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    return {"posteriors": graph.adjacency() @ np.eye(graph.classes)[graph.y] + noise}


@dataclasses.dataclass(frozen=True)
class Brief(Looped):
    effort = Effort(thorough=False)


def test_a_model_without_a_declaration_gets_thorough_audits_and_a_program_few_trainings():
    program = External(f"{sys.executable} {{worlds}} {{out}}")
    assert effort(Looped(noisy)) is THOROUGH
    assert effort(program) is FEW
    counts = [field.name for field in dataclasses.fields(Effort)]
    assert all(getattr(FEW, name) <= getattr(THOROUGH, name) for name in counts)
    assert isinstance(program, RunsElsewhere)
    assert not isinstance(Looped(noisy), RunsElsewhere)


@pytest.mark.parametrize("record", [True, False])
def test_a_program_says_whether_it_records_its_draws(record):
    assert is_recorded(External(f"{sys.executable} {{worlds}} {{out}}", record=record)) == record


def test_the_effort_that_a_model_declares_decides_what_is_checked_and_not_its_class(monkeypatch):
    def refused(content):
        raise NotTrained("a new process takes seconds to start")

    monkeypatch.setattr(contract, "trained", refused)
    assert checked_first(Looped(noisy), contract.tiny(48))
    assert checked_first(Brief(noisy), contract.tiny(48)) == ()


@pytest.mark.nightly
def test_the_trainings_of_the_example_are_as_many_as_the_page_says(tmp_path):
    root = Path(__file__).parents[2]
    page = " ".join((root / "docs" / "own-model.md").read_text().split())
    spec = importlib.util.spec_from_file_location("own_function", root / "examples" / "own_function.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    brief = type("Brief", (Looped,), {"effort": Effort(thorough=False, secrets=4, entries=8)})
    given = {field.name: getattr(module.model, field.name) for field in dataclasses.fields(Looped) if field.init}
    said = (r"trains `examples/own_function.py` about ([\d,]+) times", r"then trains that example about ([\d,]+) times")
    for model, words in zip((module.model, brief(**given)), said, strict=True):
        before, case = Played.runs, Case(model, Claim(8.0, 1e-5))
        AUDITS["differential"].run(Setting(case, load("campus:n=120:degree=6"), Store(tmp_path), Key("page"), 3, 1e-4))
        assert Played.runs - before == pytest.approx(int(re.search(words, page)[1].replace(",", "")), rel=0.1)
