"""All planted faults, which the self-test must catch."""

from __future__ import annotations

from .fault import Fault
from .planted_reports import IN_REPORTS
from .planted_sums import IN_SUMS
from .planted_training import IN_TRAINING

FAULTS: tuple[Fault, ...] = (*IN_SUMS, *IN_TRAINING, *IN_REPORTS)
