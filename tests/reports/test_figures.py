"""Figures of models with long names."""

import dataclasses
import itertools
import math
import re
import warnings
from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.reports import formats
from gnnaudit.reports.evidence import Evidence
from gnnaudit.reports.figures.claim_figures import bounds_plot, of_claim, power_of_ten, power_plot
from gnnaudit.reports.figures.ledger_figure import observed_plot
from gnnaudit.reports.figures.run_figures import BRIGHT, epsilon_plots, leakage_plots, of_run
from gnnaudit.reports.figures.style import COLOURS, LABEL, STYLE, TICK, Plot, legend, save, wrapped
from gnnaudit.reports.formats.html import decisive, foremost, proof
from gnnaudit.reports.results import AttackRow, BoundRow, Results, Run, UtilityRow
from gnnaudit.reports.summary import lines_of

NAME = "undirected-edge-charged-as-one-directed-edge-and-some-more-words-after-it (paper) " * 2


@pytest.mark.parametrize("width", [TICK, LABEL])
def test_a_wrapped_name_keeps_its_characters_and_its_width(width):
    lines = wrapped(NAME, width).split("\n")
    assert "".join(lines).replace(" ", "") == NAME.replace(" ", "")
    assert max(map(len, lines)) <= width


def test_a_long_name_leaves_room_for_the_axes(tmp_path):
    def draw(axes):
        axes.barh([0], [1.0], label=NAME)
        axes.set_yticks([0], [wrapped(NAME)])
        legend(axes)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns if no room is left
        save(Plot("long", "Long names", "A bar.", ("x",), ((1,),), draw), tmp_path)
    assert (tmp_path / "long.png").exists()


@pytest.mark.parametrize("labels", [("AUC 0.5 or less: guessing", "AUC 0.75", "AUC 1"), (NAME, "a model"), ("m" * 20, "w" * 20)])
@pytest.mark.parametrize("width", [3.6, 4.6, 9.0])
def test_a_legend_is_as_wide_as_its_figure_at_most(width, labels):
    figure = Figure(figsize=(width, 3.0), layout="constrained")
    with rc_context(STYLE):
        canvas, axes = FigureCanvasAgg(figure), figure.add_subplot()
        for label in labels:
            axes.fill([], [], label=label)
        legend(axes, 3)
        canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width


def test_a_bar_says_what_its_bound_grants_the_adversary_and_a_bound_of_zero_grants_nothing():
    where = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0, "delta": 1e-5, "exposes": ["posteriors"]}
    shown = {
        "audit": "differential",
        "attack": "recorded draws",
        "shape": "exact",
        "confidence": 1.0,
        "rounds": 2,
        "verdict": "refuted",
    }
    granted = [{"what": "for an adversary who sees the noise", "how": "granted", "detail": ""}]
    rows = [BoundRow(**where, **shown, value=value, conditions=granted) for value in (0.0, 2.0)]
    (plot,) = epsilon_plots(lines_of(rows, 1.5))
    assert {row[3]: row[4] for row in plot.rows} == {"posteriors": 0, "posteriors, for an adversary who sees the noise": 2}


def test_the_rows_of_a_map_are_as_high_as_their_names():
    row = {"attack": "lira", "game": "edge", "auc": 0.6, "unit": Unit.NODE, "epsilon": 1.0}
    high, low = (leakage_plots([AttackRow(**row, model=model)])[0].size[1] for model in (NAME, "gap"))
    assert high > low + 0.3


@pytest.mark.parametrize("notices", [0.4, 0.9, 1.3])
def test_a_detectable_factor_below_one_is_within_the_axes(notices, tmp_path):
    claim = Claim(8.0, 0.0, Unit.NODE)
    tested = Bound(1.0, 0.01, "ledger", "gate", (500, 500), False, 0.5, notices, 9.0, "vote-ratio", "votes")
    plot = power_plot([Evidence(claim, "privgnn", "sound", "votes", bounds=(tested,))])
    seen = []

    def draw(axes):
        plot.draw(axes)
        seen.append(axes.get_ylim())

    save(dataclasses.replace(plot, draw=draw), tmp_path)
    low, high = seen[0]
    assert low < notices < high


def test_a_test_of_one_run_is_drawn_among_the_detectable_violations():
    claim = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE)
    tested = Bound(0.0, 0.01, "ledger", "exact tests", (1, 1), False, 0.5, 1.009, 1.0096, "recorded draws", "differential")
    plot = power_plot([Evidence(claim, "gap", "sound", "differential", bounds=(tested,))])
    assert ("differential, ledger", 1, 1.009, "this run") in plot.rows
    assert len(plot.rows) == 1  # its power does not depend on a number of rounds


@pytest.mark.parametrize(("value", "words"), [(1000.0, "10³"), (1.0, "10⁰"), (0.1, "10⁻¹"), (1e12, "10¹²"), (400.0, "400")])
def test_powers_of_ten_are_written_as_powers(value, words):
    assert power_of_ten(value) == words


def axes_of(plot, folder):
    """The axes of a figure that was drawn and saved."""
    seen = []

    def draw(axes):
        plot.draw(axes)
        seen.append((axes.get_xlim(), [text.get_text() for text in axes.texts]))

    save(dataclasses.replace(plot, draw=draw), folder)
    return seen[0]


def test_a_blunt_test_does_not_stretch_the_axis_of_the_bounds(tmp_path):
    claim = Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE)
    sharp = Bound(3.9, 0.01, "ledger", "gate", (500, 500), False, 0.5, 1.1, 4.1, "replay", "residual")
    blunt = Bound(0.9, 0.01, "any", "Clopper-Pearson", (500, 500), False, 0.5, 6.0, 37.4, "ratio", "game")
    (_, right), told = axes_of(bounds_plot([Evidence(claim, "gap", "sound", "game", bounds=(sharp, blunt))]), tmp_path)
    assert right < 6
    assert told == ["| 37.4 →"]


def test_an_audit_has_one_colour_in_all_figures_of_detectable_violations(tmp_path):
    """The colour of a claim is not among them, because a test is no claim."""
    claim = Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE)

    def colour_of_game(*before):
        tested = Bound(1.0, 0.01, "ledger", "gate", (500, 500), False, 0.5, 1.2, 4.4, "ratio", "game")
        plot = power_plot([Evidence(claim, "gap", "sound", "game", bounds=(*before, tested))])
        seen = []

        def draw(axes):
            plot.draw(axes)
            seen.extend(line.get_color() for line in axes.get_lines() if line.get_label() == "this run: game, ledger")

        save(dataclasses.replace(plot, draw=draw), tmp_path)
        (colour,) = seen
        return colour

    other = Bound(1.0, 0.01, "ledger", "gate", (900, 900), False, 0.5, 1.1, 4.2, "ratio", "residual")
    assert colour_of_game() == colour_of_game(other)
    assert colour_of_game() != COLOURS[1]


def test_a_bound_of_zero_is_a_whole_mark(tmp_path):
    nothing = Bound(0.0, 0.01, "any", "Steinke et al. 2023", (500, 500), False, 0.5, math.inf, math.inf, "x", "one-run")
    plot = bounds_plot([Evidence(Claim(4.0, 1e-5, Unit.NODE), "gap", "sound", "one-run", bounds=(nothing,))])
    seen = []

    def draw(axes):
        plot.draw(axes)
        seen.extend(line.get_clip_on() for line in axes.get_lines() if line.get_label() == "lower bound")

    save(dataclasses.replace(plot, draw=draw), tmp_path)
    assert seen == [False]


def test_what_a_blunt_audit_would_notice_is_written_at_the_edge_of_the_bars(tmp_path):
    claim = {"model": "privgnn", "mode": "sound", "unit": Unit.NODE, "epsilon": 8.0, "delta": 1e-3}
    where = {**claim, "confidence": 0.99, "rounds": 9, "attack": "x", "shape": "ledger", "verdict": "not-refuted"}
    sharp = BoundRow(**where, audit="votes", value=7.6, exposes=["votes"], detectable_epsilon=8.2)
    blunt = BoundRow(**where, audit="differential", value=0.0, detectable_epsilon=41.0)
    fatal = BoundRow(**where, audit="game", value=9.0, exposes=["aggregates"], detectable_epsilon=40.0)
    refuting = fatal.model_copy(update={"verdict": "refuted"})
    (plot,) = of_run(Results(run=Run(name="x"), rows=(sharp, blunt, refuting)), [])["epsilon"]
    _, texts = axes_of(plot, tmp_path)
    assert "| 41 →" in texts
    assert "| 40 →" not in texts  # a bound that refutes says nothing of what it would have noticed


def moved(largest, refuted=True):
    curve = {"of": {f"edge 0–{i}": largest - 0.01 * i for i in range(1, 12)}, "by": "sds", "allowed": 1.0, "limit": "allowed"}
    bound = Bound(5.0, 0.0, "exact", "replay", (12, 0), refuted, None, math.inf, math.inf, "replay", "replay")
    claim = Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE)
    return Evidence(claim, "gap", "paper", "replay", bounds=(bound,), curves={"moves": curve})


def test_the_moves_are_drawn_with_the_largest_first_and_the_limit_in_sight(tmp_path):
    (plot,) = of_claim(moved(0.5), refuting=True)
    (_, right), texts = axes_of(plot, tmp_path)
    assert right > 1.0  # the limit
    assert texts[0] == "0.49"
    assert len(plot.rows) == 11
    assert "Removing edge 0–1 moves the released values most: 0.49" in plot.alt


def test_roc_curves_are_titled_in_words_and_stand_in_the_order_of_the_tables():
    roc = {"lira (label, unlabelled)": ((0.0, 1.0), (0.0, 1.0)), "guess": ((0.0, 1.0), (0.0, 1.0))}
    claims = [Claim(1.0, 1e-5, unit) for unit in (Unit.NODE, Unit.UNDIRECTED_EDGE)]
    found = [Evidence(claim, "gap", "sound", "attacks", bounds=(), curves={"roc": roc}) for claim in claims]
    assert [plot.title for plot in of_run(Results(run=Run(name="x"), rows=()), found)["roc"]] == [
        f"ROC of {what}; ε = 1 protects {whom}"
        for whom in ("an undirected edge", "a node with its edges")
        for what in ("audit “attacks”", "the label game against unlabelled non-members")
    ]


@pytest.mark.parametrize(("excess", "beyond"), [(1e-7, False), (1e-3, True)])
def test_a_move_that_differs_from_its_limit_by_rounding_alone_is_within_it(excess, beyond):
    (plot,) = of_claim(moved(1.01 + excess, refuted=False))
    axes = Figure().add_subplot()
    plot.draw(axes)
    labels = axes.get_legend_handles_labels()[1]
    assert ("beyond this limit" in labels) is beyond
    assert "within this limit" in labels


def test_a_refutation_begins_with_the_evidence_that_decides_the_verdict():
    weaker = dataclasses.replace(moved(1.2).bounds[0], epsilon=4.5, audit="game")
    game = dataclasses.replace(moved(1.2), game="game", bounds=(weaker,))
    same = [game, moved(1.2)]  # in the order of the file names
    assert decisive(same).game == "replay"
    names = [plot.name.split("-")[0] for plot in proof(same)]
    assert names == ["moves", "bounds"]
    assert [plot.name for plot in foremost(same)] == ["moves-gap-paper-4-undirected-edge-game"]
    assert decisive([moved(0.5, refuted=False)]) is None


@pytest.mark.parametrize(("size", "shown"), [(1.0, False), (0.5, True)])
def test_residuals_of_honest_noise_are_no_figure_of_a_refutation(size, shown):
    quantiles = [-3 + 0.1 * i for i in range(61)]
    curve = {"expected": quantiles, "observed": [size * q for q in quantiles], "count": 5000}
    found = Evidence(Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE), "own", "own", "residual", curves={"residuals": curve})
    assert bool(of_claim(found, refuting=True)) is shown
    assert of_claim(found)


NARROW = 350.0  # CSS pixels of a figure on a screen of 400


def test_every_word_of_a_figure_has_at_least_nine_pixels_on_a_narrow_screen(rendered):
    css = (Path(formats.__file__).parent / "report.css").read_text()
    least = 16 * float(re.search(r"\.sized figure svg \{ min-width: calc\(var\(--inches\) \* ([\d.]+)rem\)", css)[1])
    for path in (rendered / "figures").glob("*.svg"):
        svg = path.read_text()
        points = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
        wide = max(NARROW, points / 72 * least) if path.name.startswith("leakage") else NARROW
        sizes = [float(size) for size in re.findall(r"<text style=\"font-size: ([\d.]+)px", svg)]
        assert min(sizes) * wide / points >= 9, path.name


def test_intervals_of_two_models_at_one_budget_stand_side_by_side(tmp_path):
    where = {"unit": Unit.NODE, "epsilon": 2.0, "metric": "accuracy", "split": "test", "ci95": (0.1, 0.9), "runs": 2}
    rows = tuple(UtilityRow(**where, model=model, value=0.5) for model in ("gap", "dpar"))
    (plot,) = of_run(Results(run=Run(name="x"), rows=rows), [])["utility"]
    seen = []

    def draw(axes):
        plot.draw(axes)
        seen.extend(bars.lines[0].get_xdata()[0] for bars in axes.containers)
        assert all(axes.get_xlim()[0] < x < axes.get_xlim()[1] for x in seen)

    save(dataclasses.replace(plot, draw=draw), tmp_path)
    assert len(set(seen)) == 2


def test_a_released_array_and_a_world_have_no_colour_in_common(tmp_path):
    worlds = {name: ([0.0, 1.0], [3]) for name in ("without the edge", "with the edge")}
    found = Evidence(Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE), "gap", "paper", "game", curves={"histograms": worlds})
    (plot,) = of_claim(found)
    save(plot, tmp_path)
    svg = (tmp_path / f"{plot.name}.svg").read_text()
    assert not any(COLOURS[i].lower() in svg for i in BRIGHT)
    assert COLOURS[8].lower() in svg


MECHANISM = {
    "number": 1, "line": "a_file_with_a_long_name.py, line 1234", "meets": "a_file_with_a_long_name.py, line 1235",
    "law": "two-sided geometric", "scale": (1.5, 123.4), "shape": (2000, 128), "covered": 0.43, "move": 0.7071,
    "released": "posteriors at hop 2 and later", "secret": "the absence of edge (1600, 2999)",
    "note": "repeats the noise of mechanism 12",
}  # fmt: skip


def recorders_picture(*mechanisms):
    """The plot, its text, and the boxes in it, in pixels."""
    seen = {"mechanisms": mechanisms, "released": [], "compared": [], "faults": []}
    plot = observed_plot(Evidence(Claim(1.0, 1e-6), "mine", "own", "recorder", observed=seen))
    figure = Figure(figsize=plot.size, layout="constrained")
    with rc_context(STYLE):
        canvas, axes = FigureCanvasAgg(figure), figure.add_subplot()
        plot.draw(axes)
        canvas.draw()
        boxes = [text.get_bbox_patch().get_window_extent() for text in axes.texts if text.get_bbox_patch() is not None]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    return plot, [text.get_text() for text in axes.texts], boxes


def test_the_recorders_picture_fits_a_phone_and_its_boxes_fit_the_picture():
    """A phone of 400 CSS pixels shows a figure whole up to about 4.3 inches without making 8 pt smaller than 9 pixels."""
    plot, _, boxes = recorders_picture(MECHANISM)
    assert plot.size[0] <= 4.3
    assert len(boxes) == 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_the_recorders_picture_draws_mechanisms_that_differ_in_their_numbers_alone_once():
    same = [{**MECHANISM, "number": number} for number in range(1, 61)]
    plot, texts, boxes = recorders_picture(*same, {**MECHANISM, "number": 61, "move": 0.5})
    assert len(boxes) == 6
    assert sum("mechanisms 1–60:" in text for text in texts) == 1
    assert len(plot.rows) == 61
    _, texts, boxes = recorders_picture(*({**row, "move": row["number"] / 60} for row in same))
    assert len(boxes) == 36
    assert "and 48 more rows in the table" in texts
