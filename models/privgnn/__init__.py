"""PrivGNN and PATE: teachers vote on the labels of public nodes with noise, and a student learns from these labels."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .privgnn import PrivGnn

__getattr__ = lazily(__name__, PrivGnn="privgnn")
