"""What the recorder knows of drawn noise, and the object that records the mechanisms of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...draws.draw import Draw
    from .memory import Arrays
    from .numbers import Numbers

DOUBLE = 53  # significant bits of float64
REVERSED = (
    "reversed gumbel"  # the law of -z for a Gumbel number z, of log(-log(u)); the index of the largest score needs z itself
)
MIRRORED = {"gumbel": REVERSED, REVERSED: "gumbel"}  # laws of noise of which the negative has another law


class Recorder(Protocol):
    """Records the mechanisms of a run. singles: the value of a drawn number -> its origin. arrays: see memory.py.
    closely, maxima, and the methods: see `Mechanisms`.
    """

    singles: dict[float, Origin]
    arrays: Arrays
    closely: bool
    maxima: bool

    def number_added(self, origin: Origin, noise: float, clean: float, noisy: Any) -> Any: ...
    def number_extended(self, origin: Origin, clean: float, noisy: Any) -> Any: ...
    def report(self, draw: Draw, values: tuple[float, ...], chances: Any, value: Any, *more: Any) -> Any: ...
    def noise_added(self, origin: Origin, clean: Any, noisy: Any) -> Any: ...
    def whole_added(self, draws: tuple[Draw, ...], scale: float, clean: Any, noisy: Any) -> Any: ...
    def accumulate(self, origin: Origin, clean: Any, noisy: Any) -> Origin | None: ...


@dataclass(frozen=True, eq=False)
class Origin:
    """Where noise was drawn. scale: the numbers are `scale` times numbers of the law at scale 1; a number, or an array of the
    shape of the noise. beside: other draws that were added. seen: a copy of the numbers. bits: how many significant bits the
    numbers had where they had the fewest. shift: a number that the program has added to each of them, as in `(noise + 3) + data`.
    at: the position of the mechanism, once the program has added data into the array of the noise; `shift` is then an array, the
    sum of these data. read: whether another operation has read the array, as it reads weights. Further data that are added into
    it are then data of their own. drawn: how many numbers were drawn for an array that is joined from several draws, `draw` and
    `beside`; 0 for other arrays. member: of a noisy number, the numbers to which it belongs, and its position among them; `shift`
    is then the sum of its data. computed: the law of noise that the program computed from the drawn numbers; "" if the drawn
    numbers themselves are the noise.
    """

    mechanisms: Recorder
    draw: Draw
    scale: Any
    beside: tuple[Draw, ...] = ()
    seen: NDArray[Any] | None = None
    bits: int = DOUBLE
    shift: Any = 0.0
    at: int | None = None
    read: bool = False
    drawn: int = 0
    member: tuple[Numbers, int] | None = None
    computed: str = ""

    @property
    def law(self) -> str:
        return self.computed or self.draw.law

    def turned(self, factor: Any) -> Origin | None:
        """The origin of the noise with the signs of `factor`, a number or an array; None if they differ and matter."""
        if self.law not in MIRRORED or np.all(np.asarray(factor) >= 0):
            return self
        return replace(self, computed=MIRRORED[self.law]) if np.all(np.asarray(factor) <= 0) else None

    def times(self, ufunc: Any, factor: Any) -> tuple[Any, float, str] | None:
        """The scale, the shift and the computed law of the noise after a product with a factor, or a division by it. factor: a
        number, or an array if the noise has no shift. None if the factor's signs differ and matter.
        """
        turned = self.turned(factor)
        if turned is None:
            return None
        shift = float(ufunc(self.shift, np.ravel(factor)[0])) if self.shift else 0.0
        return ufunc(self.scale, np.abs(factor)), shift, turned.computed

    @property
    def one_sided(self) -> bool:
        """Whether the noise is never below 0, so that it hides no data before the program combines it with other noise."""
        return self.law == "exponential"

    @property
    def noisy(self) -> bool:
        """Whether data have been added to the noise."""
        return self.at is not None or self.member is not None

    @property
    def draws(self) -> tuple[Draw, ...]:
        return (self.draw, *self.beside)

    @property
    def count(self) -> int:
        """How many numbers were drawn for the noise, of each draw in a sum."""
        return self.drawn or self.draw.values.size
