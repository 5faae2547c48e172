"""The terminal lists refuted claims first, and never puts two kinds of epsilon into one table."""

import io
import math
import re

import pytest
from rich.console import Console

from gnnaudit.accounting.claim import Unit
from gnnaudit.reports import results
from gnnaudit.reports.formats import card, table
from gnnaudit.reports.results import AccountRow, AttackRow, BoundRow, Results, Run, SkippedRow, UtilityRow
from gnnaudit.reports.summary import lines, skips, strongest

CLAUSE = "the same seed gives the same release"


def shown(found, width=160):
    console = Console(file=io.StringIO(), width=width)
    table.show(found, console)
    return console.file.getvalue()


def test_refuted_claims_come_before_all_others(example_run):
    text = shown(results.read(example_run))
    assert text.index("refuted: at least") < text.index("not refuted; a true")
    kinds = [line.verdict.kind for line in lines(results.read(example_run))]
    assert kinds == sorted(kinds, key=["refuted", "exceeds", "inconclusive", "not-refuted"].index)


def test_each_unit_has_tables_of_its_own(example_run):
    blocks = re.split(r"\n(?=Claims on|Test accuracy|Strongest|Skipped)", shown(results.read(example_run)))
    edge_models, node_models = {" gap (", " vesper ("}, {" dpar ("}
    assert len(blocks) == 3 + 4 + 3 + 1
    for block in blocks:
        assert not (any(m in block for m in edge_models) and any(m in block for m in node_models))


def test_a_reason_in_brackets_is_printed_as_it_is():
    row = SkippedRow(model="gap", epsilon=1.0, what="gap  epsilon=1", reason="needs ['aggregates']")
    assert "needs ['aggregates']" in shown(Results(run=Run(name="r"), rows=(row,)))


def test_brackets_of_a_users_names_and_reasons_are_no_markup():
    where = {"model": "net[/x][bold", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0, "delta": 1e-5}
    rows = (
        SkippedRow(**where, what="net[/x][bold own epsilon=1", reason="fit: [/red] is no shape"),
        UtilityRow(**where, metric="accuracy", split="test", value=0.5, runs=1),
    )
    text = shown(Results(run=Run(name="r"), rows=rows))
    assert "net[/x][bold (own)" in text


def test_the_strongest_attack_is_not_one_that_homophily_alone_explains():
    where = {"model": "gap", "unit": Unit.UNDIRECTED_EDGE, "epsilon": 1.0, "game": "edge", "attack": "lsa"}
    rows = [AttackRow(**where, negatives=n, auc=auc) for n, auc in (("random", 0.95), ("2-hop", 0.8), ("dropped", 0.55))]
    assert [r.negatives for r in strongest(rows)] == ["dropped"]


def test_no_number_is_cut_off_at_80_columns_and_unprotected_games_are_marked(example_run):
    found = results.read(example_run)
    rows = tuple(
        r.model_copy(update={"game": "label"}) if isinstance(r, AttackRow) and r.model == "gap" else r for r in found.rows
    )
    text = shown(found.model_copy(update={"rows": rows}), width=80)
    attacks = text[text.index("Strongest attack") :]
    assert "…" not in attacks
    assert (
        attacks.count("not what ε protects") == 6 + 3
    )  # labels under gap's edge claim in two modes, nodes under lpgnn's, at three budgets


def test_what_was_skipped_for_one_reason_stands_in_one_line():
    rows = [
        SkippedRow(model="gap", mode="sound", epsilon=epsilon, what=what, reason=reason)
        for epsilon in (1.0, 8.0)
        for what, reason in (
            ("audit votes", "no teachers"),
            ("audit reports", "no teachers"),
            ("lira", "no teachers"),
            ("x", "else"),
        )
    ]
    assert skips(rows) == [
        ("audits votes, reports; lira", "gap (sound)", "1, 8", "no teachers"),
        ("x", "gap (sound)", "1, 8", "else"),
    ]


def test_a_model_that_was_skipped_whole_at_two_budgets_stands_in_one_line():
    rows = [SkippedRow(model="gap", mode="own", epsilon=e, what=f"gap own epsilon={e:g}", reason="r") for e in (1.0, math.inf)]
    assert skips(rows) == [("", "gap (own)", "1, ∞", "r")]


def test_the_tables_say_once_why_a_model_was_not_tested():
    where = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0}
    rows = (
        AccountRow(**where, accountant="x", unsupported="u"),
        SkippedRow(**where, what="mine own epsilon=1", reason="it fell"),
    )
    text = shown(Results(run=Run(name="r"), rows=rows))
    assert text.count("it fell") == 1
    assert "inconclusive: no audit tested this claim" in text


def test_modes_that_were_skipped_alike_share_a_line():
    rows = [SkippedRow(model="gap", mode=mode, epsilon=1.0, what="x", reason="r") for mode in ("paper", "sound")]
    assert skips(rows) == [("x", "gap (paper, sound)", "1", "r")]


@pytest.mark.parametrize(("directed", "told"), [(False, True), (True, False)])
def test_one_direction_is_said_to_be_half_an_edge_of_an_undirected_graph(directed, told):
    where = {"model": "gap", "mode": "paper", "unit": Unit.DIRECTED_EDGE, "epsilon": 1.0, "delta": 1e-5}
    look = {
        "audit": "game",
        "attack": "x",
        "shape": "any",
        "value": 0.5,
        "confidence": 0.95,
        "rounds": 9,
        "exposes": ("posteriors",),
    }
    row = BoundRow(**where, **look, verdict="not-refuted", notices=1.1, reach=1.1, seconds=1.0)
    text = shown(Results(run=Run(name="r", data={"directed": directed}), rows=(row,)))
    assert ("each undirected edge of this graph counts as two" in text) is told


def test_a_table_of_verdicts_says_delta_once_where_it_is_one_and_by_row_where_it_is_not():
    where = {"model": "gap", "unit": Unit.NODE, "epsilon": 1.0, "accountant": "exact", "value": 1.0}
    rows = tuple(AccountRow(**where, mode=mode, delta=delta) for mode, delta in (("paper", 1e-4), ("sound", 1e-6)))
    one, both = (shown(Results(run=Run(name="r"), rows=some)) for some in (rows[:1], rows))
    assert "Claims on a node with its edges, δ = 0.0001\n" in one
    assert "Claims on a node with its edges\n" in both
    assert re.search(r"gap \(sound\) +1 +1e-06", both)


def test_what_chance_explains_and_what_is_the_best_of_many_are_marked():
    where = {"model": "gap", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0}
    low = UtilityRow(**where, metric="accuracy", split="test", value=0.18, ci95=(0.1, 0.26), runs=3)
    attacks = [AttackRow(**where, attack=f"a{i}", game="node", auc=0.5 + i / 100) for i in range(9)]
    text = shown(Results(run=Run(name="r", data={"classes": [10] * 6}), rows=(low, *attacks)))
    assert "18.0*" in text
    assert "the interval does not lie above 16.7, the accuracy of a model that has learned nothing" in text
    assert "best of 9" in text
    assert "the best of many and not corrected for this choice" in text


def test_an_attack_that_had_no_rival_is_not_called_the_best():
    attack = AttackRow(model="gap", mode="own", unit=Unit.NODE, epsilon=1.0, attack="lira", game="node", auc=0.6)
    text = shown(Results(run=Run(name="r"), rows=(attack,)))
    assert "Attack on each model; epsilon protects a node" in text
    assert "best of" not in text


def test_what_does_not_apply_is_one_line_a_model():
    rows = [SkippedRow(model="gap", mode="sound", epsilon=1.0, what=f"audit a{i}", reason=f"r{i}") for i in range(9)]
    text = shown(Results(run=Run(name="r"), rows=tuple(rows)))
    assert [line.split()[:3] for line in text.splitlines() if "gap" in line] == [["gap", "(sound)", "audits"]]


def test_clauses_that_fail_are_not_among_what_does_not_apply():
    fails = SkippedRow(
        model="mine",
        mode="own",
        epsilon=1.0,
        what=f"contract: {CLAUSE}",
        reason="fails on a graph of 6 nodes",
    )
    silent = SkippedRow(model="mine", mode="own", epsilon=1.0, what="audit votes", reason="no votes")
    text = shown(Results(run=Run(name="r"), rows=(fails, silent)))
    broken, others = text.split("Audits and attacks without a result")
    assert CLAUSE in broken
    assert "fails on a graph of 6 nodes" in broken
    assert "contract" not in others


def test_what_is_true_of_all_budgets_of_a_model_is_said_once():
    where = {"model": "mine", "mode": "own", "unit": Unit.NODE, "delta": 1e-5, "accountant": "exact", "own": True}
    rows = tuple(AccountRow(**where, epsilon=epsilon, value=epsilon) for epsilon in (1.0, 8.0))
    assert shown(Results(run=Run(name="r"), rows=rows)).count("which its author declares") == 1
    assert card.to_markdown(Results(run=Run(name="r"), rows=rows)).count("which its author declares") == 1


def test_trainings_that_agree_are_said_to_agree_and_no_interval_of_width_0_is_shown():
    """Student's interval of two equal accuracies has width 0, which would look like certainty."""
    where = {"model": "gap", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0}
    same = UtilityRow(**where, metric="accuracy", split="test", value=0.9, ci95=(0.9, 0.9), runs=2)
    perfect = AttackRow(**where, attack="lira", game="node", auc=1.0, auc_ci95=(1.0, 1.0))
    text = shown(Results(run=Run(name="r"), rows=(same, perfect)))
    assert "90.0 all 2 trainings agree" in text
    assert "90.0–90.0" not in text
    assert "1.000–1.000" not in text
