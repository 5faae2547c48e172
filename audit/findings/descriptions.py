"""Reads the texts of findings from TOML files. Errors name the file, the finding, and the unknown, missing or wrong key."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

PROOFS = ("experiment", "exact", "argued")


@dataclass(frozen=True)
class Description:
    """The text of a finding.

    paper: where the claim was published. short: the claim in a few words. plain: the fault, for readers who do not know the
    field. claim: the claim in the paper's terms, with its neighbouring relation. printed: the claimed epsilon (nats). view: what
    the adversary sees. argument: why the claim does not hold, with the smallest graph that shows it. remains: what remains true.
    repair: the repaired mechanism, for which the claim holds. source: the places in the paper and in the code. proof:
    "experiment" (sampled), "exact" (computed, nothing sampled) or "argued" (reasoned only).
    """

    id: str
    paper: str
    short: str
    plain: str
    claim: str
    printed: float
    view: str
    argument: str
    remains: str
    repair: str
    source: str
    proof: str


KEYS = tuple(f.name for f in fields(Description) if f.name != "id")


def read(path: Path) -> dict[str, Description]:
    """id -> description, in the order of the file. Lines of a text are joined by single spaces.

    Raises ValueError for invalid TOML, and for a key that is unknown, missing or has a wrong value.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as fault:
        raise ValueError(f"{path.name}: not valid TOML: {fault}.") from None
    return {name: described(path.name, name, table) for name, table in tables.items()}


def described(file: str, name: str, table: Any) -> Description:
    """The description from one table of a file. file: the name of the file. Raises ValueError as `read` does."""
    if not isinstance(table, dict):
        raise ValueError(f"{file}: unknown key {name!r} outside a finding. A finding is a table: [its-id].")
    unknown, missing = [k for k in table if k not in KEYS], [k for k in KEYS if k not in table]
    if unknown:
        raise ValueError(f"{file}, {name}: unknown key {unknown[0]!r}. Keys: {', '.join(KEYS)}.")
    if missing:
        raise ValueError(f"{file}, {name}: missing key {missing[0]!r}. Every key is needed: {', '.join(KEYS)}.")
    return Description(id=name, **{key: value(f"{file}, {name}: {key}", key, table[key]) for key in KEYS})


def value(where: str, key: str, given: Any) -> Any:
    """The value of one key: a float for `printed`, else a text on one line. where: begins the ValueError for a wrong value."""
    if key == "printed":
        if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
            raise ValueError(f"{where} = {given!r}: must be a number of at least 0, epsilon in nats.")
        return float(given)
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"{where} = {given!r}: must be a text that is not empty.")
    text = " ".join(given.split())
    if key == "proof" and text not in PROOFS:
        raise ValueError(f"{where} = {text!r}: must be one of {', '.join(PROOFS)}.")
    return text
