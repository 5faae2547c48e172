"""All findings by id."""

from __future__ import annotations

from .finding import Finding
from .findings_dpar import DPAR
from .findings_dpgnn import DPGNN
from .findings_gap import GAP
from .findings_lpgnn import LPGNN
from .findings_privgnn import PRIVGNN
from .findings_vesper import VESPER

FINDINGS: dict[str, Finding] = {f.id: f for f in (*GAP, *DPGNN, *VESPER, *DPAR, *PRIVGNN, *LPGNN)}
