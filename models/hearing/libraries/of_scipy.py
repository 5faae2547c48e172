"""Records draws of SciPy's distributions: one draw for each call of `rvs`. The names of the laws are those of of_numpy.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..draw import Draw, calling_line, listened

NAMES = {
    "norm": "normal",
    "laplace": "laplace",
    "gumbel_r": "gumbel",
    "logistic": "logistic",
    "cauchy": "cauchy",
    "t": "student-t",
}
SHAPES = {"t": 1}  # how many positional parameters come before loc and scale


def asked(name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """The draw of the distribution `name`, which returned `result`."""
    given = dict(zip(("loc", "scale"), args[SHAPES.get(name, 0) :])) | options  # noqa: B905
    law = NAMES.get(name, name)
    loc, scale = (given.get("loc", 0.0), given.get("scale", 1.0)) if name in NAMES else (0.0, 1.0)
    return Draw(law, np.array(result), calling_line(), loc, scale)


@contextmanager
def replaced() -> Iterator[dict[int, Any]]:
    """Within this context, the draws of SciPy's distributions are recorded, if the program has loaded them. Yields {}."""
    module: Any = sys.modules.get("scipy.stats._distn_infrastructure")
    if module is None:
        yield {}
        return
    family, plain = module.rv_generic, module.rv_generic.rvs

    def rvs(self: Any, *args: Any, **options: Any) -> Any:
        return listened(str(self.name), lambda *a, **o: plain(self, *a, **o), args, options, asked)

    family.rvs = rvs
    try:
        yield {}
    finally:
        family.rvs = plain
