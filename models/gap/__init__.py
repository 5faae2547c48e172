"""GAP, ProGAP and DP-MLP: noisy sums of rows, and stages of small networks on them."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .gap import Gap
    from .mlp import Mlp
    from .progap import ProGap

__getattr__ = lazily(__name__, Gap="gap", Mlp="mlp", ProGap="progap")
