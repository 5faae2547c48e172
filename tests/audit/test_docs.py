"""The documents name only commands, options, files, names and sentences that exist."""

import ast
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from make_cli import commands, page  # noqa: E402

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
FOLDERS = ("accounting", "attacks", "audit", "models", "reports", "gnnaudit", "examples", "benchmarks", "docs")
SOURCES = {source.name for folder in FOLDERS for source in (ROOT / folder).rglob("*.py")}
COMMANDS = dict(commands())
NAMED = re.compile(r"(?<![\w./-])audit ((?:data )?[a-z]+)(?: |$|`)")


def spoken(text):
    """The lines of a page that call the tool: in code blocks, or between backticks."""
    text = text.replace("\\\n", " ")
    for fenced in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S):
        yield from (
            line.strip().removeprefix("$ ") for line in fenced.splitlines() if NAMED.match(line.strip().removeprefix("$ "))
        )
    without = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    yield from (code for code in re.findall(r"`([^`\n]+)`", without) if code.startswith("audit "))


def test_the_reference_is_what_the_commands_say():
    assert (ROOT / "docs" / "cli.md").read_text() == page(), "run `python docs/make_cli.py`"


def test_the_model_on_the_page_is_the_example_that_runs():
    page_of_models = (ROOT / "docs" / "own-class.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page_of_models, re.S)
    (shown,) = (block for block in blocks if "class Votes" in block)
    assert (ROOT / "examples" / "own_model.py").read_text().endswith(shown)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_commands_and_options_that_a_page_names_exist(path):
    for line in spoken(path.read_text()):
        name = re.match(r"audit((?: [a-z-]+){0,2})", line)[1].split()
        if not name:
            continue
        known = " ".join(["audit", *name[:2]]) if name[0] == "data" and len(name) > 1 else f"audit {name[0]}"
        if known == "audit data":
            continue
        assert known in COMMANDS, f"{line!r}: there is no {known!r}"
        options = {o for p in COMMANDS[known].params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        said = [w for w in shlex.split(line.split(" # ")[0].split("…")[0], comments=True) if w.startswith("--")]
        assert [w for w in said if w.split("=")[0] not in options] == [], line


@pytest.mark.parametrize("path", [p for p in PAGES if p.name != "recipes.md"], ids=lambda p: p.name)  # names other people's files
def test_source_files_that_a_page_names_exist(path):
    named = re.findall(r"`([a-z_0-9/]+\.py)`", path.read_text())
    assert [name for name in named if not ((ROOT / name).is_file() if "/" in name else name in SOURCES)] == []


def sentences():
    """Every text in the product's code. "…" stands for values that are put in, and for what comes before and after the text."""
    for folder in ("accounting", "audit", "models", "reports"):
        for source in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.JoinedStr):
                    yield "…" + "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values) + "…"
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"…{node.value}…"


def test_what_verdicts_say_on_the_page_is_what_the_code_says():
    page_of_reports = (ROOT / "docs" / "reading-a-report.md").read_text()
    section = page_of_reports.split("## An inconclusive verdict, and what to do")[1].split("\n## ")[0]
    quotes = [quote for row in section.splitlines() if row.startswith("| ") for quote in re.findall(r'"([^"`]+)"', row)]
    said = list(sentences())
    assert len(quotes) >= 15
    assert [quote for quote in quotes if not any(quote in text for text in said)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_relative_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text())
    assert [to for to in links if "://" not in to and not (path.parent / to).exists()] == []


def anchors(path):
    """The names by which links reach the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_to_a_heading_name_a_heading_that_exists(path):
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text())
    pages = [(path if not to else (path.parent / to).resolve(), heading) for to, heading in links if "://" not in to]
    assert [heading for page, heading in pages if page.suffix == ".md" and heading not in anchors(page)] == []


def test_every_command_has_an_example_that_calls_it():
    for name, command in COMMANDS.items():
        example = (command.help or "").partition("Example: ")[2].strip()
        assert example.startswith(name), f"{name}: {example!r}"


def test_defaults_that_the_options_of_run_name_are_those_of_a_plan():
    from gnnaudit.audit.planning.plan import Plan

    told = {p.name: p.help for p in COMMANDS["audit run"].params}
    plan = Plan()
    for name in ("data", "mode", "rounds", "shadows", "targets", "repeats", "device", "alpha", "notices", "split"):
        assert f"Default: {getattr(plan, name)}." in told[name], name
    assert f"Default: {','.join(plan.models)}." in told["models"]
    assert f"Default: {plan.memory >> 30}GiB." in told["memory"]
    assert f"Default: {','.join(f'{e:g}' for e in plan.epsilon)}." in told["epsilon"]


def test_help_on_a_terminal_says_every_word_of_the_reference():
    from typer.testing import CliRunner

    from gnnaudit.audit.cli.main import app

    for name, command in COMMANDS.items():
        shown = CliRunner().invoke(app, [*name.split()[1:], "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).output
        for parameter in command.params:
            told = getattr(parameter, "help", None) or ""
            assert " ".join(told.split()) in " ".join(shown.split()), f"{name}: {told!r}"
