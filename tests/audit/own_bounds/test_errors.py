"""Errors in runs with other draws: those of the model's code say why nothing is proved, and those of the tool itself come out."""

from __future__ import annotations

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds import within_run

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH, DELTA, STD = load("campus:n=120:degree=6"), 1e-6, 4.0
CLAIM = Claim(0.9 * float(epsilon_of(2**0.5 / STD, DELTA)), DELTA)  # an edge moves two rows by 1 each


class Train:
    """Counts with noise. Once it is `tired`, it refuses every seed that it has not seen."""

    def __init__(self):
        self.seen, self.tired = set(), False

    def __call__(self, graph, seed):
        if self.tired and seed not in self.seen:
            raise KeyError("another seed")
        self.seen.add(seed)
        values = counts(graph)
        return released(values + np.random.default_rng(seed).normal(0, STD, values.shape))


def bound(tired):
    train = Train()
    runs = Recorded(Case(Looped(train, name="tired"), CLAIM), GRAPH, Key("errors"))
    within = runs.inside
    train.tired = tired
    return within_run.from_mechanisms(runs.case, within)


@pytest.mark.parametrize("tired", [False, True])
def test_an_error_of_the_model_with_other_draws_is_the_reason_why_nothing_is_proved(tired):
    found = bound(tired)
    assert found.refuted is not tired
    assert any("with other draws the training ends (KeyError)" in text for text in found.failed) is tired


@pytest.mark.parametrize("name", ["hidden", *nightly("unseen", "shown_part_of")])
def test_an_error_of_our_own_comes_out(monkeypatch, name):
    def fails(*_):
        raise ZeroDivisionError(name)

    monkeypatch.setattr(within_run, name, fails)
    with pytest.raises(ZeroDivisionError, match=name):
        bound(False)
