"""Noisy values that are single numbers: those that one line computes in a loop count as one mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...draws.draw import Draw

USES = 8  # how often a noise number may be used at a line before its uses count as one mechanism
DIGITS = 9  # noise numbers that agree to so many digits are the same

Key = tuple[Any, ...]


@dataclass(eq=False)
class Numbers:
    """The noisy numbers of one line, in order. at: the position of the mechanism. rest: whether a noise number may be in several
    of them. terms: how many times the program added data to each. names: of the different noise numbers.
    computed: as in `Mechanism`.
    """

    line: str
    at: int
    rest: bool
    draws: dict[int, Draw] = field(default_factory=dict)
    scales: list[float] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    noisy: list[Any] = field(default_factory=list)
    terms: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    computed: str = ""

    def add(self, draws: Sequence[Draw], scale: float, name: str, clean: float, noisy: Any) -> None:
        for draw in draws:
            self.draws[id(draw)] = draw
        self.scales.append(scale)
        self.clean.append(clean)
        self.noisy.append(noisy)
        self.terms.append(1)
        self.names.add(name)

    @property
    def scale(self) -> float | NDArray[np.float64]:
        """The scale of the noise, one number if all numbers have the same."""
        return self.scales[0] if len(set(self.scales)) == 1 else np.array(self.scales)

    @property
    def shared(self) -> tuple[int, ...]:
        """As in `Mechanism`."""
        return (0,) if len(self.names) == 1 < len(self.noisy) else ()


@dataclass(eq=False)
class Lines:
    """The single noisy numbers of a run. A noise number that one line adds to several values is in several mechanisms, at most
    one for each of the first USES values: the others are one mechanism.
    """

    groups: dict[Key, Numbers] = field(default_factory=dict)
    uses: dict[Key, int] = field(default_factory=dict)

    def of(self, line: str, law: str, calls: Sequence[str], name: str, at: int) -> Numbers:
        """The numbers to which the next noisy number belongs. law, name: of its noise. calls: the lines that led to it. at: the
        position of a new mechanism.
        """
        key = (line, law, tuple(calls))
        count = self.uses[(*key, name)] = self.uses.get((*key, name), 0) + 1
        return self.groups.setdefault((*key, min(count, USES + 1)), Numbers(line, at, count > USES))


def name_of(unit: float) -> str:
    """The name of a noise number, in units of its scale, and of its negative."""
    return f"{abs(unit):.{DIGITS}g}"
