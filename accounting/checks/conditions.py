"""What a bound rests on: the conditions of its theorem, and how each of them is known."""

from __future__ import annotations

from dataclasses import dataclass

HOW = ("proved", "checked", "assumed", "failed")
LEVEL = 1e-3  # of a check: so rarely does it withdraw a bound whose condition holds


@dataclass(frozen=True)
class Condition:
    """One thing that must be true for a bound to hold.

    how: "proved", it holds by construction; "checked", a test that could have failed did not; "assumed", it is somebody's
    word; "failed", the test says that it is not so, and the bound is withdrawn. detail: the construction, or the test with its
    p-value and level.
    """

    what: str
    how: str
    detail: str = ""

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"how={self.how!r}: must be one of {', '.join(HOW)}.")

    def __str__(self) -> str:
        return f"{self.what}: {self.how}{f' ({self.detail})' if self.detail else ''}"


def proved(what: str, detail: str) -> Condition:
    return Condition(what, "proved", detail)


def assumed(what: str, detail: str = "") -> Condition:
    return Condition(what, "assumed", detail)


def checked(what: str, test: str, p_value: float, level: float = LEVEL) -> Condition:
    """A condition that a test looked at: failed where its p-value is below the level."""
    return Condition(what, "failed" if p_value < level else "checked", f"{test}: p = {p_value:.2g}, level {level:g}")
