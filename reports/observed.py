"""The observed ledger of a model, as it stands in the evidence: what was heard while it trained, and what came of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mechanism:
    """A place where noise meets data. number: in the order of the run, from 1. line: file and line that drew the noise. meets:
    the line where the noise is added to data; "" where it was not followed there.

    scale: smallest and largest over the entries: the standard deviation of normal noise, the scale of another law. shape: of
    what the noise is on. covered: the share of its entries. released: array and hop, or that it is used within the run. move:
    how far the worst secret that was tried moves the clean value, over the scale: Euclidean for normal noise, else the sum;
    None where nothing was tried. secret: which one. note: why this is no fresh noise; "" where it is.
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
    """An array that is released. how: noisy, computed (from noisy values), past the noise, or not known."""

    array: str
    how: str
    detail: str


@dataclass(frozen=True)
class Heard:
    """Draws of one line that are noise on nothing that is released. draws, numbers: how many. note: what is odd about them."""

    line: str
    law: str
    draws: int
    numbers: int
    note: str


@dataclass(frozen=True)
class Observed:
    """mechanisms: in order. unplaced: draws that were heard and not found on what is released. costs: what the mechanisms cost
    for the worst secret that was tried, nats; None where that is not known. declared: the ledger as text. agrees: whether it
    pays for what was heard; None where that cannot be told. compared: the same in sentences. faults: secrets that no noise
    covers. doubts: why nothing is said of some of it. tried: secrets that were taken away one by one. draws: all that were heard.
    """

    mechanisms: tuple[Mechanism, ...]
    released: tuple[Released, ...]
    unplaced: tuple[Heard, ...]
    costs: float | None
    declared: str
    agrees: bool | None
    compared: tuple[str, ...]
    faults: tuple[str, ...]
    doubts: tuple[str, ...]
    tried: int
    draws: int

    def document(self) -> dict[str, Any]:
        """As it stands in JSON."""
        return dataclasses.asdict(self)
