"""`gnnaudit.lower`: the bound of `audit bound`, on scores that the tool did not collect."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from gnnaudit import Claim, gaussian_curve, lower
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
def test_a_perfect_guess_refutes_although_its_order_cannot_be_tested(delta):
    """Equal scores show no dependence. Guesses of fair coins need no independence, but these bits must look fair."""
    bits = stream(fold("of scores", "perfect")).random(1000) < 0.5
    assert lower(bits * 1.0, bits, Claim(4.0, delta)).refuted
    fixed = np.arange(1000) % 2 == 1
    found = lower(fixed * 1.0, fixed, Claim(4.0, delta))
    assert found.assumed
    assert found.epsilon > 4


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ValueError, match="seed="):
        lower(*game("seed", 100, 1.0), CLAIM, seed=seed)


def test_an_infinite_claim_gets_a_bound():
    assert lower(*game("infinite", 2000, 2.0), Claim(math.inf, 1e-5)).epsilon > 1
