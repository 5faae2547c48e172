"""Finds the noisy mechanisms of a PyTorch program from the operators that it runs. meetings.py does the same for NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..draw import Draw, Listening, numbers_of
from . import reports_torch
from .meetings import FOLLOWED, Meetings, located_at_data, one_scale
from .noise import Origin, broadcast_axes, followed, untouched
from .noisy_maximum import WithScores, with_scores
from .reports import Drawn

SUMS = ("add", "add_", "sub", "sub_")
PRODUCTS = ("mul", "mul_", "div", "div_")
KEPT = ("neg", "neg_", "clone", "detach", "alias", "view", "_unsafe_view", "reshape", "_to_copy", "t", "transpose")
Origins = Any  # torch.utils.weak.WeakTensorKeyDictionary: tensor -> Origin


def drawn(meetings: Meetings, tensor: Any, draw: Draw) -> None:
    """Registers a tensor that was just drawn: as noise to follow, or at once as a mechanism if its location is data.

    A tensor with `requires_grad` holds weights. It is not registered as noise, although an optimiser adds it to gradients.
    """
    if reports_torch.register(meetings, tensor, draw) or draw.law not in FOLLOWED or tensor.dim() == 0 or tensor.requires_grad:
        return
    if located_at_data(draw):
        clean = np.broadcast_to(draw.loc, tuple(tensor.shape)).astype(np.float64)
        meetings.meet(draw, draw.scale, clean, numbers_of(tensor))
    else:
        _follow(meetings, tensor, draw, one_scale(draw))


def origins(meetings: Meetings) -> Origins:
    meetings.tensors = reports_torch.by_tensor(meetings.tensors)
    return meetings.tensors


def as_array(meetings: Any, tensor: Any, array: Any) -> Any:
    """`array`, the NumPy array of a tensor, as `Noise` or `Drawn` if the tensor is followed."""
    if meetings.coins and isinstance(drawn := reports_torch.as_drawn(meetings, tensor, array), Drawn):
        return drawn
    origin = _origin(meetings, tensor) if meetings.tensors else None
    return array if origin is None or array.ndim == 0 else followed(array, origin)


def run(name: str, args: Sequence[Any], options: Mapping[str, Any], call: Callable[[], Any]) -> Any:
    """Runs an operator and returns its result. Records a sum of noise and data as a mechanism, and follows noise through other
    operators.
    """
    hearing = Listening.hearing
    meetings = hearing.follow if hearing is not None else None
    if not isinstance(meetings, Meetings) or not args:
        return call()
    if meetings.coins and any(hasattr(a, "detach") and a in meetings.coins for a in args[:2]):
        return reports_torch.run(meetings, name, args, call)
    if meetings.scores and any(hasattr(a, "detach") and a in meetings.scores for a in args[:2]):
        return _maximum(meetings, name, args, call)
    if not meetings.tensors:
        return call()
    known = [_origin(meetings, a) for a in args[:2]]
    if not any(known):
        return call()
    if name in SUMS and len(known) == 2 and (known[0] is None) != (known[1] is None):
        alpha = float(options.get("alpha", 1))
        return _sum(meetings, args, -alpha if name.startswith("sub") else alpha, known, call)
    result = call()
    scale = _scaled(name, args, known)
    if name.endswith("_") and hasattr(args[0], "detach"):
        origins(meetings).pop(args[0], None)
    if scale is not None and hasattr(result, "detach") and np.ndim(scale) == 0:
        origin = known[0] or known[1]
        assert origin is not None
        _follow(meetings, result, origin.draw, float(scale))
    return result


def _follow(meetings: Meetings, tensor: Any, draw: Draw, scale: Any) -> None:
    """Registers a tensor as noise, unless it holds whole or complex numbers."""
    if tensor.is_floating_point():
        origins(meetings)[tensor] = Origin(meetings, draw, scale, seen=_seen(tensor).copy())


def _origin(meetings: Meetings, value: Any) -> Origin | None:
    """The origin of a tensor of noise; None for other values, and if the program has written numbers other than 0 into it."""
    origin = origins(meetings).get(value) if hasattr(value, "detach") and not value.requires_grad else None
    return origin if origin is not None and untouched(origin, _seen(value)) else None


def _seen(tensor: Any) -> Any:
    """The tensor as an array. This is not recorded, because the recording itself asks for arrays."""
    hearing, Listening.hearing = Listening.hearing, None
    try:
        return numbers_of(tensor)
    finally:
        Listening.hearing = hearing


def _sum(meetings: Meetings, args: Sequence[Any], alpha: float, known: Sequence[Any], call: Callable[[], Any]) -> Any:
    """The result of a sum or difference of data and noise, where the second term is multiplied by alpha, which is negative for a
    difference. Records it as a mechanism, unless the data is one number for all entries or has a type that NumPy lacks. A
    sum of noise and 0 is followed as noise.
    """
    second = known[1] is not None
    draw, scale = known[second].draw, known[second].scale
    noise, other = (args[1], args[0]) if second else (args[0], args[1])
    single = not hasattr(other, "detach") or (other.numel() == 1 and noise.numel() > 1)
    if not single and other.is_complex():
        return call()
    clean = None if single else (1.0 if second else alpha) * numbers_of(other).astype(np.float64)
    drawn = numbers_of(noise) != 0
    result = call()
    factor = abs(alpha) if second else 1.0
    if clean is None:
        if _one_number(other) == 0:
            _follow(meetings, result, draw, scale * factor)
        return result
    values = numbers_of(result)
    if values.dtype.kind != "f" or values.ctypes.data != result.data_ptr():
        return result
    wide = np.broadcast_to(clean, values.shape).copy()
    shared = broadcast_axes(numbers_of(noise), values.shape)
    if draw.law == "gumbel" and not shared:
        told = with_scores(meetings, draw, scale * factor, wide, values)
    else:
        told = meetings.meet(draw, scale * factor, wide, values, (), drawn, shared)
    origins(meetings).pop(result, None)
    if isinstance(told, WithScores) and told.scores is not None:
        meetings.scores = reports_torch.by_tensor(meetings.scores)
        meetings.scores[result] = told.scores
    return result


def _maximum(meetings: Meetings, name: str, args: Sequence[Any], call: Callable[[], Any]) -> Any:
    """The result of an operator on scores with Gumbel noise. Records `argmax` over the last axis as a report. For other
    operators, records the noisy scores as a mechanism.
    """
    known = [(a, meetings.scores.pop(a)) for a in args[:2] if hasattr(a, "detach") and a in meetings.scores]
    if name == "argmax" and len(args) > 1 and not (len(args) > 2 and args[2]):
        result = call()
        if known[0][1].largest(numbers_of(result), args[1]) is not None:
            return result
    for tensor, scores in known:
        scores.settled(numbers_of(tensor))
    return call()


def _scaled(name: str, args: Sequence[Any], known: Sequence[Any]) -> Any:
    """The scale of the noise after a product with a number, or after an operator that only rearranges entries; None after other
    operators.
    """
    if known[0] is not None and (name in KEPT or (name == "copy_" and known[-1] is not None)):
        return known[0].scale
    if name == "copy_" and len(known) == 2 and known[1] is not None:
        return known[1].scale
    if name not in PRODUCTS or len(known) < 2 or (known[0] is not None and known[1] is not None):
        return None
    origin, other = (known[0], args[1]) if known[0] is not None else (known[1], args[0])
    number = _one_number(other)
    if number is None or (name.startswith("div") and known[0] is None) or not number:
        return None
    return origin.scale * abs(number) if name.startswith("mul") else origin.scale / abs(number)


def _one_number(value: Any) -> float | None:
    """A number, or the common entry of a tensor whose entries are all the same; None for any other tensor."""
    if not hasattr(value, "detach"):
        return float(value)
    first = value.detach().flatten()[:1]
    return float(first) if value.numel() and bool((value.detach() == first).all()) else None
