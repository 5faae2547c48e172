"""Loads a checked graph from a name or a path: downloads, readers of file formats, and generated graphs."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .known_sets import DataSet
    from .loading import load

__getattr__ = lazily(__name__, DataSet="known_sets", load="loading")
