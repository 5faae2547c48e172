"""Finds the noisy mechanisms of a PyTorch program from the operators that it runs. found.py does the same for NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..draws.draw import Draw, guarded, numbers_of, unrecorded
from ..draws.draw import plain as as_numbers
from ..draws.results import digest
from . import reports_torch
from .followed.inverse import of_logarithm
from .followed.joined import assembled, joined, written
from .followed.memory import remembered
from .followed.noise import Noise, followed, mark, now, origin_of, scaled_together, untouched
from .followed.noisy_maximum import Scores, WithScores, is_for_maximum, scored, with_scores
from .followed.origin import Origin
from .followed.single import is_single, noise_of, plain, single
from .found import FOLLOWED, Mechanisms, following, located, located_at_data
from .lists import begins_with_noise, of_lists
from .reports import Drawn, coins_of
from .reports_torch import readable
from .sums_torch import NAMES, sums_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUMS = ("add", "add_", "sub", "sub_")
PRODUCTS = ("mul", "mul_", "div", "div_")
# operators that only copy, rearrange or leave out entries; those of INDEXED repeat entries if their indices repeat
KEPT = (
    *("neg", "neg_", "clone", "detach", "alias", "view", "_unsafe_view", "reshape", "_to_copy", "contiguous", "lift_fresh"),
    *("t", "transpose", "permute", "squeeze", "unsqueeze", "expand", "select", "slice", "narrow", "unbind", "diagonal", "flip"),
    *("split", "split_with_sizes", "chunk", "roll", "flatten", "unflatten", "movedim", "as_strided", "triu", "tril"),
)
INDEXED = ("index", "index_select")
# a program that writes into a tensor first asks for these; its pieces are then not looked at each time
PLACES = ("select", "slice")
# operators that may set entries to 0
ZEROED = ("where", "masked_fill", "masked_fill_", "index_fill", "index_fill_", "index_put", "index_put_")
JOINS: dict[str, Callable[..., Any]] = {"cat": np.concatenate, "stack": np.stack}
Origins = Any  # torch.utils.weak.WeakTensorKeyDictionary: tensor -> Origin


def drawn(mechanisms: Mechanisms, tensor: Any, draw: Draw) -> None:
    """Registers a tensor that was just drawn: as noise to follow, or at once as a mechanism if its location is data.

    Initial weights are not registered as noise, although an optimiser adds them to gradients.
    """
    if draw.weights or reports_torch.register(mechanisms, tensor, draw) or draw.law not in FOLLOWED:
        return
    if located_at_data(draw) or (tensor.dim() == 0 and np.any(draw.loc)):
        clean = np.broadcast_to(draw.loc, tuple(tensor.shape)).astype(np.float64)
        mechanisms.noise_added(Origin(mechanisms, draw, draw.scale), clean, numbers_of(tensor))
    else:
        _follow(tensor, located(mechanisms, draw))


def origins(mechanisms: Any) -> Origins:
    return reports_torch.by_tensor(mechanisms, "tensors")


def arrived(mechanisms: Mechanisms, tensor: Any) -> None:
    """Follows a tensor that lies in the memory of an array of drawn numbers, as one that the program has made of this array."""
    numbers = _numbers(tensor, mechanisms.arrays)
    if numbers is None:
        return None
    for array in remembered(mechanisms.arrays, numbers):
        if isinstance(array, Noise):
            mark(array)
            if (origin := origin_of(array)) is not None:
                return _follow(tensor, origin)
        elif isinstance(array, Drawn) and (coins := coins_of(array, numbers)) is not None:
            return reports_torch.arrived(mechanisms, tensor, coins)
        elif isinstance(array, WithScores) and array.scores is not None and array.scores.seen == digest(numbers):
            _keep_scores(mechanisms, tensor, array.scores)
            return None
    return None


def of_numbers(numbers: Any, tensor: Any) -> None:
    """Follows the tensor that the program has made of a drawn number, or of lists of them."""
    if not (is_single(numbers) or begins_with_noise(numbers)) or not tensor.is_floating_point():
        return
    made = _numbers(tensor)
    if made is not None and (origin := noise_of(numbers) if is_single(numbers) else of_lists(numbers, made)) is not None:
        _follow(tensor, origin)


def _numbers(tensor: Any, among: Any = None) -> NDArray[Any] | None:
    """The numbers of a tensor; None for a tensor within vmap and grad, which has none, and if they do not begin at one of the
    places `among`.
    """
    try:
        return unrecorded(tensor) if among is None or tensor.data_ptr() in among else None
    except RuntimeError:
        return None


def _keep_scores(mechanisms: Mechanisms, tensor: Any, scores: Scores) -> None:
    reports_torch.by_tensor(mechanisms, "scores")[tensor] = scores


def scores_as_array(mechanisms: Mechanisms, tensor: Any, to_numpy: Callable[[], Any]) -> Any:
    """The NumPy array of a tensor of noisy scores. to_numpy: makes this array, with an operator on the tensor."""
    scores = mechanisms.scores.pop(tensor)
    array = to_numpy()
    mechanisms.scores[tensor] = scores
    return guarded(lambda: scored(scores, array), array) if array.ndim else array


def as_array(mechanisms: Any, tensor: Any, array: Any) -> Any:
    """`array`, the NumPy array of a tensor, as `Noise` or `Drawn` if the tensor is followed."""
    if mechanisms.coins and isinstance(drawn := guarded(lambda: reports_torch.as_drawn(mechanisms, tensor, array)), Drawn):
        return drawn

    def as_drawn() -> Any:
        origin = _noise(mechanisms, tensor) if mechanisms.any_tensors else None
        return array if origin is None or array.ndim == 0 else followed(array, origin)

    return guarded(as_drawn, array)


def as_number(mechanisms: Any, tensor: Any, number: Any) -> Any:
    """`number`, the only number of a tensor, as a number that stores its draw if the tensor is followed."""

    def as_drawn() -> Any:
        origin = _noise(mechanisms, tensor)
        return number if origin is None else single(number, replace(origin, scale=float(np.max(origin.scale)), seen=None))

    return guarded(as_drawn, number)


def run(name: str, args: Sequence[Any], options: Mapping[str, Any], func: Callable[..., Any]) -> Any:
    """Runs an operator and returns its result. Records a sum of noise and data as a mechanism, and follows noise through other
    operators. func: the operator.
    """

    def call() -> Any:
        return func(*args, **options)

    mechanisms = following()
    if mechanisms is None or not args:
        return call()
    if name == "lift_fresh" and mechanisms.arrays and readable(args[0]):
        result = call()
        guarded(lambda: arrived(mechanisms, result))
        return result
    if mechanisms.coins and any(hasattr(a, "detach") and a in mechanisms.coins for a in args[:3]):
        return reports_torch.run(mechanisms, name, args, options, call)
    if mechanisms.scores and any(hasattr(a, "detach") and a in mechanisms.scores for a in args[:2]):
        return _maximum(mechanisms, name, args, call)
    if not mechanisms.any_tensors and not mechanisms.singles:
        return call()
    if name in JOINS and isinstance(args[0], (list, tuple)):
        result = call()
        guarded(lambda: _joined(mechanisms, name, args, options, result))
        return result
    if name in NAMES and mechanisms.tensors and (before := guarded(lambda: _before_all(mechanisms, name, args, options))):
        result = call()
        guarded(lambda: _all_met(mechanisms, name, args, before, result))
        return result
    if name in ZEROED and mechanisms.tensors:
        return _with_zeros(mechanisms, name, args, call)
    known: list[Origin | None] = guarded(lambda: [_origin(mechanisms, a, name not in PLACES) for a in args[:2]], [])
    if not any(known):
        return call()
    if any(origin is not None and origin.noisy for origin in known):
        known = guarded(lambda: _of_sums(mechanisms, name, args, known), [None] * len(known))
        if not any(known):
            return call()
    if name in SUMS and len(known) == 2 and (known[0] is None) != (known[1] is None):
        alpha = float(options.get("alpha", 1))
        before = guarded(lambda: _before(args, -alpha if name.startswith("sub") else alpha, known))
        result = call()
        return result if before is None else guarded(lambda: _met(mechanisms, before, result), result)
    if name in SUMS and len(known) == 2 and not options:
        both = guarded(lambda: _together(name, args, known))
        known, scaled = [both], None if both is None else (both.scale, both.shift, both.computed)
    else:
        scaled = guarded(lambda: None if name in SUMS else _scaled(name, args, known))
    result = call()
    guarded(lambda: _kept(mechanisms, name, args, known, scaled, result, lambda first: func(first, *args[1:], **options)))
    return result


def _with_zeros(mechanisms: Mechanisms, name: str, args: Sequence[Any], call: Callable[[], Any]) -> Any:
    """The result of an operator that may set entries to 0. It is followed if it is noise without some of its entries."""
    known = guarded(lambda: [_noise(mechanisms, a) for a in (args[1:3] if name == "where" else args[:1])], [])
    result = call()

    def kept() -> None:
        if name.endswith("_"):
            origins(mechanisms).pop(args[0], None)
        origin = known[0] if known[0] is not None else known[-1]
        if origin is not None and known.count(None) == len(known) - 1 and untouched(origin, unrecorded(result)):
            _follow(result, origin)
        if name.endswith("_") and mechanisms.arrays:
            _into_arrays(mechanisms, result)

    if any(known):
        guarded(kept)
    return result


def _before_all(mechanisms: Mechanisms, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """As `_before`, for each sum of an operator that contains sums; none if no term is noise."""
    found = []
    for each in sums_of(
        name, args, options, lambda value: _noise(mechanisms, value), lambda value: _origin(mechanisms, value), _scaled
    ):
        known, terms = list(each.known), (each.first, each.second)
        if any(origin is not None and origin.noisy for origin in known):
            known = _of_sums(mechanisms, "add", terms, known)
        found.append(_before(terms, each.factor, known) if known.count(None) == 1 else None)
    return found


def _all_met(mechanisms: Mechanisms, name: str, args: Sequence[Any], before: Sequence[Any], result: Any) -> None:
    """As `_met`, for each sum of an operator that contains sums. Operators on lists may return nothing."""
    if name.startswith("_foreach"):
        results = list(args[0] if name.endswith("_") else result)
    else:
        results = [result]
    for each, known in zip(results, before):  # noqa: B905  (Python 3.9)
        if name.endswith("_"):
            origins(mechanisms).pop(each, None)
        if known is not None:
            _met(mechanisms, known, each)


def _together(name: str, args: Sequence[Any], known: Sequence[Any]) -> Origin | None:
    """The origin of a sum or difference of two tensors of noise; None if its law is not known."""
    one, other = known
    ufunc = np.add if name.startswith("add") else np.subtract
    changed = scaled_together(ufunc, [_array(a) for a in args[:2]], one, other)
    if changed is None:
        return None
    scale, shift, law = changed
    beside, drawn = tuple(dict.fromkeys((*one.draws, *other.draws)))[1:], max(one.count, other.count)
    return replace(
        one, scale=scale, shift=shift, beside=beside, bits=max(one.bits, other.bits), drawn=drawn, computed=law, seen=None
    )


def _kept(
    mechanisms: Mechanisms,
    name: str,
    args: Sequence[Any],
    known: Sequence[Origin | None],
    scaled: tuple[Any, float, str] | None,
    result: Any,
    again: Callable[[Any], Any],
) -> None:
    """Follows the result of an operator on noise, if it is noise. scaled: its scale before its entries are rearranged, its shift
    and its computed law. again: applies the operator to another first argument.
    """
    origin = known[-1] if name == "copy_" else next((each for each in known if each is not None), None)
    in_place = name.endswith("_") and hasattr(args[0], "detach")
    if in_place:
        origins(mechanisms).pop(args[0], None)
    if scaled is not None and origin is not None:
        _followed_by(name, args, origin, scaled, result, again)
    if name == "copy_" and (copied := origins(mechanisms).get(args[0])) is not None:
        written(reports_torch.by_tensor(mechanisms, "parts"), args[0], copied)
    if in_place and mechanisms.arrays and readable(args[0]):
        _into_arrays(mechanisms, args[0])


def _followed_by(
    name: str, args: Sequence[Any], origin: Origin, scaled: tuple[Any, float, str], result: Any, again: Callable[[Any], Any]
) -> None:
    """As `_kept`, for an operator whose result is noise. origin: of the noise on which it runs."""
    scale, shift, law = scaled
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    scales = [scale] * len(results)
    if np.ndim(scale) and name in (*KEPT, *INDEXED):
        import torch

        wide = np.broadcast_to(scale, tuple(args[0].shape)).copy()
        moved = again(torch.from_numpy(np.asarray(wide, dtype=np.float64)))
        scales = [np.abs(numbers_of(each)) for each in (moved if isinstance(moved, (list, tuple)) else [moved])]
    for tensor, own in zip(results, scales):  # noqa: B905  (Python 3.9)
        if readable(tensor):
            _follow(tensor, replace(origin, scale=float(own) if np.ndim(own) == 0 else own, shift=shift, computed=law))


def _into_arrays(mechanisms: Mechanisms, tensor: Any) -> None:
    """Gives what is known of a tensor that an operator has changed to the arrays of noise with the same memory."""
    for array in remembered(mechanisms.arrays, unrecorded(tensor)):
        if isinstance(array, Noise) and (array.origin is None or array.origin.at is None):
            array.origin = origins(mechanisms).get(tensor)


def _joined(mechanisms: Mechanisms, name: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
    """Follows the tensor that the program has joined from tensors of which one or more are noise."""
    if not all(readable(each) for each in args[0]) or not result.is_floating_point():
        return
    known = [_noise(mechanisms, each) for each in args[0]]
    if any(known):
        axis = args[1] if len(args) > 1 else options.get("dim", 0)
        parts = [(origin, unrecorded(each)) for origin, each in zip(known, args[0])]  # noqa: B905  (Python 3.9)
        origin = joined(parts, lambda arrays: JOINS[name](arrays, axis))
        if origin is not None:
            _follow(result, origin)


def _follow(tensor: Any, origin: Origin) -> None:
    """Registers a tensor as noise of this origin, unless it holds whole or complex numbers."""
    if tensor.is_floating_point():
        origins(origin.mechanisms)[tensor] = now(origin, unrecorded(tensor))


def _origin(mechanisms: Mechanisms, value: Any, assembles: bool = True) -> Origin | None:
    """The origin of a tensor of noise or of a single number; None for other values, and if the program has written numbers other
    than 0 into the tensor. assembles: whether to look at the pieces that the program has written into the tensor.
    """
    if type(value) is float:
        return mechanisms.singles.get(value)
    if not readable(value) or value.requires_grad:
        return None
    origin = origins(mechanisms).get(value)
    in_pieces = mechanisms.parts.get(value) if assembles and mechanisms.parts else None
    if (origin is None and in_pieces is None) or (origin is not None and untouched(origin, unrecorded(value))):
        return origin
    if in_pieces is not None and (found := assembled(in_pieces.values(), unrecorded(value))) is not None:
        _follow(value, found)
        return cast("Origin", origins(mechanisms).get(value))
    if origin is None:
        return None
    numbers = unrecorded(value)
    # the program may have changed the numbers through an array
    arrays = [] if origin.noisy else remembered(mechanisms.arrays, numbers)
    return next((known for array in arrays if isinstance(array, Noise) and (known := origin_of(array)) is not None), None)


def _before(args: Sequence[Any], alpha: float, known: Sequence[Any]) -> tuple[Origin, Any, Any] | None:
    """What is known before a sum or difference of data and noise: the origin of the noise, the data if it is one number for all
    entries, and else a copy of the data with its sign, to which the shift of the noise is added. The second term is multiplied by
    alpha, which is negative for a difference. None if the data cannot be read, as in a sparse tensor, or if the noise is 0 at
    some entries and the sum would shift it.
    """
    second = known[1] is not None
    noise, other = (args[1], args[0]) if second else (args[0], args[1])
    factors = (1.0, alpha)  # of the two terms
    origin = known[second].turned(factors[second])
    if origin.one_sided:
        return None
    shift = factors[second] * origin.shift
    several = hasattr(noise, "detach") and noise.numel() > 1
    number_alone = several and not origin.noisy and (not hasattr(other, "detach") or other.numel() == 1)
    if not number_alone and hasattr(other, "detach") and (not readable(other) or other.is_complex()):
        return None
    clean = None if number_alone else factors[not second] * _array(other).astype(np.float64) + shift
    factor, number = abs(factors[second]), _one_number(other) if number_alone else None
    if origin.noisy and factor != 1:
        return None
    added = replace(origin, scale=origin.scale * factor, seen=(_array(noise) - origin.shift) * factor)
    if number and not (np.isfinite(number) and np.all(added.seen)):
        return None
    return replace(added, shift=shift + factors[not second] * (number or 0.0)), number, clean


def _noise(mechanisms: Mechanisms, value: Any) -> Origin | None:
    """As `_origin`, but None for sums of noise and data, whose data are then complete."""
    origin = _origin(mechanisms, value)
    if origin is None or not origin.noisy:
        return origin
    origins(mechanisms).pop(value, None)
    return None


def _of_sums(mechanisms: Mechanisms, name: str, args: Sequence[Any], known: Sequence[Origin | None]) -> list[Origin | None]:
    """The origins of the inputs of an operator of which some are sums of noise and data. Such a sum counts as noise if the
    operator adds data to it, and else as data: then its own data are complete.
    """
    sums = [at for at, origin in enumerate(known) if origin is not None and origin.noisy]
    for at in sums:
        origins(mechanisms).pop(args[at], None)
    alone = len(sums) == 1 and sum(origin is not None for origin in known) == 1
    if name in SUMS and alone and np.broadcast_shapes(*map(np.shape, args[:2])) == np.shape(args[sums[0]]):
        return list(known)
    return [None if at in sums else origin for at, origin in enumerate(known)]


def _array(value: Any) -> NDArray[Any]:
    """A tensor or a number as an array."""
    return np.asarray(as_numbers(value))


def _met(mechanisms: Mechanisms, before: tuple[Origin, Any, Any], result: Any) -> Any:
    """The result of a sum or difference of data and noise. Records it as a mechanism, unless the data is one number for all
    entries or has a type that NumPy lacks. A sum of noise and one number is followed as noise.
    """
    origin, number, clean = before
    if clean is None:
        if number is not None:
            _follow(result, origin)
        return result
    if not readable(result):
        return result
    values = numbers_of(result)
    if values.dtype.kind != "f" or values.ctypes.data != result.data_ptr():
        return result
    values = np.atleast_1d(values)
    wide = np.broadcast_to(clean, values.shape).copy()
    origins(mechanisms).pop(result, None)
    if mechanisms.closely and origin.law != "gumbel":
        more = _followed_on(mechanisms, origin, wide, values)
        if more is not None:
            origins(mechanisms)[result] = replace(more, seen=values.reshape(tuple(result.shape)).copy())
        return result
    value = with_scores(origin, wide, values) if is_for_maximum(origin) else mechanisms.noise_added(origin, wide, values)
    if isinstance(value, WithScores) and value.scores is not None:
        _keep_scores(mechanisms, result, value.scores)
    return result


def _followed_on(mechanisms: Mechanisms, origin: Origin, clean: NDArray[np.float64], noisy: NDArray[Any]) -> Origin | None:
    """Records a sum of data and noise, and writes the value of the script into it. Returns the origin with which the sum is
    followed to further data; None if it is not.
    """
    if noisy.size > 1 or origin.at is not None:
        return mechanisms.accumulate(origin, clean, noisy)
    number, data = np.ravel(noisy)[0], float(np.ravel(clean)[0])
    if origin.member is None:
        assert origin.seen is not None
        own = replace(origin, scale=float(np.max(origin.scale)), seen=None)
        one = mechanisms.number_added(own, float(np.ravel(origin.seen)[0]), data, number)
    else:
        one = mechanisms.number_extended(origin, data, number)
    noisy[...] = plain(one)
    return one.origin if is_single(one) else None


def _maximum(mechanisms: Mechanisms, name: str, args: Sequence[Any], call: Callable[[], Any]) -> Any:
    """The result of an operator on scores with Gumbel noise. Records `argmax` over the last axis as a report. For other
    operators, records the noisy scores as a mechanism.
    """
    known = [(a, mechanisms.scores.pop(a)) for a in args[:2] if hasattr(a, "detach") and a in mechanisms.scores]
    if name == "argmax" and not (len(args) > 2 and args[2]) and known[0][1].seen == digest(unrecorded(known[0][0])):
        result = call()
        if guarded(lambda: known[0][1].largest(numbers_of(result), args[1] if len(args) > 1 else None)) is not None:
            return result
    guarded(lambda: [scores.settled(numbers_of(tensor)) for tensor, scores in known])
    return call()


def _scaled(name: str, args: Sequence[Any], known: Sequence[Any]) -> tuple[Any, float, str] | None:
    """The scale, the shift and the computed law of the noise after a product with numbers, or after an operator that only
    rearranges entries; None after other operators. Shifted noise must keep all its entries, and each must get the same factor.
    """
    if known[0] is not None and (name in KEPT or (name in INDEXED and _apart(name, args))):
        sign = -1 if name in ("neg", "neg_") else 1
        shift = sign * known[0].shift
        return None if shift and name in ("triu", "tril") else (known[0].scale, shift, known[0].turned(sign).computed)
    if name in ("log", "log_") and known[0] is not None:
        return of_logarithm(known[0], unrecorded(args[0]))
    if name == "copy_" and known[-1] is not None:
        alike = tuple(args[0].shape) == tuple(args[-1 if len(args) < 3 else 1].shape)
        return (known[-1].scale, known[-1].shift, known[-1].computed) if alike else None
    if name not in PRODUCTS or len(known) < 2 or (known[0] is not None and known[1] is not None):
        return None
    origin, noise, other = (known[0], args[0], args[1]) if known[0] is not None else (known[1], args[1], args[0])
    if name.startswith("div") and known[0] is None:
        return None
    number: Any = _one_number(other)
    if number is None and not origin.shift:
        several = readable(other) and not other.is_complex() and hasattr(noise, "shape")
        several = several and np.broadcast_shapes(noise.shape, other.shape) == noise.shape
        number = numbers_of(other).astype(np.float64) if several else None
    if number is None or not (np.all(number) if name.startswith("div") else np.any(number)):
        return None
    scaled: tuple[Any, float, str] | None = origin.times(np.multiply if name.startswith("mul") else np.divide, number)
    return scaled


def _apart(name: str, args: Sequence[Any]) -> bool:
    """Whether an operator with indices takes each entry at most once: it has one list of indices, and none repeats."""
    given = args[2:] if name == "index_select" else [index for index in args[1] if index is not None]
    if len(given) != 1 or not readable(given[0]):
        return False
    places = numbers_of(given[0]).ravel()
    return places.dtype == np.bool_ or (places.size == np.unique(places).size and bool(np.all(places >= 0)))


def _one_number(value: Any) -> float | None:
    """A number, or the common entry of a tensor whose entries are all the same; None for any other tensor."""
    if not hasattr(value, "detach"):
        return float(value)
    if not readable(value):
        return None
    first = value.detach().flatten()[:1]
    return float(first) if value.numel() and bool((value.detach() == first).all()) else None
