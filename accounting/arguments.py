"""Checks of the arguments of public functions. Each error is one line with the name, the value and what is allowed."""

import math
import numbers
from enum import StrEnum
from types import UnionType
from typing import Any, TypeGuard, TypeVar

Named = TypeVar("Named", bound=StrEnum)


def shown(value: object) -> str:
    """The value as one line of at most 60 characters; a longer text is cut and ends in "…"."""
    text = " ".join((str(value) if is_number(value) else repr(value)).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number of Python or NumPy. Infinity and NaN are numbers here; a bool is not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy. Neither a bool nor 2.0 is one."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a real number other than infinity and NaN. A bool is not a number."""
    return is_number(value) and math.isfinite(value)


def check_type(name: str, value: object, wanted: type | UnionType, words: str) -> None:
    """Raises ValueError unless `value` is an instance of `wanted`. words: the end of the message, what the value must be."""
    if not isinstance(value, wanted):
        raise ValueError(f"{name}={shown(value)}: must be {words}")


def check_items(name: str, values: object, wanted: type, words: str) -> None:
    """Raises ValueError unless `values` is a list or tuple of instances of `wanted`. words: what they are, for the message."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name}={shown(values)}: must be a list of {words}")
    for i, value in enumerate(values):
        if not isinstance(value, wanted):
            raise ValueError(f"{name}[{i}]={shown(value)}: {name} must be a list of {words}")


def check_alpha(alpha: Any) -> None:
    """Raises ValueError unless alpha is a number between 0 and 1, both excluded."""
    if not (is_number(alpha) and 0 < alpha < 1):
        raise ValueError(f"alpha={shown(alpha)}: must be between 0 and 1, both excluded. 0.05 is a common choice.")


def check_seed(seed: Any) -> None:
    """Raises ValueError unless the seed is a whole number of at least 0."""
    if not (is_whole(seed) and seed >= 0):
        raise ValueError(f"seed={shown(seed)}: must be a whole number of at least 0.")


def member(name: str, value: Any, kind: type[Named]) -> Named:
    """The member of `kind` with this value, such as "node"; a member is accepted too. Raises ValueError with all values."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}={shown(value)}: must be one of {', '.join(kind)}.") from None


def words(name: str, value: object, example: str) -> tuple[str, ...]:
    """A list or tuple of different words as a tuple. Raises ValueError for other values; a single string would be read as
    letters.
    """
    if not (isinstance(value, list | tuple) and all(isinstance(word, str) and word for word in value)):
        raise ValueError(f"{name}={shown(value)}: must be a tuple of words, such as {example}.")
    if len(set(value)) < len(value):
        twice = next(word for word in value if value.count(word) > 1)
        raise ValueError(f"{name}={shown(value)}: names {twice!r} twice. Name it once.")
    return tuple(value)
