"""The observed ledger of a model, as evidence files store it: the noise that was recorded during training, and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REPORTS = ("randomised response", "pick with given probabilities")  # laws of reports, whose scale is a probability
WITHIN, UNREAD = "used within the run", "not used by the run"  # `Mechanism.released` for a value that no array releases


@dataclass(frozen=True)
class ObservedMechanism:
    """One noisy mechanism: noise that is added to data. number: its place in the order of the run, from 1. line: the file and
    line that drew the noise. meets: the line where the noise is added to data; "" if the recorder could not follow the noise to
    this line.

    scale: smallest and largest over the entries; the standard deviation of normal noise, the scale parameter of other noise, the
    probability of a value of a report (REPORTS). shape: of the noisy array. covered: the share of its entries that have noise.
    law: the distribution of the noise. released: the array and hop that contain the noisy value, or WITHIN or UNREAD. move: how
    far the worst secret that was tried moves the clean value, divided by the scale; None if no secret was tried. It is the
    Euclidean norm for normal noise, the sum of the largest log-likelihood ratios of the entries for a report, and else
    the sum of absolute values. secret: the secret with the largest move. note: why the noise is not fresh; "" if it is fresh.
    """

    number: int
    line: str
    meets: str
    law: str
    scale: tuple[float, float]
    shape: tuple[int, ...]
    covered: float
    released: str
    move: float | None = None
    secret: str = ""
    note: str = ""


@dataclass(frozen=True)
class Released:
    """A released array. how: "noisy"; "computed" from noisy values; "past the noise", if a secret changes the array although all
    noisy values are the same; or "not known". detail: the reason.
    """

    array: str
    how: str
    detail: str


@dataclass(frozen=True)
class UnplacedDraw:
    """Draws of one line of code that are not the noise of a mechanism. draws, numbers: how many draws, and how many numbers in
    all. note: why they are not fresh; "" if they are.
    """

    line: str
    law: str
    draws: int
    numbers: int
    note: str


@dataclass(frozen=True)
class Observed:
    """The observed ledger. mechanisms: in the order of the run. released: all released arrays. unplaced: recorded draws that are
    not the noise of a mechanism. costs: the epsilon (nats) of the mechanisms for the worst secret that was tried; None if
    unknown. declared: the declared ledger as text. agrees: whether the declared ledger charges for at least the recorded
    mechanisms; None if that is not known. compared: the comparison in sentences. faults: leaks that make epsilon infinite, in
    sentences. doubts: sentences that say why nothing is known about some arrays. tried: the number of secrets that were removed,
    one by one. draws: the number of all recorded draws.
    """

    mechanisms: tuple[ObservedMechanism, ...]
    released: tuple[Released, ...]
    unplaced: tuple[UnplacedDraw, ...]
    costs: float | None
    declared: str
    agrees: bool | None
    compared: tuple[str, ...]
    faults: tuple[str, ...]
    doubts: tuple[str, ...]
    tried: int
    draws: int


def alike(mechanisms: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """(numbers, mechanism): recorded mechanisms, of which those that differ in their numbers alone are one, such as "2–60"."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for m in mechanisms:
        groups.setdefault(repr({**m, "number": 0}), []).append(m)
    return [(numbered([m["number"] for m in same]), same[0]) for same in groups.values()]


def numbered(numbers: Sequence[int]) -> str:
    """Increasing whole numbers as text, as in "2–5, 7"; of more than three parts, the first three and the count."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = [str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts]
    return ", ".join(texts) if len(texts) <= 3 else f"{', '.join(texts[:3])}, … ({len(numbers)} in all)"
