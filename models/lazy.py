"""Imports a package's files only when a name from them is used, so that listing the systems does not load torch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, **files: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package. files: for each name that the package offers, the file that defines the name."""

    def attribute(name: str) -> Any:
        if name not in files:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{files[name]}"), name)

    return attribute
