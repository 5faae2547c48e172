"""Words for error messages: one line of what another library said, and a short list of names."""

from __future__ import annotations

from typing import Any


def one_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def listed(names: Any) -> str:
    """A few names, sorted and joined."""
    shown = sorted(str(n) for n in names)
    return ", ".join(shown[:8] + ["…"] * (len(shown) > 8)) or "nothing"
