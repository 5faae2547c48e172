"""The page needs no other file, mixes no units, and shows every row."""

import csv
import math
import re
import shutil
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from dp_accounting import UnsupportedDpEvent

from gnnaudit.accounting.checks.conditions import Condition
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.accounting.upper.accountants import upper
from gnnaudit.reports import evidence, results
from gnnaudit.reports.evidence import Evidence
from gnnaudit.reports.figures import style
from gnnaudit.reports.figures.run_figures import of_run
from gnnaudit.reports.figures.style import Plot, save
from gnnaudit.reports.figures.subgroup_rows import sliced
from gnnaudit.reports.formats import html
from gnnaudit.reports.results import AccountRow, AttackRow, BoundRow, Results, Run, SkippedRow, Slice, UtilityRow
from gnnaudit.reports.summary import UNITS, lines

from ..conftest import write_example

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Outline(HTMLParser):
    """Tags, ids, links and text; fails on a tag that is closed in the wrong order."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.loads, self.links, self.headings, self.text = [], [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [told["id"]] if "id" in told else []
        self.loads += [told[k] for k in ("src", "data") if k in told] + ([tag] if tag in ("script", "link", "iframe") else [])
        self.links += [told["href"]] if tag == "a" else []
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def outline(page):
    found = Outline()
    found.feed(page.read_text(encoding="utf-8"))
    assert found.open == []
    return found


@cache
def page_of(folder):
    """The page of a folder that no test changes."""
    return outline(folder / "report.html")


def test_the_page_loads_nothing_and_runs_nothing(rendered):
    page = page_of(rendered)
    assert page.loads == []
    assert "url(http" not in (rendered / "report.html").read_text()


def test_a_browser_is_told_to_load_and_run_nothing(rendered):
    """Whatever a name might smuggle into the page: no script, no address, no form. Styles stand in the page itself."""
    (policy,) = re.findall(
        r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', (rendered / "report.html").read_text()
    )
    allowed = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert allowed.pop("style-src") == ["'unsafe-inline'"]
    assert allowed == {key: ["'none'"] for key in ("default-src", "base-uri", "form-action")}


def test_links_lead_somewhere(rendered):
    page = page_of(rendered)
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (rendered / link).exists()


def test_ids_are_unique_and_headings_are_nested(rendered):
    page = page_of(rendered)
    repeated = {i for i in page.ids if page.ids.count(i) > 1}
    assert repeated == set()
    assert page.headings[0] == 1
    assert all(deeper <= before + 1 for before, deeper in zip(page.headings, page.headings[1:], strict=False))


def test_every_figure_has_words_and_three_files(rendered):
    text = (rendered / "report.html").read_text()
    assert text.count('role="img" aria-label="') == text.count("<figure")
    stems = {p.stem for p in (rendered / "figures").iterdir()}
    for stem in stems:
        assert all((rendered / "figures" / f"{stem}.{kind}").stat().st_size for kind in ("svg", "png", "csv"))


def test_no_figure_of_epsilon_mixes_units_or_budgets(rendered):
    units = {(f"{r.model} ({r.mode})"): str(r.unit) for r in results.read(rendered).of(BoundRow)}
    figures = sorted((rendered / "figures").glob("epsilon-*.csv"))
    assert len(figures) == 6  # three units, two budgets
    for path in figures:
        rows = list(csv.DictReader(path.open()))
        assert {units[r["model"]] for r in rows} == {path.stem.removeprefix("epsilon-").rpartition("-")[0]}
        assert len({r["claimed"] for r in rows}) == 1


def test_figures_hold_the_numbers_of_the_rows(rendered):
    rows = {(f"{r.model} ({r.mode})", r.epsilon): r.value for r in results.read(rendered).of(UtilityRow) if r.unit is Unit.NODE}
    drawn = [r for r in csv.DictReader((rendered / "figures" / "utility-node.csv").open()) if r["epsilon"] != "any"]
    assert {(r["model"], float(r["epsilon"])): float(r["value"]) for r in drawn} == rows


def test_verdicts_come_first_and_those_that_fell_before_the_others(rendered):
    text = page_of(rendered).text
    assert text.index("2 of 10 claims are refuted: gap (paper)") < text.index("refuted: at least")
    assert text.index("refuted: at least") < text.index("not refuted; a true")


def test_a_verdict_leads_to_its_evidence_and_a_bound_to_its_file(rendered):
    page = page_of(rendered)
    inside = [link[1:] for link in page.links if link.startswith("#claim-")]
    assert len(set(inside)) == 10
    assert set(inside) <= set(page.ids)
    files = {link for link in page.links if link.startswith("evidence/")} - {"evidence/"}
    assert files == {f"evidence/{e.file_name}" for e in evidence.read_all(rendered) if e.bounds}
    assert all((rendered / link).is_file() for link in files)


def test_each_condition_stands_once_with_the_audits_that_need_it_and_those_that_failed_first():
    coin, law, path = (Condition(how, how, f"why {how}") for how in ("proved", "checked", "failed"))
    one = Bound(0.5, 0.05, "any", "rates", (1, 1), False, None, 1.0, 1.0, audit="game", conditions=(coin, law))
    other = replace(one, conditions=(coin, path), audit="replay")
    seen = [Evidence(Claim(1.0, 1e-5), "mine", "own", "game", bounds=(bound,)) for bound in (one, other)]
    assert html.conditions(seen) == [(path, ["replay"]), (law, ["game"]), (coin, ["game", "replay"])]


def test_a_model_without_a_ledger_gets_one_sentence_in_place_of_the_accountants(tmp_path):
    where = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0, "delta": 1e-5}
    rows = [AccountRow(**where, accountant=u.accountant, unsupported=u.unsupported) for u in upper(UnsupportedDpEvent(), 1e-5)]
    assert len(rows) > 5
    rows.append(AccountRow(**where, accountant="warning", unsupported="delta=1e-05 is above 1/1000", is_upper_bound=False))
    (line,) = lines(Results(run=Run(name="r"), rows=rows))
    assert line.no_upper == "the model states no ledger"
    written(tmp_path, *rows)
    text = outline(tmp_path / "report.html").text
    section = text[text.index("Tightest: ") : text.index("Reproduce", text.index("Tightest: "))]
    assert section.count("the model states no ledger") == 1
    assert "Unsupported" not in text
    assert "No upper bound: the model states no ledger." in text
    assert "Warnings mine (own): delta=1e-05 is above 1/1000" in " ".join(section.split())


def test_a_ledger_is_shown_with_six_digits():
    assert html.six_digits("GaussianDpEvent(noise_multiplier=1.5290225362298397), count=2") == (
        "GaussianDpEvent(noise_multiplier=1.52902), count=2"
    )
    assert html.six_digits("PoissonSampledDpEvent(sampling_probability=1.23456789e-05)") == (
        "PoissonSampledDpEvent(sampling_probability=1.23457e-05)"
    )


def test_what_was_skipped_is_told_with_its_reason(rendered):
    text = page_of(rendered).text
    for row in results.read(rendered).of(SkippedRow):
        assert row.reason in text


def test_groups_that_leak_differently_stand_with_the_leakiest_first(rendered):
    text = page_of(rendered).text
    row = max((r for r in results.read(rendered).of(AttackRow) if (r.model, r.epsilon) == ("dpar", 8.0)), key=lambda r: r.auc)
    low, high = row.slices["degree"]["low"].auc, row.slices["degree"]["high"].auc
    assert f"low: {low:.2f} ± 0.02, middle: {row.slices['degree']['middle'].auc:.2f} ± 0.02, high: {high:.2f} ± 0.02" in text


def test_of_many_groups_those_at_either_end_are_shown():
    groups = {str(c): Slice(auc=0.5 + c / 100, auc_ci95=(0.4, 0.6), members=9, non_members=9) for c in range(6)}
    row = AttackRow(model="gap", attack="lira", game="node", auc=0.6, slices={"class": groups})
    (told,) = sliced([row])
    assert told.groups == (("class", "5: 0.55 ± 0.10, 4: 0.54 ± 0.10, …, 0: 0.50 ± 0.10"),)


def test_residuals_of_noise_that_is_too_small_leave_the_band_of_honest_noise(rendered):
    text = (rendered / "report.html").read_text()
    assert "residuals of gap (paper), ε = 1; they leave the band" in text
    assert "residuals of gap (sound), ε = 1; they stay within the band" in text


def test_what_would_have_been_noticed_is_drawn_through_the_mark_of_this_run(rendered):
    rows = list(csv.DictReader((rendered / "figures" / "noticed-gap-sound-1-undirected-edge.csv").open()))
    marks = {r["test"]: (float(r["rounds"]), float(r["factor"])) for r in rows if r["run"]}
    assert marks == {"game, ledger": (5000.0, 1.2), "game, any": (5000.0, 1.9)}
    drawn = [float(r["factor"]) for r in rows if not r["run"] and r["test"] == "game, ledger"]
    assert drawn == sorted(drawn, reverse=True)  # more rounds detect smaller violations
    assert drawn[-1] < 1.1 < 3 < drawn[0]


def test_leakage_of_what_a_claim_does_not_protect_stands_apart():
    asked = (Unit.UNDIRECTED_EDGE, "label"), (Unit.UNDIRECTED_EDGE, "edge"), (Unit.NODE, "label")
    rows = [AttackRow(model="gap", unit=unit, epsilon=1.0, attack="lira", game=game, auc=0.7) for unit, game in asked]
    plots = of_run(Results(run=Run(name="x"), rows=tuple(rows)), [])
    assert [p.name for p in plots["leakage"]] == ["leakage-undirected-edge-edge", "leakage-node-label"]
    assert [p.name for p in plots["unprotected"]] == ["leakage-undirected-edge-label"]


def test_the_clauses_of_the_contract_that_do_not_hold_are_named_with_their_reasons(tmp_path):
    clauses = [
        {"clause": "the same seed gives the same release", "how": "holds", "detail": ""},
        {"clause": "a masked node is an absent node", "how": "fails", "detail": "6 nodes, 6 edges: it differs"},
        {"clause": "calibration fits the claim", "how": "does not apply", "detail": "its noise is fixed"},
    ]
    text = written(tmp_path, UtilityRow(**WHERE, metric="accuracy", split="test", value=0.3, runs=3), contract={"mine": clauses})
    assert "Contract of mine: 1 of 3 clauses hold, 1 fails, 1 does not apply" in text
    page = (tmp_path / "report.html").read_text()
    assert "<dt>a masked node is an absent node</dt><dd>fails on a graph of 6 nodes, 6 edges: it differs</dd>" in page
    assert "<dt>calibration fits the claim</dt><dd>does not apply: its noise is fixed</dd>" in page
    assert "<dt>the same seed gives the same release</dt><dd>holds</dd>" in page


def test_names_of_a_user_cannot_become_markup(tmp_path):
    row = UtilityRow(
        model="<script>alert(1)</script>", unit=Unit.NODE, epsilon=1.0, metric="accuracy", split="test", value=0.5, runs=1
    )
    results.write(Results(run=Run(name="<b>x</b>", command='audit run --data "<i>"'), rows=(row,)), tmp_path)
    assert outline(html.render(tmp_path)).loads == []


class Here(Executor):
    """Workers that draw in this process; `lost` workers were killed."""

    def __init__(self, lost=False):
        self.lost, self.parts = lost, 0

    def submit(self, function, /, *arguments):
        self.parts += 1
        done = Future()
        done.set_exception(BrokenProcessPool()) if self.lost else done.set_result(function(*arguments))
        return done


@pytest.fixture(scope="module", autouse=True)
def small_pictures():
    """Draws PNG files with few pixels, which takes a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "PNG_DPI", 40)
        yield


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A run of one claim, with its report."""
    folder = write_example(tmp_path_factory.mktemp("few") / "demo", systems=[("gap", "sound")], budgets=[1.0])
    html.render(folder)
    return folder


@pytest.mark.parametrize("lost", [False, True])
def test_workers_draw_the_same_report(few, tmp_path, monkeypatch, lost):
    monkeypatch.setattr(html, "MANY", 1)
    again, workers = tmp_path / few.name, Here(lost)
    shutil.copytree(few, again, ignore=shutil.ignore_patterns("figures", "report.html"))
    html.render(again, workers, 2)
    assert workers.parts == 2
    assert {p.relative_to(again): p.read_bytes() for p in again.rglob("*.*")} == {
        p.relative_to(few): p.read_bytes() for p in few.rglob("*.*")
    }


@pytest.mark.parametrize("rows", [(), (SkippedRow(model="gap", what="attack lira", reason="no shadows"),)])
def test_a_run_that_found_nothing_still_has_a_page(tmp_path, rows):
    results.write(Results(run=Run(name="empty"), rows=rows), tmp_path)
    assert "tested no claim" in outline(html.render(tmp_path)).text


def test_a_figure_takes_the_colour_of_the_page(tmp_path):
    plot = Plot("x", "t", 'a "b" <c>', ("x",), ((1,),), lambda axes: axes.plot([0, 1], [0, 1]))
    svg = save(plot, tmp_path)
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert 'aria-label="a &quot;b&quot; &lt;c>"' in svg


def test_the_same_numbers_give_the_same_picture(tmp_path):
    plot = Plot("x", "t", "a", ("x",), ((1,),), lambda axes: axes.plot([0, 1], [0, 1], label="line"))
    assert save(plot, tmp_path / "one") == save(plot, tmp_path / "other")


@pytest.mark.parametrize(("seconds", "words"), [(0.5, "0.5 s"), (59.4, "59.4 s"), (212, "3 min 32 s"), (7260, "2 h 1 min")])
def test_durations_read_as_a_person_says_them(seconds, words):
    assert html.clock(seconds) == words


def test_every_verdict_stands_with_its_delta_and_the_header_says_what_was_claimed(rendered):
    text = " ".join(page_of(rendered).text.split())
    finite = [row for row in results.read(rendered).of(BoundRow) if row.epsilon < float("inf")]
    for unit, delta in {(row.unit, row.delta) for row in finite}:
        claimed = sorted({row.epsilon for row in finite if (row.unit, row.delta) == (unit, delta)})
        assert f"ε = {' and '.join(f'{e:g}' for e in claimed)}, δ = {delta:g} for {UNITS[unit]}" in text
    page = (rendered / "report.html").read_text()
    assert page.count('data-label="δ "') == page.count('data-label="upper "') == 10


def test_on_a_narrow_screen_each_number_stands_with_its_name(rendered):
    page = (rendered / "report.html").read_text()
    bodies = re.findall(r"<table(.*?)>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert len(bodies) > 5
    for kind, body in bodies:
        assert "cards" in kind
        assert not re.findall(r'<td class="n"(?! data-label="[^"]+ ")(?!>\d+</td><th)', body)


WHERE = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 4.0, "delta": 1e-5}


def written(tmp_path, *rows, **run):
    results.write(Results(run=Run(name="r", **run), rows=rows), tmp_path)
    return " ".join(outline(html.render(tmp_path)).text.split())


def test_the_upper_bound_of_a_model_of_ones_own_is_called_its_authors_word(tmp_path):
    text = written(tmp_path, AccountRow(**WHERE, accountant="exact", value=4.0, own=True))
    assert "Upper bound: that of the model's own ledger, which its author declares." in text
    assert "(sound)" not in text
    ours = {**WHERE, "model": "gap", "mode": "sound"}
    assert "nobody checked" not in written(tmp_path / "ours", AccountRow(**ours, accountant="exact", value=4.0))


def test_a_lower_bound_above_the_upper_bound_is_explained(tmp_path):
    shown = {"audit": "game", "attack": "x", "shape": "any", "confidence": 0.95, "rounds": 9, "verdict": "refuted"}
    rows = AccountRow(**WHERE, accountant="exact", value=4.0), BoundRow(**WHERE, **shown, value=28.4, notices=1.1, reach=4.1)
    assert "Upper bound: that of the ledger; a lower bound exceeds it, so the ledger does not describe what was run." in written(
        tmp_path, *rows
    )
    unconfirmed = BoundRow(**WHERE, **shown, value=28.4, notices=1.1, reach=4.1, confirmed=False)
    text = written(tmp_path / "unconfirmed", rows[0], unconfirmed)
    assert "this refutation does not count" in text
    assert "does not describe what was run" not in text


@pytest.mark.parametrize(("low", "flagged"), [(0.17, True), (0.26, False)])
def test_an_accuracy_that_chance_explains_is_flagged(tmp_path, low, flagged):
    row = UtilityRow(**WHERE, metric="accuracy", split="test", value=0.3, ci95=(low, 0.4), runs=3)
    text = written(tmp_path, row, data={"classes": [25, 15, 20, 20, 20]})  # naming the largest class is right for 25 %
    assert ("chance not excluded" in text) is flagged
    assert ("may be that of a model that has learned nothing: mine (own) at ε = 4" in text) is flagged


def test_an_attack_that_had_no_rival_is_not_called_the_best(tmp_path):
    text = written(tmp_path, AttackRow(**WHERE, game="node", attack="lira", auc=0.6))
    assert "The attack on each model, in numbers" in text
    assert "best of" not in text


def test_the_strongest_attack_is_marked_as_the_best_of_as_many_as_were_run(tmp_path):
    row = {**WHERE, "game": "node"}
    text = written(tmp_path, *(AttackRow(**row, attack=f"a{i}", auc=0.5 + i / 100) for i in range(7)))
    assert "a6 best of 7" in text
    assert "not corrected for this choice" in text


def test_what_does_not_apply_is_one_line_a_model_and_what_was_not_tested_stands_first(tmp_path):
    many = [SkippedRow(**WHERE, what=f"audit a{i}", reason=f"reason {i}") for i in range(30)]
    whole = SkippedRow(model="gap", mode="sound", epsilon=1.0, what="gap sound epsilon=1", reason="the graph is too small")
    text = written(tmp_path, *many, whole)
    page = (tmp_path / "report.html").read_text()
    section = page[page.index('<section id="skipped">') : page.index('<section id="reproduce">')]
    assert section.count("<summary>") == 1
    assert all(row.reason in text for row in many)
    assert text.index("the graph is too small") < text.index("mine (own): audits a0, a1")


def test_on_a_refutation_the_evidence_that_refutes_is_drawn_first_and_no_other_curve_beside_it(tmp_path):
    from ..conftest import bound, curves, uppers

    claim, rng = Claim(4.0, 1e-5, Unit.NODE), np.random.default_rng(0)
    common = {"claim": claim, "model": "mine", "mode": "own", "uppers": uppers(claim)}
    moved = bound(claim, 28.4, "exact", True, audit="replay", method="the absence of node 3 moves the means by 9 times the noise")
    fatal = Evidence(**common, game="replay", bounds=(moved,), reach="1 secret was removed")
    other = Evidence(**common, game="game", bounds=(bound(claim, 2.0, "any", False),), curves=curves(claim, 1.0, rng))
    for one in (fatal, other):
        evidence.write(one, tmp_path)
    rows = [row for one in (other, fatal) for row in results.bound_rows(one, 1.5)]
    written(tmp_path, *rows)
    page = (tmp_path / "report.html").read_text()
    curves_section = page[page.index('<section id="curves">') : page.index('<section id="reproduce">')]
    assert "<figcaption>" not in curves_section.partition("<details>")[0]
    verdicts = page[page.index('<section id="verdicts">') : page.index('<section id="layers">')]
    titles = [" ".join(title.split()) for title in re.findall(r"<figcaption>(.*?)</figcaption>", verdicts)]
    assert titles == ["Lower bounds of mine (own), ε = 4"]
    assert "<p>The absence of node 3 moves the means by 9 times the noise. 1 secret was removed.</p>" in verdicts
    drawn = list(csv.DictReader((tmp_path / "figures" / "bounds-mine-own-4-node.csv").open()))
    assert [(r["audit"], float(r["lower"]), r["refutes"]) for r in drawn] == [("replay", 28.4, "True"), ("game", 2.0, "False")]


def test_what_refutes_a_claim_is_said_once(tmp_path):
    from ..conftest import bound

    claim, method = Claim(4.0, 1e-5, Unit.NODE), "the absence of node 3 moves the means by 9 times the noise"
    refuting = bound(claim, 28.4, "exact", True, audit="differential", method=method)
    fatal = Evidence(claim, "mine", "own", "differential", bounds=(refuting,), reach=method)
    evidence.write(fatal, tmp_path)
    written(tmp_path, *results.bound_rows(fatal, 1.5))
    assert "<p>The absence of node 3 moves the means by 9 times the noise.</p>" in (tmp_path / "report.html").read_text()


def test_no_two_figures_of_a_claim_have_one_title_and_a_view_has_one_colour(rendered):
    page = (rendered / "report.html").read_text()
    for item in re.findall(r"<details>.*?</details>", page[page.index('<section id="evidence">') :], re.S):
        titles = re.findall(r"<figcaption>(.*?)</figcaption>", item)
        assert len(set(titles)) == len(titles)


def test_the_table_of_accountants_has_no_column_without_a_value(tmp_path):
    where = {**WHERE, "unit": Unit.FEATURES}
    rows = (
        AccountRow(**WHERE, accountant="exact", value=4.0),
        AccountRow(**WHERE, accountant="opacus-prv", unsupported="Opacus has no such step."),
        AccountRow(**WHERE, accountant="dp_accounting-rdp", value=4.4, note="the conversion is loose"),
        AccountRow(**where, accountant="exact", value=4.0),
        AccountRow(**where, accountant="dp_accounting-rdp", unsupported="delta=0"),
    )
    written(tmp_path, *rows)
    page = (tmp_path / "report.html").read_text()
    section = page[page.index('<section id="accountants">') : page.index('<section id="reproduce">')]
    heads = [re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table) for table in section.split("<table")[1:]]
    shown = [[head.replace("\N{ZERO WIDTH SPACE}", "") for head in table] for table in heads]
    assert shown == [
        ["Model", "Claimed ε", "Tightest", "exact", "dp_accounting-rdp"],
        ["Model", "Claimed ε", "Tightest", "exact"],
    ]
    differs, missing = re.findall(r"<details( open)?>\s*<summary>(.*?)</summary>(.*?)</details>", section, re.S)
    assert differs[:2] == (" open", "Why the values differ")
    assert "the conversion is loose" in differs[2]
    assert missing[1] == "Why some accountants give no value"
    assert "opacus-prv, mine (own)</b>: Opacus has no such step." in missing[2]
    assert "delta=0" in missing[2]


def test_only_a_run_of_our_systems_says_how_they_were_trained(tmp_path):
    mine = UtilityRow(**WHERE, metric="accuracy", split="test", value=0.3, runs=3)
    ours = mine.model_copy(update={"model": "gap", "mode": "sound"})
    assert "Models trained by" not in written(tmp_path / "mine", mine, path="compiled")
    assert "Models trained by" in written(tmp_path / "ours", mine, ours, path="compiled")


def test_sentences_that_explain_a_figure_stand_only_beside_it(rendered, few, tmp_path):
    text = " ".join((page_of(rendered).text + page_of(few).text).split())
    bound = {"audit": "one-run", "attack": "x", "shape": "any", "confidence": 0.9, "rounds": 9, "verdict": "inconclusive"}
    alone = written(tmp_path, BoundRow(**WHERE, **bound, value=1.0))
    for words in ("Residuals are the released values", "plots the adversary's two error rates", "At ε = ∞ there is no claim"):
        assert words in text
        assert words not in alone
    assert "is about one kind of violation" in text
    assert "is about one kind of violation" not in alone  # no verdict of this run says what it would have noticed
    assert "Violations that a verdict does not name" not in " ".join(alone.split())
    named = {**bound, "verdict": "not-refuted", "notices": 1.1, "reach": 4.1, "detectable_by": {"posteriors": "a path"}}
    named = " ".join(written(tmp_path / "named", BoundRow(**WHERE, **named, value=1.0)).split())
    assert "would have been noticed if it came from a path posteriors" in named
    assert "is about one kind of violation" not in named
    assert "Violations that a verdict does not name may go unnoticed." in named


def test_a_line_does_not_break_within_a_budget():
    assert html.unbroken("AUC; ε protects an edge, ε = 8, δ = 0") == "AUC; ε\xa0protects\xa0an edge, ε\xa0=\xa08, δ\xa0=\xa00"


def test_released_arrays_of_which_the_same_is_known_are_one_line():
    known = [("posteriors", "computed", "x"), ("inputs", "noisy", "y"), ("votes", "computed", "x")]
    arrays = [{"array": array, "how": how, "detail": detail} for array, how, detail in known]
    assert html.known_alike(arrays) == [(("computed", "x"), ["posteriors", "votes"]), (("noisy", "y"), ["inputs"])]


def test_a_run_without_a_claim_does_not_say_that_its_tests_could_detect_something(tmp_path):
    text = written(tmp_path, UtilityRow(**{**WHERE, "epsilon": math.inf}, metric="accuracy", split="test", value=0.3, runs=1))
    assert "0: no claim was tested" in text
    assert "could detect" not in text


def test_if_no_audit_tested_a_claim_the_verdict_says_why_and_the_headline_that_all_are_inconclusive(tmp_path):
    account = AccountRow(**WHERE, accountant="exact", value=4.0)
    skipped = [SkippedRow(**WHERE, what=f"audit {name}", reason="it has no votes") for name in ("votes", "rows")]
    one = written(tmp_path / "one", account, skipped[0])
    assert "no audit tested this claim: votes was skipped, because it has no votes" in one
    other = AccountRow(**{**WHERE, "epsilon": 2.0}, accountant="exact", value=2.0)
    both = written(tmp_path / "both", account, other, *skipped)
    assert "no audit tested this claim: all 2 audits of the plan were skipped; the report gives the reasons" in both
    assert "None of the 2 claims was refuted; the tests of all 2 are inconclusive: " in both


def test_a_resumed_run_says_which_time_it_took(tmp_path):
    assert "Took2.27 s Confidence" in written(tmp_path, seconds=2.27)
    resumed = written(tmp_path, seconds=2.27, resumed=True)
    assert "Took2.27 s after it was resumed; the time before that is not known Confidence" in resumed


def test_the_page_says_which_arrays_the_claim_covers_and_which_others_the_audits_read(tmp_path):
    """DPAR's claim covers its posteriors; audits read noisy gradients of its training."""
    claim = Claim(1.0, 1e-3, Unit.NODE, exposes=("posteriors",))
    evidence.write(Evidence(claim, "dpar", "sound", "rows", read=("rows",)), tmp_path)
    evidence.write(Evidence(claim, "dpar", "sound", "gradients", read=("gradients", "posteriors")), tmp_path)
    page = written(tmp_path)
    assert "Arrays that the claim coversposteriors Audits also readgradients, rows: noisy values inside the training" in page
    assert "can release" not in page


def test_trainings_that_agree_are_said_to_agree(tmp_path):
    row = UtilityRow(**WHERE, metric="accuracy", split="test", value=0.9, ci95=(0.9, 0.9), runs=2)
    text = written(tmp_path, row)
    assert "90.0 all 2 trainings agree" in text
    assert "90.0–90.0" not in text
