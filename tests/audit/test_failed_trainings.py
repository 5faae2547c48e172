"""A program of which some trainings fail. What refutes its claim stays; without a refutation the verdict is inconclusive."""

import sys

import numpy as np
import pytest

from gnnaudit import Claim, Effort, Looped, audit, load
from gnnaudit.accounting.gaussian import mu_of_claim
from gnnaudit.audit.own.programs.program import External
from gnnaudit.reports.results import SkippedRow

from ..nightly import nightly

GRAPH, CLAIM = load("campus:n=120:degree=6"), Claim(1.0, 1e-6)
HONEST = 1.05 * 2**0.5 / mu_of_claim(CLAIM)  # standard deviation: an edge moves two counts by 1
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
graph, worlds = (np.load(f"{sys.argv[1]}/{name}.npz") for name in ("graph", "worlds"))
number = 1 + len(list(Path(__file__).parent.glob("call-*")))
Path(__file__).with_name(f"call-{number}").touch()
if FAILS:
    raise RuntimeError("an empty class")
n, edges, out = len(graph["y"]), graph["edge_index"], []
for run, seed in enumerate(worlds["seeds"]):
    there = np.ones(edges.shape[1], dtype=bool)
    if "edge_mask" in worlds:
        there = np.unpackbits(worlds["edge_mask"], axis=1, count=edges.shape[1])[run].astype(bool)
    degree = np.bincount(edges[1, there], minlength=n) + np.random.default_rng(int(seed)).normal(0, STD, n)
    scores = np.outer(degree, np.arange(graph["classes"])) / 100
    share = np.exp(scores - scores.max(1, keepdims=True))
    out.append((share / share.sum(1, keepdims=True))[worlds["watch"]])
np.save(f"{sys.argv[2]}/posteriors.npy", np.array(out, dtype=np.float32))
"""
FAILURE = 'raise RuntimeError("an empty class")'
LINE = 1 + PROGRAM.splitlines().index(f"    {FAILURE}")


WRONG_FILE = 'sys.exit(np.save(f"{sys.argv[2]}/posteriors.npy", np.zeros(3)))'


def audited(fails, std, tmp_path, instead=FAILURE, **options):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("FAILS", fails).replace("STD", str(std)).replace(FAILURE, instead))
    program = External(f"{sys.executable} {file} {{worlds}} {{out}}")
    return audit(program, GRAPH, CLAIM, audits="differential", repeats=1, out=tmp_path / "out", **options)


def test_a_claim_stays_refuted_although_the_training_that_measures_accuracy_failed(tmp_path):
    """An edge moves two counts by 1: mu is the root of two at a standard deviation of 1, and epsilon is about 7.5."""
    found = audited("number == 1", 1.0, tmp_path)
    assert found.run.exit_code == 1
    (skipped,) = (row for row in found.of(SkippedRow) if row.what == "accuracy")
    assert f"program.py, line {LINE}: RuntimeError: an empty class" in skipped.reason


def test_a_claim_that_would_not_be_refuted_is_inconclusive_if_a_training_failed(tmp_path):
    (tmp_path / "never").mkdir()
    assert audited("False", HONEST, tmp_path / "never").run.exit_code == 0
    assert audited("number == 1", HONEST, tmp_path).run.exit_code == 3


def test_a_training_that_writes_a_wrong_file_counts_as_failed(tmp_path):
    found = audited("number == 1", HONEST, tmp_path, WRONG_FILE)
    assert found.run.exit_code == 3
    (skipped,) = (row for row in found.of(SkippedRow) if row.what == "accuracy")
    assert "posteriors.npy" in skipped.reason


@pytest.mark.parametrize("fails", ["number == 4", *nightly("number in (2, 3)", "len(worlds['seeds']) and number > 20")])
def test_a_failure_within_the_audit_is_named_with_its_line_and_ends_inconclusive(fails, tmp_path):
    found = audited(fails, HONEST, tmp_path)
    assert found.run.exit_code == 3
    assert f"line {LINE}: RuntimeError: an empty class" in (tmp_path / "out" / "results.json").read_text()


def test_if_every_training_fails_nothing_was_tested(tmp_path):
    with pytest.raises(ValueError, match=f"nothing was tested.*line {LINE}: RuntimeError: an empty class"):
        audited("True", 1.0, tmp_path)


@pytest.mark.parametrize("first", [1, 3])
def test_a_run_in_which_nothing_was_tested_says_in_which_training_the_audit_failed(first):
    """The first training may fail because the model is wrong, a later one because of its noise."""
    begun = []

    def train(graph, seed):
        begun.append(seed)
        if len(begun) >= first:
            raise RuntimeError("no such size")
        return {"count": graph.degree + np.random.default_rng(seed).laplace(0, 2, graph.nodes)}

    model = type("Brief", (Looped,), {"effort": Effort(thorough=False)})(train, releases=("count",))
    with pytest.raises(ValueError, match="RuntimeError: no such size") as fault:
        audit(model, load("campus:n=120:degree=6"), Claim(1.0, 0.0), audits="differential")
    assert ("(in training 3 of this audit)" in str(fault.value)) == (first == 3)
    assert ("of this audit" in str(fault.value)) == (first > 1)
