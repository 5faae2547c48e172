"""Noisy degrees that a run releases number by number, and others of which the release loses something."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.gate import Recorded
from gnnaudit.audit.mechanisms.shown.whole import released_whole
from gnnaudit.audit.own_bounds.adversary.hiding import free_draws

from ...recorded.votes import released

GRAPH = load("campus:n=120:degree=6")


def plain(noisy, random):
    return noisy


def single(noisy, random):
    return noisy.astype(np.float32)


def clipped(noisy, random):
    """No noise of a usual size reaches the ends."""
    return np.clip(noisy, -90.0, 90.0)


def rounded(noisy, random):
    return np.round(noisy, 3)


@pytest.mark.parametrize(("shown", "whole"), [(plain, True), (single, True), (clipped, False), (rounded, False)])
def test_only_arrays_that_equal_the_noisy_values_also_far_away_release_them_whole(shown, whole):
    def train(graph, seed):
        random = np.random.default_rng(seed)
        noisy = graph.degree + random.laplace(0, 4.0, graph.nodes)
        return released(np.zeros((graph.nodes, graph.classes))) | {"degrees": shown(noisy, random)}

    model = Looped(train, releases=("posteriors", "degrees"))
    first = Recorded(Case(model, Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE)), GRAPH, Key("whole")).inside.run
    assert released_whole(first, [0], free_draws(first)) is whole
