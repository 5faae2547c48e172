"""Finds mechanisms of one run that share noise. A mechanism that is computed twice costs as much as one mechanism. If mechanisms
share only part of their noise, the audit computes no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ..draws.draw import SHIFTED
from .followed.same_numbers import unlikely

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw
    from .mechanism import Mechanism

ALIKE = 1e-4  # in units of the noise scale: two copies of the same noise, each rounded to float32, differ by less
NEAR = 1e-7  # in units of the noise scale: few independent numbers are this close by chance
# noise counts as shared if the pairs at a distance up to NEAR are more than FEW plus three times the pairs near distance 10 NEAR,
# and more than independent numbers show with a probability of exp(-SURE)
FEW, SURE = 5, 25.0
EQUAL, SURE_OF_EQUAL = 1e-15, 20.0  # the same for numbers of 64 bits that are equal but for their last places, without FEW
CHANCE = 1e-12  # equal coins of two draws count as shared if independent draws have them with a smaller probability
MOST = 50_000  # numbers of a draw that `in_common` compares
RUN = 64  # largest number of close numbers that are counted for one number
COMPARED = 300  # largest number of draws of reports that `coins_in_common` compares
RARE = 1e-6  # two independent draws of reports count as one with at most this probability, over all pairs of draws


def again(mechanisms: Sequence[Mechanism], draws: Sequence[Draw], copies: Mapping[int, int]) -> tuple[dict[int, int], str]:
    """Two results. First: index of a mechanism -> index of the first mechanism with the same noise at the same entries. Second: a
    sentence about mechanisms that share noise in another way, or "".

    draws: the draws of the run. copies: index of a draw -> index of the earlier draw that it repeats.
    """
    joined = coins_in_common(mechanisms, draws, in_common(draws))
    place = {id(draw): joined[copies.get(at, at)] for at, draw in enumerate(draws)}
    groups: dict[int, list[int]] = {}
    for i, mechanism in enumerate(mechanisms):
        for at in dict.fromkeys(place[id(draw)] for draw in (mechanism.draw, *mechanism.beside)):
            groups.setdefault(at, []).append(i)
    same: dict[int, int] = {}
    partly = ""
    for at, group in groups.items():
        firsts = _firsts(mechanisms, group, same)
        partly = partly or _twice([mechanisms[i] for i in firsts], place)
        one_number = draws[at].values.size == 1  # all mechanisms of the group use it
        if len(firsts) > 1 and not partly and (one_number or _shared([mechanisms[i] for i in firsts])):
            one, two = (mechanisms[i] for i in firsts[:2])
            lines = f"{len(firsts)} mechanisms ({', '.join(dict.fromkeys((one.line, two.line)))})"
            partly = f"{lines} share noise of {one.draw.where} in a way for which no cost is computed"
    return same, partly


def _firsts(mechanisms: Sequence[Mechanism], group: Sequence[int], same: dict[int, int]) -> list[int]:
    """For each different noise in a group, the first mechanism with this noise. Adds the other mechanisms to `same`."""
    firsts: list[int] = []
    known: dict[object, list[int]] = {}  # keys: the shape, and the first number, rounded
    for i in group:
        units = mechanisms[i].units
        begins = np.round(np.ravel(units)[:1] / (10 * ALIKE)).astype(int)
        shape = units.shape, mechanisms[i].clean.shape
        cells = [(shape, tuple((begins + step).tolist())) for step in (0, -1, 1)]
        near = [j for cell in cells for j in known.get(cell, ())]
        if mechanisms[i].values:  # further draws may decide these reports
            near = [j for j in near if all(np.array_equal(*two) for two in _told(mechanisms[i], mechanisms[j]))]
        first = next((j for j in near if np.allclose(mechanisms[j].units, units, rtol=0, atol=ALIKE)), None)
        if first is not None:
            same[i] = first
            continue
        known.setdefault(cells[0], []).append(i)
        firsts.append(i)
    return firsts


def _twice(mechanisms: Sequence[Mechanism], place: Mapping[int, int]) -> str:
    """A sentence about a report of two draws with the same numbers; "" if there is none."""
    both = [(m, (m.draw, *m.beside)) for m in mechanisms if m.values]
    m = next((m for m, draws in both if len({place[id(draw)] for draw in draws}) < len(draws)), None)
    return f"the report at {m.line} uses noise of {m.draw.where} twice, for which no cost is computed" if m else ""


def _told(one: Mechanism, other: Mechanism) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
    """The probabilities and the values of two reports."""
    return (one.clean, other.clean), (one.noisy, other.noisy)


def _shared(mechanisms: Sequence[Mechanism]) -> bool:
    """Whether two of the mechanisms have some noise numbers in common, or the noise of one of them is a sum of several draws
    or of numbers that are mirrored. Of mechanisms with the noise of generators in the same state, one number is enough.

    Two reports have coins in common if both have coins at the same place of their draws: the same coins on different data tell
    where the data differ. A report and another mechanism of one draw always share it.
    """
    coins = [m.covered for m in mechanisms if m.values]
    if any(m.beside or (m.mirrored and not m.values) for m in mechanisms) or 0 < len(coins) < len(mechanisms):
        return True
    if any(_overlap(one, other) for one, other in combinations(coins, 2)):
        return True
    plain = [m for m in mechanisms if not m.values]
    numbers = [np.unique(np.abs(m.units[m.own])) for m in plain]
    values = np.concatenate([*numbers, np.zeros(0)])
    owners = np.repeat(np.arange(len(numbers)), [n.size for n in numbers])
    order = np.argsort(values, kind="stable")
    values, owners = values[order], owners[order]
    close, far = (sum(_pairs(values, owners, apart, len(numbers)).values()) for apart in (0.0, 10 * NEAR))
    drawn = {id(m.draw): m.draw for m in plain}.values()
    states = [draw.began for draw in drawn if draw.began]
    if close and len(set(states)) < len(states):
        return True
    equal = sum(_pairs(values, owners, 0.0, len(numbers), EQUAL).values()) if all(map(_of_64_bits, drawn)) else 0
    return _many(close, far, equal, (values.size**2 - sum(n.size**2 for n in numbers)) // 2)


def in_common(draws: Sequence[Draw]) -> list[int]:
    """For each draw, the position of the first draw with which it has continuous numbers in common, more than chance makes equal,
    directly or through others, or exactly its coins; its own position if there is none. Two generators with one seed have such
    draws, the continuous ones also if their shapes differ. If the states of the generators are known, one number is enough.
    """
    coins: dict[object, int] = {}
    firsts = [coins.setdefault(name, at) if (name := _coins(draw)) else at for at, draw in enumerate(draws)]
    noise = [(at, draw) for at, draw in enumerate(draws) if draw.spread or draw.law == "uniform"]
    noise = [(at, draw) for at, draw in noise if draw.values.dtype.kind == "f"]
    begun: dict[tuple[str, int], int] = {}
    for at, draw in noise:
        if draw.began and draw.values.size and (first := begun.setdefault((draw.law, draw.began), at)) != at:
            firsts = _joined(firsts, first, at)
    for law in (*SHIFTED, "uniform"):
        numbers = [np.unique(np.abs(draw.units.ravel()[:MOST])) for _, draw in noise if draw.law == law]
        owners = np.repeat([at for at, draw in noise if draw.law == law], [n.size for n in numbers]).astype(np.int64)
        if len(numbers) < 2:
            continue
        values, sizes = np.concatenate(numbers), np.bincount(owners).tolist()
        order = np.argsort(values, kind="stable")
        values, owners = values[order], owners[order]
        close, far = (_pairs(values, owners, apart, len(draws)) for apart in (0.0, 10 * NEAR))
        equal = _pairs(values, owners, 0.0, len(draws), EQUAL)
        for pair, count in close.items():
            two = divmod(pair, len(draws))
            exact = equal.get(pair, 0) if all(_of_64_bits(draws[at]) for at in two) else 0
            if _many(count, far.get(pair, 0), exact, sizes[two[0]] * sizes[two[1]]):
                firsts = _joined(firsts, *two)
    return firsts


def _joined(firsts: Sequence[int], one: int, other: int) -> list[int]:
    """`firsts`, with the draws at two positions, and all that are joined with them, in one group."""
    first, later = sorted((firsts[one], firsts[other]))
    return [first if at == later else at for at in firsts]


def _of_64_bits(draw: Draw) -> bool:
    return draw.values.dtype.itemsize == 8


def _coins(draw: Draw) -> object:
    """A name for the values of a draw from finitely many; None if other draws have the same values by chance."""
    if draw.chances is None or draw.chances.ndim > 1 or draw.values.size * np.log((draw.chances**2).sum()) > np.log(CHANCE):
        return None
    return draw.values.shape, draw.values.astype(np.float64).tobytes()


def coins_in_common(mechanisms: Sequence[Mechanism], draws: Sequence[Draw], firsts: Sequence[int]) -> list[int]:
    """`firsts`, with dependent draws of reports joined, such as those of two generators with one seed.

    Two draws are dependent if they agree everywhere, or if the products of their deviations from the mean add up to so large a
    number, that independent draws do so with a probability of at most RARE (inequalities of Hoeffding and Bernstein).
    """
    joined = list(firsts)
    reports = {id(draw) for m in mechanisms if m.values for draw in (m.draw, *m.beside)}
    known = [
        (at, deviations) for at, draw in enumerate(draws) if id(draw) in reports and (deviations := _deviations(draw)) is not None
    ]
    known = sorted(known, key=lambda each: -each[1].shape[1])[:COMPARED]
    level = np.log(max(1, len(known) * (len(known) - 1)) / RARE)
    for (i, one), (j, other) in combinations(known, 2):
        if joined[i] == joined[j]:
            continue
        size = min(one.shape[1], other.shape[1])
        product, spread, most = one[:, :size] * other[:, :size]
        allowed = np.sqrt(2 * level * spread.sum()) + 2 / 3 * level * most.max(initial=0)
        allowed = min(allowed, np.sqrt(2 * level * np.square(most).sum()))
        if abs(product.sum()) > allowed or _equal(draws[i], draws[j], level):
            joined = _joined(joined, i, j)
    return joined


def _deviations(draw: Draw) -> NDArray[np.float64] | None:
    """Each number of a draw minus its mean, its variance, and its largest possible deviation, (3, numbers); None if unknown."""
    if draw.law == "uniform":
        units = draw.units.ravel() - 0.5
        return np.stack([units, np.full(units.size, 1 / 12), np.full(units.size, 0.5)])
    if draw.chances is None or not draw.values.size:
        return None
    among = np.array(draw.among)
    mean = draw.chances @ among
    spread, most = draw.chances @ among**2 - mean**2, np.abs(among - mean[..., None]).max(-1)
    return np.stack([np.broadcast_to(part, draw.values.shape).ravel() for part in (draw.values - mean, spread, most)])


def _equal(one: Draw, other: Draw, level: float) -> bool:
    """Whether two draws agree everywhere, which independent draws do with a probability below exp(-level)."""
    if one.among != other.among or one.chances is None or other.chances is None or not np.array_equal(one.values, other.values):
        return False
    agree = np.broadcast_to((one.chances * other.chances).sum(-1), one.values.shape)
    with np.errstate(divide="ignore"):
        return -float(np.log(agree).sum()) > level


def _overlap(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    """Whether two masks are true at one place, counted from the first entry."""
    size = min(one.size, other.size)
    return bool(np.any(one.ravel()[:size] & other.ravel()[:size]))


def _pairs(
    values: NDArray[np.float64], owners: NDArray[np.int64], apart: float, count: int, near: float = NEAR
) -> dict[int, int]:
    """How many pairs of numbers of two draws (or mechanisms) have a distance between `apart` and apart + near, by pair of draws:
    the pair (i, j) with i < j has the key i * count + j. values: all numbers, sorted. owners: the position of the draw of each.
    """
    low = np.searchsorted(values, values + apart, "left")
    high = np.searchsorted(values, values + apart + near, "right")
    found: dict[int, int] = {}
    for step in range(min(RUN, int((high - low).max(initial=0)))):
        at = np.minimum(low + step, len(values) - 1)
        here = (low + step < high) & (owners[at] != owners)
        one, other = owners[here], owners[at[here]]
        keys, counts = np.unique(np.minimum(one, other) * count + np.maximum(one, other), return_counts=True)
        for key, several in zip(keys.tolist(), counts.tolist()):  # noqa: B905  (Python 3.9)
            found[key] = found.get(key, 0) + several
    return found


def _many(close: int, far: int, equal: int, pairs: int) -> bool:
    """Whether more numbers are close than independent ones would be. pairs: all pairs. close, far: how many of them have a
    distance up to NEAR, and near 10 NEAR. equal: how many pairs of numbers of 64 bits have a distance up to EQUAL.

    No law that is followed has a density above 1 at scale 1, so at most 2 NEAR of the pairs are close by chance.
    """
    near = close > FEW + 3 * far and unlikely(close, 2 * NEAR * pairs) > SURE
    return near or (equal > 0 and unlikely(equal, 2 * EQUAL * pairs) > SURE_OF_EQUAL)
