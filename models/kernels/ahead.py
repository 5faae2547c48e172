"""Compiles all loops of this folder before workers start, who then find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .compiled import kept_in, used

if TYPE_CHECKING:
    from collections.abc import Callable


def compile_ahead(say: Callable[[str], object]) -> None:
    """Compiles where nothing is compiled for these sources yet, and says so first."""
    folder = kept_in() if used() else None
    if folder is not None and not any(folder.rglob("*.nbi")):
        say("Compiling the training loops for this processor, once: up to a minute.")
        from . import arithmetic, decoders, list_gradients, mlp, sage_head, teachers  # noqa: F401
