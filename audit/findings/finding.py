"""A finding: a published claim, the experiment that tests it, and the same experiment on a repaired mechanism."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..key import Key
from .certificate import Certificate
from .descriptions import Description, read

Experiment = Callable[[Key], Certificate]


@dataclass(frozen=True)
class Finding(Description):
    """A published claim with its experiments.

    published: tests the mechanism as published. repaired: the same experiment on the repaired mechanism; None if there is none.
    """

    published: Experiment
    repaired: Experiment | None

    def verdict(self, certificate: Certificate) -> str:
        """The verdict "refuted" or "not-refuted"; "argued" if the finding is an argument, whatever the certificate says."""
        return "argued" if self.proof == "argued" else certificate.verdict


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of one finding. repaired: the certificate of the repaired mechanism; None if there is none."""

    finding: Finding
    certificate: Certificate
    repaired: Certificate | None
    seconds: float  # seconds of processor time

    @property
    def verdict(self) -> str:
        return self.finding.verdict(self.certificate)


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
