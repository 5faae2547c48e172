"""Caches: a training reads what an earlier training, perhaps on another graph, has left in a file."""

import math
import sys
import time

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.recorder.reads import Watching

GRAPH = load("campus:n=120:degree=6")
SCALE = 2.0  # an edge moves two degrees by 1 each
CLAIM = Claim(1.001, 0.0, Unit.UNDIRECTED_EDGE)
PROGRAM = """
import os, sys
import numpy as np

worlds, out = sys.argv[1:]
graph, run = np.load(worlds + "/graph.npz"), np.load(worlds + "/worlds.npz")
noise, n, classes = np.random.default_rng(int(run["seeds"][0])), len(graph["y"]), int(graph["classes"])
path = {path!r}
if path and not os.path.exists(path):
    np.save(path, np.array([graph["edge_index"].shape[1] / 2]))
edges = np.load(path) if path else np.zeros(1)
noisy = edges + noise.laplace(0, 0.1, 1)
votes = np.zeros((n, classes))
np.add.at(votes, graph["edge_index"][1], np.eye(classes)[graph["y"][graph["edge_index"][0]]])
votes = np.exp((votes + noise.laplace(0, 2.0, votes.shape)) / 10 + noisy / 1e6)
np.save(out + "/posteriors.npy", (votes / votes.sum(1, keepdims=True))[None].astype(np.float32))
"""


def degrees(graph, seed):
    return np.asarray(graph.adjacency().sum(1)).ravel() + np.random.default_rng(seed).laplace(0, SCALE, graph.nodes)


def caching(path):
    """The number of edges has almost no noise, but only the first training counts them."""

    def train(graph, seed):
        if not path.exists():
            np.save(path, np.array([float(graph.edges.shape[1])]))
        count = np.load(path) + np.random.default_rng(seed + 1).laplace(0, 0.1, 1)
        return {"count": count, "degrees": degrees(graph, seed)}

    return Looped(train, releases=("count", "degrees"))


def with_own_file(folder):
    """Each training writes a file and reads it again."""

    def train(graph, seed):
        np.save(folder / "best.npy", degrees(graph, seed))
        return {"degrees": np.load(folder / "best.npy")}

    return Looped(train, releases=("degrees",))


def with_public_file(path):
    def train(graph, seed):
        return {"degrees": degrees(graph, seed) + np.load(path)}

    return Looped(train, releases=("degrees",))


def bounds(model, tmp_path):
    case = Case(model, CLAIM)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path / "run"), Key("files"), 3, 1e-4)).bounds


def program(tmp_path, path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.format(path=str(path or "")))
    return External(f"{sys.executable} {script} {{worlds}} {{out}}")


def sentences(found):
    return [text for bound in found for text in (bound.method, *bound.failed, *bound.limits)]


def test_nothing_is_concluded_if_a_training_reads_the_cache_of_an_earlier_one(tmp_path):
    path = tmp_path / "edges.npy"
    found = bounds(caching(path), tmp_path)
    assert all(math.isinf(bound.reach) and not bound.refuted for bound in found)
    assert any(f"a training reads {path}, written since the audit began" in text for text in sentences(found))


def test_a_file_that_each_training_writes_anew_does_not_matter(tmp_path):
    found = bounds(with_own_file(tmp_path), tmp_path)
    assert any(math.isfinite(bound.reach) for bound in found)
    assert not any("best.npy" in text for text in sentences(found))


def test_a_verdict_names_a_file_that_is_older_than_the_audit(tmp_path, monkeypatch):
    path = tmp_path / "public.npy"
    np.save(path, np.ones(GRAPH.nodes))
    time.sleep(0.02)
    monkeypatch.setattr(Watching, "since", time.time())
    found = bounds(with_public_file(path), tmp_path)
    assert any(math.isfinite(bound.reach) for bound in found)
    text = f"this holds only if nothing of a private graph is in {path}: each training reads this, and none of the audit has "
    assert f"{text}written it" in sentences(found)


@pytest.mark.parametrize("cached", [True, False])
def test_programs_with_and_without_a_cache(cached, tmp_path):
    path = tmp_path / "edges.npy" if cached else None
    found = bounds(program(tmp_path, path), tmp_path)
    assert not any(bound.refuted for bound in found)
    assert any(math.isfinite(bound.reach) for bound in found) != cached
    assert any("edges.npy, written since the audit began" in text for text in sentences(found)) == cached
