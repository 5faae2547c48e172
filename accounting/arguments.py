"""What an argument of a public function may be. Each error is one line with the name, the value, the bound and the way out."""

from __future__ import annotations

import math
import numbers
from enum import StrEnum
from types import UnionType
from typing import Any, TypeGuard, TypeVar

Named = TypeVar("Named", bound=StrEnum)


def shown(value: object) -> str:
    """A value in one short line."""
    text = " ".join((str(value) if is_number(value) else repr(value)).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, of Python or of NumPy. A bool is not a number; infinity and NaN are."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number of an integer type. A bool is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number other than infinity and NaN."""
    return is_number(value) and math.isfinite(value)


def check_type(name: str, value: object, wanted: type | UnionType, words: str) -> None:
    """Raises ValueError unless `value` is an object of the type. words: what it must be, and how to make one."""
    if not isinstance(value, wanted):
        raise ValueError(f"{name}={shown(value)}: must be {words}")


def check_items(name: str, values: object, wanted: type, words: str) -> None:
    """Raises ValueError unless `values` is a list or tuple of objects of the type. words: what it holds, and how to make one."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name}={shown(values)}: must be a list of {words}")
    for i, value in enumerate(values):
        if not isinstance(value, wanted):
            raise ValueError(f"{name}[{i}]={shown(value)}: {name} must be a list of {words}")


def check_alpha(alpha: Any) -> None:
    """Raises ValueError unless alpha is a level of a test."""
    if not (is_number(alpha) and 0 < alpha < 1):
        raise ValueError(f"alpha={shown(alpha)}: must be between 0 and 1, both excluded. 0.05 is a common choice.")


def check_seed(seed: Any) -> None:
    """Raises ValueError unless the seed is a whole number of at least 0."""
    if not (is_whole(seed) and seed >= 0):
        raise ValueError(f"seed={shown(seed)}: must be a whole number of at least 0.")


def member(name: str, value: Any, kind: type[Named]) -> Named:
    """The member of an enumeration, from itself or from its value, such as "node". Raises ValueError that lists all values."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}={shown(value)}: must be one of {', '.join(kind)}.") from None


def words(name: str, value: object, example: str) -> tuple[str, ...]:
    """A list of words as a tuple. Raises ValueError for one word, because it would be read letter by letter."""
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise ValueError(f"{name}={shown(value)}: must be a tuple of words, such as {example}.")
