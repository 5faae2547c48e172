"""Finds, hashes and reads a user's Python and TOML files, and the recipes of this package."""

import hashlib
import os
import re
import shlex
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from ....models.errors import one_line

CLAIM = ("epsilon", "delta", "unit")  # keys of a declaration's table `claim`; they are options of `audit run` too
RECIPES = Path(str(resources.files("gnnaudit"))) / "recipes"
MOST_FILES = 2000  # largest number of files that are hashed


def python_files(folder: Path) -> list[Path]:
    """The Python files of a folder, at most MOST_FILES. Virtual environments and hidden folders are left out."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        inside = [f for f in sorted(folders) if not f.startswith((".", "__")) and not (Path(here) / f / "pyvenv.cfg").exists()]
        folders[:] = [f for f in inside if f not in ("site-packages", "node_modules")]
        found += [Path(here) / name for name in sorted(names) if name.endswith(".py")]
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def hashed(files: list[Path]) -> str:
    """A phrase with the number of different files and one hash of their names and contents. Missing files are left out."""
    digest, every = hashlib.sha256(), sorted({f.resolve() for f in files if f.is_file()})
    for file in every:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    count = "1 file" if len(every) == 1 else f"{len(every)} files"
    return f"{count}, sha256 {digest.hexdigest()[:16]}" if every else "no file of its own"


def script_name(command: str) -> str | None:
    """The name of the first file in a command without its ending, such as "train" for `python3.11 train.py`. None if there is no
    file but an interpreter, or if the name has other characters than letters, digits, "-" and "_".
    """
    first, *others = shlex.split(command)
    words = [first, *others] if Path(first).suffix[1:].isalpha() else others
    name = next((Path(word).stem for word in words if Path(word).is_file()), "")
    return name if re.fullmatch(r"[A-Za-z][\w-]{0,39}", name, re.ASCII) else None


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """(the tables of a TOML file, the SHA-256 of its bytes). Raises ValueError in one line, which names the file."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ValueError("it is no regular file")
        content = path.read_bytes()
        return tomllib.loads(content.decode("utf-8-sig")), hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file.") from None
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror}).") from None
    except (ValueError, RecursionError) as fault:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ValueError(f"{path}: not a TOML file: {one_line(fault)}") from None


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(p.stem for p in RECIPES.glob("*.toml"))


def recipe(name: str) -> Path:
    """The path of the recipe of this name. Raises ValueError, with the known names, for any other name."""
    path = RECIPES / f"{name}.toml"
    if name not in (names := recipe_names()):
        raise ValueError(f"recipe={name}: must be one of {', '.join(names)}.")
    return path


def claim_of(path: Path) -> dict[str, Any]:
    """The parts of a claim (epsilon, delta, unit) that a declaration states. Raises ValueError in one line with the file."""
    table, _ = read_toml(path)
    claim = table.get("claim", {})
    if not isinstance(claim, dict) or not set(claim) <= set(CLAIM):
        raise ValueError(f"target={path}: claim={claim!r}: must be a table with the keys {', '.join(CLAIM)}.")
    return claim
