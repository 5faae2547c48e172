"""Records draws of SciPy's distributions: one draw for each call of `rvs`, and two for `dlaplace`, the difference of geometric
numbers. Coins of `bernoulli` are those of the generator. The names of the laws are those of of_numpy.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..draws.draw import NO_REQUEST, Draw, calling_line, guarded, parameters, recorded_call
from ..mechanisms.reports import Drawn, coins_of, computed
from .changes import changes

NAMES = {
    "norm": "normal",
    "laplace": "laplace",
    "gumbel_r": "gumbel",
    "logistic": "logistic",
    "cauchy": "cauchy",
    "t": "student-t",
}
KEPT = (np.ndarray, int, float, list, tuple)  # types of those attributes of a distribution that may hold its parameters


def asked(family: Any, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """The draw of a distribution, which returned `result`. The location and scale of the laws that of_numpy.py records too are
    carried to a repetition. All else that the call received is a parameter, and so is the state of a distribution that the user
    made from data, such as a histogram.
    """
    shapes, loc, scale, _ = family._parse_args_rvs(*args, **{n: v for n, v in options.items() if n not in NO_REQUEST})
    law = NAMES.get(str(family.name), str(family.name))
    state = {name: value for name, value in vars(family).items() if isinstance(value, KEPT) and not isinstance(value, bool)}
    if law not in (*NAMES.values(), "uniform"):
        return Draw(law, np.array(result), calling_line(), parameters=parameters(*shapes, loc, scale, **state))
    ends = (float(np.min(loc)), float(np.max(np.add(loc, scale)))) if law == "uniform" else (-np.inf, np.inf)
    return Draw(law, np.array(result), calling_line(), loc, scale, *ends, parameters(*shapes, **state))


def of_generator(family: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Numbers of `dlaplace` or `bernoulli` at location 0, as SciPy computes them, by recorded calls of the generator: differences
    of geometric numbers, or coins. None for other distributions and locations, and for a single number.
    """
    if family.name not in ("dlaplace", "bernoulli"):
        return None
    (shape,), loc, _, size = family._parse_args_rvs(*args, **{n: v for n, v in options.items() if n not in NO_REQUEST})
    if np.any(loc) or size == ():
        return None
    state = options.get("random_state")
    generator = family._random_state if state is None else sys.modules["scipy._lib._util"].check_random_state(state)
    if family.name == "bernoulli":
        return generator.binomial(1, shape, size=size)
    success = -np.expm1(-np.asarray(shape))
    return generator.geometric(success, size=size) - generator.geometric(success, size=size)


@contextmanager
def replaced() -> Iterator[None]:
    """Within this context, the draws of SciPy's distributions are recorded, and their inverse distribution functions of uniform
    numbers are followed, if the program has loaded them.
    """
    module: Any = sys.modules.get("scipy.stats._distn_infrastructure")
    if module is None:
        yield
        return
    family, plain, inverse = module.rv_generic, module.rv_generic.rvs, module.rv_continuous.ppf

    def rvs(self: Any, *args: Any, **options: Any) -> Any:
        if (numbers := of_generator(self, args, options)) is not None:
            return numbers
        return recorded_call(
            str(self.name), lambda *a, **o: plain(self, *a, **o), args, options, lambda _, *received: asked(self, *received)
        )

    def ppf(self: Any, q: Any, *args: Any, **options: Any) -> Any:
        """The inverse of a distribution function, from which a program may compute noise of uniform numbers."""
        coins = guarded(lambda: coins_of(q, np.asarray(q))) if isinstance(q, Drawn) else None
        if coins is None or any(map(np.ndim, (*args, *options.values()))):
            return inverse(self, q, *args, **options)
        result = inverse(self, np.asarray(q), *args, **options)
        return guarded(lambda: computed(lambda shares: inverse(self, shares, *args, **options), [coins], result), result)

    with changes() as put:
        put(family, "rvs", rvs)
        put(module.rv_continuous, "ppf", ppf)
        yield
