"""Text for error messages: one line of another library's error, and a short list of names."""

from __future__ import annotations

from typing import Any


def one_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def listed(names: Any) -> str:
    """A few names, sorted and joined."""
    shown = sorted(str(n) for n in names)
    return ", ".join(shown[:8] + ["…"] * (len(shown) > 8)) or "nothing"
