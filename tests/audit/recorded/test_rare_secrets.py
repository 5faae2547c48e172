"""Noisy values that few secrets move: they are searched for a secret that does, and nothing is stated if none is found."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import counts, released

GRAPH = load("campus:n=120:degree=6")
NOISE, LONE, DELTA = 6.0, 37, 1e-5
MU = (3 / NOISE**2) ** 0.5  # an edge moves two votes and one total by 1 each
CLAIM = Claim(float(epsilon_of(MU, DELTA)), DELTA, Unit.UNDIRECTED_EDGE)


def code(train, releases, folder):
    def told(graph, seed):
        return {name: array for name, array in train(graph, seed).items() if name in releases}

    model = Looped(told, unit=CLAIM.unit, releases=releases, events=dp.GaussianDpEvent(1 / MU))
    found = AUDITS["differential"].run(Setting(Case(model, CLAIM), GRAPH, Store(folder), Key("rare"), 3, 1e-9))
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(dataclasses.replace(CLAIM, exposes=releases), (), bounds, 1.5).exit_code


def beside(graph, seed, total, noise):
    """Honest votes, and a noisy total that the posteriors show too."""
    random = np.random.default_rng(seed)
    votes = counts(graph) + NOISE * random.standard_normal((graph.nodes, graph.classes))
    noisy = np.array([total], dtype=float) + noise * random.standard_normal(1)
    return released(votes + noisy * np.eye(graph.classes)[0]) | {"total": noisy}


def at_one_node(graph):
    """How many edges the node LONE has: few edges of the graph move it."""
    return (graph.edges == LONE).any(0).sum()


def quiet(graph, seed):
    return beside(graph, seed, at_one_node(graph), 0.01)


def honest(graph, seed):
    return beside(graph, seed, at_one_node(graph), NOISE)


def coarse(graph, seed):
    """The number of edges in steps of 97: no edge of the graph moves it alone, and one edge does if 19 others are absent."""
    return beside(graph, seed, (graph.edges.shape[1] + 20) // 97, 0.01)


def coarse_honest(graph, seed):
    return beside(graph, seed, (graph.edges.shape[1] + 20) // 97, NOISE)


@pytest.mark.parametrize("releases", [("posteriors",), *nightly((("posteriors", "total"),))])
@pytest.mark.parametrize(("train", "expected"), [(quiet, 1), (honest, 0), *nightly((coarse, 1), (coarse_honest, 0))])
def test_a_noisy_value_that_few_secrets_move_is_measured(train, expected, releases, tmp_path):
    assert code(train, releases, tmp_path) == expected
