"""VESPER: two parties train a model together. The party with the graph adds noise to the messages that depend on its edges."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .vesper import Vesper

__getattr__ = lazily(__name__, Vesper="vesper")
