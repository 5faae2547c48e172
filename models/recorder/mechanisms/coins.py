"""What is known of drawn numbers that have not been combined with data yet, or only by arithmetic on bits; see reports.py."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import FEW, of_two
from ..draws.results import digest
from .laws import apart, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw
    from .followed.inverse import Computed
    from .followed.origin import Recorder
    from .laws import Law


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """What a program has computed from coins and bits of data. chance: the probability that a coin is 1, the same for all coins.
    results: the array if all coins were 0, and if all were 1; None for the coins themselves. data: whether they contain data.

    Two arrays are computed from the same coins if their `coins` are the same object.
    """

    chance: float
    results: tuple[NDArray[Any], NDArray[Any]] | None = None
    data: bool = False
    coins: object = field(default_factory=object)

    def if_all_were(self, value: int, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """The array if all coins were `value`. kind: of the coins."""
        return self.results[value] if self.results is not None else np.full(shape, value, dtype=kind)


@dataclass(frozen=True, eq=False)
class Coins:
    """Drawn numbers that have not been combined with data yet. chance: for coins, the probability of 1, a number or an array;
    None for other numbers, which are uniform or from finitely many values.

    turned: whether the coins are transposed. mirrored: whether the entries (i, j) and (j, i) are the same coin. shape: of the
    array. seen: a digest of the array, which shows whether the program has written into the array. own: the law of the entries,
    if it is not that of `draw` alone. beside: other draws on which they depend. data, sign: the array holds data + sign * numbers
    of this law. spread: whether `own` was computed from data. computed: what the program computed from uniform numbers.
    arithmetic: what it computed from coins; the array then need not hold coins any more. shared: whether an array and a tensor
    have the memory of the coins in common, so that writing into one changes the other.
    """

    mechanisms: Recorder
    draw: Draw
    chance: Any = None
    turned: bool = False
    mirrored: bool = False
    shape: tuple[int, ...] = ()
    seen: int | None = None
    own: Law | None = None
    beside: tuple[Draw, ...] = ()
    data: NDArray[np.float64] | None = None
    sign: int = 1
    spread: bool = False
    computed: Computed | None = None
    arithmetic: Arithmetic | None = None
    shared: bool = False

    @property
    def law(self) -> Law | None:
        """The values of an entry and their probabilities, shape (..., values); None for uniform numbers, and sums with data."""
        if self.data is not None or self.own is not None:
            return self.own if self.data is None else None
        if self.chance is not None:
            return (0.0, 1.0), of_two(self.chance)
        return None if self.draw.chances is None or self.arithmetic is not None else (self.draw.among, self.draw.chances)

    @property
    def reshapes(self) -> bool:
        """Whether what is known of the array holds in any shape."""
        results = self.arithmetic.results if self.arithmetic is not None else None
        return np.ndim(self.chance) == 0 and self.own is None and results is None

    @property
    def uniform(self) -> bool:
        """Whether these are uniform numbers."""
        made = (self.chance, self.own, self.computed, self.arithmetic)
        return self.draw.law == "uniform" and all(each is None for each in made)

    @property
    def plain(self) -> Law | None:
        """The law, if it is the same for all entries and depends on no data."""
        law = None if self.mirrored or self.turned or self.spread else self.law
        return law if law is not None and law[1].ndim == 1 else None

    @property
    def draws(self) -> tuple[Draw, ...]:
        return (self.draw, *self.beside)

    def changed(self, **fields: Any) -> Coins:
        """Coins with other fields. What the program computed from the numbers does not hold for them."""
        return dataclasses.replace(self, **{"computed": None, "arithmetic": None, **fields})

    def with_chance(self, chance: Any) -> Coins:
        return self.changed(chance=chance, arithmetic=Arithmetic(chance) if isinstance(chance, float) else None)

    def without(self, entries: NDArray[np.bool_], numbers: Any) -> Coins | None:
        """The coins after the program has set `entries` to 0. numbers: the new values of the array. None if they are no coins."""
        if self.chance is None:
            return None
        return self.changed(chance=np.where(entries, 0.0, self.chance), seen=digest(numbers))

    def transposed(self) -> Coins:
        return self.changed(chance=np.transpose(self.chance), turned=not self.turned)

    def joined(self, other: Coins) -> Coins | None:
        """The union of coins and the same coins transposed, as in `flips | flips.T` for coins of one triangle; None for all other
        pairs.
        """
        pair = self.draw is other.draw and self.turned != other.turned and np.ndim(self.chance) == np.ndim(other.chance) == 2
        if not pair or np.any((self.chance > 0) & (other.chance > 0)):
            return None
        return self.changed(chance=self.chance + other.chance, mirrored=True)

    def report(self, values: tuple[float, ...], chances: NDArray[np.float64], value: Any, beside: tuple[Draw, ...] = ()) -> Any:
        """Records a report, and returns its value. If several entries share a coin, or if the coins are mirrored and the
        probabilities are not symmetric, records nothing and returns `value` unchanged.
        """
        if value.shape != self.shape:
            return value
        if self.mirrored and not np.array_equal(chances, np.swapaxes(chances, 0, 1)):
            return value
        return self.mechanisms.report(self.draw, values, chances, value, (*self.beside, *beside), self.mirrored)

    def times(self, other: Coins) -> Coins | None:
        """Drawn numbers multiplied by independent drawn numbers, as in `lie * shift`; None if their law is not known."""
        one, two = self.plain, other.plain
        if one is None or two is None or self.shape != other.shape or not apart((*self.draws, *other.draws)):
            return None
        own = product(one, two)
        return self.changed(chance=None, own=own, beside=(*self.beside, *other.draws)) if len(own[0]) <= FEW else None
