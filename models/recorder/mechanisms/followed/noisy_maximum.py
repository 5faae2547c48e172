"""Finds the exponential mechanism: the index of the largest score with Gumbel noise is a randomised report of the scores.

This index is k with a probability proportional to exp(score k / scale) (the Gumbel-max trick). If the program uses the noisy
scores in another way, the scores themselves are recorded as a mechanism. The index of the largest score with Laplace or normal
noise (report-noisy-max) is such a report too, if the recording asks for `maxima`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...draws.draw import PICKED, guarded, without
from ...draws.results import digest
from .memory import remember
from .same_numbers import coarse, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Origin

SUMMED = ("laplace", "normal")  # laws of noise with which the index of the largest score may be a report, see `maxima`
AMONG, NUMBERS = 256, 4096  # the probabilities of the largest of so many scores, and of so many in all, are computed


@dataclass(frozen=True, eq=False)
class Scores:
    """Noisy scores: clean + noise of this origin, which has one scale. seen: a digest of this sum. won: the indices that were
    reported as those of the largest scores; None if there was no report.
    """

    origin: Origin
    clean: NDArray[np.float64]
    seen: int | None
    won: NDArray[np.int64] | None = None

    def largest(self, places: Any, axis: Any) -> Any:
        """Records the indices of the largest scores, `places`, as a report. Returns them, or the indices that replace them; None
        if the maximum is not over the last axis, or over more than PICKED scores.
        """
        last = self.clean.ndim == 1 if axis is None else axis % self.clean.ndim == self.clean.ndim - 1
        if not last or not 1 < self.clean.shape[-1] <= PICKED:
            return None
        origin, values = self.origin, tuple(map(float, range(self.clean.shape[-1])))
        if origin.law != "gumbel":
            if self.clean.shape[-1] > AMONG or self.clean.size > NUMBERS:
                return None
            scores, fields = self.clean / origin.scale, {"largest": True, "computed": origin.computed}
            return origin.mechanisms.report(origin.draw, values, scores, places, (), False, **fields)
        powers = np.exp((self.clean - self.clean.max(-1, keepdims=True)) / origin.scale)
        chances = powers / powers.sum(-1, keepdims=True)
        return origin.mechanisms.report(origin.draw, values, chances, places, (), False)

    def settled(self, noisy: Any) -> Any:
        """Records the noisy scores as a mechanism, unless the program has written into their array. Returns their values."""
        kept = self.seen == digest(noisy)
        return self.origin.mechanisms.noise_added(self.origin, self.clean, noisy) if kept else noisy


class WithScores(np.ndarray):
    """An array of noisy scores. scores: how they were computed; None if the entries are no longer noisy scores."""

    scores: Scores | None

    def __array_finalize__(self, source: Any) -> None:
        self.scores = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        named = {name: without(WithScores, value, _plain if name == "out" else _settled) for name, value in options.items()}
        return getattr(ufunc, method)(*(_settled(i) for i in inputs), **named)

    def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
        if func is np.argmax:
            return super().__array_function__(func, types, args, options)
        named = {name: without(WithScores, value, _settled) for name, value in options.items()}
        return func(*without(WithScores, tuple(args), _settled), **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Scores that the program sets so low that they cannot be the largest stay scores. Other numbers that it writes settle
        the scores before.
        """
        low = guarded(lambda: self._excluded(key, value))
        if low is None:
            _settled(self)
        super().__setitem__(key, value)
        if low is not None:
            self.scores = dataclasses.replace(low, seen=digest(_plain(self)))

    def _excluded(self, key: Any, value: Any) -> Scores | None:
        """The scores without those at the places `key`, which become `value`; None if one of these could still be the largest, or
        if a reported largest score remains: the largest scores of the others are independent of a report, but not that score.
        """
        scores = self.scores
        if scores is None or scores.origin.law != "gumbel" or np.ndim(value) or scores.seen != digest(_plain(self)):
            return None
        clean = scores.clean.copy()
        clean[key] = -np.inf
        if not np.all(np.exp((value - clean.max(-1)) / scores.origin.scale) == 0):
            return None
        if scores.won is not None and np.any(np.take_along_axis(clean, scores.won[..., None], -1) > -np.inf):
            return None
        return dataclasses.replace(scores, clean=clean)

    def astype(self, *args: Any, **options: Any) -> Any:
        return _settled(self).astype(*args, **options)

    def copy(self, *args: Any, **options: Any) -> Any:
        return _settled(self).copy(*args, **options)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        plain = _plain(self)
        places = np.argmax(plain, axis=axis, keepdims=keepdims)

        def largest() -> Any:
            if self.scores is None or self.scores.seen != digest(plain) or keepdims:
                return None
            found = self.scores.largest(np.array(places), axis)
            if found is not None:
                self.scores = dataclasses.replace(self.scores, won=found)
            return found if found is None or found.ndim else found[()]

        largest_at = guarded(largest)
        return np.argmax(_settled(self), axis=axis, keepdims=keepdims) if largest_at is None else largest_at


def is_for_maximum(origin: Origin) -> bool:
    """Whether a sum of data and this noise may be scores of which the program takes the largest."""
    known = origin.law == "gumbel" or (origin.mechanisms.maxima and origin.law in SUMMED)
    return known and not origin.beside


def with_scores(origin: Origin, clean: NDArray[np.float64], noisy: Any) -> Any:
    """The array of noisy scores, as `WithScores`. If it is one number or has several scales, or if its noise is coarse or shared
    by several entries, records it as a mechanism at once instead. origin: of the noise, `seen` where it was added.
    """
    odd = np.ndim(origin.scale) or not origin.scale > 0 or clean.ndim < 1 or coarse(origin)
    if odd or (origin.seen is not None and any(repeated(origin, origin.seen, noisy.shape))):
        return origin.mechanisms.noise_added(origin, clean, noisy)
    return scored(Scores(origin, clean, digest(noisy)), noisy)


def scored(scores: Scores, noisy: NDArray[Any]) -> Any:
    """The array of noisy scores as an array that stores them."""
    array: Any = noisy.view(WithScores)
    array.scores = scores
    remember(scores.origin.mechanisms.arrays, array)
    return array


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, WithScores) else value


def _settled(value: Any) -> Any:
    if not isinstance(value, WithScores):
        return value
    scores, value.scores = value.scores, None
    return _plain(value) if scores is None else guarded(lambda: scores.settled(_plain(value)), _plain(value))
