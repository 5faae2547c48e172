"""One random draw of a training: the requested distribution, the line of code that requested it, and the numbers drawn."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import random
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW = 64  # a report has at most this many values
MOST = 300  # a note about the recording has at most this many characters
CALLS = 5  # at most this many calling lines are kept for a draw
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random)
NO_REQUEST = ("generator", "random_state", "rng", "out", "discrete")  # options that say nothing about the law of the numbers
PICKS = ("choice", "choices", "multinomial")  # laws of values that are picked with given probabilities
PICKED = 2**15  # a value is picked among at most this many
SHIFTED = ("normal", "laplace", "gumbel", "logistic", "cauchy", "student-t")  # laws whose support is the whole real line


def numbers_of(tensor: Any) -> NDArray[Any]:
    """A tensor as an array; of float64 if NumPy lacks its type, such as bfloat16."""
    plain = tensor.detach().cpu()
    try:
        return np.asarray(plain.numpy())
    except TypeError:
        return np.asarray(plain.double().numpy())


def plain(value: Any) -> Any:
    """A tensor as an array; any other value unchanged."""
    return numbers_of(value) if hasattr(value, "detach") else value


def unrecorded(tensor: Any) -> NDArray[Any]:
    """As `numbers_of`, without a recording: the recorder itself asks for these numbers, not the program."""
    recorder, Active.recorder = Active.recorder, None
    try:
        return numbers_of(tensor)
    finally:
        Active.recorder = recorder


@dataclass(frozen=True, eq=False)
class Draw:
    """One random draw. law: the name of the distribution. loc, scale: its requested location and scale, numbers or arrays that
    broadcast. values: the drawn numbers.

    lowest, highest: the ends of the support; infinite if there is no end. line: file and line of the calling code.
    parameters: everything else that the call received, see `parameters`. The numbers of a shuffle or permutation are the
    places from which the entries come. among, chances: if each number is one of finitely many values, the values and their
    probabilities, (..., values): one row of probabilities for all numbers, or one row for each. calls: the program's own
    lines that led to the draw, innermost first. weights: whether the numbers are initial weights, which are no noise: they
    fill a PyTorch tensor with `requires_grad`, or the script of the run says so. state: of one pick (see `picked_one`) and of
    geometric numbers, a digest of the generator's state after it; 0 if it is not known. Two seeds often draw the same few
    whole numbers, but never have the same state. generator, began: the number of the generator in the run, and a digest of
    its state before the draw; 0 if they are not known, as in a run that repeats another. nodes: the ids of the training
    nodes, if the draw has as many numbers along `axis`, which may belong to these nodes; else None. masks: if the number is
    the key of masks of dropout, the masks that the run took, see masks_torch.py; else None.
    """

    law: str
    values: NDArray[Any]
    line: str
    loc: Any = 0.0
    scale: Any = 1.0
    lowest: float = -np.inf
    highest: float = np.inf
    parameters: tuple[NDArray[Any], ...] = ()
    among: tuple[float, ...] = ()
    chances: NDArray[np.float64] | None = None
    calls: tuple[str, ...] = field(default_factory=lambda: outer_lines())
    weights: bool = False
    state: int = 0
    generator: int = 0
    began: int = 0
    nodes: NDArray[np.int64] | None = None
    masks: Sequence[Any] | None = None

    def of_nodes(self, trained: NDArray[np.int64] | None) -> Draw:
        """The draw with its `nodes`. trained: the ids of the training nodes; None if they are not known."""
        each = trained is not None and self.values.ndim > 0 and self.values.shape[self.axis] == trained.size
        return dataclasses.replace(self, nodes=trained) if each else self

    @property
    def where(self) -> str:
        """The line of the draw, and the lines of the calls that led to it."""
        outer = ", ".join(call for call in self.calls if call != self.line)
        return f"{self.line} (called from {outer})" if outer else self.line

    @property
    def axis(self) -> int:
        """The axis whose entries may belong to nodes: the only one with several entries, else the first one."""
        long = [axis for axis, size in enumerate(self.values.shape) if size > 1]
        return long[0] if len(long) == 1 else 0

    @property
    def units(self) -> NDArray[np.float64]:
        """The drawn numbers, shifted and scaled to location 0 and scale 1."""
        return (self.values.astype(np.float64) - self.loc) / self.scale

    @property
    def top(self) -> float:
        """The largest number that the draw can give; uniform numbers stay below `highest`."""
        return float(np.nextafter(self.highest, self.lowest)) if self.law == "uniform" else self.highest

    @property
    def bounded(self) -> bool:
        """Whether the support has two ends."""
        return bool(np.isfinite([self.lowest, self.highest]).all())

    @property
    def spread(self) -> bool:
        """Whether the draw can be additive noise: its support is the real line, and its scale is above 0."""
        return self.law in SHIFTED and bool(np.all(np.asarray(self.scale) > 0))

    @property
    def own_chances(self) -> bool:
        """Whether each number has its own probabilities, of at most FEW values, or is one pick. Such a draw is a randomised
        report of the data from which the program computed the probabilities.
        """
        rows = self.chances is not None and self.chances.ndim > 1 and self.chances.shape[:-1] == self.values.shape
        return (rows and len(self.among) <= FEW) or self.picked

    @property
    def picked(self) -> bool:
        return picked_one(self.law, self.values, self.chances) and not self.parameters

    def without_zeros(self) -> NDArray[Any] | None:
        """The numbers of noise at location 0 with a tiny number in place of each exact 0; None if they need none. The smaller
        the type, the more often a generator rounds to 0: PyTorch's float32 normal numbers are 0 once in 2^24. The recorder takes
        an entry of noise that is 0 for one from which the program has removed the noise.
        """
        continuous = self.spread or self.law == "exponential"
        if not continuous or self.values.dtype.kind != "f" or np.any(self.loc) or np.all(self.values):
            return None
        tiny = np.sqrt(np.finfo(self.values.dtype).tiny) * np.asarray(self.scale)
        return np.where(self.values == 0, tiny, self.values).astype(self.values.dtype)

    def drawn_by(self, state: Callable[[], Any]) -> Draw:
        """The draw with a digest of its generator's state, if it is one pick or geometric. state: reads the state."""
        if not self.picked and self.law != "geometric":
            return self
        return dataclasses.replace(self, state=of_state(state))


def of_state(state: Callable[[], Any]) -> int:
    """A digest of the state of a generator, above 0. state: reads the state."""
    return 1 + int.from_bytes(hashlib.blake2b(pickle.dumps(state()), digest_size=6).digest(), "little")


def mersenne(words: Any, place: int, kept: Any) -> tuple[Any, ...]:
    """The state of a Mersenne Twister, the same for NumPy, PyTorch and Python. words: 624 whole numbers of 32 bits. place: the
    number of words that are used up. kept: a normal number that was made and is still to be given; None if there is none.
    """
    return np.asarray(words).astype(np.uint32).tobytes(), int(place), kept


def picked_one(law: str, values: NDArray[Any], chances: NDArray[np.float64] | None) -> bool:
    """Whether a draw is one value among several. If the program gave the probabilities, as in the exponential mechanism
    (`rng.choice(values, p=...)`, `random.choices(range(k), weights)`, `torch.multinomial(weights, 1)`), they describe the draw
    completely, and it has no `parameters`.
    """
    return law in PICKS and values.size == 1 and chances is not None and chances.ndim == 1


Change = Callable[[int, Draw], "NDArray[Any] | None"]  # (number of the draw, draw) -> the numbers that replace it, or None


class Departed(Exception):
    """The run departs from the run that it repeats, so it has to end."""


class Diverged(Departed):
    """The run made a draw that differs from that of the run that it repeats. The message names the line."""


class Follow(Protocol):
    """Follows drawn numbers to the operation that combines them with data."""

    def follow(self, value: Any, draw: Draw) -> Any:
        """The value that the training gets in place of the drawn `value`."""
        ...


@dataclass(eq=False)
class Recorder:
    """All draws of one training, in order. change: a function that may replace drawn numbers by others. follow: an object that
    may replace a drawn array by an array that stores its draw. weights: the numbers of the draws that are initial weights, in
    order of the draws. trained: the ids of the training nodes; None if they are not known. notes: sentences about what could not
    be recorded. frame: where the recording began; while it lasts, `outside` remembers the program's lines that led there.
    masks: those of dropout, if all of a run follow from one number (see masks_torch.py); None if each mask is a draw.
    reads: the files that the training reads, see `Reads`.
    """

    change: Change | None = None
    follow: Follow | None = None
    weights: Collection[int] = ()
    trained: NDArray[np.int64] | None = None
    draws: list[Draw] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    inside: bool = False  # whether a draw is in progress; draws that it makes itself are not recorded
    frame: Any = None
    outside: tuple[str, ...] | None = None
    masks: Any = None
    reads: Any = None
    generators: dict[int, tuple[int, Any]] = field(default_factory=dict)  # id -> (number, generator), which keeps the id in use
    begun: tuple[Any, int] | None = None  # the generator that draws now, and a digest of its state before

    def begins(self, generator: Any, state: Callable[[], Any]) -> None:
        """Notes the state of a generator that is about to draw; of several generators or calls of one draw, the first. A run
        that repeats another needs no states. state: reads the state.
        """
        if self.change is None and (self.begun is None or not self.inside):
            self.begun = guarded(lambda: (generator, of_state(state)))

    def alone(self, call: Callable[[], Any]) -> Any:
        """The result of a call that is one draw: the draws that it makes itself are not recorded."""
        self.inside = True
        try:
            return call()
        finally:
            self.inside = False

    def record(self, draw: Draw) -> NDArray[Any] | None:
        """Records the draw, if the training made it (if it has a line). Returns the numbers that replace it, or None. An exact 0
        in noise is replaced too, see `without_zeros`.
        """
        begun, self.begun = self.begun, None
        if not draw.line:
            return None
        draw = draw.of_nodes(self.trained)
        if begun is not None:
            number, _ = self.generators.setdefault(id(begun[0]), (len(self.generators) + 1, begun[0]))
            draw = dataclasses.replace(draw, generator=number, began=begun[1])
        instead = None if self.change is None else self.change(len(self.draws), draw)
        instead = draw.without_zeros() if instead is None else instead
        if instead is not None:
            draw = dataclasses.replace(draw, values=np.array(instead))
        if len(self.draws) in self.weights:
            draw = dataclasses.replace(draw, weights=True)
        self.draws.append(draw)
        return instead


class Active:
    """The active recording of this process, for all its threads; None if there is none."""

    recorder: Recorder | None = None


HERE = str(Path(__file__).parents[1])
QUIET = (HERE, str(Path(np.__file__).parent), "/torch/", "/scipy/", "/random.py", "/secrets.py", "<__array", "<frozen")
STANDARD = str(Path(os.__file__).parent)
OTHERS = (
    *QUIET,
    STANDARD,
    "site-packages",
    "<string>",
    *(str(Path(__file__).parents[3] / own) for own in ("models" + os.sep, "audit" + os.sep, "__main__.py")),
)


@cache
def _quiet(file: str) -> bool:
    """Whether a source file is part of the recorder or of a library of random numbers."""
    return any(word in file for word in QUIET)


@cache
def _name(file: str) -> str:
    """A source file as messages name it; one of an installed package by its path, such as `opacus/optimizers/optimizer.py`."""
    _, installed, path = file.rpartition(f"site-packages{os.sep}")
    return path.replace(os.sep, "/") if installed else Path(file).name


def calling_line() -> str:
    """File and line of the innermost caller outside the libraries of random numbers; "" if the training did not make the draw.
    For example, Python's standard library draws names of temporary files, and some libraries draw while they are imported.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and _quiet(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return ""
        frame = frame.f_back
    file = frame.f_code.co_filename
    installed = "site-packages" in file
    if file.startswith(STANDARD) and not installed:
        return ""
    outer = frame if installed else None
    while outer is not None and ("site-packages" in outer.f_code.co_filename or "<frozen" in outer.f_code.co_filename):
        if outer.f_code.co_filename.startswith("<frozen importlib"):
            return ""
        outer = outer.f_back
    return f"{_name(file)}, line {frame.f_lineno}"


@cache
def of_others(file: str) -> bool:
    """Whether a source file belongs to a library, to this package or to an installed command. All other files belong to the
    user's program.
    """
    return any(word in file for word in OTHERS) or not ("<" in file or Path(file).suffix)


def outer_lines(frame: Any = None, line: int | None = None) -> tuple[str, ...]:
    """The lines of the program's own files that led to this call, or to the line that a frame is at, innermost first, at most
    CALLS. Lines of libraries and of this package are left out. line: the frame's line, if it is another one.
    """
    found: list[str] = []
    frame, recorder = frame or sys._getframe(1), Active.recorder
    while frame is not None and len(found) < CALLS:
        file = frame.f_code.co_filename
        if not of_others(file):
            found.append(f"{_name(file)}, line {line or frame.f_lineno}")
        if recorder is not None and frame is recorder.frame and frame.f_back is not None:
            if recorder.outside is None:
                recorder.outside = outer_lines(frame.f_back)
            return (*found, *recorder.outside)[:CALLS]
        frame, line = frame.f_back, None
    return tuple(found)


def rows_of(chances: Any) -> NDArray[np.float64]:
    """Probabilities as an array of shape (..., values), or (values,) if all rows are the same."""
    rows = np.asarray(chances, dtype=np.float64)
    first = rows.reshape(-1, rows.shape[-1])[:1]
    return first[0] if rows.ndim > 1 and len(first) and bool(np.all(rows == first[0])) else rows


def of_two(chance: Any) -> NDArray[np.float64]:
    """The probabilities of 0 and 1, where `chance` is that of 1."""
    one = np.asarray(chance, dtype=np.float64)
    return rows_of(np.stack([1 - one, one], axis=-1))


def parameters(*given: Any, **named: Any) -> tuple[NDArray[Any], ...]:
    """Everything that a call received, as arrays: copies of numbers and of arrays of numbers, and digests of all other values.
    Random generators and the options of NO_REQUEST are left out.
    """
    kept = [value for value in given if not _generator(value)]
    for name in sorted(named.keys() - set(NO_REQUEST)):
        kept += [] if _generator(named[name]) else [name, named[name]]
    return tuple(_parameter(value) for value in kept)


def _generator(value: Any) -> bool:
    return isinstance(value, GENERATORS) or (type(value).__name__ == "Generator" and type(value).__module__.startswith("torch"))


def _parameter(value: Any) -> NDArray[Any]:
    """A number or an array of numbers as an array; any other value as the 16 bytes of a digest."""
    if hasattr(value, "detach") and hasattr(value, "layout"):
        return numbers_of(value).copy()
    if not isinstance(value, (str, bytes)):
        try:
            array = np.array(value)
        except Exception:  # rows of unequal length, or an object with its own rules
            array = np.array(None)
        if array.dtype.kind in "iufb" and array.size:
            return array
    try:
        raw = pickle.dumps(value)
    except Exception:  # an object may refuse a pickle with any exception
        raw = re.sub(r"0x[0-9a-f]+", "", repr(value)).encode()
    return np.frombuffer(hashlib.blake2b(raw, digest_size=16).digest(), dtype=np.uint8)


Asked = Callable[[str, Sequence[Any], dict[str, Any], Any], Draw]  # (method, arguments, options, result) -> the draw


def recorded_call(name: str, call: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], asked: Asked) -> Any:
    """The result of call(*args, **options), recorded if a recording is active, and perhaps replaced by the recording."""
    recorder = Active.recorder
    if recorder is None or recorder.inside:
        return call(*args, **options)
    recorder.inside = True
    try:
        result = call(*args, **options)
        draw = guarded(lambda: asked(name, args, options, result))
    finally:
        recorder.inside = False
    if draw is None:
        recorder.begun = None
        return result
    before = len(recorder.draws)
    instead = recorder.record(draw)
    given = result if instead is None else put(result, instead)
    follow = recorder.follow
    if follow is None or len(recorder.draws) == before:
        return given
    return guarded(lambda: follow.follow(given, recorder.draws[-1]), given)


def guarded(work: Callable[[], Any], otherwise: Any = None) -> Any:
    """The result of a step of the recorder, or `otherwise` if the step fails. A failure must not end the user's training: it
    becomes a note of the recording, which the report repeats.
    """
    try:
        return work()
    except Departed:
        raise
    except Exception as fault:
        line = next(iter(outer_lines()), "a line of a library")
        note(f"the recorder cannot follow the random numbers at {line} ({type(fault).__name__}: {fault})")
        return otherwise


def note(text: str) -> None:
    """Adds a sentence to the notes of the active recording, if there is one."""
    if Active.recorder is not None:
        Active.recorder.notes.append(" ".join(text.split())[:MOST])


def without(kind: type | tuple[type, ...], value: Any, plain: Callable[[Any], Any]) -> Any:
    """An argument of a NumPy function in which every value of the class `kind` is replaced by `plain` of it."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(without(kind, v, plain) for v in value)
    return plain(value) if isinstance(value, kind) else value


def shuffled(name: str, call: Callable[..., Any], x: Any, axis: int, asked: Asked) -> bool:
    """Shuffles x in place along an axis by a recorded order, and returns True; returns False if x has no such axis.

    call: shuffles a list of places with the random bits with which the library would shuffle x.
    """
    try:
        count = x.shape[axis] if isinstance(x, np.ndarray) else len(x)
    except (TypeError, IndexError):
        return False

    def order() -> NDArray[np.int64]:
        places = list(range(count))
        call(places)
        return np.array(places, dtype=np.int64)

    places = recorded_call(name, order, (), {}, asked)
    if isinstance(x, np.ndarray):
        x[...] = np.take(x, places, axis)
    else:
        items = [x[i] for i in range(count)]
        for place, i in enumerate(places.tolist()):
            x[place] = items[i]
    return True


def put(result: Any, instead: NDArray[Any]) -> Any:
    """`instead` with the type and shape of `result`."""
    if isinstance(result, np.ndarray):
        result[...] = instead.reshape(result.shape)
        return result
    if isinstance(result, bytes):
        return instead.astype(np.uint8).tobytes()
    if isinstance(result, list):
        return instead.tolist()
    return type(result)(instead.item()) if np.isscalar(result) else result
