"""Reads the texts of findings from TOML files. Errors name the file, the finding, and the unknown, missing or wrong key."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config

# a text on one line that is not empty; the lines of a file are joined by single spaces
Text = Annotated[str, AfterValidator(lambda text: " ".join(text.split())), Field(min_length=1)]
Proof = Literal["experiment", "exact", "argued"]


@with_config(ConfigDict(extra="forbid"))
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
    paper: Text
    short: Text
    plain: Text
    claim: Text
    printed: Annotated[float, Field(ge=0, strict=True)]
    view: Text
    argument: Text
    remains: Text
    repair: Text
    source: Text
    proof: Proof


KEYS = tuple(f.name for f in fields(Description) if f.name != "id")


def read(path: Path) -> dict[str, Description]:
    """id -> description, in the order of the file.

    Raises ValueError for invalid TOML, and for a key that is unknown, missing or has a wrong value.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as fault:
        raise ValueError(f"{path.name}: not valid TOML: {fault}.") from None
    found, schema = {}, TypeAdapter(Description)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f"{path.name}: unknown key {name!r} outside a finding. A finding is a table: [its-id].")
        try:
            found[name] = schema.validate_python({"id": name, **table})
        except ValidationError as fault:
            wrong = fault.errors()[0]
            key = wrong["loc"][0]
            words = {"missing": f"missing key {key!r}", "unexpected_keyword_argument": f"unknown key {key!r}"}
            what = words.get(wrong["type"], f"{key} = {wrong['input']!r}: {wrong['msg']}")
            raise ValueError(f"{path.name}, {name}: {what}. A finding has the keys {', '.join(KEYS)}.") from None
    return found
