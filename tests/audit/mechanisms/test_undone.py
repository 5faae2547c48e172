"""A release that returns to the same numbers at several likely noisy values, as a remainder does."""

import numpy as np
import pytest

from gnnaudit import Looped, Unit
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.absence import history, without
from gnnaudit.audit.mechanisms.undone import folded
from gnnaudit.audit.recorded.secrets.worlds import without_edges
from gnnaudit.audit.recorded.study import study

from ...conftest import small_graph
from ...nightly import nightly

GRAPH, SCALE = small_graph(), 10.0
FOLDED = {
    "a remainder": lambda noisy: np.mod(noisy, 10.0),
    "a remainder whose period is a step of the search": lambda noisy: np.mod(noisy, SCALE / 4),
    "a fractional part": lambda noisy: np.mod(noisy, 1.0),
    "a remainder of whole numbers": lambda noisy: np.rint(noisy) % 3,
    "a sine": np.sin,
    "an angle": lambda noisy: np.array([np.sin(noisy), np.cos(noisy)]),
    "a square": lambda noisy: (noisy - 90.0) ** 2,
}
ONE_TO_ONE = {
    "the number": lambda noisy: noisy,
    "a cube": lambda noisy: (noisy - 90.0) ** 3,
    "a number and its sine": lambda noisy: np.array([noisy, np.sin(noisy)]),
    "a squashed number": lambda noisy: np.tanh((noisy - 90.0) / 30.0),
    "a rounded number": np.rint,
    "a clipped number": lambda noisy: np.clip(noisy, 70.0, 110.0),
    "a positive part": lambda noisy: np.maximum(noisy - 90.0, 0.0),
    "a sign": lambda noisy: np.sign(noisy - 90.0),
}


def said(function, seed):
    """What the search says of a noisy number of edges of which the run releases a function."""

    def train(graph, seed):
        noisy = graph.edges.shape[1] + np.random.default_rng(seed).normal(0, SCALE)
        return {"number": np.atleast_1d(function(noisy))}

    model = Looped(train, unit=Unit.UNDIRECTED_EDGE, releases=("number",))
    first = history(study(model, GRAPH, Key("folded", seed), probed=False, searched=False), 0)
    _, shifts = without(first, without_edges(first.worlds, np.array([3])))
    return folded(first, shifts)


@pytest.mark.parametrize("seed", [0, 1, 2, *nightly(*range(3, 20))])
@pytest.mark.parametrize("name", FOLDED)
def test_a_release_that_returns_is_found_whatever_the_noise(name, seed):
    assert "give the same release" in said(FOLDED[name], seed)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 20))])
@pytest.mark.parametrize("name", ONE_TO_ONE)
def test_a_release_that_rises_with_the_noisy_number_does_not_return(name, seed):
    assert said(ONE_TO_ONE[name], seed) == ""
