"""Text for error messages, and the exception of a run that its user ended."""

from __future__ import annotations

from typing import Any


class Stopped(Exception):
    """The user ended the run; how it is resumed, in a sentence."""


def one_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def listed(names: Any) -> str:
    """A few names, sorted and joined."""
    shown = sorted(str(n) for n in names)
    return ", ".join(shown[:8] + ["…"] * (len(shown) > 8)) or "nothing"
