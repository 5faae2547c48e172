"""Noisy degrees are released as they are. Beside them the release shows only the signs of noisy sums over neighbours. The degrees
alone cost what a Gaussian mechanism costs: an edge moves two of them by 1.
"""

import inspect
import math

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds.within_run import from_mechanisms

GRAPH, COLUMNS, CLAIM = load("campus:n=120:degree=6"), 6, Claim(2.0, 1e-5)
HONEST = math.sqrt(2) / mu_of_claim(CLAIM)  # standard deviation of the degrees


def apart(degrees, rows):
    return degrees


def joined(degrees, rows):
    """The noise of the rows covers the degrees."""
    return degrees + rows[:, 0]


def audited(share, beside=apart):
    """share: the noise of the degrees over the noise that the claim needs."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        degrees = graph.degree + share * HONEST * random.standard_normal(graph.nodes)
        rows = graph.adjacency() @ np.asarray(graph.x)[:, :COLUMNS]
        rows = rows + 5.0 * random.standard_normal(rows.shape)
        return {"degrees": beside(degrees, rows), "signs": np.where(rows > 0, 1.0, -1.0)}

    runs = Recorded(Case(Looped(train, releases=("degrees", "signs")), CLAIM), GRAPH, Key("alone"))
    return from_mechanisms(runs.case, runs.inside), train


def test_too_little_noise_in_an_array_is_refuted_though_another_array_hides_a_part_of_other_noise():
    bound, train = audited(0.25)
    exact = float(epsilon_of(4 * mu_of_claim(CLAIM), CLAIM.delta))
    assert bound.refuted
    assert exact * 0.999 < bound.epsilon <= exact * (1 + 1e-6)
    lines, first = inspect.getsourcelines(train)
    line = first + next(i for i, text in enumerate(lines) if "degrees = " in text)
    assert f"1 mechanism at {__file__.rpartition('/')[2]}, line {line} " in bound.method
    assert "'degrees' alone does not depend on the noisy values at" in bound.method


@pytest.mark.parametrize(("share", "beside"), [(1.05, apart), (0.25, joined)])
def test_enough_noise_and_degrees_that_depend_on_what_is_hidden_are_not_refuted(share, beside):
    assert not audited(share, beside)[0].refuted
