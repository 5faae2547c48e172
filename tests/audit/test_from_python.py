"""`gnnaudit.audit`: what it refuses before it trains anything."""

import dataclasses
import math
import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, audit, load
from gnnaudit.audit.from_python import Audited, as_model
from gnnaudit.audit.pytest_plugin import audited
from gnnaudit.reports.formats import html

GRAPH = load("campus:n=300")
CLAIM = Claim(1.0, 1e-5)
NOTHING: dict[str, Any] = {"audits": "none", "repeats": 1}


def train(graph, seed):
    return {"posteriors": np.zeros((graph.nodes, graph.classes))}


def uniform(graph, seed):
    return {"posteriors": np.full((graph.nodes, graph.classes), -np.log(graph.classes))}


def change(**fields):
    return dataclasses.replace(GRAPH, **fields)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((Looped, GRAPH, CLAIM), "model=<class"),
        ((3, GRAPH, CLAIM), "model: lacks name"),
        ((SimpleNamespace(fit=train), GRAPH, CLAIM), "model: lacks name"),
        ((Looped(train), "campus:n=300", CLAIM), "graph='campus:n=300': must be a Graph. Write load('campus:n=300')."),
        ((Looped(train), GRAPH, 1.0), "claim=1.0: must be a Claim"),
        ((train, GRAPH), "claim=None: a function states no claim. Give one"),
        ((train, GRAPH, 1.0), "claim=1.0: must be a Claim"),
        ((lambda graph: {}, GRAPH, CLAIM), "train(graph): must take a graph and a seed"),
        ((Looped(train), GRAPH), "claim=None: train states no claim. Give one, such as Claim("),
        ((Looped(train), GRAPH, []), "claim=[]: must be a Claim"),
        ((Looped(train), change(edges=GRAPH.edges[::-1]), CLAIM), "edges hold "),
        ((Looped(train), change(edges=GRAPH.edges[:, :0]), CLAIM), "edges have shape (2, 0): the graph has no edges"),
        ((Looped(train), change(test=GRAPH.test & False), CLAIM), "test holds none of the 300 nodes"),
        ((Looped(train), GRAPH, Claim(1.0, 1e-5, relation="replace")), "relation=replace: the audits of a claim about"),
        ((Looped(train), GRAPH, Claim(1.0, 1e-5, tuned_over=3)), "tuned_over=3: must be 1"),
        ((Looped(train), GRAPH, Claim(math.inf, 1e-5)), "epsilon=inf: claims nothing"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(arguments, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        audit(*arguments, **NOTHING)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds=0: "),
        ({"rounds": "x"}, "rounds='x': "),
        ({"rounds": 1.5}, "rounds=1.5: "),
        ({"alpha": 2}, "alpha=2: "),
        ({"jobs": 0}, "jobs=0: "),
        ({"device": "tpu"}, "device='tpu': "),
        ({"memory": -1}, "memory=-1: "),
        ({"nope": 3}, "nope: no such option."),
        ({"audits": "nope"}, "audits=nope: must be all, none, or some of"),
        ({"out": 3}, "out=3: must be the path of a folder"),
        ({"out": ""}, "out='': is empty"),
        ({"seed": "a\udcff"}, "seed='a\\udcff': is no text in UTF-8"),
        ({"epsilon": 3.0}, "epsilon=3.0: is no option here. The argument claim takes its place."),
        ({"models": "gap"}, "models='gap': is no option here. The argument model takes its place."),
    ],
)
def test_a_wrong_option_is_told_as_by_the_command(options, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        audit(Looped(train), GRAPH, CLAIM, **(NOTHING | options))


def test_a_report_is_drawn_only_where_it_can_be_read(tmp_path, monkeypatch):
    drawn: list[Any] = []
    monkeypatch.setattr(html, "render", lambda folder, *workers: drawn.append(folder))
    audit(Looped(uniform), GRAPH, CLAIM, **NOTHING)
    assert drawn == []
    audit(Looped(uniform), GRAPH, CLAIM, out=tmp_path / "kept", **NOTHING)
    assert drawn == [tmp_path / "kept"]


def test_a_model_that_changed_since_its_last_audit_is_examined_anew():
    graph, size = load("campus:n=120:degree=6"), [6.0]

    def votes(graph, seed):
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        noisy = graph.adjacency() @ np.eye(graph.classes)[graph.y] + size[0] * noise
        return {"posteriors": noisy - np.log(np.exp(noisy).sum(1, keepdims=True))}

    def code(of):
        size[0] = of
        options = {"audits": "differential", "attacks": "none", "repeats": 1}
        return audit(model, graph, Claim(1.2, 1e-5, Unit.UNDIRECTED_EDGE), **options).run.exit_code

    model = Looped(votes, unit=Unit.UNDIRECTED_EDGE, events=dp.GaussianDpEvent(6 / 2**0.5))
    assert [code(6.0), code(1.0), code(6.0)] == [0, 1, 0]


def test_a_function_is_audited_as_a_model_that_protects_the_unit_of_the_claim():
    def count(graph, seed):
        logits = np.zeros((graph.nodes, graph.classes))
        logits[:, 0] = graph.train.sum() / 100  # a node moves it; an edge does not
        return {"posteriors": logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)}

    options = {"audits": "differential", "repeats": 1}
    graph = load("campus:n=120:degree=6")
    assert audit(count, graph, Claim(1.0, 1e-4, Unit.NODE), **options).run.verdict == "refuted"


class Callable:
    def __call__(self, graph, seed):
        return uniform(graph, seed)


@pytest.mark.parametrize("function", [uniform, partial(uniform), Callable(), Callable().__call__])
def test_whatever_can_be_called_and_has_no_fit_is_a_function_for_both_doors(function):
    assert isinstance(as_model(function, CLAIM), Looped)
    assert {type(audited(function, CLAIM, GRAPH, NOTHING)[0]), type(audit(function, GRAPH, CLAIM, **NOTHING))} == {Audited}


@pytest.mark.parametrize("kept", [True, False])
def test_printed_results_say_claim_verdict_bound_audits_and_report_in_a_line_each(tmp_path, kept):
    out = tmp_path / "kept" if kept else None
    found = audit(uniform, GRAPH, CLAIM, out=out, audits="replay", repeats=1)
    assert str(found).splitlines() == [
        "uniform (own), ε = 1, δ = 1e-05 for an undirected edge: inconclusive: no audit tested this claim: replay was skipped, "
        f"because {next(row.reason for row in found.rows if getattr(row, 'what', '') == 'audit replay')}",
        "lower bound on ε: none",
        "audits: none (skipped: replay)",
        f"report: {out / 'report.html' if out else 'none, because out=FOLDER was not given'}",
    ]
    assert found.run.exit_code == 3


def test_printed_results_name_the_lower_bound_with_its_confidence():
    printed = str(audit(uniform, load("campus:n=120:degree=6"), CLAIM, audits="differential", repeats=1))
    assert "\nlower bound on ε: at least 0 (100 %, exact), by differential\naudits: differential\n" in printed


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((train, CLAIM), {"graph": GRAPH}, "audit: multiple values for argument 'graph'. "),
        ((train,), {"claim": CLAIM}, "audit: missing a required argument: 'graph'. "),
        ((), {"graph": GRAPH, "claim": CLAIM}, "audit: missing a required argument: 'model'. "),
        ((train, GRAPH, CLAIM, "out"), {}, "audit: too many positional arguments. "),
    ],
)
def test_arguments_in_another_order_or_number_say_what_to_write(arguments, named, said):
    with pytest.raises(TypeError, match=f"^{re.escape(said)}Write audit\\(model, graph, claim\\): the graph comes second"):
        audit(*arguments, **named)
