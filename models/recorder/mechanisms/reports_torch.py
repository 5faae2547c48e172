"""Finds the randomised reports of a PyTorch program from the operators that it runs. reports.py does the same for NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from ..draws.draw import Draw, guarded, numbers_of, plain, unrecorded
from ..draws.results import digest
from .coins import Coins
from .followed.inverse import erfinv
from .followed.noise import Noise
from .found import Mechanisms
from .reports import JOINS, ROUNDED, Drawn, chosen, combined_with, computed, drawn, reported, told_apart

COPIED = ("clone", "detach", "alias", "_to_copy", "lift_fresh")
MOVED = ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "permute", "t", "transpose")
TURNED = ("permute", "t", "transpose")
# operators by which programs compute noise from uniform numbers, as functions of arrays
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("add", "sign", "log", "log1p", "exp", "expm1", "sqrt", "copysign", "where")},
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "square": np.square,
    **{name: getattr(np, name) for name in ("logical_not", "logical_and", "logical_or", "bitwise_and", "bitwise_or")},
    "bitwise_not": np.invert,
    "sgn": np.sign,
    "clamp": lambda numbers, low=-np.inf, high=np.inf: np.clip(numbers, low, high),
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "erfinv": erfinv,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
# the same with further operators, by which programs combine coins with data
COMBINATIONS: dict[str, Callable[..., Any]] = OPERATIONS | {
    **{name: getattr(np, name) for name in ("bitwise_xor", "logical_xor", "remainder", "maximum")},
    "ne": np.not_equal,
    "eq": np.equal,
}


def register(mechanisms: Mechanisms, tensor: Any, draw: Draw) -> bool:
    """Registers a tensor that was just drawn, if it is a report or may become part of one. Returns whether it is registered."""
    if tensor.dim() == 0:
        return False
    report = reported(mechanisms, numbers_of(tensor), draw)
    _keep(mechanisms, tensor, report)
    return report is not None


def as_drawn(mechanisms: Mechanisms, tensor: Any, array: Any) -> Any:
    """`array`, the NumPy array of a tensor of drawn numbers, as an array that stores its coins."""
    coins = _coins(mechanisms, tensor)
    if coins is None or array.ndim == 0:
        return array
    followed = drawn(array, dataclasses.replace(coins, shared=True))
    mechanisms.coins[tensor] = followed.coins
    return followed


def arrived(mechanisms: Mechanisms, tensor: Any, coins: Coins) -> None:
    """Registers a tensor that lies in the memory of an array of drawn numbers."""
    by_tensor(mechanisms, "coins")[tensor] = dataclasses.replace(coins, shared=True)


def run(mechanisms: Mechanisms, name: str, args: Sequence[Any], options: Any, call: Callable[[], Any]) -> Any:
    """Runs an operator on drawn numbers and returns its result. Follows the result, or records it if it is a report. A sum with
    a factor for its second term is not followed.
    """
    known = [_coins(mechanisms, a) for a in args[: 3 if name == "where" else 2]]
    result = call()
    if name.endswith("_") and hasattr(args[0], "detach"):
        mechanisms.coins.pop(args[0], None)
        if name[:-1] in OPERATIONS and not options and known[0] is not None and readable(result):
            guarded(lambda: _keep(mechanisms, result, _computed(name[:-1], args, known, plain(result))))
    elif any(known) and all(readable(value) for value in (*args[:3], result) if hasattr(value, "detach")):
        name = f"{name}, scaled" if (options or len(args) > 2) and name in ("add", "sub", "rsub") else name
        guarded(lambda: _keep(mechanisms, result, _computed(name, args, known, _followed(mechanisms, name, args, known, result))))
    return result


def _computed(name: str, args: Sequence[Any], known: Sequence[Coins | None], result: Any) -> Any:
    """As `computed` in reports.py, for an operator. known: the coins of its first inputs. result: as `_followed` returns it."""
    if name == "rsub":
        name, args, known = "sub", args[1::-1], known[1::-1]
    elif name == "pow" and np.all(plain(args[1]) == 2):
        name, args, known = "square", args[:1], known[:1]
    operation = OPERATIONS.get(name)
    if operation is None or result is None:
        return result
    terms = [coins or plain(value) for coins, value in zip_longest(known, args[: 3 if name in ("where", "clamp") else 2])]
    terms = [-np.inf if term is None else term for term in terms]  # `clamp` without a lower end
    return computed(operation, terms, result)


def readable(value: Any) -> bool:
    """Whether a value is a tensor whose numbers NumPy can read: not a sparse one."""
    return hasattr(value, "detach") and str(value.layout) == "torch.strided"


def _keep(mechanisms: Mechanisms, tensor: Any, report: Any) -> None:
    if isinstance(report, Noise):
        by_tensor(mechanisms, "tensors")[tensor] = report.origin
    if isinstance(report, Drawn) and report.coins is not None:
        by_tensor(mechanisms, "coins")[tensor] = report.coins


def by_tensor(mechanisms: Any, kind: str) -> Any:
    """A dictionary of the mechanisms whose keys are tensors. kind: its attribute, which is None before the first use."""
    from torch.utils.weak import WeakTensorKeyDictionary

    if getattr(mechanisms, kind) is None:
        setattr(mechanisms, kind, WeakTensorKeyDictionary())
    return getattr(mechanisms, kind)


def _coins(mechanisms: Mechanisms, value: Any) -> Coins | None:
    """The coins of a tensor; None for other values, and if the program has written into an array with the same memory."""
    coins: Coins | None = mechanisms.coins.get(value) if hasattr(value, "detach") and not value.requires_grad else None
    return coins if coins is None or not coins.shared or coins.seen == digest(unrecorded(value)) else None


def _side(mechanisms: Mechanisms, value: Any) -> Any:
    coins, numbers = _coins(mechanisms, value), plain(value)
    return numbers if coins is None or np.ndim(numbers) == 0 else drawn(numbers, coins)


def _followed(mechanisms: Mechanisms, name: str, args: Sequence[Any], known: Sequence[Any], result: Any) -> Any:
    """The result of an operator, as `combined_with` in reports.py returns it for the NumPy operation. A replaced report is
    written into the memory of `result`."""
    numbers = plain(result)
    if name == "where":
        one, other = (_side(mechanisms, side) for side in args[1:3])
        if known[0] is None:
            return told_apart(plain(args[0]), one, other, numbers)
        return chosen(known[0], one, other, numbers) if known[0].chance is not None else numbers
    if known[0] is not None and known[-1] is not None and len(known) == 2:
        both = (
            known[0].joined(known[1]) if COMBINATIONS.get(name) in JOINS else known[0].times(known[1]) if name == "mul" else None
        )
        return numbers if both is None else drawn(numbers, both)
    first = 0 if known[0] is not None else 1
    coins, other = known[first], plain(args[1 - first]) if len(args) > 1 else 0
    chance = coins.chance
    if name in COPIED or (name in MOVED and coins.reshapes):
        return (
            drawn(numbers, coins) if name != "_to_copy" or np.allclose(numbers, plain(args[0]), rtol=ROUNDED, atol=0) else numbers
        )
    if name in TURNED and np.ndim(chance) == 2:
        return drawn(numbers, coins.transposed())
    if chance is not None and name in ("triu", "tril"):
        return drawn(numbers, coins.with_chance(getattr(np, name)(np.broadcast_to(chance, numbers.shape), *args[1:])))
    return combined_with(coins, COMBINATIONS.get(name), first == 0, [other], numbers)
