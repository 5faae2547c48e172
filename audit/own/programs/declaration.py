"""A program with a declaration: a TOML file that says what the program releases, and what its ledger charges for the release.

With a declaration, audits that need a ledger, noisy sums or the size of the noise work on a program as they do on a model in a
Python file. A recipe is a declaration that comes with the tool, for the checkout of a public repository.
"""

import dataclasses
import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import DpEvent

from ....accounting.claim import Unit
from ....accounting.events.language import ledger, number
from ....models.base import Release
from ....models.capabilities import SUMS
from ....models.errors import one_line
from ....models.graph.graph import Worlds
from .arrays import read_array
from .files import hashed, python_files, read_toml
from .program import OPTIONAL, External

PLACEHOLDER = re.compile(r"\{(\w+)\}")
TEXTS = ("command", "unit", "ledger", "source", "name", "python", "checkout")
LISTS = ("releases", "requires", "public")
KEYS = (*TEXTS, *LISTS, "noise_std", "values", "claim")
EXAMPLES = {"command": "python train.py {worlds} {out}", "unit": "undirected-edge"}  # keys that every declaration needs
SMALL = 1 << 20  # largest size in bytes of a file of numbers, such as noise_std.npy
ASKED = """
import importlib.metadata as m, importlib.util as u, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        found[name] = "" if u.find_spec(name.replace("-", "_")) else None
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Declared(External):
    """A user's own program with its declaration.

    charged: the ledger as text, "" for none. values: (name, value) of each name in `charged` and `noise`. noise: the standard
    deviation of the noise on "aggregates" as text; "" if the program writes noise_std.npy. keep: the arrays that `read` returns;
    () stands for all. about: what was audited, as the report prints it. digest: a hash of the declaration and of the program's
    files.
    """

    charged: str = ""
    values: tuple[tuple[str, float], ...] = ()
    noise: str = ""
    keep: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    digest: str = field(default="", repr=False)

    @property
    def offers(self) -> tuple[str, ...]:
        return self.releases

    @property
    def ledger(self) -> DpEvent:
        return ledger(self.charged, dict(self.values)) if self.charged else super().ledger

    @property
    def needs(self) -> str:
        about = self.audited
        where = f" --checkout must be a copy of {about['source']}" if {"source", "checkout"} <= about.keys() else ""
        return f"{where}, and --python an environment with its packages." if where else ""

    @property
    def audited(self) -> dict[str, str]:
        """What was audited, by name: the declaration and the program with their hashes, the source, the packages."""
        return dict(self.about)

    def read(self, out: Path, worlds: Worlds) -> Release:
        """The declared arrays of the program's output as a release. Raises ValueError with the file and what was expected."""
        release = super().read(out, worlds)
        for name in self.releases:
            if name not in release:
                raise ValueError(f"{name}.npy: missing; the declaration says that the program releases it.")
        release = release.only(self.keep or self.releases)
        if not set(SUMS) & set(release.arrays):
            return release
        for name in set(SUMS) & set(release.arrays):
            found, expected = release[name].shape, f"({worlds.runs}, hops, {worlds.watch.size}, columns)"
            if len(found) != 4 or (found[0], found[2]) != (worlds.runs, worlds.watch.size):
                raise ValueError(f"{name}.npy: shape {found}; expected {expected}.")
        return dataclasses.replace(release, public={"noise_std": self._noise_std(out, worlds.runs)})

    def _noise_std(self, out: Path, runs: int) -> float:
        if self.noise:
            return number(self.noise, dict(self.values))
        path, expected = out / "noise_std.npy", f"expected one positive number, or one for each of {runs} runs"
        if not path.is_file():
            raise ValueError(f"noise_std.npy: missing; {expected}. Or set noise_std in the declaration.")
        found = np.unique(read_array(path, (...,), SMALL).astype(np.float64))
        if found.size != 1 or not found[0] > 0:
            raise ValueError(f"noise_std.npy: holds {found[:3].tolist()}; {expected}, all the same.")
        return float(found[0])


def declared(path: Path, *, checkout: Path | None = None, python: str | None = None, **limits: Any) -> Declared:
    """The program that a declaration describes. limits: values for other fields of `External`, by name.

    checkout, python: replace the folder and the interpreter that the declaration names. Raises ValueError with one line, which
    names the file, the key, the value and a remedy.
    """
    table, digest = read_toml(path)
    for option, value in (("checkout", checkout), ("python", python)):
        if value is not None and f"{{{option}}}" not in str(table.get("command", "")):
            raise ValueError(
                f"{option}={value}: has no effect: the command in {path} holds no {{{option}}}. Leave --{option} out."
            )
    if checkout is not None:
        table["checkout"] = str(checkout.absolute())
    if python is not None:
        table["python"] = str(Path(python).absolute()) if Path(python).is_file() else python
    try:
        return dataclasses.replace(_declared(table, path, digest), **limits)
    except ValueError as fault:
        raise ValueError(f"target={path}: {fault}") from None


def _declared(table: dict[str, Any], path: Path, digest: str) -> Declared:
    _typed(table)
    if "unit" in table.get("claim", {}):
        table = {"unit": table["claim"]["unit"], **table}
    for key, example in EXAMPLES.items():
        if key not in table:
            raise ValueError(f'{key}: missing. Write a line such as {key} = "{example}" above the first table of the file.')
    if table["unit"] not in tuple(Unit):
        raise ValueError(f"unit={table['unit']!r}: must be one of {', '.join(Unit)}.")
    values = {name: float(v) for name, v in table.get("values", {}).items()}
    releases = tuple(dict.fromkeys(table.get("releases", ["posteriors"])))
    if not releases:
        raise ValueError('releases=[]: must name what the program releases, such as ["posteriors"].')
    if strange := [r for r in releases if r not in ("posteriors", *OPTIONAL)]:
        raise ValueError(f"releases={strange[0]!r}: must be among posteriors, {', '.join(OPTIONAL)}.")
    if len(set(SUMS) & set(releases)) == 1:
        raise ValueError(f"releases={list(releases)}: noisy sums are two arrays, {' and '.join(SUMS)}; name both or neither.")
    noise = str(table.get("noise_std", ""))
    if noise and not number(noise, values) > 0:
        raise ValueError(f"noise_std={noise}: must be above 0.")
    if table.get("ledger"):
        ledger(table["ledger"], values)  # a ledger that cannot be read is refused here rather than in the middle of a run
    python = table.get("python", sys.executable)
    python = str((path.parent / python).absolute()) if (path.parent / python).is_file() else python
    checkout = path.parent / table["checkout"] if "checkout" in table else None
    if checkout is not None and not checkout.is_dir():
        raise ValueError(f"checkout={table['checkout']}: no such folder.")
    command, files = _command(table["command"], path.parent, python, values, checkout)
    about = {"declaration": f"{path.name}, sha256 {digest[:16]}", "program": hashed(files)}
    about |= {"source": table["source"]} if "source" in table else {}
    about |= {"checkout": f"{checkout.name}, {hashed(python_files(checkout))}"} if checkout is not None else {}
    about |= {"packages": _packages(table.get("requires", []), table["command"], python)} if table.get("requires") else {}
    says = f"what the declaration {path.name} says, and whatever the program assumes to be public"
    return Declared(
        command,
        unit=Unit(table["unit"]),
        name=table.get("name", External.name),
        releases=releases,
        public=(says, *table.get("public", ())),
        charged=table.get("ledger", ""),
        values=tuple(values.items()),
        noise=noise,
        about=tuple(about.items()),
        digest=hashlib.sha256("".join([digest, *about.values()]).encode()).hexdigest()[:16],
    )


def _typed(table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(f"{key}: no such key.{meant} Keys are {', '.join(KEYS)}.")
        if key in TEXTS and not (isinstance(value, str) and value):
            raise ValueError(f"{key}={value!r}: must be a text in quotes that is not empty.")
        if key in LISTS and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            raise ValueError(f"{key}={value!r}: must be a list of texts in quotes.")
        if key == "noise_std" and not (isinstance(value, str | int | float) and not isinstance(value, bool)):
            raise ValueError(f"{key}={value!r}: must be a number, or a text such as 'sigma'.")
        if key == "values" and not (isinstance(value, dict) and all(type(v) in (int, float) for v in value.values())):
            raise ValueError(f"{key}={value!r}: must be a table of numbers, such as sigma = 3.7.")


def _command(text: str, folder: Path, python: str, values: Mapping[str, float], checkout: Path | None) -> tuple[str, list[Path]]:
    """The command with its placeholders replaced and full paths of files beside the declaration; and the program's files."""
    try:
        words = shlex.split(text)
    except ValueError as fault:
        raise ValueError(f"command={text!r}: {one_line(fault)}.") from None
    files: list[Path] = []
    for place, word in enumerate(words):
        beside = folder / word
        if word == "{python}":
            words[place] = python
        elif word == "{checkout}" and checkout is not None:
            words[place] = str(checkout.resolve())
        elif beside.is_file():
            words[place] = str(beside.resolve())
            files += python_files(beside.parent) if beside.suffix == ".py" else []
            files.append(beside)
        else:
            for name, value in values.items():
                words[place] = words[place].replace(f"{{{name}}}", repr(value))
        if left := set(PLACEHOLDER.findall(words[place])) - {"worlds", "out"}:
            name = min(left)
            way = "Give the folder with --checkout DIR" if name == "checkout" else f"Give {name} a number in [values]"
            raise ValueError(f"command={text!r}: nothing takes the place of {{{name}}}. {way}, or write {{worlds}} or {{out}}.")
    return shlex.join(words), files


def _packages(names: list[str], command: str, python: str) -> str:
    """The versions of the required packages in the program's Python. Raises ValueError for a package that it lacks."""
    if "{python}" not in command:
        raise ValueError("requires: needs a command that begins with {python}, whose packages are looked up.")
    wanted = dict(name.partition("==")[::2] for name in names)
    try:
        done = subprocess.run([python, "-c", ASKED, *wanted], capture_output=True, text=True, timeout=60, check=True)
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as fault:
        raise ValueError(f"python={python}: cannot be asked for its packages ({type(fault).__name__}).") from None
    for name, version in wanted.items():
        if found[name] is None or (version and found[name] != version):
            has = "has not got it" if found[name] is None else f"has {found[name]}"
            raise ValueError(f"requires={name}{'==' * bool(version)}{version}: {python} {has}. Install it there, or set python.")
    return ", ".join(f"{name} {version}".strip() for name, version in found.items())
