"""The check that nothing but the secret separates the two worlds in time: against enumeration, and on a drift without a leak."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from gnnaudit import Claim, judge, lower
from gnnaudit.accounting.checks.order_of_worlds import ALIKE, IN_TURNS, in_turns, not_random
from gnnaudit.audit.cli.main import app


def condition(bound):
    return next(c for c in bound.conditions if ALIKE in c.what)


def test_random_orders_are_checked_as_often_as_the_level_says():
    draw = np.random.default_rng(0)
    for bits in (lambda: draw.random(400) < 0.5, lambda: draw.permutation(np.arange(300) < 100)):
        granted = sum(in_turns(bits()).how == "granted" for _ in range(1000))
        assert stats.binom.sf(granted - 1, 1000, 1.5 * IN_TURNS) > 1e-6  # the p-values of blocks and of means are approximate


def test_no_share_of_all_orders_is_called_not_random_more_often_than_its_p_value():
    """All 924 orders of six rounds of each world."""
    p_values = np.array([not_random(np.isin(np.arange(12), chosen)) for chosen in itertools.combinations(range(12), 6)])
    for level in (0.01, 0.05, 0.2):
        assert (p_values <= level).mean() <= 1.2 * level


@pytest.mark.parametrize(
    ("bits", "how"),
    [
        (np.random.default_rng(2).random(1000) < 0.5, "checked"),
        (np.random.default_rng(3).permutation(1000) < 300, "checked"),
        (np.random.default_rng(4).permutation(40) < 20, "checked"),
        (np.arange(1000) % 2 == 0, "granted"),
        (np.arange(1000) % 3 == 0, "granted"),
        (np.arange(1000) // 2 % 2 == 0, "granted"),
        (np.arange(41) // 2 % 2 == 0, "granted"),
        (np.resize(np.random.default_rng(5).random(37) < 0.5, 1000), "granted"),
        (np.random.default_rng(6).permuted(np.resize([False, True], (500, 2)), axis=1).ravel(), "granted"),
        (np.random.default_rng(7).random(2000) < 0.5 + 0.3 * np.sin(np.arange(2000) / 9), "granted"),
        (np.arange(1000) < 500, "granted"),
        (np.arange(1000) // 100 % 2 == 0, "granted"),
        (np.arange(1000) // 10 % 2 == 0, "granted"),
        (np.random.default_rng(1).random(2000) < np.linspace(0.3, 0.7, 2000), "granted"),
        (np.arange(6) % 2 == 0, "granted"),
    ],
    ids=[
        "coins",
        "a permutation",
        "a short permutation",
        "in turns",
        "every third",
        "two and two",
        "two and two, few",
        "a random pattern, repeated",
        "one of each in every pair",
        "a wave",
        "two blocks",
        "ten blocks",
        "many blocks",
        "more and more",
        "too few",
    ],
)
def test_an_order_that_does_not_look_random_is_not_checked(bits, how):
    assert in_turns(bits).how == how


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_drift_between_two_blocks_is_named_in_the_verdict_and_one_between_rounds_in_turns_is_harmless(delta):
    """Epsilon is 0, and the scores of the second half are higher by one sd. No score tells this from a leak, the file can."""
    draw, claim = np.random.default_rng(3), Claim(1.0, delta)
    blocks, turns = np.arange(2000) >= 1000, draw.random(2000) < 0.5
    scores = draw.normal(size=2000) + 1.0 * blocks
    found = lower(scores, blocks, Claim(0.1, delta))
    assert condition(found).how == "granted"
    assert "stated by whoever made the file" in condition(found).detail
    assert found.refuted  # a file in two blocks still refutes
    assert judge(Claim(0.1, delta), (), [found]).sentence.endswith(f"; this holds if {ALIKE}")
    mixed = lower(draw.normal(size=2000), turns, claim)
    assert (condition(mixed).how, mixed.refuted) == ("checked", False)


STATED = {"checked": "Checked", "granted": "You state"}  # how a condition is known -> how `audit bound` says it


@pytest.mark.parametrize(
    ("options", "runs", "how"),
    [
        ((), False, "checked"),
        (("--delta", "1e-5"), False, "checked"),
        (("--delta", "1e-5", "--shape", "gaussian"), False, "checked"),
        (("--threshold", "0.5"), False, "checked"),
        (("--anytime", "--threshold", "0.5"), False, "checked"),
        ((), True, "granted"),
    ],
)
def test_every_bound_of_a_file_states_the_condition(tmp_path, options, runs, how):
    draw = np.random.default_rng(4)
    bits = draw.random(401) < 0.5
    rows = [f"{s!r},{int(b)}" + (",0" if runs else "") for s, b in zip(draw.normal(size=401).tolist(), bits, strict=True)]
    file = tmp_path / "scores.csv"
    file.write_text("score,bit" + (",run" if runs else "") + "\n" + "\n".join(rows) + "\n")
    asked = ["bound", str(file), "--epsilon", "1", *options]
    row = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["rows"][0]
    assert [c["how"] for c in row["conditions"] if ALIKE in c["what"]] == [how]
    assert f"{STATED[how]}: {ALIKE}" in CliRunner().invoke(app, asked).stdout


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("pattern", [(0, 1), (0, 0, 1, 1), (0, 1, 1, 0)])
def test_workers_that_take_the_same_turns_as_the_worlds_are_named_in_the_verdict(pattern, delta):
    """Epsilon is 0, and one of two machines gives higher scores. Turns were "checked", and 200 of 200 audits refuted."""
    draw, bits = np.random.default_rng(8), np.resize(np.array(pattern), 400).astype(bool)
    found = lower(draw.normal(size=400) + 2 * bits, bits, Claim(0.5, delta))
    assert found.refuted
    assert judge(Claim(0.5, delta), (), [found]).sentence.endswith(f"; this holds if {ALIKE}")
    mixed = draw.permutation(bits)
    found = lower(draw.normal(size=400) + 2 * bits, mixed, Claim(0.5, delta))
    assert (condition(found).how, found.refuted) == ("checked", False)
