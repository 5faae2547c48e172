"""The tables of the study hold the numbers of the runs, each unit apart, and leave the prose alone."""

import re
import sys
from pathlib import Path

import pytest

from gnnaudit.reports import results
from gnnaudit.reports.results import AttackRow, UtilityRow
from gnnaudit.reports.summary import lines

from .conftest import SYSTEMS

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import make_study


@pytest.fixture(scope="module")
def found(example_run):
    return results.read(example_run)


def parts(block):
    """The tables of a block: {title: [cells of a row, ...]}."""
    told = {}
    for title, table in re.findall(r"\*([^*\n]+)\*\n\n((?:\|.*\n?)+)", block + "\n"):
        told[title] = [[c.strip() for c in line.strip("|").split(" | ")] for line in table.strip().splitlines()]
    return told


def test_no_table_holds_two_units_or_two_graphs(found):
    unit_of = {f"{model} ({mode})": unit for (model, mode), (unit, _, _) in SYSTEMS.items()}
    for name, block in make_study.tables([found, found]).items():
        for title, rows in parts(block).items():
            if name in ("runs", "skipped", "attacks"):
                continue
            assert len({unit_of.get(row[0]) for row in rows[2:]}) == 1, (name, title)
    for header in re.findall(r"\| attack \| (.+) \|\n", make_study.tables([found])["attacks"]):
        assert len({unit_of[system] for system in header.split(" | ")}) == 1


def test_every_utility_and_every_attack_stands_in_its_table(found):
    blocks = make_study.tables([found])
    cells = {(row[0], epsilon): cell for rows in parts(blocks["utility"]).values() for row in rows[2:]
             for epsilon, cell in zip(rows[0][1:], row[1:], strict=True)}  # fmt: skip
    for r in found.of(UtilityRow):
        at = "∞" if r.epsilon == float("inf") else f"{r.epsilon:g}"
        who = f"{r.model} ({r.mode})" if r.mode else r.model
        assert cells[who, f"ε = {at}"].startswith(f"{100 * r.value:.1f} [{100 * r.ci95[0]:.1f}, ")
    told = re.findall(r"(?<= )\d\.\d{2}(?= )", blocks["attacks"])
    assert sorted(told) == sorted(f"{r.auc:.2f}" for r in found.of(AttackRow))


def test_the_strongest_attack_of_each_game_stands_beside_the_best_without_a_model(found):
    rows = [row for table in parts(make_study.tables([found])["leakage"]).values() for row in table[2:]]
    best = max((r for r in found.of(AttackRow) if (r.model, r.mode, r.epsilon) == ("gap", "paper", 8.0)), key=lambda r: r.auc)
    (told,) = [row for row in rows if row[:2] == ["gap (paper)", "8"]]
    assert told[2:] == ["edge", best.attack, f"{best.auc:.3f} ± 0.012", f"{100 * best.tpr_at_fpr['0.01']:.1f} %", "0.512"]


def test_tables_are_replaced_and_the_prose_stays(found):
    blocks = make_study.tables([found])
    page = make_study.begun(blocks).replace("## Utility", "## Utility\n\nWords of ours, with a \\1 in them.")
    once = make_study.filled(page, blocks)
    assert "Words of ours, with a \\1 in them." in once
    assert once.count("| gap (paper) |") == make_study.filled(once, blocks).count("| gap (paper) |") > 3


def test_a_page_without_a_place_for_a_table_is_refused(found):
    with pytest.raises(ValueError, match="<!-- claims -->"):
        make_study.filled("# Study\n<!-- end claims -->", {"claims": "table"})


def test_the_outcome_of_each_claim_stands_once_under_its_graph(found):
    table = make_study.outcome_table([found, found])
    rows = [[c.strip() for c in line.strip("|").split(" | ")] for line in table.splitlines()]
    assert rows[0][:3] == ["ε protects", "system", "claimed ε"]
    claims = {(line.key.model, f"{line.key.epsilon:g}") for line in lines(found) if line.key.epsilon < float("inf")}
    assert {(row[1], row[2]) for row in rows[2:]} == claims


def test_figures_have_a_panel_for_each_graph_and_unit(found):
    assert len(make_study.accuracy_figure([found, found]).axes) == 2 * len(make_study.ACCURACY)
    assert len(make_study.leakage_figure([found]).axes) == len(make_study.LEAKAGE)
