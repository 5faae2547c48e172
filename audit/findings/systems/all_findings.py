"""All findings by their ids."""

from ..finding import Finding
from .dpar import DPAR
from .dpgnn import DPGNN
from .field_graphs import GRAPHS
from .field_training import TRAINING
from .gap import GAP
from .lpgnn import LPGNN
from .privgnn import PRIVGNN
from .vesper import VESPER

FINDINGS: dict[str, Finding] = {f.id: f for f in (*GAP, *DPGNN, *VESPER, *DPAR, *PRIVGNN, *LPGNN, *TRAINING, *GRAPHS)}
