"""PrivGNN and PATE: teachers label public nodes, noise is added to their answers, and a student learns from these labels."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .privgnn import PrivGnn

__getattr__ = lazily(__name__, PrivGnn="privgnn")
