"""Records draws of PyTorch: every operator that reads a random generator, global or made by the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..draws.draw import (
    Active,
    Draw,
    Recorder,
    calling_line,
    guarded,
    mersenne,
    of_two,
    parameters,
    picked_one,
    plain,
    put,
    rows_of,
)
from ..mechanisms import found_torch
from ..mechanisms.followed.single import is_single
from ..mechanisms.found import Mechanisms, following
from .changes import changes
from .masks_torch import with_a_key
from .of_numpy import evenly

NORMAL, UNIFORM = ("randn", "randn_like", "normal", "normal_"), ("rand", "rand_like", "uniform_")
LOCATED = (*NORMAL, *UNIFORM, "cauchy_", "exponential_")  # operators whose numbers loc and scale describe completely
CALLERS = 12  # largest number of calls, from the draw outwards, whose variables are searched for a parameter
# the bytes of the state of a generator of the CPU: their number, the random words, two kept numbers, and whether these are in use
STATE, LEFT, USED, WORDS, COUNT = 5056, slice(8, 12), slice(16, 24), slice(24, 5016), 624
DOUBLE, FLOAT = slice(5016, 5040), slice(5048, 5052)
DOUBLE_KEPT, FLOAT_KEPT = slice(5040, 5044), slice(5052, 5053)
IN_PARTS = ("trunc_normal_", "orthogonal_")  # functions of torch.nn.init that draw other numbers than the ones that they fill in
MAKERS = ("tensor", "as_tensor", "asarray", "from_dlpack")  # functions that make tensors of other numbers
FORM = ("device", "layout", "pin_memory", "memory_format", "dtype")  # options that say nothing about the law of the numbers


def asked(name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """The draw of the operator `name`. result: the tensor that it drew."""
    loc: Any = 0.0
    scale: Any = 1.0
    ends = (-np.inf, np.inf)
    masked = name == "native_dropout" or (name == "bernoulli" and len(args) > 1)
    args = args[int(masked or name.endswith(("_", "_like"))) :]  # the draw does not depend on the values of the first tensor
    given = [a for a in args if not isinstance(a, (list, tuple))]
    if name in ("normal", "normal_"):
        loc = plain(given[0]) if given else 0.0
        scale = plain(given[1]) if len(given) > 1 else 1.0
        law = "normal"
    elif name in NORMAL:
        law = "normal"
    elif name in UNIFORM:
        low, high = given[:2] if len(given) == 2 else (given[0], 1.0) if given and name == "uniform_" else (0.0, 1.0)
        law, loc, scale, ends = "uniform", low, high - low, (float(low), float(high))
    elif name.startswith(("bernoulli", "native_dropout")):
        law, ends = "bernoulli", (0.0, 1.0)
    elif name == "cauchy_":
        law, loc, scale = "cauchy", given[0] if given else 0.0, given[1] if len(given) > 1 else 1.0
    elif name == "exponential_":
        law, scale = "exponential", 1 / float((*given, options.get("lambd", 1.0))[0])
    else:
        law = name.rstrip("_")
    among, chances = finite(law, args, [1 - given[0]] if name == "native_dropout" else given)
    own = name in LOCATED or (chances is not None and chances.ndim > 1) or picked_one(law, plain(result), chances)
    kept = {option: value for option, value in options.items() if option not in FORM}
    filled = name.startswith("rrelu_with_noise")  # its second tensor is a result
    others = () if own else parameters(*args[:1], *args[1 + filled :], **kept)
    weights = bool(result.requires_grad) or (name.endswith("_") and law != "bernoulli" and fills_parameter(result))
    draw = Draw(law, plain(result).copy(), calling_line(), loc, scale, *ends, others, among, chances, weights=weights)

    return draw.drawn_by(lambda: state(options.get("generator")))


def state(generator: Any = None) -> Any:
    """The state of a generator, by default of the global one, without what a draw cannot read: the seed, and a normal number that
    was kept for a later draw and is used up.
    """
    import torch

    raw = plain((generator or torch.default_generator).get_state()).tobytes()
    if len(raw) != STATE:  # of an accelerator
        return raw
    left, used = np.frombuffer(raw[LEFT], np.int32)[0], np.frombuffer(raw[USED], np.uint64)[0]
    kept = raw[DOUBLE] if any(raw[DOUBLE_KEPT]) else raw[FLOAT] if any(raw[FLOAT_KEPT]) else None
    return mersenne(np.frombuffer(raw[WORDS], np.uint64), COUNT if left == 1 else used, kept)


def fills_parameter(tensor: Any) -> bool:
    """Whether a tensor is a parameter, or shares its numbers with one that the calling code can reach, as `layer.weight.data`
    does: by one of its variables, or as a parameter of a module that is one.
    """
    import torch

    place, frame = tensor.data_ptr(), sys._getframe(1)
    if isinstance(tensor, torch.nn.Parameter):
        return True
    for _ in range(CALLERS):
        if frame.f_back is None or not place:
            return False
        frame = frame.f_back
        for value in list(frame.f_locals.values()):
            started = isinstance(value, torch.nn.Module) and "_modules" in vars(value)  # not before its __init__
            known = value.parameters() if started else [value]
            if any(isinstance(p, torch.nn.Parameter) and p.data_ptr() == place and p.numel() == tensor.numel() for p in known):
                return True
    return False


def finite(law: str, args: Sequence[Any], given: Sequence[Any]) -> tuple[tuple[float, ...], Any]:
    """The values that a number of this law can take, and their probabilities; (), None if there are too many values, or if the
    numbers are not independent.
    """
    if law == "bernoulli":
        return (0.0, 1.0), of_two(plain(given[-1]) if given else 0.5)
    if law in ("randint", "randint_like", "random"):
        ends = [a for a in given if isinstance(a, int)]
        low, high = (0, ends[0]) if len(ends) == 1 else ends if len(ends) == 2 else (0, 0)
        return evenly(low, high)
    if law == "multinomial" and (args[1] == 1 or (len(args) > 2 and args[2])):
        weights = plain(args[0]).astype(np.float64)
        rows = rows_of(weights / weights.sum(-1, keepdims=True))
        return tuple(map(float, range(weights.shape[-1]))), rows if rows.ndim == 1 else rows[:, None].repeat(args[1], axis=1)
    return (), None


def with_draw(name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> None:
    """Records the numbers that an operator drew, and overwrites the drawn tensor if the recording replaces its numbers."""
    recorder = Active.recorder
    drawn = result[-1] if isinstance(result, (list, tuple)) else result
    if recorder is None or recorder.inside or not hasattr(drawn, "detach"):
        return
    replaced = record(recorder, drawn, lambda: asked(name, args, options, drawn))
    if replaced and name == "native_dropout":  # the numbers are the mask, and the first result is the masked input
        put_into(result[0], plain(args[0] * drawn) * (1 / (1 - args[1]) if args[1] < 1 else 0.0))


def record(recorder: Recorder, tensor: Any, request: Callable[[], Draw]) -> bool:
    """Records a tensor that was just drawn, and follows it, unless it has no memory. Returns whether the recording has replaced
    its numbers.
    """
    if tensor.device.type != "cpu":  # the state that was read is that of the CPU's generator
        recorder.begun = None
    if tensor.is_meta:
        return False
    before = len(recorder.draws)
    draw = guarded(request)
    instead = None if draw is None else recorder.record(draw)
    if instead is not None:
        put_into(tensor, instead)
    if isinstance(recorder.follow, Mechanisms) and len(recorder.draws) > before:
        mechanisms = recorder.follow
        guarded(lambda: found_torch.drawn(mechanisms, tensor, recorder.draws[-1]))
    return instead is not None


def put_into(tensor: Any, instead: Any) -> None:
    """Overwrites a tensor by other numbers."""
    import torch

    numbers = put(plain(tensor).copy(), np.asarray(instead))
    with torch.no_grad():
        tensor.detach().copy_(torch.from_numpy(np.ascontiguousarray(numbers).reshape(tensor.shape)))


@cache
def _mode() -> Any:
    """The class of the context in which every operator is observed. It is made once, because that takes long."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, random = _operator(func)
            options, recorder = kwargs or {}, Active.recorder
            follows = recorder is not None and isinstance(recorder.follow, Mechanisms)
            if random and recorder is not None:
                generator = options.get("generator") or torch.default_generator
                recorder.begins(generator, lambda: state(generator))
            result = found_torch.run(name, args, options, func) if follows else func(*args, **options)
            if random:
                with_draw(name, args, options, result)
            return result

    @cache
    def _operator(func: Any) -> tuple[str, bool]:
        return func._schema.name.split("::")[1], torch.Tag.nondeterministic_seeded in func.tags

    return Mode


@cache
def _absent() -> tuple[Any, ...]:
    """The modules of accelerators that this build of PyTorch lacks. `torch.manual_seed` seeds them too: each time, it stores a
    call that never runs with the text of the whole stack, which takes longer than a small training.
    """
    import torch

    return tuple(device for device in (torch.cuda, torch.xpu, torch.mtia) if not device._is_compiled())


@contextmanager
def replaced() -> Iterator[dict[int, Any]]:
    """Within this context, every random operator of this thread is recorded. A normal, Laplace, Gumbel or geometric sample of
    `torch.distributions` is one draw, and so is a multivariate normal one whose coordinates are independent, and what a
    function of IN_PARTS fills into a parameter. Yields id of an original -> its replacement, of functions that modules may have
    imported.
    """
    import torch
    from torch.distributions import Geometric, Gumbel, Laplace, MultivariateNormal, Normal

    def numpy(self: Any, *args: Any, **options: Any) -> Any:
        mechanisms = following()
        if mechanisms is not None and mechanisms.scores and self in mechanisms.scores:
            return found_torch.scores_as_array(mechanisms, self, lambda: to_numpy(self, *args, **options))
        array = to_numpy(self, *args, **options)
        follows = mechanisms is not None and (mechanisms.any_tensors or mechanisms.coins)
        return found_torch.as_array(mechanisms, self, array) if follows else array

    def item(self: Any) -> Any:
        number = to_number(self)
        mechanisms = following()
        return found_torch.as_number(mechanisms, self, number) if mechanisms is not None and mechanisms.tensors else number

    def array_wrap(self: Any, array: Any, *more: Any) -> Any:
        """The tensor of the result of a NumPy operation on tensors and arrays. more: what NumPy tells of the operation."""
        arrays = guarded(lambda: as_arrays(more[0])) if more and more[0] else None
        return to_tensor(self, array if arrays is None else np.asarray(more[0][0](*arrays)))

    def as_arrays(operation: Any) -> list[Any] | None:
        """The inputs of a NumPy operation, arrays for tensors, if one of these is followed."""
        ufunc, inputs, _ = operation
        mechanisms = following()
        known = mechanisms.tensors if mechanisms is not None and len(inputs) == ufunc.nin else None
        if not known or not any(isinstance(i, torch.Tensor) and i in known for i in inputs):
            return None
        return [i.numpy() if isinstance(i, torch.Tensor) else i for i in inputs]

    def tolist(self: Any) -> Any:
        mechanisms = following()
        if mechanisms is None or not mechanisms.tensors or self not in mechanisms.tensors:
            return to_list(self)
        return self.item() if self.dim() == 0 else self.detach().cpu().numpy().tolist()

    to_numpy, to_number, to_list = torch.Tensor.numpy, torch.Tensor.item, torch.Tensor.tolist
    to_tensor = torch.Tensor.__array_wrap__
    methods: list[tuple[Any, str, str]] = [(Laplace, "rsample", "laplace"), (Normal, "rsample", "normal")]
    methods += [(MultivariateNormal, "rsample", "normal")]
    methods += [(Gumbel, name, "gumbel") for name in ("rsample", "sample")]  # Gumbel.sample does not call rsample
    with changes() as put:
        for family, name, law in methods:
            put(family, name, _sample(getattr(family, name), law))
        put(Geometric, "sample", _whole(Geometric.sample))
        for device in _absent():
            put(device, "manual_seed_all", int)
        plain = torch.nn.functional.dropout
        put(torch.nn.functional, "dropout", with_a_key(plain))
        put(torch.Tensor, "numpy", numpy)
        put(torch.Tensor, "item", item)
        put(torch.Tensor, "tolist", tolist)
        put(torch.Tensor, "__array_wrap__", array_wrap)
        new = {id(plain): torch.nn.functional.dropout}
        for home, names, wrapped in ((torch.nn.init, IN_PARTS, _initial), (torch, MAKERS, made_of)):
            for name in names:
                original = getattr(home, name)
                new[id(original)] = wrapped(original)
                put(home, name, new[id(original)])
        with observed():
            yield new


def observed() -> Any:
    """A context in which every operator of this thread is observed."""
    return _mode()()


@cache
def made_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor of numbers, lists or arrays, such as `torch.tensor`. Follows the tensor if these are drawn
    numbers.
    """
    from torch.jit import _builtins

    def tensor(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        mechanisms = following()
        if mechanisms is None or not args:
            return result
        if type(args[0]) in (list, tuple) or is_single(args[0]):
            guarded(lambda: found_torch.of_numbers(args[0], result))
        elif original.__name__ == "from_dlpack" and mechanisms.arrays:
            guarded(lambda: found_torch.arrived(mechanisms, result))
        return result

    if (operator := _builtins._find_builtin(original)) is not None:
        _builtins._register_builtin(tensor, operator)
    return tensor


def _scale(family: Any) -> Any:
    """The scale of a distribution; None if the coordinates of its samples are not independent."""
    if not hasattr(family, "scale_tril"):
        return family.scale
    scale = family.scale_tril.diagonal(dim1=-2, dim2=-1)
    return scale if bool((family.scale_tril == scale.diag_embed()).all()) else None


@cache
def _sample(sample: Any, law: str) -> Any:
    """Wraps a distribution's `sample` or `rsample`, so that it is recorded as one draw with its location and scale."""
    import torch

    def recorded(self: Any, sample_shape: Any = torch.Size()) -> Any:
        recorder = Active.recorder
        if recorder is None or recorder.inside or (scale := _scale(self)) is None:
            return sample(self, sample_shape)
        result = recorder.alone(lambda: sample(self, sample_shape))
        record(recorder, result, lambda: Draw(law, plain(result).copy(), calling_line(), plain(self.loc), plain(scale)))
        return result

    return recorded


@cache
def _initial(fill: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that fills a tensor with initial weights, so that those of a parameter are recorded as one draw, however
    many numbers the function draws.
    """

    def recorded(tensor: Any, *args: Any, **options: Any) -> Any:
        recorder = Active.recorder
        if recorder is None or recorder.inside or not fills_parameter(tensor):
            return fill(tensor, *args, **options)
        result = recorder.alone(lambda: fill(tensor, *args, **options))
        record(recorder, result, lambda: Draw("initial weights", plain(result).copy(), calling_line(), weights=True))
        return result

    return recorded


@cache
def _whole(sample: Any) -> Any:
    """As `_sample`, for geometric numbers of one probability. The draw counts trials as `Tensor.geometric_` does, and the sample
    counts failures.
    """
    import torch

    def recorded(self: Any, sample_shape: Any = torch.Size()) -> Any:
        recorder, chances = Active.recorder, plain(self.probs)
        if recorder is None or recorder.inside or np.size(chances) == 0 or np.ptp(chances):
            return sample(self, sample_shape)
        result = recorder.alone(lambda: sample(self, sample_shape).add_(1))
        chance = np.array(np.ravel(chances)[0])
        record(
            recorder,
            result,
            lambda: Draw("geometric", plain(result).copy(), calling_line(), parameters=(chance,)).drawn_by(state),
        )
        return result.sub_(1)

    return recorded
