"""A model that keeps data from one training for the next hides secrets from every repetition: a new process shows it."""

import functools

import numpy as np
import pytest

from gnnaudit import Looped
from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.own.contract import EARLIER, SIZES, Unasked, depends_on_nothing_earlier, tiny
from gnnaudit.audit.own.premises import checked_first

GRAPH = tiny(SIZES[-1])
KEPT = {}


def sums(graph):
    return graph.adjacency() @ (np.eye(graph.classes)[graph.y] * graph.train[:, None])


def noisy(values, seed):
    values = values + np.random.default_rng(seed).standard_normal(values.shape)
    return {"posteriors": values - np.logaddexp.reduce(values, axis=1, keepdims=True)}


def honest(graph, seed):
    return noisy(sums(graph), seed)


def by_name_and_size(graph, seed):
    """The sums of the first graph of this name and size serve all later ones."""
    return noisy(KEPT.setdefault((graph.name, graph.nodes), sums(graph)), seed)


def by_content(graph, seed):
    """A cache whose key is the data changes nothing."""
    key = (graph.edges.tobytes(), graph.y.tobytes(), graph.train.tobytes())
    return noisy(KEPT.setdefault(key, sums(graph)), seed)


@functools.cache
def table(nodes):
    return {}


def memoised(graph, seed):
    return noisy(table(graph.nodes).setdefault("sums", sums(graph)), seed)


class Remembers:
    """A callable object that stores what it computed first."""

    def __init__(self):
        self.first = None

    def __call__(self, graph, seed):
        if self.first is None or len(self.first) != graph.nodes:
            self.first = sums(graph)
        return noisy(self.first, seed)


@pytest.mark.parametrize("train", [by_name_and_size, memoised, Remembers()], ids=["name and size", "lru_cache", "object"])
def test_a_model_that_keeps_the_data_of_an_earlier_training_is_found(train):
    failure = depends_on_nothing_earlier(Looped(train, name="keeps"), GRAPH)
    assert failure is not None
    assert "a training keeps data for later ones" in failure


@pytest.mark.parametrize("train", [honest, by_content])
def test_a_model_that_keeps_nothing_that_matters_passes(train):
    assert depends_on_nothing_earlier(Looped(train, name="keeps nothing"), GRAPH) is None


def test_a_model_that_no_other_process_can_load_is_not_asked():
    def local(graph, seed):
        return honest(graph, seed)

    with pytest.raises(Unasked, match="cannot be trained in a new process: it cannot be pickled"):
        depends_on_nothing_earlier(Looped(local, name="local"), GRAPH)


@pytest.mark.parametrize(("train", "how"), [(by_name_and_size, "fails"), (honest, "holds")])
def test_the_clause_is_among_those_that_are_checked_before_an_audit(train, how):
    checks = {check.name: check.how for check in checked_first(Looped(train, unit=Unit.UNDIRECTED_EDGE, name="checked"))}
    assert checks[EARLIER] == how
