"""Noise that a program computes from uniform numbers, as by `-b * sign(u) * log(1 - 2 * abs(u))`.

What a program computes from the numbers of one draw, entry by entry, is a function of a uniform number in (0, 1). The recorder
stores the values of this function at SHARES. If they are a multiple of the values of the inverse of a distribution function, the
results follow this distribution (inverse transform sampling; Devroye, Non-Uniform Random Variate Generation, 1986, theorem
II.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from .origin import MIRRORED, REVERSED, Origin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...draws.draw import Draw
    from .origin import Recorder

# in no regular distance, in pairs u and 1 - u. Noise that is cut off beyond a probability of 1e-9 agrees with the inverse at all.
LOWER = np.array([1e-9, 1e-6, 1e-4, 0.0113, 0.0372, 0.0719, 0.1234, 0.1771, 0.2287, 0.2903, 0.3391, 0.4126, 0.4853])
SHARES = np.concatenate([LOWER, 1 - LOWER[::-1]])
GUMBEL = -np.log(-np.log(SHARES))
INVERSES = [
    ("laplace", -np.sign(SHARES - 0.5) * np.log1p(-2 * np.abs(SHARES - 0.5))),
    ("normal", np.array([NormalDist().inv_cdf(share) for share in SHARES])),
    ("exponential", -np.log(SHARES)),
    ("exponential", -np.log(SHARES[::-1])),
    ("gumbel", GUMBEL),
    ("gumbel", GUMBEL[::-1]),
]
TABLE = np.array([inverse for _, inverse in INVERSES])
SAME = 1e-6  # relative: how closely a function of float32 constants agrees with an inverse
ENOUGH = 8  # fewer shares cannot tell which law it is


def erfinv(numbers: Any) -> Any:
    """The inverse of the error function, for an array of numbers between -1 and 1."""
    inverse = NormalDist(sigma=0.5**0.5).inv_cdf
    return np.reshape([inverse((1 + x) / 2) if -1 < x < 1 else np.nan for x in np.ravel(numbers).tolist()], np.shape(numbers))


@dataclass(frozen=True, eq=False)
class Computed:
    """Numbers that a program computes from those of one draw. values: what it computes from each of SHARES. within: which of
    these its comparisons leave possible.
    """

    mechanisms: Recorder
    draw: Draw
    values: NDArray[Any]
    within: NDArray[np.bool_]

    @property
    def noise(self) -> Origin | None:
        """The origin of the numbers as noise; None if their law is none that the recorder follows."""
        known = law_of(np.asarray(self.values, dtype=np.float64).tobytes(), self.within.tobytes())
        return None if known is None else Origin(self.mechanisms, self.draw, known[1], computed=known[0])

    def compared(self, comparison: Callable[[Any, Any], Any], other: Any, outcome: bool) -> Computed:
        """The same numbers after the program has compared one of them with another number and found this outcome."""
        return replace(self, within=self.within & (np.asarray(comparison(self.values, other), dtype=bool) == outcome))


@lru_cache(maxsize=4096)  # a line that computes noise computes the same function for each number
def law_of(values: bytes, within: bytes) -> tuple[str, float] | None:
    """The law of numbers, and their scale; None if it is not known. values, within: as in `Computed`."""
    known = np.frombuffer(within, dtype=np.bool_)
    if known.sum() < ENOUGH:
        return None
    with np.errstate(all="ignore"):
        ratios = np.frombuffer(values)[known] / TABLE[:, known]
        scales = ratios[:, 0]
        close = np.all(np.abs(ratios.T - scales) <= SAME * np.abs(scales), axis=0) & (scales != 0) & np.isfinite(scales)
    found = [(law, float(scale)) for (law, _), scale, same in zip(INVERSES, scales, close) if same]  # noqa: B905  (Python 3.9)
    return next(((law if scale > 0 else MIRRORED.get(law, law), abs(scale)) for law, scale in found), None)


def of_uniform(mechanisms: Recorder, draw: Draw) -> Computed | None:
    """The numbers of a draw as they were drawn; None if they are not uniform between two numbers."""
    if draw.law != "uniform" or np.ndim(draw.loc) or np.ndim(draw.scale):
        return None
    return Computed(mechanisms, draw, float(draw.loc) + float(draw.scale) * SHARES, np.ones(SHARES.shape, dtype=bool))


def of_difference(one: Origin, other: Origin, numbers: Sequence[Any]) -> str:
    """The law of the difference of two independent draws: "laplace" for exponential numbers of one scale; "" if it is not known.

    numbers: those of the two draws, which must all have the same sign.
    """
    alike = np.array_equal(one.scale, other.scale) and not np.any(one.shift) and not np.any(other.shift)
    if not (one.one_sided and other.one_sided and alike):
        return ""
    return "laplace" if any(all(np.all(sign * each > 0) for each in numbers) for sign in (1, -1)) else ""


def of_logarithm(origin: Origin, numbers: Any) -> tuple[float, float, str] | None:
    """The scale, the shift and the law of the logarithm of exponential noise; None if it is none, or not positive. The negative
    logarithm of an exponential number of scale 1 is a Gumbel number.
    """
    positive = origin.one_sided and np.ndim(origin.scale) == 0 and not np.any(origin.shift) and np.all(np.asarray(numbers) > 0)
    return (1.0, float(np.log(origin.scale)), REVERSED) if positive else None


def combined(operation: Callable[..., Any], terms: Sequence[Any]) -> Computed | None:
    """What an operation computes from its terms. Each is a Computed or a number. None if a term is something else, and if the
    terms come from several draws.
    """
    some = [term for term in terms if isinstance(term, Computed)]
    others = [term for term in terms if not isinstance(term, Computed)]
    if not some or any(one.draw is not some[0].draw for one in some):
        return None
    if not all(isinstance(term, (bool, int, float, np.number, np.bool_)) for term in others):
        return None
    with np.errstate(all="ignore"):
        values = operation(*(term.values if isinstance(term, Computed) else term for term in terms))
    within = some[0].within if len(some) == 1 else np.logical_and.reduce([one.within for one in some])
    return Computed(some[0].mechanisms, some[0].draw, values, within)
