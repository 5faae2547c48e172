"""Scores that a program excludes between rounds of the exponential mechanism. The truth is the softmax over the scores that are
left: Gumbel noise picks each with this probability, also with the same noise in each round (Durfee and Rogers 2019).
"""

import numpy as np
import pytest
from scipy.special import softmax

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms
from gnnaudit.models.recorder.mechanisms.mechanism import REPORT

SCORES = np.array([1.0, 3.0, 2.5, 0.0, 2.0])


def fresh_noise(rng):
    chosen = []
    for _ in range(3):
        noisy = SCORES + rng.gumbel(size=5)
        noisy[chosen] = -np.inf
        chosen.append(int(np.argmax(noisy)))
    return chosen


def same_noise(rng):
    chosen, noisy = [], SCORES + rng.gumbel(size=5)
    for _ in range(3):
        chosen.append(int(noisy.argmax()))
        noisy[chosen[-1]] = -1e9
    return chosen


def followed(way, seed=1, script=None):
    with recording(follow=Mechanisms(script)) as recorded:
        chosen = way(np.random.default_rng(seed))
    return chosen, recorded.follow.found, recorded.notes


@pytest.mark.parametrize("way", [fresh_noise, same_noise])
def test_each_round_is_a_report_of_the_scores_that_are_left(way):
    chosen, found, notes = followed(way)
    assert chosen == way(np.random.default_rng(1))
    assert notes == []
    assert [m.law for m in found] == [REPORT] * 3
    for i, mechanism in enumerate(found):
        left = np.where(np.isin(np.arange(5), chosen[:i]), -np.inf, SCORES)
        assert mechanism.clean == pytest.approx(softmax(left), abs=1e-12)
    assert followed(way, 2, found)[0] == chosen


def another_is_excluded(rng):
    noisy = SCORES + rng.gumbel(size=5)
    chosen = int(noisy.argmax())
    noisy[(chosen + 1) % 5] = -np.inf
    return [chosen, int(noisy.argmax())]


def a_score_that_may_win(rng):
    noisy = SCORES + rng.gumbel(size=5)
    noisy[0] = 2.0
    return [int(noisy.argmax())]


@pytest.mark.parametrize(("way", "reports"), [(another_is_excluded, 1), (a_score_that_may_win, 0)])
def test_other_scores_are_recorded_before_the_program_writes_into_them(way, reports):
    """They are then values with Gumbel noise, for which no cost is computed."""
    chosen, found, notes = followed(way)
    assert chosen == way(np.random.default_rng(1))
    assert notes == []
    assert [m.law for m in found] == [REPORT] * reports + ["gumbel"]
    assert np.array_equal(found[-1].clean, SCORES)
