"""Applies the rules to a file or a folder, and writes the hits as text, JSON or SARIF."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...models.errors import one_line
from .rules import RULES, Rule
from .source import Source, below, names_in

INTENDED = "# scan: intended"


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    column: int
    rule: Rule

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: {self.rule.reason} {self.rule.advice}"


def scan_text(text: str, path: str = "<text>") -> list[Hit]:
    """The hits in one file, by line. Raises SyntaxError if the text is not Python."""
    source, lines = Source(ast.parse(text)), text.splitlines()
    places = {(n.lineno, n.col_offset, rule.name) for rule in RULES.values() for n in rule.find(source)}
    below.cache_clear()
    names_in.cache_clear()
    return [Hit(path, line, column, RULES[name]) for line, column, name in sorted(places) if INTENDED not in lines[line - 1]]


def python_files(path: Path) -> list[Path]:
    """The file itself, or all Python files of a folder. Raises ValueError if there is no such path, or no Python file in it."""
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder. Name a Python file, or a folder with Python files.")
    if not path.is_dir() and (path.suffix != ".py" or not path.is_file()):
        raise ValueError(f"{path}: is no Python file (*.py). Name a Python file, or a folder with Python files.")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*.py") if not hidden(p.relative_to(path)))
    if not files:
        raise ValueError(f"{path}: holds no Python file (*.py). Name a Python file, or a folder with Python files.")
    return files


def hidden(path: Path) -> bool:
    """Whether the name of a file, or of a folder above it, begins with a dot."""
    return any(part.startswith(".") for part in path.parts)


def scan(path: Path) -> tuple[list[Hit], list[str]]:
    """The hits in a file, or in all Python files of a folder, and one line for each file that could not be read.

    Raises ValueError, like `python_files`.
    """
    hits: list[Hit] = []
    unread: list[str] = []
    for file in python_files(path):
        try:
            hits += scan_text(file.read_text(encoding="utf-8"), str(file))
        except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:  # the last two for thousands of signs in a row
            unread.append(f"{file}: not read as Python: {one_line(fault)}")
    return hits, unread


def row(hit: Hit) -> dict[str, Any]:
    """A hit as a row of JSON of kind "look"."""
    rule = hit.rule
    return {"kind": "look", "path": hit.path, "line": hit.line, "rule": rule.name, "reason": rule.reason, "advice": rule.advice}


def sarif(hits: list[Hit]) -> dict[str, Any]:
    """The hits as SARIF 2.1.0, with level "note": a note is not a verdict."""
    rules = [{"id": r.name, "shortDescription": {"text": r.reason}, "help": {"text": r.advice}} for r in RULES.values()]
    results = [
        {
            "ruleId": hit.rule.name,
            "level": "note",
            "message": {"text": f"Check this line. {hit.rule.reason} {hit.rule.advice}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(Path(hit.path).as_posix())},
                        "region": {"startLine": hit.line, "startColumn": hit.column + 1},
                    }
                }
            ],
        }
        for hit in hits
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "gnnaudit scan", "rules": rules}}, "results": results}],
    }
