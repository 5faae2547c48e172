"""Noise that a program computes from uniform numbers, as by `-b * sign(u) * log(1 - 2 * abs(u))`.

The recorder stores what the program computes from the numbers of one draw, entry by entry, as a function of a uniform number in
(0, 1). If this function is a multiple of the inverse of a distribution function, the results follow this distribution (inverse
transform sampling; Devroye, Non-Uniform Random Variate Generation, 1986, theorem II.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw
    from .origin import Origin, Recorder

# uniform numbers at which a function is compared with the inverses: in no regular distance, in pairs u and 1 - u. A program that
# cuts its noise off beyond a probability of 1e-9 agrees with the inverse at all of them.
LOWER = np.array([1e-9, 1e-6, 1e-4, 0.0113, 0.0372, 0.0719, 0.1234, 0.1771, 0.2287, 0.2903, 0.3391, 0.4126, 0.4853])
SHARES = np.concatenate([LOWER, 1 - LOWER[::-1]])
INVERSES: dict[str, NDArray[np.float64]] = {
    "laplace": -np.sign(SHARES - 0.5) * np.log1p(-2 * np.abs(SHARES - 0.5)),
    "normal": np.array([NormalDist().inv_cdf(share) for share in SHARES]),
    "exponential": -np.log(SHARES),
    "gumbel": -np.log(-np.log(SHARES)),
}
SYMMETRIC = ("laplace", "normal")  # laws of which a negative number has the law of the positive one
SAME = 1e-6  # relative: how closely a function of float32 constants agrees with an inverse
ENOUGH = 8  # fewer shares cannot tell which law it is


def erfinv(numbers: Any) -> Any:
    """The inverse of the error function, for an array of numbers between -1 and 1."""
    inverse = NormalDist(sigma=0.5**0.5).inv_cdf
    return np.reshape([inverse((1 + x) / 2) if -1 < x < 1 else np.nan for x in np.ravel(numbers).tolist()], np.shape(numbers))


@dataclass(frozen=True, eq=False)
class Computed:
    """Numbers that a program computes from those of one draw. function: of a uniform number in (0, 1), for an array of them.
    within: which of these numbers the program's comparisons leave possible; a bool for each of SHARES.
    """

    mechanisms: Recorder
    draw: Draw
    function: Callable[[NDArray[np.float64]], Any]
    within: NDArray[np.bool_]

    @property
    def noise(self) -> tuple[str, float] | None:
        """The law of the numbers, and their scale; None if it is no law that the recorder follows."""
        known = self.within
        with np.errstate(all="ignore"):
            values = np.broadcast_to(np.asarray(self.function(SHARES), dtype=np.float64), SHARES.shape)[known]
        if values.size < ENOUGH or not np.all(np.isfinite(values)):
            return None
        for law, inverse in INVERSES.items():
            for ideal in (inverse,) if law in SYMMETRIC else (inverse, inverse[::-1]):
                scale = float(values[0] / ideal[known][0])
                close = np.allclose(values, scale * ideal[known], rtol=SAME, atol=0)
                if scale and close and (scale > 0 or law != "gumbel"):
                    return law, abs(scale)
        return None

    def compared(self, comparison: Callable[[Any, Any], Any], other: Any, outcome: bool) -> Computed:
        """The same numbers after the program has compared one of them with another number and found this outcome."""
        with np.errstate(all="ignore"):
            here = np.broadcast_to(np.asarray(comparison(self.function(SHARES), other), dtype=bool), SHARES.shape)
        return replace(self, within=self.within & (here == outcome))


def of_uniform(mechanisms: Recorder, draw: Draw) -> Computed | None:
    """The numbers of a draw as they were drawn; None if they are not uniform between two numbers."""
    if draw.law != "uniform" or np.ndim(draw.loc) or np.ndim(draw.scale):
        return None
    loc, scale = float(draw.loc), float(draw.scale)
    return Computed(mechanisms, draw, lambda share: loc + scale * share, np.ones(SHARES.shape, dtype=bool))


def of_difference(one: Origin, other: Origin, numbers: Sequence[Any]) -> str:
    """The law of the difference of two independent draws: "laplace" for exponential numbers of one scale; "" if it is not known.

    numbers: those of the two draws, which must have the same sign.
    """
    signs = [np.sign(each) for each in numbers]
    alike = np.array_equal(one.scale, other.scale) and not np.any(one.shift) and not np.any(other.shift)
    return (
        "laplace"
        if one.one_sided and other.one_sided and alike and abs(sum(np.sum(s) for s in signs)) == sum(map(np.size, signs))
        else ""
    )


def combined(operation: Callable[..., Any], terms: Sequence[Any]) -> Computed | None:
    """What an operation computes from its terms. Each is a Computed or a number. None if a term is something else, and if the
    terms come from several draws.
    """
    some = [term for term in terms if isinstance(term, Computed)]
    numbers = (np.ndim(term) == 0 and isinstance(term, (bool, int, float, np.number, np.ndarray)) for term in terms)
    if (
        not some
        or any(one.draw is not some[0].draw for one in some)
        or not all(
            number or isinstance(term, Computed)
            for number, term in zip(numbers, terms)  # noqa: B905  (Python 3.9)
        )
    ):
        return None
    within = np.logical_and.reduce([one.within for one in some])
    return replace(
        some[0],
        function=lambda share: operation(*(t.function(share) if isinstance(t, Computed) else t for t in terms)),
        within=within,
    )
