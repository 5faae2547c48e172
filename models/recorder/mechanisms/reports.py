"""Finds the randomised reports of a NumPy program: drawn numbers that choose between values of data, as in randomised response.

A draw in which each number has its own probabilities is itself a report. Coins are random 0/1 numbers that have not been
combined with data yet, such as uniform numbers after a comparison with a threshold. Coins become a report when they flip bits of
data, or choose between two arrays so that every entry can get every value, or when data choose between two arrays of coins.
Arithmetic on coins and bits, as in `bits * (1 - coins) + (1 - bits) * coins`, is computed for both values of the coins, see
`Arithmetic`. Drawn whole numbers become a report when they shift data modulo a number to every value. Coins that only keep or
drop data, as samples and dropout do, are no reports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import FEW, guarded, of_two, without
from ..draws.results import digest
from .coins import Coins
from .followed.inverse import combined, of_uniform
from .followed.memory import remember
from .followed.noise import followed
from .laws import apart, exact, modulus_of, residues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw
    from .followed.origin import Recorder

BELOW, ABOVE = (np.less, np.less_equal), (np.greater, np.greater_equal)
FLIPS, KEEPS = (np.bitwise_xor, np.logical_xor, np.not_equal), (np.equal,)
NOT = (np.logical_not, np.invert)
# functions of arithmetic on coins and bits; those of ALONE can make a report of one array
ALONE = (np.absolute, np.square)
SUMS = (np.add, np.subtract, np.multiply, np.negative)
ARITHMETIC = (*ALONE, *SUMS, *NOT, np.bitwise_and, np.logical_and, np.bitwise_or, np.logical_or)
LARGEST = 2  # of the whole numbers in the arithmetic on coins and bits
ROUNDED = 1e-6  # a change of the type that changes a drawn number by more than this share of it makes another number
JOINS = (np.bitwise_or, np.logical_or, np.add, np.bitwise_xor, np.logical_xor, np.maximum)


class Drawn(np.ndarray):
    """An array of drawn numbers. coins: how they were drawn; None if the numbers were changed or combined with data."""

    coins: Coins | None

    def __array_finalize__(self, source: Any) -> None:
        self.coins = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = [_plain(i) for i in inputs]
        before = [np.array(g) for g in given] if "out" in options else given  # the operation overwrites one of them
        known = guarded(lambda: [(at, coins) for at, i in enumerate(inputs) if (coins := coins_of(i, given[at])) is not None])
        named = {name: without(Drawn, value, _plain) for name, value in options.items()}
        result: Any = getattr(ufunc, method)(*given, **named)
        if not known or method != "__call__" or not isinstance(result, np.ndarray) or options.get("where", True) is not True:
            return result
        return guarded(lambda: _combined(ufunc, inputs, before, known, result), result)

    def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
        first = args[0] if args else None
        coins = guarded(lambda: coins_of(first, _plain(first)))
        result = super().__array_function__(func, types, args, options)
        return guarded(lambda: _changed(func, args, options, coins, result), result)

    def __setitem__(self, key: Any, value: Any) -> None:
        coins = guarded(lambda: coins_of(self, _plain(self)))
        super().__setitem__(key, value)
        self.coins = None
        if coins is not None:
            self.coins = guarded(lambda: _written(self, coins, key, value))

    def astype(self, *args: Any, **options: Any) -> Any:
        result = super().astype(*args, **options)
        same = guarded(lambda: np.allclose(_plain(result), _plain(self), rtol=ROUNDED, atol=0))
        return self._with(result, self.coins if same else None)

    def copy(self, *args: Any, **options: Any) -> Any:
        return self._with(super().copy(*args, **options), self.coins)

    def reshape(self, *args: Any, **options: Any) -> Any:
        simple = self.coins is not None and self.coins.reshapes and not options
        return self._with(super().reshape(*args, **options), self.coins if simple else None)

    def transpose(self, *axes: Any) -> Any:
        flat = self.coins is not None and self.ndim == 2 and np.ndim(self.coins.chance) == 2 and not axes
        return self._with(super().transpose(*axes), self.coins.transposed() if flat and self.coins is not None else None)

    @property
    def T(self) -> Any:
        return self.transpose()

    def _with(self, result: Any, coins: Coins | None) -> Any:
        """`result`, as an array that stores `coins`, unless the program has written into this array."""

        def followed() -> Any:
            known = coins_of(self, _plain(self)) is not None and isinstance(result, Drawn)
            return drawn(result, coins) if known and coins is not None else result

        return guarded(followed, result)


def _combined(ufunc: Any, inputs: Sequence[Any], given: Sequence[Any], known: Sequence[tuple[int, Coins]], result: Any) -> Any:
    """The result of an operation on drawn numbers. given: the values of the inputs before it. known: which inputs are coins."""
    if result.shape != np.shape(inputs[known[0][0]]):
        return result
    coins = dict(known)
    terms = [coins.get(at, value) for at, value in enumerate(given)]
    if len(known) == 2:
        one, other = known[0][1], known[1][1]
        both = one.joined(other) if ufunc in JOINS else one.times(other) if ufunc is np.multiply else None
        return computed(ufunc, terms, result) if both is None else drawn(result, both)
    at = known[0][0]
    return computed(ufunc, terms, combined_with(coins[at], ufunc, at == 0, [g for k, g in enumerate(given) if k != at], result))


def computed(operation: Any, terms: Sequence[Any], result: Any) -> Any:
    """The result of an operation on drawn numbers: as noise if the program has computed noise from uniform numbers, else as an
    array that stores what it has computed so far. terms: the inputs of the operation, `Coins` for drawn numbers.
    """
    shape = next(term.shape for term in terms if isinstance(term, Coins))
    result = calculated(operation, terms, result)
    both = combined(operation, [_part(term) for term in terms])
    if both is None or result.shape != shape:
        return result
    if isinstance(result, Drawn) and result.coins is not None:
        result.coins = dataclasses.replace(result.coins, computed=both)
        return result
    numbers = _plain(result)
    if numbers.dtype.kind == "f" and (noise := both.noise) is not None:
        return followed(numbers, noise)
    return drawn(numbers, Coins(both.mechanisms, both.draw, computed=both))


def calculated(operation: Any, terms: Sequence[Any], result: Any) -> Any:
    """The result of arithmetic on coins and bits: as a report if each entry is a bit that its coin flips, else as an array that
    stores what it would be for both values of the coins. The result of other operations is returned unchanged. terms: see
    `computed`.

    A sum, difference or product of two such arrays can be a report, and so can an absolute value or a square.
    """
    coins = [term for term in terms if isinstance(term, Coins)]
    known = [each.arithmetic for each in coins if each.arithmetic is not None]
    plain, negates = [term for term in terms if not isinstance(term, Coins)], operation in NOT
    if operation not in ARITHMETIC or len(known) < len(coins):
        return result
    if any(each.coins is not known[0].coins for each in known):
        return of_two_coins(operation, coins[0], coins[1], _plain(result))
    if not all(map(small, plain)) or (negates and result.dtype != bool):
        return result

    def if_all_were(value: int) -> NDArray[Any]:
        sides = [each.if_all_were(value, coins[0].shape, bool if negates else int) for each in known]
        return np.asarray(operation(*(sides.pop(0) if isinstance(term, Coins) else term for term in terms)))

    zero, one = if_all_were(0), if_all_were(1)
    if zero.shape != result.shape or not small(zero) or not small(one):
        return result
    data = any(each.data for each in known) or any(np.ndim(term) for term in plain)
    if data and (len(known) == 2 or operation in ALONE) and np.array_equal(one, 1 - zero):
        return flipped(coins[0], known[0].chance, zero, _plain(result))
    own = dataclasses.replace(known[0], results=(zero, one), data=data)
    if isinstance(result, Drawn) and result.coins is not None:
        result.coins = dataclasses.replace(result.coins, arithmetic=own)
        return result
    return drawn(_plain(result), coins[0].changed(chance=None, own=None, data=None, arithmetic=own))


def of_two_coins(operation: Any, one: Coins, other: Coins, result: NDArray[Any]) -> Any:
    """The result of an operation on two arrays of bits that two coins decide, as in `(bits & kept) | (~bits & added)`: a report
    if each entry can get both values, else `result`.
    """
    first, second = one.arithmetic, other.arithmetic
    if first is None or second is None or not (first.data and second.data) or not one.shape == other.shape == result.shape:
        return result
    if any(each.mirrored or each.turned or each.spread for each in (one, other)) or not apart((*one.draws, *other.draws)):
        return result
    chance = np.zeros(result.shape)
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        bits = operation(first.if_all_were(a, one.shape, bool), second.if_all_were(b, other.shape, bool))
        if not np.all((bits == 0) | (bits == 1)):
            return result
        chance += bits * (first.chance if a else 1 - first.chance) * (second.chance if b else 1 - second.chance)
    if not np.all((chance > 0) & (chance < 1)):
        return result
    return one.report((0.0, 1.0), of_two(chance), result, other.draws)


def small(numbers: Any) -> bool:
    """Whether these are truth values, or whole numbers of at most LARGEST."""
    array = np.asarray(numbers)
    if array.dtype.kind not in "biuf" or not array.size:
        return False
    return bool(array.dtype.kind == "b" or (np.all(np.abs(array) <= LARGEST) and np.all(array == np.rint(array))))


def _part(term: Any) -> Any:
    """What the program computed from uniform numbers to get a term; a number if it is one; None for other coins."""
    if isinstance(term, Coins):
        return of_uniform(term.mechanisms, term.draw) if term.uniform else term.computed
    number = np.asarray(term)
    return float(number.ravel()[0]) if number.size == 1 and number.dtype.kind in "biuf" else None


def _changed(func: Any, args: Any, options: Any, coins: Coins | None, result: Any) -> Any:
    """The result of a NumPy function whose first argument holds `coins`."""
    first = args[0] if args else None
    if result is None and isinstance(first, Drawn):  # a function that writes into its first argument
        first.coins = None
        if func is np.fill_diagonal and coins is not None and np.ndim(args[1]) == 0 and not args[1]:
            first.coins = coins.without(np.eye(*first.shape, dtype=np.bool_), _plain(first))
    if func is np.where and len(args) == 3 and not isinstance(first, Drawn) and isinstance(result, np.ndarray):
        return told_apart(first, args[1], args[2], _plain(result))
    if coins is None or coins.chance is None or not isinstance(result, np.ndarray):
        return result
    if func in (np.triu, np.tril):
        return drawn(result, coins.with_chance(func(np.broadcast_to(coins.chance, result.shape), *args[1:], **options)))
    if func is np.where and len(args) == 3:
        sides = [coins_of(side, given) or given for side in args[1:] for given in [_plain(side)]]
        return computed(np.where, [coins, *sides], chosen(coins, args[1], args[2], _plain(result)))
    return result


def _written(array: Drawn, coins: Coins, key: Any, value: Any) -> Coins | None:
    """The coins of an array after the program has set entries to `value`."""
    if np.ndim(value) or value:
        return None
    written = np.zeros(array.shape, dtype=bool)
    written[without(Drawn, key, _plain)] = True
    return coins.without(written, _plain(array))


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Drawn) else value


def drawn(numbers: Any, coins: Coins) -> Any:
    """The numbers as an array that stores `coins`."""
    marked: Any = numbers.view(Drawn)
    marked.coins = dataclasses.replace(coins, shape=numbers.shape, seen=digest(numbers))
    remember(coins.mechanisms.arrays, marked)
    return marked


def coins_of(value: Any, numbers: Any) -> Coins | None:
    """The coins that an array stores; None if it stores none or the program has written into it. numbers: its values."""
    coins = value.coins if isinstance(value, Drawn) else None
    return coins if coins is not None and coins.seen == digest(numbers) else None


def reported(mechanisms: Recorder, value: Any, draw: Draw) -> Any:
    """The array that the program gets for a draw that is a report or may become part of one; None for all other draws."""
    if draw.picked:
        return picked(mechanisms, value, draw)
    if type(value) is not np.ndarray or value.ndim == 0:
        return None
    coins = Coins(mechanisms, draw, shape=value.shape)
    if draw.own_chances:
        assert draw.chances is not None
        return coins.report(draw.among, draw.chances, value)
    if draw.law == "uniform":
        return drawn(value, coins)
    if draw.chances is not None and draw.chances.ndim == 1:
        return drawn(value, coins.with_chance(float(draw.chances[1])) if draw.among == (0.0, 1.0) else coins)
    return None


def picked(mechanisms: Recorder, value: Any, draw: Draw) -> Any:
    """The value that the program gets for one pick with given probabilities, which is a report: a number, a list or an array."""
    assert draw.chances is not None
    places = value if isinstance(value, np.ndarray) else np.array(value).reshape(1)
    reported = Coins(mechanisms, draw, shape=places.shape).report(draw.among, draw.chances.reshape(*places.shape, -1), places)
    if isinstance(value, np.ndarray):
        return reported
    return reported.tolist() if isinstance(value, list) else type(value)(reported[0])


def combined_with(coins: Coins, ufunc: Any, first: bool, other: Sequence[Any], result: Any) -> Any:
    """The result of an operation on drawn numbers: coins after a comparison or a negation, a report after an operation that flips
    bits of data, else the plain result. first: whether the drawn numbers are the first input. other: the other inputs.
    """
    chance = coins.chance
    if coins.uniform and ufunc in (*BELOW, *ABOVE) and np.size(other[0]) in (1, result.size):
        return compared(coins, other[0], (ufunc in BELOW) == first, result)
    if chance is not None and ufunc in NOT and result.dtype == bool:
        return drawn(result, coins.with_chance(1 - chance))
    if chance is not None and ufunc in (*FLIPS, *KEEPS):
        return flipped(coins, chance if ufunc in FLIPS else 1 - chance, other[0], result)
    if ufunc in (np.add, np.subtract) and other:
        return shifted(coins, other[0], ufunc is np.subtract, first, result)
    if ufunc is np.remainder and first:
        return wrapped(coins, other[0], result)
    return result


def shifted(coins: Coins, data: Any, minus: bool, first: bool, result: NDArray[Any]) -> Any:
    """The result of a sum or difference of drawn numbers and data, as an array that stores the data; `result` unchanged if the
    drawn numbers are not whole. minus: whether it is a difference. first: whether the drawn numbers are its first term.
    """
    given, law = np.asarray(data), coins.plain
    if minus and first and given.dtype.kind in "biuf":
        given = -given.astype(np.float64)
    if law is None or not exact(given, law, result):
        return result
    wide = np.broadcast_to(given, result.shape).astype(np.float64)
    return drawn(result, coins.changed(chance=None, own=law, data=wide, sign=-1 if minus and not first else 1))


def wrapped(coins: Coins, modulus: Any, result: NDArray[Any]) -> Any:
    """`result`, which is the sum of drawn numbers and data modulo a number: a report if each entry can get every value, else an
    array that stores its law.
    """
    count = modulus_of(modulus)
    if count is None or coins.own is None or coins.data is None:
        return result
    values, chances = residues(coins.own, coins.data, coins.sign, count)
    mixed = coins.changed(own=(values, chances), data=None, spread=True)
    return mixed.report(values, chances, result) if np.all(chances > 0) else drawn(result, mixed)


def compared(coins: Coins, threshold: Any, below: bool, result: Any) -> Any:
    """The result of a comparison of uniform numbers with a threshold, as coins; a report if each number has its own threshold.

    below: whether the result is true below the threshold. result: an array of bool, into which a replaced report is written.
    """
    if result.shape != coins.shape:
        return result
    under = np.clip((np.asarray(threshold, dtype=np.float64) - coins.draw.loc) / coins.draw.scale, 0.0, 1.0)
    chances = of_two(under if below else 1 - under)
    if chances.ndim == 1:
        return drawn(result, coins.with_chance(float(chances[1])))
    return coins.report((0.0, 1.0), chances, result)


def flipped(coins: Coins, chance: Any, data: Any, result: Any) -> Any:
    """Records bits of data, each flipped with probability `chance`, as a report, and returns its value. Returns `result`
    unchanged if the data are no bits.
    """
    bits = np.asarray(data)
    if bits.dtype.kind not in "biuf" or bits.shape != result.shape or not np.all((bits == 0) | (bits == 1)):
        return result
    one = bits + chance - 2 * bits * chance
    return coins.report((0.0, 1.0), np.stack([1 - one, one], axis=-1), result)


def chosen(coins: Coins, one: Any, other: Any, result: Any) -> Any:
    """The value of where(coins, one, other), recorded as a report if each entry with a coin can get every value; else
    `result`.
    """
    sides = [coins_of(side, _plain(side)) for side in (one, other)]
    tosses = [side for side in sides if side is not None]
    if any(side.law is None or side.shape != result.shape for side in tosses):
        return result
    if tosses and (any(each.mirrored for each in (coins, *tosses)) or not apart([d for c in (coins, *tosses) for d in c.draws])):
        return result
    values = _values(one, sides[0]) | _values(other, sides[1])
    if not values or len(values) > FEW:
        return result
    among = tuple(sorted(values))
    share = np.broadcast_to(coins.chance, result.shape)[..., None]
    chances = share * _chances(one, sides[0], among, result.shape) + (1 - share) * _chances(other, sides[1], among, result.shape)
    tossed = (share[..., 0] > 0) & (share[..., 0] < 1)
    if not np.any(tossed) or not np.all(chances[tossed] > 0):
        return result
    return coins.report(among, chances, result, tuple(draw for side in tosses for draw in side.draws))


def told_apart(data: Any, one: Any, other: Any, result: Any) -> Any:
    """The value of where(data, one, other), recorded as a report if both sides are coins; else `result`. Each entry takes one of
    two coins, which may be the same coin with two thresholds.
    """
    first, second = (coins_of(side, _plain(side)) for side in (one, other))
    if (
        first is None
        or second is None
        or any(c.shape != result.shape or c.mirrored or c.turned or c.spread for c in (first, second))
    ):
        return result
    if first.law is None or second.law is None or first.law[0] != second.law[0] or len(first.law[0]) > FEW:
        return result
    among, chosen_one = first.law[0], np.broadcast_to(np.asarray(data).astype(bool), result.shape)[..., None]
    chances = np.where(chosen_one, *(_chances(None, side, among, result.shape) for side in (first, second)))
    if first.draw is second.draw and not first.beside and not second.beside:
        return first.report(among, chances, result)
    return first.report(among, chances, result, second.draws) if apart((*first.draws, *second.draws)) else result


def _values(side: Any, coins: Coins | None) -> set[float]:
    """The values that one side of a choice can take; empty if there are more than FEW, or no numbers. coins: of the side, if
    any.
    """
    if coins is not None and coins.law is not None:
        return set(coins.law[0])
    found = np.unique(np.asarray(_plain(side)))
    return set(map(float, found)) if found.dtype.kind in "biuf" and found.size <= FEW else set()


def _chances(side: Any, coins: Coins | None, among: tuple[float, ...], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The probability of each value of `among` for each entry of one side of a choice: (*shape, values). coins: of the side, if
    any.
    """
    if coins is not None and coins.law is not None:
        own, chances = coins.law
        columns = [chances[..., own.index(v)] if v in own else np.zeros(chances.shape[:-1]) for v in among]
        return np.broadcast_to(np.stack(columns, axis=-1), (*shape, len(among)))
    entries = np.broadcast_to(np.asarray(_plain(side), dtype=np.float64), shape)
    return (entries[..., None] == np.array(among)).astype(np.float64)
