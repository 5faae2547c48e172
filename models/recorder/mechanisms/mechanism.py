"""A noisy mechanism of a run, as the recorder found it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import PICKS
from .largest import chances_of_largest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw

TWO_SIDED = "two-sided geometric"  # the law of whole noise, whose probability falls by exp(-1) with each scale
UNCHANGED = 1e-9  # a difference of two probabilities up to this size counts as rounding, if they may be 1 minus others
RELATIVE, SMALLEST = 1e-6, 1e-290  # else a difference up to this share does, and a smaller probability
ONE = 2.0**54  # 1 minus a probability is a multiple of 1 / ONE
UNEQUAL = 1e-4  # in units of the scale: two moves that differ by less count as equal
ERRORS = 64.0  # the same in units of the rounding error of a noisy value
REPORT = "randomised response"  # the law of a mechanism that reports one of finitely many values
PICK = "pick with given probabilities"  # the name of a report that is picked at once, as by the exponential mechanism


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A mechanism: noisy = clean + noise. line: the line of the sum. scale: the noise is `scale` times numbers of the law at
    scale 1; a number or an array that broadcasts, 0 for entries without noise. beside: other draws of which the noise is the sum,
    besides `draw`. shared: the axes along which all entries have the same noise number, because the noise was broadcast.

    A randomised report has `values`: each entry of `noisy` is one of them. `clean` then holds their probabilities, shape
    (entries, values), and the scale is 1. mirrored: whether the entries (i, j) and (j, i) have the same noise number or random
    bit. largest: whether the report is the index of the largest of several noisy numbers. `clean` then holds these numbers before
    the noise, in units of the noise, and a move is the move of these numbers.

    parts: how many times the program added data. If it did so more than once, the noise was the array into which it added, or
    the run was recorded `closely` (see `Mechanisms`); `line` is that of the first sum. terms: the same for each single number.
    computed: the law of the noise, if the program computed it from the drawn numbers (see inverse.py); else "".
    """

    line: str
    draw: Draw
    scale: Any
    clean: NDArray[np.float64]
    noisy: NDArray[Any]
    beside: tuple[Draw, ...] = ()
    values: tuple[float, ...] = ()
    mirrored: bool = False
    shared: tuple[int, ...] = ()
    parts: int = 1
    closely: bool = False
    terms: tuple[int, ...] = ()
    computed: str = ""
    largest: bool = False

    @property
    def law(self) -> str:
        return REPORT if self.values else self.computed or self.draw.law

    @property
    def shown(self) -> str:
        """The law in words: that of a report says whether coins randomised an answer, or whether the value was picked at once."""
        picked = self.largest or self.draw.law == "gumbel" or (self.draw.law in PICKS and self.draw.own_chances)
        return PICK if self.law == REPORT and picked else self.law

    @cached_property
    def chances(self) -> NDArray[np.float64]:
        """The probabilities of the values of a report, (entries, values)."""
        return self._of(self.clean) if self.largest else self.clean

    def _of(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of each of several numbers, in units of their noise, to be the largest after noise."""
        return chances_of_largest(self.computed or self.draw.law, numbers)

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which entries have noise; for a report, the entries that can have every value."""
        if self.values:
            return np.all(self.chances > 0, axis=-1)
        return np.broadcast_to(np.asarray(self.scale) > 0, self.clean.shape)

    @property
    def plain(self) -> bool:
        """Whether it is a sum in which each entry has a noise number of its own."""
        return not (self.values or self.shared or self.mirrored) and bool(self.covered.all())

    @property
    def own(self) -> NDArray[np.bool_]:
        """Which entries have noise; of several entries with the same noise number, only the first."""
        covered = np.triu(self.covered) if self.mirrored else self.covered
        first = np.zeros(covered.shape, dtype=bool)
        first[tuple(0 if axis in self.shared else slice(None) for axis in range(first.ndim))] = True
        return covered & first

    @property
    def units(self) -> NDArray[np.float64]:
        """The noise divided by its scale, 0 for entries without noise of their own. For a report, the drawn numbers."""
        if self.values:
            drawn = self.draw.values if self.draw.values.shape == self.noisy.shape else self.noisy
            return drawn.astype(np.float64)
        return np.divide(self.noisy - self.clean, self.scale, out=np.zeros_like(self.clean), where=self.own)

    def over(self, by: NDArray[np.float64]) -> NDArray[np.float64]:
        """`by` divided by the scale, 0 for entries without noise of their own. For a report, `by` itself, but 0 below the
        diagonal of a mirrored report, where each random bit occurs a second time.

        If entries with the same noise number move by different amounts, their difference has no noise, and the result is infinite
        there. An entry of `by` that is NaN does not count.
        """
        if self.values:
            by = np.nan_to_num(by)
            return by * np.triu(np.ones(self.noisy.shape))[..., None] if self.mirrored else by
        by = np.nan_to_num(np.where(np.isnan(by), by.T, by) if self.mirrored else by)
        each = np.divide(by, self.scale, out=np.zeros_like(self.clean), where=self.covered)
        if not self.shared and not self.mirrored:
            return each
        error = np.divide(ERRORS * np.spacing(np.abs(self.noisy)), self.scale, out=np.zeros_like(each), where=self.covered)
        if self.mirrored:
            apart = np.abs(each - each.T) > UNEQUAL + np.maximum(error, error.T)
        else:
            apart = np.ptp(each, axis=self.shared, keepdims=True) > UNEQUAL + error.max(axis=self.shared, keepdims=True)
        return np.where(self.own, np.where(apart, np.inf, each), 0.0)

    def with_noisy(self, noisy: NDArray[Any]) -> Mechanism:
        """The mechanism with another noisy value. If its noise is mirrored, entries below the diagonal change as those above."""
        if self.mirrored and not self.values:
            change = np.triu(np.asarray(noisy, dtype=np.float64) - self.noisy)
            noisy = self.noisy + change + np.triu(change, 1).T
        return replace(self, noisy=noisy.astype(self.noisy.dtype))

    def moved(self, by: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which entries of a report have other probabilities after a move, (entries, values)."""
        return np.any(self.differs(by), axis=-1)

    def differs(self, by: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which probabilities of a report differ by more than rounding. Small ones, as of the exponential mechanism, are known to
        a share of themselves, unless the program may have computed them as 1 minus others.
        """
        before = self.chances
        after = self.after(by) if self.largest else before + by
        change = np.abs(after - before if self.largest else by)
        known = self.largest | ~(of_one(before) | of_one(after)) & (np.minimum(before, after) > SMALLEST)
        return (change > UNCHANGED) | (known & (change > RELATIVE * before))

    def after(self, by: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities of a report after a move. One that rounding may have made 0, or no longer 0, is as before."""
        if self.largest:
            moved, after = np.any(by, axis=-1), self.chances.copy()
            after[moved] = self._of((self.clean + by)[moved])
            return after
        after = np.clip(self.clean + by, 0.0, 1.0)
        rounded = ((self.clean < SMALLEST) | (after < SMALLEST)) & (np.abs(by) <= UNCHANGED)
        return np.where(rounded, self.clean, after)

    def pairs(self, by: NDArray[np.float64], factor: float = 1.0) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """For each entry of a report whose probabilities change, the probabilities before and after the change. factor: divides
        the noise of numbers of which the largest is reported. Other probabilities are raised to this power, which multiplies the
        epsilon of a symmetric report by it.
        """
        at = self.moved(by)
        if factor == 1:
            before, after = self.chances[at], self.after(by)[at]
        elif self.largest:
            before, after = (self._of(factor * numbers[at]) for numbers in (self.clean, self.clean + by))
        else:
            powers = (chances[at] ** factor for chances in (self.clean, self.after(by)))
            before, after = (power / power.sum(-1, keepdims=True) for power in powers)
        return list(zip(before, after))  # noqa: B905  (Python 3.9)

    def each(self, by: NDArray[np.float64]) -> NDArray[np.float64]:
        """The size of a change `by` of the clean value, for each entry: its absolute value; for a report, the largest |log
        likelihood ratio|.
        """
        if self.law != REPORT:
            return np.abs(by)
        return np.where(self.moved(by), np.abs(self.ratios(by)).max(axis=-1), 0.0)

    def ratios(self, by: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log likelihood ratio of each value of a report before and after a change, (entries, values); 0 for an impossible
        value.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(self.chances) - np.log(self.after(by))
        return np.nan_to_num(ratios, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def size(self, by: NDArray[np.float64]) -> float:
        """The size of a change `by` of the clean value. Normal noise: the Euclidean norm. Others: the sum over entries."""
        each = self.each(by)
        return float(np.linalg.norm(each) if self.law == "normal" else each.sum())


def of_one(chances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which probabilities may be 1 minus others, up to rounding: then their small values are known to few digits."""
    parts = chances * ONE
    return np.abs(parts - np.rint(parts)) <= RELATIVE * parts
