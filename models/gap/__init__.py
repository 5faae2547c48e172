"""GAP, ProGAP and DP-MLP: noisy sums over neighbours, and small networks that learn from these sums."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .gap import Gap
    from .mlp import Mlp
    from .progap import ProGap

__getattr__ = lazily(__name__, Gap="gap", Mlp="mlp", ProGap="progap")
