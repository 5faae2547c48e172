"""Operators of PyTorch that contain a sum, besides `add` and `sub`, as sums of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import unrecorded

if TYPE_CHECKING:
    from .followed.origin import Origin

PRODUCTS = {"addcmul": "mul", "addcdiv": "div"}
MATRICES = {"addmm": "mm", "addmv": "mv", "addr": "outer", "baddbmm": "bmm"}  # add a product of matrices
PLACED = ("index_add", "scatter_add")  # add a tensor at places
OF_LISTS = {"_foreach_add": 1.0, "_foreach_sub": -1.0}
NAMES = frozenset(name + end for name in (*PRODUCTS, *MATRICES, *PLACED, *OF_LISTS, "lerp", "rsub") for end in ("", "_"))

Noise = Callable[[Any], "Origin | None"]  # a tensor -> its origin if it is noise
Scaled = Callable[[str, Sequence[Any], Sequence[Any]], "tuple[Any, float, str] | None"]  # see `_scaled` in found_torch.py


@dataclass(frozen=True, eq=False)
class Sum:
    """first + factor * second. known: the origins of the two terms, None for data."""

    first: Any
    second: Any
    factor: float
    known: tuple[Origin | None, Origin | None]


def sums_of(
    name: str, args: Sequence[Any], options: Mapping[str, Any], noise: Noise, noise_or_sum: Noise, scaled: Scaled
) -> list[Sum]:
    """The sums that an operator computes, in order of its results; none if no term is noise or if this is not known.
    noise_or_sum: as `noise`, also for a sum of noise and data.
    """
    kind = name.rstrip("_")
    if kind == "rsub":
        factor = args[2] if len(args) > 2 else options.get("alpha", 1)
        found = [Sum(args[1], args[0], -float(factor), (noise_or_sum(args[1]), noise(args[0])))]
    elif kind in PRODUCTS:
        found = _of_product(PRODUCTS[kind], args, float(options.get("value", 1)), noise, noise_or_sum(args[0]), scaled)
    elif kind in MATRICES:
        found = _of_matrices(MATRICES[kind], args, options, noise)
    elif kind == "lerp":
        found = _of_weights(args[0], args[1], args[2], noise)
    elif kind in PLACED:
        found = _at_places(kind, args, float(options.get("alpha", 1)), noise(args[3]), noise_or_sum(args[0]))
    elif len(args) > 1 and isinstance(args[1], (list, tuple)):
        factor = OF_LISTS[kind] * float(options.get("alpha", 1))
        found = [Sum(one, other, factor, (noise_or_sum(one), noise(other))) for one, other in zip(*args[:2])]  # noqa: B905  (Python 3.9)
    else:
        found = []
    return found if any(any(each.known) for each in found) else []


def _of_product(
    operation: str, args: Sequence[Any], factor: float, noise: Noise, into: Origin | None, scaled: Scaled
) -> list[Sum]:
    """The sum first + factor * one * other, or with a quotient. into: the origin of the first term."""
    first, one, other = args[:3]
    factors = [noise(one), noise(other)]
    product = one * other if operation == "mul" else one / other
    origin = factors[0] or factors[1]
    if origin is None:
        return [Sum(first, product, factor, (into, None))]
    changed = scaled(operation, (one, other), factors)
    if changed is None or product.shape != (one if factors[0] is not None else other).shape:
        return []
    return [Sum(first, product, factor, (into, replace(origin, scale=changed[0], shift=changed[1], computed=changed[2])))]


def _of_matrices(operation: str, args: Sequence[Any], options: Mapping[str, Any], noise: Noise) -> list[Sum]:
    """The sum alpha * (one @ other) + beta * first, of which only the last term may be noise."""
    import torch

    first, one, other = args[:3]
    if noise(one) is not None or noise(other) is not None:
        return []
    product = float(options.get("alpha", 1)) * getattr(torch, operation)(one, other)
    return [Sum(product, first, float(options.get("beta", 1)), (None, noise(first)))]


def _of_weights(start: Any, end: Any, weight: Any, noise: Noise) -> list[Sum]:
    """The sum (1 - weight) * start + weight * end, of which one term is noise."""
    if hasattr(weight, "numel") and weight.numel() > 1:
        return []
    share = float(weight)
    if (origin := noise(end)) is not None:
        return [Sum(start * (1 - share), end, share, (noise(start), origin))]
    return [Sum(end * share, start, 1 - share, (None, noise(start)))]


def _at_places(kind: str, args: Sequence[Any], factor: float, origin: Origin | None, into: Origin | None) -> list[Sum]:
    """The sum of a tensor and one that is 0 but at places, where it has the entries of another tensor. Noise must be alone at its
    place, and not shifted. origin: of the other tensor. into: of the first.
    """
    import torch

    first, axis, places, source = args[:4]

    def placed(numbers: Any) -> Any:
        return getattr(torch.zeros(first.shape, dtype=numbers.dtype), kind)(axis, places, numbers)

    if origin is None:
        return [Sum(first, placed(source), factor, (into, None))]
    if origin.shift or placed(torch.ones(source.shape)).max() > 1:
        return []
    scale = np.broadcast_to(np.asarray(origin.scale, dtype=np.float64), tuple(source.shape)).copy()
    own = replace(origin, scale=unrecorded(placed(torch.from_numpy(scale))))
    return [Sum(first, placed(source), factor, (into, own))]
