"""The direction of imports at every depth, the files that a digest of code covers, the packaged files, and the modules that
`--help` must not load.
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gnnaudit import models
from gnnaudit.accounting.cache import sources
from gnnaudit.audit.storage.store import code_version

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "accounting": set(),
    "models": {"accounting"},
    "attacks": {"accounting", "models"},
    "reports": {"accounting"},
    "audit": {"accounting", "models", "attacks", "reports"},
}
CARRIED = {".c", ".h", ".html", ".css", ".toml", ".json"}  # endings of files that a wheel must hold beside the code
USED = "Used elsewhere: "  # begins the list of names in the docstring of a folder
OFTEN = 8  # files elsewhere that import a name; such a name is listed
Arrows = dict[str, set[str]]


def package_files(root: Path) -> dict[tuple[str, ...], Path]:
    """Every file of the five floors by its module path: ("models", "gap", "gap") -> models/gap/gap.py."""
    found = {}
    for floor in MAY_IMPORT:
        for path in sorted((root / floor).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[parts[:-1] if parts[-1] == "__init__" else parts] = path
    return found


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Of a file, which most tests read again."""
    return tuple(ast.walk(ast.parse(text)))


def imported(path: Path, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The full module paths that a file imports from, at every place in the file, imports for types included."""
    package = module if path.name == "__init__.py" else module[:-1]
    for node in nodes(path.read_text()):
        if not isinstance(node, ast.ImportFrom):
            continue
        words = tuple((node.module or "").split(".")) if node.module else ()
        if node.level:
            base = package[: len(package) - node.level + 1]
        elif words[:1] == ("gnnaudit",):
            base, words = (), words[1:]
        else:
            continue
        yield from ((*base, *words, alias.name) for alias in node.names)


def arrows(root: Path) -> Arrows:
    """file -> files that it imports, as posix paths; a name that a package hands on leads to the file that defines it."""
    files = package_files(root)
    faces = {m: p for m, p in files.items() if p.name == "__init__.py"}

    def owner(target: tuple[str, ...]) -> Path | None:
        for module in (target, target[:-1]):
            path = files.get(module)
            if path is not None and path.name != "__init__.py":
                return path
        face = faces.get(target[:-1])
        handed = imported(face, target[:-1]) if face else ()
        return next((files[t[:-1]] for t in handed if t[-1] == target[-1] and t[:-1] in files), face)

    found: Arrows = defaultdict(set)
    for module, path in files.items():
        owners = {owner(target) for target in imported(path, module)} - {None, path}
        found[path.relative_to(root).as_posix()] |= {o.relative_to(root).as_posix() for o in owners if o is not None}
    return found


def circles(graph: Arrows) -> list[list[str]]:
    """Groups of two or more nodes that reach one another (depth-first: what is on the way back closes a circle)."""
    reach: Arrows = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for follower in graph.get(todo.pop(), ()):
                if follower not in seen:
                    seen.add(follower)
                    todo.append(follower)
        reach[start] = seen
    return sorted({tuple(sorted(b for b in reach[a] if a in reach.get(b, ()))) for a in graph if a in reach[a]})  # type: ignore[arg-type]


def room(file: str) -> str:
    """A folder at any depth is one room, without its sub-folders; a file at the top of a floor is one."""
    return file.removesuffix(".py") if file.count("/") == 1 else file.rsplit("/", 1)[0]


def rooms(graph: Arrows) -> Arrows:
    """The same between rooms."""
    found: Arrows = defaultdict(set)
    for file, targets in graph.items():
        found[room(file)] |= {room(t) for t in targets} - {room(file)}
    return found


def used_elsewhere(root: Path) -> dict[str, Counter[str]]:
    """Folder -> name (`module.name`, `module`, or a name of the folder itself) -> number of files elsewhere that import it."""
    files = package_files(root)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for module, path in files.items():
        for target in set(imported(path, module)):
            home = next((target[:n] for n in (len(target), len(target) - 1) if target[:n] in files), None)
            if home is None:
                continue
            folder = home if files[home].name == "__init__.py" else home[:-1]
            if files[folder].parent != path.parent and target != folder:
                found["/".join(folder)][".".join(target[len(folder) :])] += 1
    return found


def announced(text: str) -> set[str]:
    """The names that the docstring of a folder lists."""
    told = (ast.get_docstring(ast.parse(text)) or "").partition(USED)[2].removesuffix(".")
    return {name.strip() for name in told.split(",") if name.strip()}


def layers(text: str) -> dict[str, dict[str, int]]:
    """floor -> room -> number of its layer, 0 for the lowest, as in the table of docs/architecture.md."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| `")]
    found = {floor.strip("`/"): listed for floor, _, listed in rows if floor.strip("`/") in MAY_IMPORT}
    return {
        floor: {f"{floor}/{name.strip()}": at for at, layer in enumerate(listed.split(";")) for name in layer.split(",")}
        for floor, listed in found.items()
    }


def upward(graph: Arrows, layer: dict[str, int]) -> list[tuple[str, str]]:
    """The imports between rooms of one floor that do not lead to a lower layer."""
    return [(a, b) for a, targets in rooms(graph).items() for b in targets if {a, b} <= set(layer) and layer[b] >= layer[a]]


def test_imports_point_one_way_at_every_depth():
    for module, path in package_files(ROOT).items():
        floors = {target[0] for target in imported(path, module) if target[:1] != ("__version__",)}
        assert floors <= MAY_IMPORT[module[0]] | {module[0]}, path


def test_an_import_that_climbs_out_of_a_sub_package_is_seen(tmp_path):
    (tmp_path / "models" / "gap").mkdir(parents=True)
    file = tmp_path / "models" / "gap" / "gap.py"
    file.write_text("from ...audit.run import run\n")
    assert {target[0] for target in imported(file, ("models", "gap", "gap"))} == {"audit"}


def test_a_circle_of_files_and_one_of_rooms_are_found(tmp_path):
    (tmp_path / "models" / "gap").mkdir(parents=True)
    (tmp_path / "models" / "gap" / "one.py").write_text("from .two import b\na = 1\n")
    (tmp_path / "models" / "gap" / "two.py").write_text("from ..engine.three import c\nb = 2\n")
    (tmp_path / "models" / "engine").mkdir()
    (tmp_path / "models" / "engine" / "three.py").write_text("from ..gap.other import d\nc = 3\n")
    (tmp_path / "models" / "gap" / "other.py").write_text("d = 4\n")
    assert circles(arrows(tmp_path)) == []
    assert circles(rooms(arrows(tmp_path))) == [("models/engine", "models/gap")]
    (tmp_path / "models" / "gap" / "other.py").write_text("from . import one\nd = 4\n")
    assert len(circles(arrows(tmp_path))) == 1


@pytest.mark.parametrize("importing", ["all.py", "__init__.py"])
def test_a_circle_of_a_folder_and_its_sub_folder_is_found(tmp_path, importing):
    (tmp_path / "audit" / "findings" / "systems").mkdir(parents=True)
    (tmp_path / "audit" / "findings" / "finding.py").write_text("a = 1\n")
    (tmp_path / "audit" / "findings" / "systems" / "gap.py").write_text("from ..finding import a\nb = 2\n")
    assert circles(rooms(arrows(tmp_path))) == []
    (tmp_path / "audit" / "findings" / importing).write_text("from .systems.gap import b\n")
    assert circles(arrows(tmp_path)) == []
    assert circles(rooms(arrows(tmp_path))) == [("audit/findings", "audit/findings/systems")]


def test_an_import_of_a_higher_layer_is_found(tmp_path):
    (tmp_path / "models" / "gap").mkdir(parents=True)
    (tmp_path / "models" / "gap" / "one.py").write_text("from ..base import a\n")
    (tmp_path / "models" / "base.py").write_text("a = 1\n")
    layer = layers("| `models/` | accounting | base; gap, dpar |")["models"]
    assert layer == {"models/base": 0, "models/gap": 1, "models/dpar": 1}
    assert upward(arrows(tmp_path), layer) == []
    for wrong in ("gap; base", "gap, base"):
        layer = layers(f"| `models/` | accounting | {wrong} |")["models"]
        assert upward(arrows(tmp_path), layer) == [("models/gap", "models/base")]


def test_every_package_is_listed_for_a_wheel():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {p.parent.relative_to(ROOT) for floor in MAY_IMPORT for p in (ROOT / floor).rglob("__init__.py")}
    assert set(tools["packages"]) == {"gnnaudit"} | {".".join(("gnnaudit", *folder.parts)) for folder in folders}
    data = {p.relative_to(ROOT) for floor in MAY_IMPORT for p in (ROOT / floor).rglob("*") if p.suffix in CARRIED}
    data |= {p.relative_to(ROOT) for p in (ROOT / "gnnaudit" / "recipes").iterdir() if p.suffix in (".py", ".toml")}
    listed = {q for name, globs in tools["package-data"].items() for g in globs for q in folder_of(name).glob(g)}
    assert {ROOT / p for p in data} <= listed


def folder_of(package: str) -> Path:
    """The folder of a package; the five top-level folders are at the root."""
    words = package.split(".")
    return ROOT.joinpath(*words[1:]) if len(words) > 1 else ROOT / "gnnaudit"


def test_parts_are_named_by_the_digest_of_all_models():
    assert code_version() == sources(Path(models.__file__).parent)


def test_a_digest_of_code_changes_with_a_file_of_a_sub_package(tmp_path):
    digest = sources.__wrapped__  # not a cached digest of the same folder
    file = tmp_path / "gap" / "gap.py"
    file.parent.mkdir()
    file.write_text("one = 1\n")
    before = digest(tmp_path)
    file.write_text("one = 2\n")
    after = digest(tmp_path)
    file.rename(tmp_path / "gap.py")
    assert len({before, after, digest(tmp_path)}) == 3


def test_help_loads_no_heavy_library():
    heavy = "torch", "mlflow", "opacus", "sklearn", "dp_accounting", "matplotlib", "scipy", "pandas"
    code = (
        "import sys; from gnnaudit.audit.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_no_room_has_more_than_twelve_files():
    files = Counter(p.parent for floor in MAY_IMPORT for p in (ROOT / floor).rglob("*.py") if p.name != "__init__.py")
    assert {str(room): count for room, count in files.items() if count > 12} == {}


def test_files_and_rooms_import_one_another_without_circles():
    graph = arrows(ROOT)
    assert circles(graph) == []
    assert circles(rooms(graph)) == []


def test_the_documented_layers_hold_every_room_and_import_only_lower_ones():
    graph, documented = arrows(ROOT), layers((ROOT / "docs" / "architecture.md").read_text())
    for floor in MAY_IMPORT:
        files = [p.relative_to(ROOT).as_posix() for p in (ROOT / floor).rglob("*.py")]
        code = {room(file) for file in files if not file.endswith("/__init__.py")}
        assert set(documented[floor]) == code
        assert upward(graph, documented[floor]) == []


def test_every_folder_lists_the_names_that_other_folders_use_most():
    used = used_elsewhere(ROOT)
    for folder, names in used.items():
        listed = announced((ROOT / folder / "__init__.py").read_text())
        assert listed, f"{folder}: no name is listed after '{USED}'"
        assert not listed - names.keys(), f"{folder}: nothing elsewhere imports {sorted(listed - names.keys())}"
        often = {name for name, files in names.items() if files >= OFTEN}
        assert not often - listed, f"{folder}: {sorted(often - listed)} are not listed"


def test_a_name_that_nothing_imports_and_one_that_many_files_import_are_told_apart(tmp_path):
    (tmp_path / "audit" / "inner").mkdir(parents=True)
    (tmp_path / "audit" / "__init__.py").write_text("")
    (tmp_path / "audit" / "inner" / "__init__.py").write_text('"""A room.\n\nUsed elsewhere: deep.far, deep.unused.\n"""\n')
    (tmp_path / "audit" / "inner" / "deep.py").write_text("far = unused = own = 1\n")
    (tmp_path / "audit" / "inner" / "near.py").write_text("from .deep import own\n")
    for k in range(3):
        (tmp_path / "audit" / f"user{k}.py").write_text("from .inner.deep import far\nfrom .inner import deep\n")
    assert used_elsewhere(tmp_path) == {"audit/inner": {"deep.far": 3, "deep": 3}}
    assert announced((tmp_path / "audit" / "inner" / "__init__.py").read_text()) == {"deep.far", "deep.unused"}


def test_a_checkout_beside_a_script_does_not_hide_the_package(tmp_path):
    """A folder `gnnaudit` without __init__.py is what a script finds that stands beside a checkout of this name."""
    (tmp_path / "gnnaudit" / "gnnaudit").mkdir(parents=True)
    (tmp_path / "gnnaudit" / "gnnaudit" / "__init__.py").write_text("")
    ask = [sys.executable, "-c", "import gnnaudit; print(gnnaudit.Claim.__name__)"]
    answer = subprocess.run(ask, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.stdout == "Claim\n", f"`make install` writes gnnaudit.pth, which this environment lacks: {answer.stderr}"
