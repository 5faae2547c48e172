"""DPAR: noisy personalised PageRank rows, then DP-SGD on lists of nodes that these rows choose."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .dpar import Dpar

__getattr__ = lazily(__name__, Dpar="dpar")
