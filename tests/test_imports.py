"""Which way imports point, and what the command line must not load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "accounting": set(),
    "models": {"accounting"},
    "attacks": {"accounting", "models"},
    "reports": {"accounting"},
    "audit": {"accounting", "models", "attacks", "reports"},
}


def imported_folders(path: Path) -> set[str]:
    """The sibling folders that a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gnnaudit."):
            found.add((node.module or "").split(".")[1])
    return found


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder):
    files = sorted((ROOT / folder).glob("*.py"))
    assert files
    for path in files:
        assert imported_folders(path) <= MAY_IMPORT[folder] | {folder}, path


def test_help_loads_no_heavy_library():
    heavy = "torch", "mlflow", "opacus", "sklearn", "dp_accounting", "matplotlib", "scipy", "pandas"
    code = (
        "import sys; from gnnaudit.audit.cli import app\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
