"""`audit bound` and `audit power`: from a file to a bound, with plain errors and the promised exit codes."""

import gzip
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gnnaudit.audit.cli.bound import bound
from gnnaudit.audit.cli.power import power
from gnnaudit.audit.own.score_file import read

from ...nightly import nightly


@pytest.fixture
def app():
    app = typer.Typer()
    app.command()(bound)
    app.command()(power)
    return app


def ask(app, *arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def row_of(text):
    """The one row of a document."""
    document = json.loads(text)
    assert (document["schema"], len(document["rows"])) == (1, 1)
    return document["rows"][0]


def table(path, scores, bits, runs=None):
    rows = [f"{s},{int(b)}" + ("" if runs is None else f",{runs[i]}") for i, (s, b) in enumerate(zip(scores, bits, strict=True))]
    text = "score,bit" + ("" if runs is None else ",run") + "\n" + "\n".join(rows) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.fixture
def leaky(tmp_path):
    """mu = 1: epsilon 4.38 at delta 1e-5."""
    draw = np.random.default_rng(0)
    bits = draw.random(4000) < 0.5
    return table(tmp_path / "scores.csv", draw.standard_normal(4000) + bits, bits)


def test_a_leak_is_refuted_with_exit_code_1_and_a_true_claim_is_not(app, leaky):
    for options in ((), ("--shape", "gaussian"), ("--shape", "gaussian", "--likelihood-ratio")):
        caught = ask(app, "bound", leaky, "--epsilon", 0.5, "--delta", 1e-5, *options)
        assert caught.exit_code == 1
        assert "REFUTED" in caught.stdout
        spared = ask(app, "bound", leaky, "--epsilon", 4.5, "--delta", 1e-5, *options)
        assert spared.exit_code == 0
        assert "not refuted" in spared.stdout


def test_stronger_assumptions_prove_more_and_never_more_than_the_truth(app, leaky):
    found = []
    for options in ((), ("--shape", "gaussian"), ("--shape", "gaussian", "--likelihood-ratio")):
        row = row_of(ask(app, "bound", leaky, "--epsilon", 4, "--delta", 1e-5, "--json", *options).stdout)
        found.append(row["value"])
    assert found == sorted(found)
    assert found[0] > 1
    assert 3.9 < found[-1] < 4.6


def responses(draw, count, epsilon):
    """Randomised response, the epsilon-DP mechanism with the most certain guesses: scores 0 and 1."""
    bits = draw.random(count) < 0.5
    return 1.0 * (bits ^ (draw.random(count) < 1 / (1 + np.exp(epsilon)))), bits


GAUSSIAN = ("--shape", "gaussian", "--delta", 1e-5)


@pytest.mark.parametrize("options", [GAUSSIAN, (*GAUSSIAN, "--likelihood-ratio"), (*GAUSSIAN, "--anytime", "--sd", 1)])
def test_a_gaussian_curve_is_not_asked_of_scores_0_and_1(app, tmp_path, options):
    """Without the check, randomised response with epsilon = 1 got the bound "at least 4.57", against a true claim of 1."""
    scores, bits = responses(np.random.default_rng(0), 4000, 1.0)
    for name, made in {"0 and 1": scores, "cut": np.clip(scores + np.random.default_rng(1).laplace(size=4000), -1, 2)}.items():
        fault = ask(app, "bound", table(tmp_path / "scores.csv", made, bits), "--epsilon", 1, *options).exception
        assert isinstance(fault, ValueError), name
        assert "a continuous distribution without limits" in str(fault)
        assert "--shape any" in str(fault)


def test_any_shape_keeps_an_honest_response_and_refutes_a_leaky_one(app, tmp_path):
    """30 honest files at 0.05, of which any shape refutes under 1 % (docs/coverage.md): over 5 fail once in a million seeds."""
    refuted = 0
    for seed in range(30):
        honest = table(tmp_path / "honest.csv", *responses(np.random.default_rng(seed), 2000, 1.0))
        refuted += ask(app, "bound", honest, "--epsilon", 1, "--delta", 1e-5).exit_code == 1
    assert refuted <= 5
    leaky = table(tmp_path / "leaky.csv", *responses(np.random.default_rng(0), 4000, 2.0))
    assert ask(app, "bound", leaky, "--epsilon", 1, "--delta", 1e-5).exit_code == 1


@pytest.mark.parametrize("options", [("--likelihood-ratio",), *nightly(((),))])
def test_laplace_noise_may_refute_the_gaussian_curve_but_never_its_own_claim(app, tmp_path, options):
    """Laplace noise of epsilon = 1 leaks more than a Gaussian mechanism of (1, 1e-5), but its claim of 1 is true."""
    for seed in range(5):
        draw = np.random.default_rng(seed)
        bits = draw.random(3000) < 0.5
        path = table(tmp_path / "laplace.csv", draw.laplace(bits, 1.0), bits)
        told = ask(app, "bound", path, "--epsilon", 1, *GAUSSIAN, *options)
        assert "The claim of epsilon=1, delta=1e-05 is REFUTED" not in told.stdout
        row = row_of(ask(app, "bound", path, "--epsilon", 1, "--json", *GAUSSIAN, *options).stdout)
        assert row["verdict"] == ("inconclusive" if options else "exceeds")
        if options:
            assert "withdrawn" in told.stdout
            assert row["withdrawn"] > 1
        else:
            assert "The Gaussian curve of epsilon=1, delta=1e-05 is REFUTED" in told.stdout
            assert "This test alone does not refute the claim itself" in told.stdout


def test_a_shape_refutes_the_claim_itself_where_the_error_rates_do_so_for_every_mechanism(app, tmp_path):
    draw = np.random.default_rng(3)
    bits = draw.random(8000) < 0.5
    path = table(tmp_path / "scores.csv", draw.standard_normal(8000) + 6 * bits, bits)
    row = row_of(ask(app, "bound", path, "--epsilon", 0.5, "--json", *GAUSSIAN).stdout)
    assert (row["verdict"], row["against"]) == ("refuted", "claim")


def test_rounds_that_do_not_look_independent_withdraw_the_bound(app, tmp_path):
    """A count treats every round that is written ten times as ten rounds."""
    scores, bits = (np.repeat(x, 10) for x in responses(np.random.default_rng(5), 400, 1.0))
    told = ask(app, "bound", table(tmp_path / "again.csv", scores, bits), "--epsilon", 0.5)
    assert told.exit_code == 3
    assert "  Failed: rounds are independent, given their bits.\n    " in told.stdout
    assert "so no violation could be detected" in told.stdout


def test_sorted_scores_leave_their_independence_an_assumption(app, tmp_path):
    draw = np.random.default_rng(0)
    bits = draw.random(4000) < 0.5
    scores = draw.standard_normal(4000) + 3 * bits
    order = np.argsort(scores)
    told = ask(app, "bound", table(tmp_path / "sorted.csv", scores[order], bits[order]), "--epsilon", 0.5)
    assert told.exit_code == 3
    assert "the command cannot check this assumption" in told.stdout
    assert "no violation could be detected" in ask(app, "bound", tmp_path / "sorted.csv", "--epsilon", 9).stdout
    assert ask(app, "bound", table(tmp_path / "played.csv", scores, bits), "--epsilon", 0.5).exit_code == 1


@pytest.mark.parametrize("options", [("--shape", "gaussian"), *nightly(((),))])
def test_the_bound_from_one_run_is_the_same_whatever_is_claimed(app, tmp_path, options):
    draw = np.random.default_rng(1)
    bits = draw.random(3000) < 0.5
    path = table(tmp_path / "run.csv", draw.standard_normal(3000) + bits, bits, np.zeros(3000, int))
    asked = [(), ("--epsilon", 0.5), ("--epsilon", 8)]
    found = [row_of(ask(app, "bound", path, "--delta", 1e-5, "--json", *options, *claim).stdout)["value"] for claim in asked]
    assert len(set(found)) == 1
    assert found[0] > 1


def test_json_is_one_document_with_the_fields_of_a_bound(app, leaky):
    row = row_of(ask(app, "bound", leaky, "--json").stdout)
    assert row["kind"] == "bound"
    assert row["epsilon"] == "inf"
    assert row["verdict"] == "not-refuted"
    assert {"shape", "value", "confidence", "rounds", "trials", "notices", "reach", "method", "seconds"} <= set(row)


def test_a_bound_too_weak_to_notice_what_was_asked_exits_with_3(app, leaky):
    options = ("bound", leaky, "--epsilon", 5, "--delta", 1e-5, "--shape", "gaussian")
    assert ask(app, *options, "--notices", 1.01).exit_code == 3
    assert ask(app, *options, "--notices", 2).exit_code == 0


def test_a_test_weaker_than_asked_says_by_how_much(app, tmp_path):
    draw, claim = np.random.default_rng(4), ("--epsilon", 1, "--delta", 1e-2, "--notices", 1.2)
    bits = draw.random(1000) < 0.5
    path = table(tmp_path / "scores.csv", draw.standard_normal(1000), bits)
    told = ask(app, "bound", path, *claim)
    assert told.exit_code == 3
    words = " ".join(told.stdout.split())
    assert re.search(r"the best attack on a Gaussian mechanism would have detected .*; that is noise 1\.[4-9]\d* times", words)
    assert "too small, and --notices asks for 1.2" in words


@pytest.mark.parametrize(("delta", "way"), [(0.01, "fewer canaries in one run"), (1e-6, "play more rounds")])
def test_many_canaries_of_one_run_are_not_asked_for_more_at_a_large_delta(app, tmp_path, delta, way):
    """Scores equal to the bits prove nothing: delta may tell 2 delta of the canaries, here 40."""
    bits = np.random.default_rng(5).random(2000 if delta > 1e-3 else 24) < 0.5
    path = table(tmp_path / "scores.csv", np.random.default_rng(6).standard_normal(bits.size), bits, np.arange(bits.size) // 2000)
    told = ask(app, "bound", path, "--epsilon", 4, "--delta", delta)
    assert told.exit_code == 3
    assert way in told.stdout


def test_rounds_too_few_to_show_anything_do_not_let_a_claim_pass(app, tmp_path):
    few = table(tmp_path / "few.csv", np.arange(6.0), np.arange(6) % 2 == 0)
    told = ask(app, "bound", few, "--epsilon", 1)
    assert told.exit_code == 3
    assert "inconclusive" in told.stdout
    assert ask(app, "bound", few).exit_code == 0  # the claim is epsilon = inf, so there is nothing to test


@pytest.mark.parametrize("options", [(), ("--anytime",)])
def test_a_threshold_that_sees_nothing_lets_no_claim_pass(app, tmp_path, options):
    """A true epsilon of 4 against a claim of 1. No score is above 100; the command said that it would have noticed 1.12."""
    path = table(tmp_path / "scores.csv", *responses(np.random.default_rng(6), 4000, 4.0))
    told = ask(app, "bound", path, "--epsilon", 1, "--threshold", 100, *options)
    assert told.exit_code == 3
    assert "unknown for a threshold that was given beforehand" in told.stdout
    assert ("give --pilot instead" in told.stdout) == (not options)  # --anytime refuses --pilot
    assert ask(app, "bound", path, "--epsilon", 1, "--threshold", 0.5, *options).exit_code == 1


def test_a_threshold_chosen_on_the_scores_themselves_is_no_pilot(app, leaky):
    assert "not fixed beforehand" in str(ask(app, "bound", leaky, "--pilot", leaky).exception)


def test_canaries_of_one_run_get_a_bound_that_allows_dependence(app, tmp_path):
    draw = np.random.default_rng(1)
    bits = draw.random(3000) < 0.5
    path = table(tmp_path / "run.csv", draw.standard_normal(3000) + 2 * bits, bits, np.zeros(3000, int))
    row = row_of(ask(app, "bound", path, "--epsilon", 1, "--delta", 1e-5, "--json").stdout)
    assert row["method"].startswith("Steinke")
    assert row["verdict"] == "refuted"
    row = row_of(ask(app, "bound", path, "--epsilon", 1, "--delta", 1e-5, "--json", "--shape", "gaussian").stdout)
    assert row["method"].startswith("Mahloujifar")
    few = table(tmp_path / "few.csv", draw.standard_normal(3000), draw.random(3000) < 0.2, np.zeros(3000, int))
    assert "fair coin" in str(ask(app, "bound", few).exception)


@pytest.mark.parametrize("count", [16, 30, 106, 107])
def test_a_fixed_number_of_members_is_no_row_of_fair_coins(app, tmp_path, count):
    """Half of the canaries are members, in random order. Sixteen once passed, and 7 % of such files were refuted at epsilon 0."""
    bits = np.random.default_rng(5).permutation(np.arange(count) < count // 2)
    path = table(tmp_path / "half.csv", np.arange(float(count)), bits, np.zeros(count, int))
    assert "the number looks fixed" in str(ask(app, "bound", path, "--epsilon", 1).exception)


def test_a_run_to_each_row_is_the_game_of_independent_rounds(app, tmp_path):
    bits = np.arange(400) % 2 == 0
    path = table(tmp_path / "s.csv", np.random.default_rng(1).standard_normal(400), bits, np.arange(400))
    assert row_of(ask(app, "bound", path, "--json").stdout)["method"] == "Clopper-Pearson"


def test_a_pilot_file_or_a_fixed_threshold_lets_every_row_count(app, leaky, tmp_path):
    draw = np.random.default_rng(2)
    bits = draw.random(500) < 0.5
    pilot = table(tmp_path / "pilot.csv.gz", draw.standard_normal(500) + bits, bits)
    assert row_of(ask(app, "bound", leaky, "--json", "--pilot", pilot).stdout)["rounds"] == 4000
    assert row_of(ask(app, "bound", leaky, "--json", "--threshold", 1.5).stdout)["rounds"] == 4000
    assert row_of(ask(app, "bound", leaky, "--json").stdout)["rounds"] < 3500


def test_scores_that_are_lower_with_the_secret_are_pointed_at_and_equal_ones_are_not(app, tmp_path):
    draw = np.random.default_rng(3)
    bits = draw.random(600) < 0.5
    noise = draw.standard_normal(600)
    said = [
        ask(app, "bound", table(tmp_path / f"{k}.csv", noise + k * bits, bits), "--epsilon", 1, "--delta", 1e-5).stdout
        for k in (-1, 0, 1)
    ]
    less = (noise[bits][:, None] - 1 < noise[~bits]).mean()
    assert f"lower than those of world 0 (AUC {1 - less:.2f})" in said[0]
    assert all("AUC" not in text for text in said[1:])


def test_ties_infinities_and_unequal_sides_are_answered(app, tmp_path):
    bits = np.arange(300) % 3 == 0
    result = ask(app, "bound", table(tmp_path / "ties.csv", np.where(bits, 1.0, 0.0), bits), "--delta", 1e-5)
    assert result.exit_code == 0
    assert "200 scores of world 0, 100 of world 1" in result.stdout
    assert "Only 2 scores are distinct" in result.stdout
    words = tmp_path / "words.csv"
    words.write_text("score,bit\n" + "".join(f"{i},{'true' if b else 'false'}\n" for i, b in enumerate(bits)))
    assert row_of(ask(app, "bound", words, "--json", "--threshold", 5).stdout)["trials"] == [200, 100]
    result = ask(app, "bound", table(tmp_path / "inf.csv", np.where(bits, math.inf, -math.inf), bits), "--json")
    assert row_of(result.stdout)["value"] > 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score,bit\n0.5,1\nnan,0\n", "bad.csv, line 3: 1 of 2 scores are NaN"),
        ("score,bit\n0.5,1\n,0\n", "bad.csv, line 3: 1 of 2 scores are empty"),
        ("score,bit\n0.5,1\n\n0.6,0\n0.7\n", "bad.csv, line 5: "),
        ("score,bit,run\n0.5,1,a\n0.6,0,\n", "bad.csv, line 3: 1 row without a bit or a run"),
        ("score,bit\n0.5,1\n0.7,1\n", "all 2 bits are 1"),
        ("score,bit\n0.5,1\n0.5,0\n", "all 2 scores are 0.5"),
        ("score,bit\n0.5,1\n0.6,2\n", "bad.csv, line 3: column bit holds 2; it must hold 0 and 1 only"),
        ("score,bit\n0.5,1\n0.6,\n", "1 row without a bit"),
        (
            "score,label\n0.5,1\n",
            "has no column bit, only score, label. A file needs the columns score and bit, and a column run if",
        ),
        ("score,bit\n", "no rows"),
        ("score,bit\n1,1\nlow,0\n", "bad.csv, line 3: 'low' is not a number"),
        ("", "needs score and bit"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(app, tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    fault = ask(app, "bound", path).exception
    assert isinstance(fault, ValueError)
    assert message in str(fault)
    assert "\n" not in str(fault)


def test_wrong_options_are_named(app, leaky, tmp_path):
    assert "no such file" in str(ask(app, "bound", tmp_path / "none.csv").exception)
    assert "is a folder" in str(ask(app, "bound", tmp_path).exception)
    for notices in (0.5, 1, "nan"):
        assert "must be above 1" in str(ask(app, "bound", leaky, "--notices", notices).exception)
    assert "shape='round'" in str(ask(app, "bound", leaky, "--shape", "round").exception)
    assert "delta=0" in str(ask(app, "bound", leaky, "--shape", "gaussian").exception)
    assert "epsilon=-1" in str(ask(app, "bound", leaky, "--epsilon", -1).exception)


def test_the_same_seed_gives_the_same_bound(app, leaky):
    found = [row_of(ask(app, "bound", leaky, "--json", "--seed", s).stdout)["value"] for s in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_neither_torch_nor_a_graph_library_is_loaded(leaky):
    code = (
        "import sys; from pathlib import Path; from gnnaudit.audit.cli.bound import bound\n"
        f"try: bound(Path({str(leaky)!r}), epsilon=1.0, delta=1e-5, shape='gaussian')\n"
        "except BaseException: pass\n"
        "print([m for m in ('torch', 'torch_geometric', 'dp_accounting', 'mlflow', 'scipy.stats', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    assert "at least" in out


def test_power_prints_the_rounds_that_a_factor_needs(app):
    result = ask(app, "power", "--epsilon", 4, "--kappa", math.sqrt(2), "--json", "--rounds", 1000)
    rows = {r["method"]: r for r in json.loads(result.stdout)["rows"]}
    assert rows["likelihood-ratio, noise known"]["rounds_per_world"] <= 170
    assert 490 < rows["gate"]["rounds_per_world"] <= 800  # 490 at the best threshold
    assert "choose the threshold" in rows["gate"]["scores"]
    assert rows["bound"]["rounds_per_world"] < rows["any"]["rounds_per_world"] / 4  # the rule that `audit bound` uses needs fewer
    assert rows["bound"]["rounds_per_world"] > 100_000
    assert rows["likelihood-ratio"]["rounds_per_world"] < rows["coins"]["rounds_per_world"] < 2000
    assert 1 < rows["likelihood-ratio"]["notices"] < rows["gate"]["notices"]
    assert "true epsilon 5.99" in ask(app, "power", "--epsilon", 4, "--kappa", math.sqrt(2)).stdout
    for claim in (math.inf, 0, -0.0):
        assert "needs a finite claim above 0" in str(ask(app, "power", "--epsilon", claim).exception)


def test_looking_after_every_round_refutes_a_true_claim_no_more_often_than_alpha(app, tmp_path):
    """Prefixes of one file, stopped at the first refutation. 60 honest files at 0.05: over 10 fail once in a thousand seeds."""
    false = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        bits = draw.random(400) < 0.5
        scores = 1.0 * (bits ^ (draw.random(400) < 1 / (1 + np.e)))  # randomised response with epsilon 1
        options = ("--epsilon", 1, "--anytime", "--threshold", 0.5, "--json")
        files = [table(tmp_path / f"{n}.csv", scores[:n], bits[:n]) for n in (100, 400)]
        looks = [row_of(ask(app, "bound", file, *options).stdout) for file in files]
        false += any(look["verdict"] == "refuted" for look in looks)
        assert looks[0]["value"] <= looks[1]["value"]  # the bound never decreases
    assert false <= 10


def test_a_leak_is_refuted_at_any_time_too(app, leaky):
    assert ask(app, "bound", leaky, "--epsilon", 0.5, "--delta", 1e-5, "--anytime", "--threshold", 1.5).exit_code == 1
    gaussian = ("--shape", "gaussian", "--anytime", "--sd", 1)
    told = ask(app, "bound", leaky, "--epsilon", 3, "--delta", 1e-5, *gaussian)
    assert told.exit_code == 1
    assert "and if the sd of the scores is 1" in told.stdout
    wrong = ask(app, "bound", leaky, "--epsilon", 3, "--delta", 1e-5, *gaussian[:-1], 0.8)
    assert wrong.exit_code == 3
    assert "  Failed: the sd of the scores is 0.8.\n    Pooled sd " in wrong.stdout
    assert ask(app, "bound", leaky, "--epsilon", 4.38, "--delta", 1e-5, *gaussian).exit_code == 0


@pytest.mark.parametrize(("options", "said"), [((), "--threshold"), (("--shape", "gaussian", "--delta", 1e-5), "--sd")])
def test_what_is_chosen_on_the_way_is_no_anytime_bound(app, leaky, options, said):
    found = ask(app, "bound", leaky, "--epsilon", 1, "--anytime", *options)
    assert said in str(found.exception)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--sd", 1), "sd"),
        (("--anytime", "--threshold", 1, "--sd", 1), "sd"),
        (("--likelihood-ratio",), "likelihood-ratio"),
        ((*GAUSSIAN, "--anytime", "--sd", 1, "--likelihood-ratio"), "likelihood-ratio"),
        ((*GAUSSIAN, "--anytime", "--sd", 1, "--threshold", 1), "threshold"),
        ((*GAUSSIAN, "--likelihood-ratio", "--threshold", 1), "threshold"),
        (("--threshold", 1, "--pilot", "pilot.csv"), "pilot"),
        (("--anytime", "--threshold", 1, "--pilot", "pilot.csv"), "pilot"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(app, leaky, options, name):
    fault = ask(app, "bound", leaky, "--epsilon", 1, *options).exception
    assert isinstance(fault, ValueError)
    assert f"--{name}: has no effect here" in str(fault)


def test_options_of_independent_rounds_are_refused_for_canaries_of_one_run(app, tmp_path):
    bits = np.arange(300) % 2 == 0
    path = table(tmp_path / "run.csv", np.arange(300.0), bits, np.zeros(300, int))
    assert "Rows of this file share a run" in str(ask(app, "bound", path, "--threshold", 3).exception)


def test_the_rounds_that_do_not_count_are_accounted_for_and_no_ledger_is_spoken_of(app, leaky):
    told = ask(app, "bound", leaky, *GAUSSIAN).stdout
    row = row_of(ask(app, "bound", leaky, *GAUSSIAN, "--json").stdout)
    assert f"{row['rounds']} rounds count of 4000; the other {4000 - row['rounds']} chose the threshold" in told
    assert "ledger" not in told
    assert "4000 rounds count." in ask(app, "bound", leaky, "--threshold", 1).stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("score,bit\n0.5,1\n0.25,0\n".encode("utf-16"), "UTF-8"),
        (b"score,bit\n0.5,1\n0.25,\xe9\n", "line 3: holds text that is not UTF-8"),
        (b"score,bit,score\n0.5,1,2\n0.25,0,2\n", "two columns called score"),
        (b'score,bit\n0.5,1\n"0.25,0\n' + b"0.5,1\n" * 1_500_000, "line 3"),
    ],
)
def test_text_that_is_no_csv_of_scores_is_refused_with_the_file(tmp_path, content, said):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as fault:
        read(path)
    assert str(fault.value).startswith(str(path))
    assert len(str(fault.value)) < 600


@pytest.mark.parametrize("options", [("--shape", "any"), ("--shape", "gaussian")])
def test_several_runs_are_granted_their_own_noise_in_the_verdict_and_one_run_needs_no_such_words(app, tmp_path, options):
    """Noise that 40 runs share refuted a true claim in a third of all files, and the words were "any dependence"."""
    draw, claim = np.random.default_rng(2), ("--epsilon", 0.1, "--delta", 1e-5, *options)
    bits = draw.random((40, 25)) < 0.5
    scores = 2 * bits + draw.standard_normal(25) + 0.01 * draw.standard_normal((40, 25))
    several = ask(app, "bound", table(tmp_path / "s.csv", scores.ravel(), bits.ravel(), np.repeat(np.arange(40), 25)), *claim)
    one = ask(app, "bound", table(tmp_path / "o.csv", scores.ravel(), bits.ravel(), np.zeros(1000, int)), *claim)
    for told, runs in ((several, 2), (one, 0)):
        assert told.exit_code == 1
        assert told.stdout.count("each run drew its own noise") == runs  # in the verdict, and in the list of conditions
        assert "if bits are fair independent coins" in told.stdout.splitlines()[-1 if options[1] == "any" else -2]


@pytest.mark.parametrize("fault", ["drift", "copies", ""])
def test_runs_that_depend_on_one_another_in_what_their_scores_show_withdraw_the_bound(app, tmp_path, fault):
    """Runs whose shared noise drifts, and runs that were written twice. Noise that the canaries of one run share is allowed."""
    draw = np.random.default_rng(4)
    bits, runs = draw.random((60, 30)) < 0.5, np.arange(60)
    own = draw.standard_normal(60) if fault != "drift" else np.sin(np.arange(60) / 6) * 2
    scores = bits + own[:, None] + draw.standard_normal((60, 30))
    if fault == "copies":
        bits[41], scores[41] = bits[7], scores[7]
    path = table(tmp_path / "runs.csv", scores.ravel(), bits.ravel(), np.repeat(runs, 30))
    row = row_of(ask(app, "bound", path, "--epsilon", 0.1, "--delta", 1e-5, "--json").stdout)
    assert (row["withdrawn"] is not None) == bool(fault)
    found = [c["how"] for c in row["conditions"] if "runs are independent" in c["what"]]
    assert found == ["failed" if fault else "granted"]


def test_each_condition_of_a_bound_is_a_line_with_its_evidence_below_it(app, leaky):
    """One idea a line: what the bound needs, and then what supports it. What only the user can know stands as stated."""
    lines = ask(app, "bound", leaky, "--epsilon", 1, "--delta", 1e-5).stdout.splitlines()
    first = lines.index("The bound rests on 4 conditions:")
    heads = [line for line in lines[first + 1 :] if re.match("  [A-Z]", line)]
    assert [head.split(":")[0].strip() for head in heads] == ["You state", "Proved", "You state", "Checked"]
    below = lines[lines.index(heads[2]) + 1 : lines.index(heads[3])]
    assert below[0] == "    No score shows noise that all rounds share."
    assert re.fullmatch("    No dependence was found by .*: p = [\\d.]+, level 0.0001[.]", below[1])
    assert not any("; " in line or "(" in line for line in below)
