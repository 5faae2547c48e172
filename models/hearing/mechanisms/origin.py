"""What the recorder knows of drawn noise, and the object that records the mechanisms of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draw import Draw

DOUBLE = 53  # significant bits of float64


class Recorder(Protocol):
    """Records the mechanisms of a run."""

    def report(self, draw: Draw, values: tuple[float, ...], chances: Any, told: Any, *more: Any) -> Any:
        """Records a report, and returns its value `told` or the value that replaces it."""
        ...

    def meet(self, origin: Origin, clean: Any, noisy: Any) -> Any:
        """Records a sum of data and noise, and returns the sum `noisy` or the value that replaces it. origin: of the noise."""
        ...


@dataclass(frozen=True, eq=False)
class Origin:
    """Where noise was drawn. scale: the numbers are `scale` times numbers of the law at scale 1; a number, or an array of the
    shape of the noise. beside: other draws that were added. seen: a copy of the numbers. bits: how many significant bits the
    numbers had where they had the fewest. shift: a number that the program has added to each of them, as in `(noise + 3) + data`.
    """

    meetings: Recorder
    draw: Draw
    scale: Any
    beside: tuple[Draw, ...] = ()
    seen: NDArray[Any] | None = None
    bits: int = DOUBLE
    shift: float = 0.0

    @property
    def draws(self) -> tuple[Draw, ...]:
        return (self.draw, *self.beside)
