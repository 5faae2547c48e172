"""What is said of a change that no recorded noise covers: it names draws that may cover it, and is no fault by itself."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load
from gnnaudit.accounting.checks.conditions import is_fault

GRAPH, CLAIM = load("campus:n=120:degree=6"), Claim(2.0, 0.0)


def by_index(graph, seed):
    """Randomised response of each pair at e^2 / (1 + e^2), by lists of pairs, so that the recorder does not follow the coins."""
    pairs = np.triu_indices(graph.nodes, 1)
    flipped = np.flatnonzero(np.random.default_rng(seed).binomial(1, 1 / (1 + np.exp(2.0)), len(pairs[0])))
    table = np.triu(graph.adjacency().toarray(), 1)
    table[pairs[0][flipped], pairs[1][flipped]] = 1 - table[pairs[0][flipped], pairs[1][flipped]]
    return {"table": table}


def test_coins_that_are_not_followed_are_named_as_what_may_cover_the_change():
    said = str(audit(Looped(by_index, releases=("table",)), GRAPH, CLAIM, audits="differential"))
    assert "and no recorded noise covers this change; the random numbers of test_uncovered.py, line 15 may cover it" in said


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("the absence of all edges changes 'table' and no recorded noise covers this change", False),
        ("the numbers are the same for all seeds", True),
    ],
)
def test_what_no_recorded_noise_covers_is_no_fault_that_a_check_found(reason, fault):
    assert is_fault(reason) == fault
