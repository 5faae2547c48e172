"""All findings by their ids."""

from __future__ import annotations

from .finding import Finding
from .systems.dpar import DPAR
from .systems.dpgnn import DPGNN
from .systems.field_graphs import GRAPHS
from .systems.field_training import TRAINING
from .systems.gap import GAP
from .systems.lpgnn import LPGNN
from .systems.privgnn import PRIVGNN
from .systems.vesper import VESPER

FINDINGS: dict[str, Finding] = {f.id: f for f in (*GAP, *DPGNN, *VESPER, *DPAR, *PRIVGNN, *LPGNN, *TRAINING, *GRAPHS)}
