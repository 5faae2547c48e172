"""Pages name files of the package that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN = {
    path.name
    for folder in ("accounting", "attacks", "audit", "models", "reports", "gnnaudit", "examples", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py")
}
PAGES = sorted(
    p for p in [*ROOT.glob("docs/*.md"), ROOT / "README.md"] if p.name != "recipes.md"
)  # it names other people's files


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_that_a_page_names_exists(page):
    named = re.findall(r"`([a-z_0-9/]+\.py)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not ((ROOT / name).is_file() if "/" in name else name in OWN)] == []
