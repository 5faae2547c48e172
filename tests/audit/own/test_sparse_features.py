"""A user's model that reads sparse features gets sparse ones in every training, also on graphs that the audits build."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit import audit
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.audit.own.contract import contract
from gnnaudit.audit.recorded.exposed import Answering
from gnnaudit.models.data.loading import load
from gnnaudit.models.fitted import fitted
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.looped import Looped

from ...nightly import nightly

DENSE = load("campus:n=120:degree=6")
SPARSE = dataclasses.replace(DENSE, x=sp.csr_array(DENSE.x))
ABOUT = {"deployed": "queries", "anywhere": "graph queries"}  # a method that answers queries -> its part of a release
CLAIM = Claim(8.0, 1e-5, Unit.UNDIRECTED_EDGE)


def worlds(graph):
    return Worlds(graph, np.arange(1, dtype=np.uint64), np.arange(graph.nodes))


def posteriors(graph, x, seed):
    scores = np.asarray(graph.adjacency() @ x)[:, : graph.classes]
    scores = np.pad(scores, ((0, 0), (0, graph.classes - scores.shape[1])))
    scores = scores + 4 * np.random.default_rng(seed).standard_normal(scores.shape)
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}


def of_sparse(graph, seed):
    return posteriors(graph, graph.x.toarray(), seed)


def of_dense(graph, seed):
    return posteriors(graph, np.maximum(graph.x, 0), seed)


def test_the_contract_trains_a_model_on_features_that_are_stored_as_those_of_the_audited_graph():
    assert not any(check.failure for check in contract(Looped(of_sparse), SPARSE))
    assert all("toarray" in check.failure for check in contract(Looped(of_sparse), DENSE) if not check.unasked)


@pytest.mark.parametrize("graph", [SPARSE, *nightly(DENSE)], ids=["sparse", "dense"])
def test_every_training_of_a_run_gets_features_that_are_stored_as_those_of_the_audited_graph(graph):
    stored, names = set(), set()

    def train(given, seed):
        stored.add(type(given.x))
        names.add(given.name)
        return (of_sparse if sp.issparse(given.x) else of_dense)(given, seed)

    audit(Looped(train), graph, CLAIM, audits="all", attacks="all", rounds=2, shadows=2, targets=1, repeats=1)
    assert stored == {type(graph.x)}
    assert {"contract", "crafted", graph.name} <= names


@pytest.mark.parametrize("graph", [SPARSE, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("method", ["deployed", "anywhere"])
def test_queries_have_features_that_are_stored_as_those_of_the_audited_graph(graph, method):
    asked = []

    def answered(self, worlds, device="cpu"):
        def answer(query):
            x = query if method == "deployed" else query.x
            asked.append(type(x))
            return np.zeros((worlds.runs, x.shape[0], worlds.graph.classes))

        return answer

    model = type("Model", (Looped,), {method: answered})(of_sparse)
    Answering(model, (ABOUT[method],)).fit(worlds(graph))
    assert set(asked) == {type(graph.x)}


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (lambda graph, seed: {"posteriors": np.maximum(graph.x, 0.0) / np.linalg.norm(graph.x, axis=1)}, True),
        (lambda graph, seed: {"posteriors": graph.x.mean(1, keepdims=True)}, True),
        (lambda graph, seed: {"posteriors": {}["x"]}, False),
        (lambda graph, seed: refused(), False),
    ],
    ids=["norm", "mean", "KeyError", "refusal"],
)
def test_an_error_on_sparse_features_says_how_to_make_them_dense(train, told):
    def said(graph):
        with pytest.raises(ValueError, match=r"test_sparse_features\.py, line") as fault:
            fitted(Looped(train), worlds(graph))
        return str(fault.value)

    assert ("graph.x.toarray() is a dense array" in said(SPARSE)) == told


def refused():
    raise ValueError("too few nodes")
