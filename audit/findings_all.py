"""All findings by id."""

from __future__ import annotations

from .finding import Finding
from .findings_gap import GAP

FINDINGS: dict[str, Finding] = {f.id: f for f in (*GAP,)}
