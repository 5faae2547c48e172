"""Very many moves that are each as small as rounding leave no reach if they matter together; true rounding does not count."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load
from gnnaudit.audit.recorded.laws import cost, left_out
from gnnaudit.audit.recorded.playing import small_moves
from gnnaudit.models.recorder.draws.draw import Draw
from gnnaudit.models.recorder.mechanisms.mechanism import Mechanism

from .votes import released

GRAPH, SIZE, SHARE = load("campus:n=120:degree=6"), 300, 4e-6


def mechanism(law, kind=np.float64):
    clean = np.random.default_rng(0).random((SIZE, SIZE))
    draw = Draw(law, np.ones(clean.shape), "a line")
    return Mechanism("a line", draw, 1.0, clean.astype(kind).astype(np.float64), (clean + 1).astype(kind))


def moves(rest):
    """Two entries move by 0.5, all others by `rest`."""
    by = np.full((SIZE, SIZE), rest)
    by[0, 1] = by[1, 0] = 0.5
    return by


@pytest.mark.parametrize(("law", "rest"), [("laplace", SHARE), ("normal", 9e-6)])
def test_only_moves_that_matter_together_are_told(law, rest):
    """90 000 entries: their L1 norm is 0.36 beside 1, their L2 norm 0.003 beside 0.7."""
    noisy = mechanism(law)
    assert bool(left_out([noisy], [moves(rest)])) == (law == "laplace")
    assert cost([noisy], [moves(rest)], 1e-5) == cost([noisy], [moves(0.0)], 1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rounding_of_every_entry_is_no_move(kind):
    noisy = mechanism("laplace", kind)
    rounding = np.spacing(noisy.clean.astype(kind)).astype(np.float64)
    assert not left_out([noisy], [np.where(moves(0.0) > 0, 0.5, rounding)])


def test_moves_add_up_relative_to_the_counted_ones():
    assert not small_moves(1.0, 1.009, 7, 1e-5)
    assert "7 entries" in small_moves(1.0, 1.011, 7, 1e-5)
    assert small_moves(0.0, 1e-3, 7, 1e-5)


def train(shared):
    """Laplace noise of scale 2 on the adjacency matrix. shared: a statistic in every entry; an edge moves each by so much, as the
    density of a larger graph does: together 0.26 beside 2."""

    def run(graph, seed):
        clean = graph.adjacency().toarray().astype(float) - shared * graph.edges.shape[1]
        matrix = clean + np.random.default_rng(seed).laplace(0, 2.0, clean.shape)
        return released(0.05 * matrix @ np.eye(graph.classes)[graph.y]) | {"matrix": matrix}

    return Looped(run, releases=("posteriors", "matrix"), events=dp.LaplaceDpEvent(1.0))


@pytest.mark.parametrize(("shared", "says"), [(1.8e-5, "inconclusive"), (0.0, "not refuted")])
def test_a_statistic_in_every_entry_leaves_no_reach(shared, says):
    found = audit(train(shared), GRAPH, Claim(1.02, 0.0), attacks="none", audits="differential", repeats=1)
    assert found.run.verdict == says
