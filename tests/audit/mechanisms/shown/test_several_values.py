"""A release that returns to the same numbers at several likely noisy values, as a remainder does."""

import numpy as np
import pytest

from gnnaudit import Looped, Unit
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.absence import history, moves_without
from gnnaudit.audit.mechanisms.shown.several_values import folded
from gnnaudit.audit.recorded.secrets.worlds import without_edges
from gnnaudit.audit.recorded.study import study

from ....conftest import small_graph
from ....nightly import nightly

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
WEIGHTS = np.random.default_rng(11).normal(0, 1, (3, 3))
FOLDED_ROWS = {
    "cosines of sums": lambda noisy: np.cos(noisy @ WEIGHTS + 0.3),
    "squares of sums": lambda noisy: np.square(noisy @ WEIGHTS),
}
ROWS = {
    "sums": lambda noisy: noisy @ WEIGHTS,
    "squashed sums": lambda noisy: np.tanh(noisy @ WEIGHTS / 40),
    "log-probabilities": lambda noisy: noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True),
    "rows of length one": lambda noisy: noisy / np.linalg.norm(noisy, axis=1, keepdims=True),
    "rows of length one, rounded": lambda noisy: (0.3 + 3e-5 * noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(
        np.float32
    ),
    "the row and cosines": lambda noisy: np.concatenate([noisy, np.cos(noisy)], axis=1),
}


def counted(graph):
    return graph.edges.shape[1]


def by_class(graph):
    return graph.adjacency() @ np.eye(graph.classes)[graph.y]


def said(function, seed, data=counted):
    """What the search says of noisy data of which the run releases a function."""

    def train(graph, seed):
        clean = data(graph)
        noise = np.random.default_rng(seed).normal(0, SCALE, np.shape(clean) or None)
        return {"number": np.atleast_1d(function(clean + noise))}

    model = Looped(train, unit=Unit.UNDIRECTED_EDGE, releases=("number",))
    first = history(study(model, GRAPH, Key("folded", seed), probed=False, searched=False), 0)
    shifts = moves_without(first, without_edges(first.worlds, np.array([3])))
    return folded(first, shifts)


@pytest.mark.parametrize("seed", [0, 1, 2, *nightly(*range(3, 20))])
@pytest.mark.parametrize("name", FOLDED)
def test_a_release_that_returns_is_found_whatever_the_noise(name, seed):
    assert "give the same release" in said(FOLDED[name], seed)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 20))])
@pytest.mark.parametrize("name", ONE_TO_ONE)
def test_a_release_that_rises_with_the_noisy_number_does_not_return(name, seed):
    assert said(ONE_TO_ONE[name], seed) == ""


@pytest.mark.parametrize("seeds", [2, *nightly(20)])
@pytest.mark.parametrize("name", FOLDED_ROWS)
def test_a_second_row_with_the_same_release_is_found(name, seeds):
    """In nearly all runs: where a square is near 0, a small change of its sum hardly changes the release."""
    found = sum("give the same release" in said(FOLDED_ROWS[name], seed, by_class) for seed in range(seeds))
    assert found >= 0.9 * seeds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 20))])
@pytest.mark.parametrize("name", ROWS)
def test_common_changes_and_factors_of_a_row_are_no_second_row(name, seed):
    assert said(ROWS[name], seed, by_class) == ""
