"""Faults and honest models through all of `audit run`, as a user's own models: from the contract to the exit code."""

import pytest

from gnnaudit.audit.faults.as_strangers import CODES, everything, whole_run
from gnnaudit.audit.faults.planted import FAULTS
from gnnaudit.audit.own.model_file import is_built_in
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import Facts

GRAPH = load("campus:n=300")
PLAYED = list(everything(Facts.of(GRAPH)))
QUICK = ("onestream",)


def test_every_fault_that_sampling_can_show_is_played_and_nothing_says_which_system_it_is():
    assert {f.name for f in FAULTS if not f.undetectable} <= {name for name, *_ in PLAYED}
    for *_, make in (PLAYED[0], PLAYED[-1]):  # a fault of this package, and a model that was written as a user's own
        assert not is_built_in(make())


def test_a_faulty_model_that_passes_is_wrong_and_so_is_an_honest_one_that_is_refuted():
    assert 0 not in CODES[True]
    assert 1 not in CODES[False]


@pytest.mark.parametrize("played", [p for p in PLAYED if p[0] in QUICK], ids=lambda p: p[0])
def test_models_as_strangers_write_them_are_judged_rightly(played):
    right, found = whole_run(*played, GRAPH, "strangers")
    assert right, found


@pytest.mark.nightly
@pytest.mark.parametrize("played", [p for p in PLAYED if p[0] not in QUICK], ids=lambda p: p[0])
def test_every_planted_fault_and_honest_model_is_judged_rightly_as_a_strangers(played):
    right, found = whole_run(*played, GRAPH, "strangers")
    assert right, found
