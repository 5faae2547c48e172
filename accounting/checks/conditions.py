"""The conditions under which a bound holds, and the evidence for each of them."""

from collections.abc import Iterable
from dataclasses import dataclass

HOW = ("proved", "checked", "granted", "assumed", "failed", "not examined", "limited")
OWN_COIN = "a coin of its own decides whether a step reads the record, and nothing else reads the coin"
# words of the reasons that tell a user most, those that tell most first
TELLING = (
    "after the last noise, the first result",
    "every noisy value is the same",
    "same for two seeds",
    "noise of another value",
    "not follow",
)
FAULTS = (*TELLING[:-1], "same for all seeds", "is used at", "is used twice")  # each one can leak
LEVEL = 1e-4  # level of a check: the probability that it withdraws a bound although its condition holds


@dataclass(frozen=True)
class Condition:
    """A condition that a bound needs. Raises ValueError for an unknown `how`.

    how: one of seven words. "proved": it holds by construction. "checked": a test did not reject it. "granted": the bound lets
    the adversary see more than the released arrays, as the usual proof of such a claim does; `what` names what it sees.
    Also granted is what only whoever made the rounds can know: that nothing but the secret differed, that each round or run drew
    its own noise, that coins which others drew were fair. Tests may have failed to reject it; the bound still refutes.
    "assumed": the user states it and no test checks it. "failed": a test rejected it, and the bound is withdrawn. "not
    examined": no condition of the bound, but a case in which no violation was looked for. "limited": the data for which alone the
    verdict holds, because on others a violation was found. detail: the construction, the test with its p-value and level, or the
    reason.
    """

    what: str
    how: str
    detail: str = ""

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"how={self.how!r}: must be one of {', '.join(HOW)}.")

    def __str__(self) -> str:
        return f"{self.what}: {self.how}{f' ({self.detail})' if self.detail else ''}"


def most_telling(reasons: Iterable[str]) -> str:
    """The reason that tells a user most; "" if there is none. First comes a path past the noise with its line, then noise that is
    not fresh, then draws that were not followed to the data. Of reasons of one kind, the first.
    """

    def place(reason: str) -> int:
        return next((i for i, words in enumerate(TELLING) if words in reason), len(TELLING))

    return min(reasons, key=place, default="")


def is_fault(reason: str) -> bool:
    """Whether a reason names a fault of the audited code. Other reasons name something that an audit does not know."""
    return any(words in reason for words in FAULTS)


def proved(what: str, detail: str) -> Condition:
    return Condition(what, "proved", detail)


def assumed(what: str, detail: str = "") -> Condition:
    return Condition(what, "assumed", detail)


def checked(what: str, test: str, p_value: float, level: float = LEVEL) -> Condition:
    """A condition that a test checked; it failed if the p-value is below the level."""
    return Condition(what, "failed" if p_value < level else "checked", f"{test}: p = {p_value:.2g}, level {level:g}")
