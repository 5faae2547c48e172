"""All findings by id."""

from __future__ import annotations

from .finding import Finding
from .findings_gap import GAP
from .findings_vesper import VESPER

FINDINGS: dict[str, Finding] = {f.id: f for f in (*GAP, *VESPER)}
