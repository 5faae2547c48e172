"""Cases of a test that take long, so that only `make nightly` runs them. nightly.txt lists others by name."""

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(*slow: Any, among: Iterable[Any] | None = None) -> list[Any]:
    """The slow cases, marked; or all of `among`, in its order, of which the slow ones are marked. A tuple holds the values of
    several parameters.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly) if case in slow else case
        for case in (slow if among is None else among)
    ]
