"""A model that fails on the small graph of unusual nodes, or is not tried there: the verdict says that no such node was examined,
and why.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Effort, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

GRAPH = load("campus:n=120:degree=6")
SIGMA, DELTA = 2.0, 1e-5
CLAIM = Claim(float(epsilon_of(2**0.5 / SIGMA, DELTA)) * 1.001, DELTA, Unit.UNDIRECTED_EDGE, exposes=("sums",))
SAID = "were not examined, because on a small graph of unusual nodes the model fails ("


def sums(graph, seed):
    rows = graph.x / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1e-9)
    return {"sums": graph.adjacency() @ rows + SIGMA * np.random.default_rng(seed).standard_normal(rows.shape)}


def needs_neighbours(graph, seed):
    """As a normalisation that divides by the smallest degree of a component does."""
    if np.count_nonzero(graph.degree == 0) > 4:
        raise ZeroDivisionError("a node has no neighbour")
    return sums(graph, seed)


def within_the_run(graph, seed):
    if np.count_nonzero(graph.degree == 0) > 4:
        raise ZeroDivisionError("a node has no neighbour")
    return {"sums": np.tanh(sums(graph, seed)["sums"])}


class Slow(Looped):
    effort = Effort(thorough=False, secrets=4, entries=8)


def squashed(graph, seed):
    """Noise within the run: the release shows a function of the noisy sums."""
    return {"sums": np.tanh(sums(graph, seed)["sums"])}


def judged(train, tmp_path, kind=Looped):
    model = kind(train, releases=("sums",))
    found = AUDITS["differential"].run(Setting(Case(model, CLAIM), GRAPH, Store(tmp_path), Key("unusual"), 2, 1e-4))
    return found, judge(CLAIM, (), found.bounds, notices=1.5)


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("train", [needs_neighbours, within_the_run])
def test_the_verdict_names_the_line_at_which_the_model_fails_on_unusual_nodes(train, tmp_path):
    _, verdict = judged(train, tmp_path)
    assert verdict.kind == "not-refuted"
    line = train.__code__.co_firstlineno + (3 if train is needs_neighbours else 2)
    assert SAID in verdict.sentence
    assert f"test_failing_on_unusual_nodes.py, line {line}: ZeroDivisionError: a node has no neighbour)" in verdict.sentence


@pytest.mark.usefixtures("thorough")
def test_a_model_that_runs_on_unusual_nodes_is_not_said_to_fail_there(tmp_path):
    _, verdict = judged(sums, tmp_path)
    assert verdict.kind == "not-refuted"
    assert "not examined" not in verdict.sentence


@pytest.mark.parametrize(("train", "kind", "left_out"), [(squashed, Slow, True), (sums, Slow, False), (squashed, Looped, False)])
def test_the_verdict_says_if_little_effort_left_unusual_nodes_out(train, kind, left_out, tmp_path):
    """Noise on the release itself is examined on unusual nodes with any effort."""
    _, verdict = judged(train, tmp_path, kind)
    assert verdict.kind == "not-refuted"
    why = "an empty class, were not examined, because the model asks for little effort (thorough=False)"
    assert verdict.sentence.endswith(why) is left_out
    assert ("not examined" in verdict.sentence) is left_out
