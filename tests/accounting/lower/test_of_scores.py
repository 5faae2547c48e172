"""`gnnaudit.lower`: the bound of `audit bound`, on scores that the tool did not collect."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from gnnaudit import Claim, gaussian_curve, judge, lower
from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.score_law import OWN_NOISE, ROUNDS
from gnnaudit.audit.cli.main import app
from gnnaudit.models.random.streams import fold, stream

CLAIM = Claim(1.0, 1e-5)


def game(name, rounds, shift):
    """Scores of a Gaussian mechanism in a game with fair coins."""
    draw = stream(fold("of scores", name))
    bits = draw.random(rounds) < 0.5
    return draw.standard_normal(rounds) + shift * bits, bits


@pytest.mark.parametrize(("shape", "delta"), [("any", 0.0), ("any", 1e-5), ("gaussian", 1e-5)])
def test_python_and_the_command_compute_the_same_bound(tmp_path, shape, delta):
    scores, bits = game(shape, 2000, 1.5)
    claim = Claim(1.0, delta)
    file = tmp_path / "scores.csv"
    file.write_text("score,bit\n" + "".join(f"{s!r},{int(b)}\n" for s, b in zip(scores.tolist(), bits, strict=True)))
    told = CliRunner().invoke(app, ["bound", str(file), "--epsilon", "1", "--delta", str(delta), "--shape", shape, "--json"])
    row = json.loads(told.stdout)["rows"][0]
    curve = {"shape": "ledger", "ledger_curve": gaussian_curve(claim)} if shape == "gaussian" else {}
    found = lower(scores, bits, claim, **curve)
    assert (row["value"], row["p_value"], row["method"]) == (found.epsilon, found.p_value, found.method)
    assert found.epsilon > 0.3


def test_rounds_that_depend_on_each_other_refute_nothing():
    """Forty scores of one training share one noise value, so 4,000 rows are no more than 100."""
    draw = stream(fold("of scores", "shared"))
    bits = draw.random(4000) < 0.5
    scores = np.repeat(draw.standard_normal(100) * 3, 40) + bits
    found = lower(scores, bits, Claim(0.1, 0.0))
    assert found.withdrawn is not None
    assert not found.refuted
    alone = lower(*game("alone", 4000, 1.0), Claim(0.1, 0.0))
    assert alone.refuted
    assert alone.withdrawn is None


def test_sorted_rounds_are_assumed_to_be_independent():
    scores, bits = game("sorted", 2000, 2.0)
    order = np.lexsort((scores, bits))
    assert lower(scores[order], bits[order], Claim(0.1, 0.0)).assumed


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_perfect_guess_refutes_if_each_round_drew_its_own_noise(delta):
    """The scores of a world are equal, so no test sees dependence. One coin for all rounds would give such scores too."""
    bits = stream(fold("of scores", "perfect")).random(1000) < 0.5
    for there in (bits, np.arange(1000) % 2 == 1):
        found = lower(there * 1.0, there, Claim(4.0, delta))
        assert found.refuted
        assert OWN_NOISE in found.granted


@pytest.mark.parametrize(("delta", "coins"), [(0.0, True), (1e-5, True), (1e-5, False)])
def test_whoever_drew_the_coins_the_bound_needs_rounds_with_noise_of_their_own(delta, coins):
    """Each round satisfies (1, delta)-DP, but all rounds share one noise value, or 500 rounds do. The first refuted a true claim
    in 300 of 300 audits as "checked", the second in spite of a failed test.
    """
    claim, draw = Claim(1.0, delta), np.random.default_rng(11)
    bits = draw.random(2000) < 0.5 if coins else np.arange(2000) % 2 == 1
    signal, noise = (float(gaussian.mu_of_claim(claim)), draw.standard_normal) if delta else (1.0, draw.laplace)
    jitter = 0.01 * draw.standard_normal(2000)
    shared = lower(signal * bits + noise(size=1) + jitter, bits, claim)
    assert shared.refuted
    assert OWN_NOISE in shared.granted
    assert judge(claim, (), [shared]).sentence.count(OWN_NOISE) == 1
    blocks = lower(signal * bits + np.repeat(noise(size=4), 500) + jitter, bits, claim)
    assert ROUNDS in " ".join(blocks.failed)
    assert not blocks.refuted
    fresh = lower(signal * bits + noise(size=2000), bits, claim)
    assert not fresh.refuted
    assert OWN_NOISE in fresh.granted


def test_a_bound_that_rests_on_an_assumption_detects_no_violation():
    scores, bits = game("order", 400, 1.0)
    order = np.argsort(scores)
    for delta in (0.0, 1e-5):
        found = lower(scores[order], bits[order], Claim(1.0, delta))
        assert found.assumed
        assert found.notices == found.reach == math.inf


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match="seed="):
        lower(*game("seed", 100, 1.0), CLAIM, seed=seed)


def test_an_infinite_claim_gets_a_bound():
    assert lower(*game("infinite", 2000, 2.0), Claim(math.inf, 1e-5)).epsilon > 1
