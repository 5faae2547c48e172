"""Runs that execute other lines of a program than the first run are audited too."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.differential import MOST, differential, on_other_lines
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly
from ..recorded.votes import counts

GRAPH, STD = load("campus:n=120:degree=6"), 3.2
CLAIM = Claim(2.0, 1e-6)  # noise of std 3.2 on two numbers costs 1.97


def model(last):
    """Nodes are grouped by noisy counts, and `last` computes what is released from the groups, the counts, and the run's number
    of passes, which depends on the noise of hundreds of numbers.
    """

    def train(graph, seed):
        clean = counts(graph)
        noisy = clean + STD * np.random.default_rng(seed).standard_normal(clean.shape)
        passes = 3 + int(np.abs(noisy).argmax()) % 5
        smooth = noisy
        for _ in range(passes):
            smooth = 0.5 * smooth + 0.5 * np.tanh(noisy)
        return {"scores": last(smooth, clean, passes)}

    return Looped(train, releases=("scores",), events=dp.GaussianDpEvent(STD / 2**0.5), claim=CLAIM)


def clean_in_a_fifth_of_the_runs(smooth, clean, passes):
    if passes == 5:
        return smooth + np.tanh(clean)
    return smooth


def equal_on_both_lines(smooth, clean, passes):
    if passes % 2:
        return 2 * smooth
    return smooth + smooth


def setting(tmp_path, made, number):
    return Setting(Case(made, CLAIM), GRAPH, Store(tmp_path), Key("lines", number), 2, 1e-4)


@pytest.mark.parametrize("number", [0, 1, *nightly(*range(2, 12))])
def test_a_leak_in_a_fifth_of_the_runs_leaves_no_reach_and_names_its_line(number, tmp_path, thorough):
    found = differential(setting(tmp_path, model(clean_in_a_fifth_of_the_runs), number))
    assert not found.covers or any(b.refuted for b in found.bounds)
    line = clean_in_a_fifth_of_the_runs.__code__.co_firstlineno + 2
    assert f"test_other_lines.py, line {line}" in f"{found.reach} {[b.failed for b in found.bounds]}"


@pytest.mark.parametrize("number", [0, 1, *nightly(*range(2, 12))])
def test_a_harmless_branch_keeps_the_reach(number, tmp_path, thorough):
    made = model(equal_on_both_lines)
    found = differential(setting(tmp_path, made, number))
    assert found.covers
    assert not any(b.refuted for b in found.bounds)


def test_only_runs_with_lines_that_no_earlier_run_executed_are_yielded(tmp_path, thorough):
    branch = list(on_other_lines(setting(tmp_path, model(equal_on_both_lines), 0)))
    assert 1 <= len(branch) <= MOST
    assert all("test_other_lines.py, line" in lines for _, lines in branch)
    assert not list(on_other_lines(setting(tmp_path, model(lambda smooth, clean, passes: smooth), 0)))
