"""A ledger written as text, such as `2 * gaussian(sigma) + 100 * poisson(0.01, gaussian(1.1))`.

The text may contain numbers, names that have a value, + - * / **, and FUNCTIONS. The parser refuses everything else.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import dp_accounting as dp
from dp_accounting import DpEvent

from .mechanisms import at_least_zero, composed, gaussian, on_sampled_nodes, randomised_response, repeated
from .types import PureDpEvent

LONGEST = 2000  # largest length of a text, in characters
Value: TypeAlias = float | DpEvent


def laplace(scale: float) -> DpEvent:
    """One Laplace release. scale: scale of the noise / L1 sensitivity; 0 means no privacy."""
    scale = at_least_zero("scale", scale)
    return dp.LaplaceDpEvent(scale) if scale else dp.NonPrivateDpEvent()


def pure(epsilon: float) -> DpEvent:
    """A mechanism that is epsilon-DP with delta 0, with no further known properties. epsilon: nats."""
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon={epsilon}: must be a finite number of at least 0.")
    return PureDpEvent(float(epsilon)) if epsilon else dp.NoOpDpEvent()


def _response(epsilon: float, categories: float = 2.0) -> DpEvent:
    if categories != int(categories):
        raise ValueError(f"categories={categories:g}: must be a whole number.")
    return randomised_response(epsilon, int(categories))


# name -> the function, the types of its arguments, and whether the last argument may be repeated
FUNCTIONS: dict[str, tuple[Callable[..., Value], tuple[type, ...], bool]] = {
    "gaussian": (gaussian, (float,), False),
    "laplace": (laplace, (float,), False),
    "randomized_response": (_response, (float, float), False),
    "pure": (pure, (float,), False),
    "poisson": (on_sampled_nodes, (float, DpEvent), True),
    "compose": (composed, (DpEvent,), True),
    "sqrt": (math.sqrt, (float,), False),
}
OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def ledger(text: str, values: Mapping[str, float]) -> DpEvent:
    """The ledger that a text describes. values: name -> value. Raises ValueError (one line) if the text describes no ledger."""
    found = _read(text, values)
    if not isinstance(found, DpEvent):
        raise ValueError(f"{text!r} is the number {found:g}; expected mechanisms, such as 2 * gaussian(sigma).")
    return found


def number(text: str, values: Mapping[str, float]) -> float:
    """The number that a text describes. values: name -> value. Raises ValueError (one line) if the text describes no finite
    number.
    """
    found = _read(text, values)
    if not isinstance(found, float) or not math.isfinite(found):
        raise ValueError(f"{text!r} is no finite number; expected one, such as 3.7 or sqrt(2) * sigma.")
    return found


def _read(text: str, values: Mapping[str, float]) -> Value:
    if len(text) > LONGEST:
        raise ValueError(f"a text of {len(text)} characters; at most {LONGEST} are read.")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, values)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} cannot be read; expected mechanisms, such as 2 * gaussian(sigma).") from None
    except (ArithmeticError, TypeError) as fault:
        raise ValueError(f"{text!r}: {fault.args[-1]}.") from None


def _value(node: ast.AST, values: Mapping[str, float]) -> Value:
    match node:
        case ast.Constant(value=int() | float() as constant) if not isinstance(constant, bool):
            return float(constant)
        case ast.Name(id=name):
            if name not in values:
                raise ValueError(f"{name!r} has no value. Write {name} = NUMBER under [values].")
            return float(values[name])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(_value(inner, values), "a mechanism cannot be negative")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _combined(_value(left, values), type(op), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, args, values)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed. Use numbers, names, + - * / ** and {', '.join(FUNCTIONS)}.")


def _combined(left: Value, op: type, right: Value) -> Value:
    """The value of `left op right`: + composes two events, * repeats an event a whole number of times."""
    if isinstance(left, float) and isinstance(right, float):
        found = OPERATORS[op](left, right)
        return _number(found, "a root of a negative number")
    if op is ast.Add and isinstance(left, DpEvent) and isinstance(right, DpEvent):
        return composed(left, right)
    if op is ast.Mult and isinstance(left, DpEvent) != isinstance(right, DpEvent):
        event, count = (left, right) if isinstance(left, DpEvent) else (right, left)
        count = _number(count, "mechanisms cannot be multiplied by one another")
        if not count.is_integer():
            raise ValueError(f"{count:g}: a mechanism is repeated a whole number of times.")
        return repeated(event, int(count))
    raise ValueError("mechanisms can be added to one another and multiplied by a whole number, and nothing else.")


def _called(name: str, asked: Sequence[ast.AST], values: Mapping[str, float]) -> Value:
    if name not in FUNCTIONS:
        near = get_close_matches(name, FUNCTIONS, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"{name!r} is no mechanism.{meant} There are {', '.join(FUNCTIONS)}.")
    args = [_value(a, values) for a in asked]
    call, kinds, many = FUNCTIONS[name]
    wanted = kinds + kinds[-1:] * (len(args) - len(kinds)) if many else kinds[: max(len(args), 1)]
    if len(args) != len(wanted) or not all(isinstance(a, kind) for a, kind in zip(args, wanted, strict=True)):
        shown = ", ".join("a mechanism" if kind is DpEvent else "a number" for kind in kinds)
        raise ValueError(f"{name}(…) takes {shown}{', …' if many else ''}.")
    found: Any = call(*args)
    return float(found) if isinstance(found, int | float) else found


def _number(value: Any, otherwise: str) -> float:
    if not isinstance(value, float):
        raise ValueError(f"{otherwise}.")
    return value
