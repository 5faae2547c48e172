"""Plans: options and plan files mean the same, and bad input is named."""

import contextlib
from pathlib import Path

import dp_accounting as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.planning.plan import Plan, read
from gnnaudit.audit.planning.planned_cases import cases, recipes
from gnnaudit.models.data.loading import load


def test_a_plan_file_says_what_the_options_say(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[run]\nmodels = ["gap", "mlp"]\nepsilon = [1, "inf"]\ndata-dir = "d"\nmemory = "2GiB"\n')
    options = {"models": "gap,mlp", "epsilon": "1,inf", "data_dir": "d", "memory": "2GiB"}
    assert read(path, {}) == read(None, options)


def test_a_plan_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("[run]\nshadows = 4\n", encoding="utf-8-sig")
    assert read(path, {}).shadows == 4


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('out = "a\\u0000b"', r"out='a\x00b': contains a null character"),
        (f"alpha = 1{'0' * 400}", f"alpha=1{'0' * 58}…: "),
        (f"alpha = 1{'0' * 5000}", "plan.toml: not a TOML file"),
    ],
    ids=["null", "long", "longer"],
)
def test_a_value_that_cannot_be_shown_whole_is_named(tmp_path, line, words):
    path = tmp_path / "plan.toml"
    path.write_text(f"[run]\n{line}\n")
    with pytest.raises(ValueError, match=r"plan|out|alpha") as fault:
        read(path, {})
    assert words in str(fault.value)
    assert len(str(fault.value)) < 300 + len(str(path))


def test_options_win_over_the_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("[run]\nshadows = 4\n")
    assert read(path, {"shadows": 8}).shadows == 8


def test_a_printed_plan_reads_back_the_same(tmp_path):
    plan = Plan(epsilon="0.5,inf", seed='a "word"', data_dir=Path("x\\y"), models="gap")
    path = tmp_path / "plan.toml"
    path.write_text(plan.toml())
    assert read(path, {}) == plan


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": "-1"}, "epsilon='-1'"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": ""}, "epsilon"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"mode": "loud"}, "mode='loud'"),
        ({"epsilonn": "1"}, "no such option. Did you mean epsilon?"),
        ({"memory": "8 bananas"}, "memory='8 bananas': must be from 1MiB to 1024TiB"),
    ],
)
def test_bad_options_are_named_in_one_line(options, words):
    with pytest.raises(ValueError, match=r"\w") as fault:
        read(None, options)
    assert words in str(fault.value)
    assert len(str(fault.value).splitlines()) == len(options)


@given(st.text())
def test_no_text_makes_a_plan_file_crash(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(ValueError):  # a sentence for the user; anything else is a crash
        read(path, {})


def test_what_is_no_plan_file_is_named(tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 10**5)
    for path, words in (
        (tmp_path, "cannot be read"),
        (tmp_path / "deep.toml", "not a TOML file"),
        (tmp_path / "none", "no such"),
    ):
        with pytest.raises(ValueError, match=words):
            read(path, {})


@pytest.mark.parametrize("text", ['[runs]\nmodels = "gap"\n', 'models = "gap"\n', "[run]\n[gap]\nhops = 2\n"])
def test_what_stands_outside_of_the_table_run_is_refused_and_never_overlooked(tmp_path, text):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(ValueError, match="must be inside"):
        read(tmp_path / "plan.toml", {})


@pytest.mark.nightly
def test_fields_of_the_models_are_set_in_a_run_too(tmp_path):
    graph = load("campus:n=600")
    asked = {"models": "gap,progap", "epsilon": "1", "unit": "node"}
    promised = int(graph.degree.max())
    plan = read(None, asked | {"param": [f"max_degree={promised}", "gap.hops=1"]})
    made, skips = cases(plan, graph, recipes(plan)[1])
    assert not skips
    assert [c.model.max_degree for c in made] == [promised] * 2
    assert made[0].model.hops == 1
    path = tmp_path / "plan.toml"
    path.write_text(plan.toml())
    assert read(path, {}) == plan
    for wrong, said in (("hops", "NAME=VALUE"), ("sigma=1", "--epsilon"), ("sides=2", "none of the chosen models")):
        with pytest.raises(ValueError, match=said):
            cases(plan := read(None, asked | {"param": [f"max_degree={promised}", wrong]}), graph, recipes(plan)[1])


class Plain:
    """A model that is no dataclass."""

    name, mode, unit, releases, public = "plain", "sound", Unit.NODE, ("posteriors",), ()
    ledger = dp.GaussianDpEvent(1.0)

    def with_noise(self, sigma):
        return self


def test_a_model_that_is_no_dataclass_makes_a_case_and_has_no_fields(graph):
    made, skips = cases(read(None, {"models": "mlp", "epsilon": 8.0}), graph, {"plain": lambda *_: Plain()})
    assert [case.model.name for case in made] == ["plain"]
    assert not skips
    with pytest.raises(ValueError, match="none of the chosen models has such a field"):
        cases(read(None, {"models": "mlp", "epsilon": 8.0, "param": ["hops=2"]}), graph, {"plain": lambda *_: Plain()})


@pytest.mark.parametrize("option", ["targets = true", "rounds = false", "epsilon = [true]", "alpha = true"])
def test_true_and_false_are_no_numbers(tmp_path, option):
    (tmp_path / "plan.toml").write_text(f"[run]\n{option}\n")
    with pytest.raises(ValueError, match=f"{option.split()[0]}=.*not true or false"):
        read(tmp_path / "plan.toml", {})
