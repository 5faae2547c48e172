"""Compiles all loops of this folder before workers start, so that the workers load the compiled code."""

import os
from collections.abc import Callable

from .compiler.compiled import SWITCH, processor, used
from .compiler.kept import kept_in


def compile_ahead(say: Callable[[str], object]) -> None:
    """Compiles the loops that are not compiled yet for these sources and this processor.

    say: called with a line before a compilation, and with a line if the user has switched compiled loops off. An interrupted
    compilation continues where it ended.
    """
    if os.environ.get(SWITCH) == "off":
        say(f"{SWITCH}=off: torch trains the models; this takes several times as long as compiled loops.")
    folder = kept_in() if used() else None
    if folder is None:
        return
    complete = folder / f"complete-{processor()}"
    if not complete.exists():
        say("Compiling the training loops for this processor, once: up to a minute.")
        from . import arithmetic, decoders, list_gradients, mlp, sage_head, teachers  # noqa: F401

        complete.touch()
