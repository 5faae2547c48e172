"""VESPER: two parties that learn together, with noise on what one sends about its edges."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .vesper import Vesper

__getattr__ = lazily(__name__, Vesper="vesper")
