"""The page stands alone, mixes no units, and says everything that the rows say."""

import csv
import re
from html.parser import HTMLParser

import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.reports import results
from gnnaudit.reports.figures.run_figures import of_run
from gnnaudit.reports.figures.style import Plot, save
from gnnaudit.reports.figures.subgroup_rows import sliced
from gnnaudit.reports.formats import html
from gnnaudit.reports.results import AttackRow, BoundRow, Results, Run, SkippedRow, Slice, UtilityRow

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


def test_the_page_loads_nothing_and_runs_nothing(rendered):
    page = outline(rendered / "report.html")
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
    page = outline(rendered / "report.html")
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (rendered / link).exists()


def test_ids_are_unique_and_headings_are_nested(rendered):
    page = outline(rendered / "report.html")
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
    text = outline(rendered / "report.html").text
    assert text.index("2 of 14 claims are refuted: gap (paper)") < text.index("refuted: at least")
    assert text.index("refuted: at least") < text.index("not refuted; a true")


def test_what_was_skipped_is_told_with_its_reason(rendered):
    text = outline(rendered / "report.html").text
    for row in results.read(rendered).of(SkippedRow):
        assert row.reason in text


def test_groups_that_leak_differently_stand_with_the_leakiest_first(rendered):
    text = outline(rendered / "report.html").text
    row = max((r for r in results.read(rendered).of(AttackRow) if (r.model, r.epsilon) == ("dpar", 8.0)), key=lambda r: r.auc)
    low, high = row.slices["degree"]["low"].auc, row.slices["degree"]["high"].auc
    assert f"low {low:.2f} ± 0.02, middle {row.slices['degree']['middle'].auc:.2f} ± 0.02, high {high:.2f} ± 0.02" in text


def test_of_many_groups_those_at_either_end_are_shown():
    groups = {str(c): Slice(auc=0.5 + c / 100, auc_ci95=(0.4, 0.6), members=9, non_members=9) for c in range(6)}
    row = AttackRow(model="gap", attack="lira", game="node", auc=0.6, slices={"class": groups})
    (told,) = sliced([row])
    assert told.groups == (("class", "5 0.55 ± 0.10, 4 0.54 ± 0.10, …, 0 0.50 ± 0.10"),)


def test_residuals_of_noise_that_is_too_small_leave_the_band_of_honest_noise(rendered):
    text = (rendered / "report.html").read_text()
    assert "residuals of gap (paper), ε = 1; they leave the band" in text
    assert "residuals of gap (sound), ε = 1; they stay within the band" in text


def test_what_would_have_been_noticed_is_drawn_through_the_mark_of_this_run(rendered):
    rows = list(csv.DictReader((rendered / "figures" / "noticed-gap-sound-1-undirected-edge.csv").open()))
    marks = {r["test"]: (float(r["rounds"]), float(r["factor"])) for r in rows if r["run"]}
    assert marks == {"game, ledger": (5000.0, 1.2), "game, any": (5000.0, 1.9)}
    drawn = [float(r["factor"]) for r in rows if not r["run"] and r["test"] == "game, ledger"]
    assert drawn == sorted(drawn, reverse=True)  # more rounds, smaller violations
    assert drawn[-1] < 1.1 < 3 < drawn[0]


def test_leakage_of_what_a_claim_does_not_protect_stands_apart():
    asked = (Unit.UNDIRECTED_EDGE, "label"), (Unit.UNDIRECTED_EDGE, "edge"), (Unit.NODE, "label")
    rows = [AttackRow(model="gap", unit=unit, epsilon=1.0, attack="lira", game=game, auc=0.7) for unit, game in asked]
    plots = of_run(Results(run=Run(name="x"), rows=tuple(rows)), [])
    assert [p.name for p in plots["leakage"]] == ["leakage-undirected-edge-edge", "leakage-node-label"]
    assert [p.name for p in plots["unprotected"]] == ["leakage-undirected-edge-label"]


def test_names_of_a_user_cannot_become_markup(tmp_path):
    row = UtilityRow(
        model="<script>alert(1)</script>", unit=Unit.NODE, epsilon=1.0, metric="accuracy", split="test", value=0.5, runs=1
    )
    results.write(Results(run=Run(name="<b>x</b>", command='audit run --data "<i>"'), rows=(row,)), tmp_path)
    assert outline(html.render(tmp_path)).loads == []


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
