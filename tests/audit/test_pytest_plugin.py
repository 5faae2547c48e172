"""A user's own test suite with the plugin: what passes, what fails, and the line that it prints."""

import os
import subprocess
import sys

import pytest

ALONE = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # an installed copy would be the plugin a second time
SUITE = """
import io
import pickle

import numpy as np
import pytest
from gnnaudit import Claim, Looped, Unit
from gnnaudit.audit.mechanisms.searches import crossings, further_runs, other_graphs, other_rows
from gnnaudit.audit.recorded import seeds, study

seeds.PROBES, study.SEEDS = ((5_000, 8),), 8  # each seed that is tried is a training
crossings.SECONDS = further_runs.SECONDS = other_graphs.SECONDS = other_rows.SECONDS = 0.1
further_runs.RUNS = range(1, 9)

@pytest.fixture(autouse=True)
def in_this_process(request, monkeypatch):
    "A new process, in which each audit trains once, takes seconds to start."
    if "assert_private" in request.fixturenames:
        from gnnaudit.audit.own import contract

        def trained(content):
            file = io.BytesIO(content)
            pickle.load(file)  # the search path
            model, worlds = pickle.load(file)
            return model.fit(worlds)

        monkeypatch.setattr(contract, "trained", trained)

def logs(scores):
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}

def leaks(graph, seed):
    "Counts of neighbours without noise: each edge shows."
    return logs(graph.adjacency() @ np.eye(graph.classes)[graph.y])

def blind(graph, seed):
    "Looks at no edge."
    return logs(np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes)))

def half(graph, seed):
    "Counts of neighbours with noise on two of the columns."
    noise = 12 * np.random.default_rng(seed).standard_normal((graph.nodes, 2))
    counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    counts[:, :2] += noise
    return logs(counts)

CLAIM = Claim(epsilon=0.5, delta=1e-5, unit=Unit.UNDIRECTED_EDGE)
def test_leak(assert_private):
    assert_private(leaks, CLAIM, audits="differential", weak="pass", graph="campus:n=120:degree=6")

def test_weak(assert_private):
    assert_private(blind, CLAIM, audits="one-run", rounds=2, graph="campus:n=120:degree=6")

def test_weak_but_let_pass(assert_private):
    assert assert_private(blind, CLAIM, audits="one-run", weak="pass", rounds=2, graph="campus:n=120:degree=6").rows

def test_weak_with_a_claim_of_the_model(assert_private):
    model = Looped(blind, claim=CLAIM)
    assert assert_private(model, audits="one-run", weak="pass", rounds=2, graph="campus:n=120:degree=6").rows

def test_half(assert_private):
    assert_private(half, CLAIM, audits="differential", weak="pass", graph="campus:n=120:degree=6")

@pytest.mark.parametrize(
    "given",
    [
        {"train": 5},
        {"claim": (1.0, 1e-5)},
        {"claim": None},
        {"graph": 5},
        {"graph": "nowhere"},
        {"weak": "maybe"},
        {"nosuch": 1},
        {"rounds": "many"},
    ],
    ids=str,
)
def test_wrong(assert_private, given):
    assert_private(**{"train": blind, "claim": CLAIM, "graph": "campus:n=300", "audits": "none", **given})

def test_without():
    pass
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_mine.py").write_text(SUITE)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "gnnaudit.audit.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-rA",
        "--strict-markers",
    ]
    done = subprocess.run([*words, "."], cwd=folder, env=ALONE, capture_output=True, text=True, check=False)
    return folder, words, done.stdout


def test_a_leak_fails_and_its_line_says_the_claim_and_the_bound(outcome):
    assert "FAILED test_mine.py::test_leak - " in outcome[2]
    (line,) = (line for line in outcome[2].splitlines() if line.startswith("test_mine.py::test_leak: "))
    assert line.startswith("test_mine.py::test_leak: leaks (own), ε = 0.5, δ = 1e-05 for an undirected edge: refuted: infinite ")


def test_an_audit_that_is_too_weak_fails_with_the_way_out_and_passes_only_when_told_so(outcome):
    assert "FAILED test_mine.py::test_weak - " in outcome[2]
    assert 'weak="pass" lets a claim pass' in outcome[2]
    assert "PASSED test_mine.py::test_weak_but_let_pass" in outcome[2]
    assert "PASSED test_mine.py::test_weak_with_a_claim_of_the_model" in outcome[2]


def test_a_path_past_the_noise_is_no_weak_test(outcome):
    assert "FAILED test_mine.py::test_half - " in outcome[2]
    (line,) = (line for line in outcome[2].splitlines() if line.startswith("test_mine.py::test_half: "))
    assert "inconclusive" in line
    assert "although every noisy value is the same" in line


def test_a_wrong_argument_fails_with_one_line_that_names_it_and_no_source(outcome):
    told = [line for line in outcome[2].splitlines() if line.startswith("assert_private: ")]
    assert len(told) == 8, outcome[2]
    for line, what in zip(
        told,
        ("train: lacks name", "claim=", "claim=None", "5", "nowhere", "weak='maybe'", "nosuch: no such", "rounds='many'"),
        strict=True,
    ):
        assert what in line
    assert "Traceback" not in outcome[2]
    assert "def audited" not in outcome[2]
    assert "During handling" not in outcome[2]


def test_audits_can_be_deselected_by_their_marker(outcome):
    folder, words, _ = outcome
    done = subprocess.run([*words, "-m", "not privacy", "."], cwd=folder, env=ALONE, capture_output=True, text=True, check=False)
    assert "1 passed, 13 deselected" in done.stdout
    assert "privacy audits" not in done.stdout
