"""PrivGNN and PATE: teachers vote, a noisy count of votes labels public nodes, a student learns from the labels."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .privgnn import PrivGnn

__getattr__ = lazily(__name__, PrivGnn="privgnn")
