"""A finding: a published claim, the experiment that tests it, and the same experiment on a repaired mechanism."""

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config

from ..key import Key
from .certificate import Certificate

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


Experiment = Callable[[Key], Certificate]


@dataclass(frozen=True)
class Finding(Description):
    """A published claim with its experiments.

    published: tests the mechanism as published. repaired: the same experiment on the repaired mechanism; None if there is none.
    """

    published: Experiment
    repaired: Experiment | None


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of one finding. repaired: the certificate of the repaired mechanism; None if there is none."""

    finding: Finding
    certificate: Certificate
    repaired: Certificate | None
    seconds: float  # seconds of processor time

    @property
    def verdict(self) -> str:
        """The verdict "refuted" or "not-refuted"; "argued" if the finding is an argument, whatever the certificate says."""
        return "argued" if self.finding.proof == "argued" else self.certificate.verdict


def run(finding: Finding, key: Key) -> Result:
    """Runs the experiments of a finding on the published mechanism and, if there is one, on the repaired mechanism."""
    begin = time.process_time()
    own = key.fold(finding.id)
    certificate = finding.published(own.fold("claim"))
    repaired = finding.repaired(own.fold("fixed")) if finding.repaired else None
    return Result(finding, certificate, repaired, time.process_time() - begin)


def with_experiments(file: str, experiments: Mapping[str, tuple[Experiment, Experiment | None]]) -> tuple[Finding, ...]:
    """The findings of a TOML file, in the file's order. experiments: id -> (published, repaired).

    Raises ValueError if a description has no experiments, or if experiments have no description.
    """
    descriptions = read(Path(__file__).parent / "systems" / file)
    for name in descriptions.keys() ^ experiments.keys():
        what = "no experiment" if name in descriptions else "no description"
        raise ValueError(f"{file}: finding {name!r} has {what}. The Python file and the TOML file must list the same ids.")
    pairs = ((description, experiments[name]) for name, description in descriptions.items())
    return tuple(Finding(**vars(d), published=published, repaired=repaired) for d, (published, repaired) in pairs)
