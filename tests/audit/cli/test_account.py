"""`audit account`: rows as other people's scripts read them, tables as papers print them, and refusals."""

import dataclasses
import json
import subprocess
import sys

import pytest

from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.audit.case import Case
from gnnaudit.audit.cli import account as module
from gnnaudit.audit.cli.account import HEAD, account, fitting
from gnnaudit.audit.planning import ledgers
from gnnaudit.models.facts import Facts
from gnnaudit.models.gap.published import gap_edge_coded
from gnnaudit.reports.results import AccountRow, TuningRow

CALL = {"models": "gap", "mode": "both", "epsilon": "1,8", "delta": None, "data": "campus", "data_dir": None}
PLAIN = {"param": None, "style": "table", "json": False}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNAUDIT_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("accounting")


@pytest.fixture
def remembered(cache, folder, monkeypatch):
    """The tests that only read the answer to CALL compute it once."""
    monkeypatch.setenv("GNNAUDIT_CACHE", str(folder))


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A model with the attributes that accounting reads."""

    sigma: float = 1.0
    hops: int = 2
    mode: str = "paper"
    unit: Unit = Unit.UNDIRECTED_EDGE
    name: str = "recipe"
    releases: tuple[str, ...] = ("posteriors",)

    @property
    def ledger(self):
        from gnnaudit.accounting.events.mechanisms import gaussian_hops

        return gaussian_hops(self.sigma, self.hops)

    def with_noise(self, sigma):
        return dataclasses.replace(self, sigma=sigma)

    def printed(self, delta):
        return 0.5 if self.mode == "paper" else None


CASE = Case(Recipe(), Claim(1.0, 1e-3, Unit.UNDIRECTED_EDGE))


def document(capsys, **changes):
    account(**{**CALL, **PLAIN, "json": True, **changes})
    return json.loads(capsys.readouterr().out)


def test_json_holds_the_rows_that_results_hold(capsys, remembered):
    found = document(capsys)
    rows = [row for row in found["rows"] if row["kind"] == "account"]
    assert found["schema"] == 1
    assert {(row["mode"], row["epsilon"]) for row in rows} == {("paper", 1.0), ("paper", 8.0), ("sound", 1.0), ("sound", 8.0)}
    for row in rows:
        AccountRow(**row)
        assert (row["value"] is None) is (row["unsupported"] is not None)
    for mode, names in (("paper", 8), ("sound", 7)):
        assert len([r for r in rows if r["mode"] == mode and r["epsilon"] == 1.0]) == names


def test_what_is_run_keeps_the_claim_and_what_is_printed_is_the_claim(capsys, remembered):
    rows = document(capsys)["rows"]
    for mode, epsilon in (("paper", 1.0), ("paper", 8.0), ("sound", 1.0), ("sound", 8.0)):
        of = {r["accountant"]: r for r in rows if (r["mode"], r["epsilon"]) == (mode, epsilon)}
        assert epsilon * (1 - 1e-3) < of["exact"]["value"] <= epsilon
        assert not of["opacus-gdp"]["is_upper_bound"]
        if mode == "paper":
            assert epsilon * (1 - 1e-3) < of["published"]["value"] <= epsilon
            assert not of["published"]["is_upper_bound"]


def test_a_budget_without_end_is_written_as_a_word(capsys):
    rows = document(capsys, epsilon="inf", mode="sound")["rows"]
    assert {row["epsilon"] for row in rows} == {"inf"}
    assert all(row["value"] == "inf" for row in rows if row["value"] is not None)


def test_a_field_of_the_models_can_be_set(capsys):
    two, three = (document(capsys, mode="sound", epsilon="1", param=[f"hops={h}"])["rows"][0]["sigma"] for h in (2, 3))
    assert three / two == pytest.approx((3 / 2) ** 0.5, rel=1e-6)
    named = document(capsys, mode="sound", epsilon="1", param=["gap.hops=3"])["rows"][0]["sigma"]
    assert named == three


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"param": ["hops"]}, "NAME=VALUE"),
        ({"param": ["sigma=2"]}, "--epsilon"),
        ({"models": "nobody"}, "nobody"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"style": "pdf"}, "table, markdown, latex"),
        ({"param": ["sides=2"]}, "none of the chosen models"),
        ({"param": ["progap.hops=2"]}, "none of the chosen models"),
        ({"models": "privgnn", "mode": "paper", "param": ["sides=2"]}, "none of the chosen models"),  # no case is made
    ],
)
def test_wrong_use_is_refused_in_one_line(changes, said):
    with pytest.raises(ValueError, match=said) as refusal:
        account(**{**CALL, **PLAIN, **changes})
    assert "\n" not in str(refusal.value)


def test_the_table_has_a_line_for_each_ledger_and_a_reason_for_each_difference(capsys, remembered):
    account(**{**CALL, **PLAIN})
    printed = capsys.readouterr().out
    for text in ("gap (paper)", "gap (sound)", "printed", "as coded", "PLD", "central limit", "the conversion of a Renyi curve"):
        assert text in printed


@pytest.mark.parametrize(("style", "first"), [("markdown", "| model | unit |"), ("latex", r"\begin{tabular}{ll")])
def test_tables_for_papers(capsys, remembered, style, first):
    account(**{**CALL, **PLAIN, "style": style})
    printed = capsys.readouterr().out
    assert printed.startswith(first)
    lines = [line for line in printed.splitlines() if line.startswith(("| gap", "gap ("))]
    assert len(lines) == 4
    assert len({line.count("|") + line.count("&") for line in lines}) == 1


def test_a_recipe_of_ones_own_has_no_theorem_and_no_published_code():
    rows = ledgers.account_rows(CASE, ledgers.uppers(CASE))
    line = dict(zip(module.HEAD, module.cells(rows), strict=True))
    assert (line["printed"], line["theorem"], line["as coded"]) == ("0.5", "-", "-")
    assert line["true"] == line["exact"]
    assert float(line["true"]) == pytest.approx(gap_edge_coded(1.0, 2, 1e-3), abs=1e-3)


def test_printed_theorem_code_and_truth_stand_side_by_side(capsys):
    """ProGAP's theorem is looser than its code, which is looser than the truth; PrivGNN's code is tighter than its theorem."""
    rows = document(capsys, models="progap", mode="paper", epsilon="1", delta=1e-6, param=["depth=2"])["rows"]
    of = {row["accountant"]: row for row in rows}
    assert of["published"]["sigma"] == pytest.approx(6.407631, rel=2e-4)
    assert of["published"]["theorem"] == pytest.approx(1.184511, rel=2e-4)
    assert of["published"]["as_coded"] == of["published"]["value"] == pytest.approx(1.0, rel=2e-4)
    assert of["exact"]["value"] == pytest.approx(0.927392, rel=2e-4)
    rows = document(capsys, models="privgnn", mode="paper", epsilon="8")["rows"]
    published = next(row for row in rows if row.get("accountant") == "published")
    assert published["as_coded"] < published["theorem"] == published["value"]


def test_a_ledger_of_another_unit_bounds_nothing():
    case = Case(Recipe(unit=Unit.DIRECTED_EDGE), CASE.claim)
    rows = ledgers.uppers(case)
    why = "the ledger is about a directed edge, and the claim about an undirected edge"
    assert all(u.epsilon is None and u.unsupported == why for u in rows if u.accountant != "published")
    assert rows[-1].epsilon == 0.5


def test_a_delta_above_one_over_the_units_is_said_aloud():
    facts = Facts(nodes=2000, train=1000, classes=3, features=5, arcs=8000, directed=False)
    assert "above 1/4000" in ledgers.warnings(CASE, facts)[0]
    quiet = Case(Recipe(), Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE, Relation.ADD_REMOVE))
    assert ledgers.warnings(quiet, facts) == []


def test_the_second_answer_loads_no_model(capsys, monkeypatch):
    first = document(capsys)

    def refuse(*_):
        raise AssertionError("worked out again")

    monkeypatch.setattr(module, "accounted", refuse)
    assert document(capsys) == first
    with pytest.raises(AssertionError):
        document(capsys, epsilon="2")


def test_the_ledger_of_ones_own_model_is_the_one_that_its_file_declares(capsys, tmp_path):
    """randomized response at epsilon = .5 costs .5 by definition, and twice of it 1, after the file has changed"""
    file = tmp_path / "mine.py"
    text = "from dp_accounting import *\nfrom gnnaudit import Looped\n"
    text += "e = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent({0}, 2), {1})\n"
    text += "def train(graph, seed): ...\nmine = Looped(train, events=e)\n"
    for times in (1, 2):
        file.write_text(text.format(noise := 2 / (1 + 2.718281828459045**0.5), times))
        account(model=f"{file}:mine", epsilon="1", delta=1e-9, json=True)
        rows = json.loads(capsys.readouterr().out)["rows"]
        best = min(row["value"] for row in rows if row["kind"] == "account" and row["is_upper_bound"] and row["value"])
        assert best == pytest.approx(times / 2, rel=2e-3), noise
        assert all(row["own"] for row in rows if row["kind"] == "account")
    account(model=f"{file}:mine", epsilon="1")
    assert "what its author declares" in capsys.readouterr().out


def test_the_claim_of_ones_own_model_is_the_one_that_it_states(capsys, tmp_path):
    file = tmp_path / "mine.py"
    text = "import dp_accounting as dp\nfrom gnnaudit import Claim, Looped\ndef train(graph, seed): ...\n"
    text += "stated = Looped(train, events=dp.GaussianDpEvent(3.0), claim=Claim(1.5, 1e-3))\n"
    file.write_text(text + "silent = Looped(train, events=dp.GaussianDpEvent(3.0))\n")

    def claims(**options):
        account(model=f"{file}:stated", json=True, **options)
        return {(row["epsilon"], row["delta"]) for row in json.loads(capsys.readouterr().out)["rows"]}

    assert claims() == {(1.5, 1e-3)}
    assert claims(epsilon="2") == {(2.0, 1e-3)}
    with pytest.raises(ValueError, match="states no claim that could be tested"):
        account(model=f"{file}:silent")


def test_no_author_is_said_to_declare_a_ledger_that_is_not_there(capsys, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from gnnaudit import Looped\ndef train(graph, seed): ...\nmine = Looped(train)\n")
    account(model=f"{file}:mine", epsilon="1")
    said = capsys.readouterr().out
    assert "the model states no ledger" in said
    assert "its author declares" not in said


def test_importing_the_command_loads_nothing_heavy():
    heavy = "torch", "dp_accounting", "autodp", "opacus", "scipy", "pandas", "mlflow"
    code = f"import sys, gnnaudit.audit.cli.account; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_switch_called_as_coded_is_no_figure():
    from gnnaudit.models.privgnn.privgnn import PrivGnn

    assert ledgers.as_coded(Case(PrivGnn(mode="paper"), Claim(1.0, 1e-5, Unit.NODE))) is None


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_column_is_shown_once_and_none_is_cut_off(width):
    line = ("privgnn (sound)", "node", "8", *["1.058e+06"] * (len(HEAD) - 3))
    cut = fitting([line], width)
    assert [i for columns in cut for i in columns[2:]] == list(range(3, len(HEAD)))
    assert all(columns[:2] == [0, 2] for columns in cut)
    assert all(sum(3 + max(len(HEAD[i]), len(line[i])) for i in columns) <= max(width, 50) for columns in cut)


def test_tuning_adds_a_row_for_each_way_to_draw_the_number_of_trainings(capsys, remembered):
    rows = [r for r in document(capsys, mode="sound", epsilon="1", tuned_over=10)["rows"] if r["kind"] == "tuning"]
    for row in rows:
        TuningRow(**row)
    value = {row["selection"]: row["value"] for row in rows}
    assert set(value) == {"fixed", "logarithmic", "geometric", "poisson"}
    assert 1 < value["logarithmic"] < value["geometric"] < value["fixed"] < 10
    assert [r for r in document(capsys)["rows"] if r["kind"] == "tuning"] == []


def test_the_table_of_tuning_says_what_the_columns_mean(capsys):
    account(**{**CALL, **PLAIN, "mode": "sound", "epsilon": "1", "tuned_over": 10})
    out = capsys.readouterr().out
    assert "Best of 10 trainings on private data" in out
    assert "fixed: exactly 10 trainings; all count." in out
