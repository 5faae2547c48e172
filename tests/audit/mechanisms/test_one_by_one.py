"""Noise that a program draws one number at a time and gathers from lists. The truth is the closed form of the Gaussian mechanism:
an edge moves two rows of counts by 1 each.
"""

import random

import numpy as np
import pytest

from gnnaudit import Claim, Looped
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...conftest import small_graph
from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH, CLAIM = small_graph(nodes=16, edges=30), Claim(2.01, 1e-5)
STD = 2**0.5 / mu_of_claim(Claim(2.0, 1e-5))


def bounds(noisy, shown=released, releases=("posteriors",)):
    model = Looped(lambda graph, seed: shown(noisy(counts(graph), random.Random(seed))), releases=releases)
    return differential(Setting(Case(model, CLAIM), GRAPH, None, Key("one by one"))).bounds


def added(clean, draw, std=STD):
    return clean + np.array([[draw.gauss(0.0, std) for _ in row] for row in clean])


def scaled(clean, draw, std=STD):
    return clean + np.asarray([std * draw.normalvariate(0, 1) for _ in range(clean.size)]).reshape(clean.shape)


def located(clean, draw, std=STD):
    return np.array([[draw.gauss(count, std) for count in row] for row in clean.tolist()])


WAYS = [scaled, *nightly(added, located)]


@pytest.mark.parametrize("way", WAYS)
def test_enough_noise_is_supported(way):
    found = bounds(way)
    assert not any(bound.refuted for bound in found)
    assert any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize("way", WAYS)
def test_half_the_noise_is_refuted(way):
    """All noisy numbers are released: of `located`, posteriors show only a part, and then nothing is concluded."""
    made = bounds(lambda clean, draw: way(clean, draw, STD / 2), lambda noisy: {"table": noisy}, ("table",))
    found = [bound.epsilon for bound in made if bound.refuted]
    assert found == [pytest.approx(epsilon_of(2**1.5 / STD, CLAIM.delta), 1e-3)]


def one_for_a_row(clean, draw):
    return clean + np.array([[draw.gauss(0, STD)] * clean.shape[1] for _ in clean])


def half_of_the_numbers(clean, draw):
    few = [draw.gauss(0, STD) for _ in range(clean.size // 2)]
    return clean + np.array(few + few).reshape(clean.shape)


@pytest.mark.parametrize("fault", [one_for_a_row, half_of_the_numbers])
def test_a_number_that_is_used_twice_supports_no_claim(fault):
    found = bounds(fault)
    assert any(bound.refuted for bound in found) or not any(np.isfinite(b.reach) and not b.failed for b in found)
