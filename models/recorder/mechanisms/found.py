"""Records the noisy mechanisms of a run: the places where noise is added to data.

noise.py finds these places in NumPy programs, and found_torch.py in PyTorch programs. The result of a mechanism can be replaced,
so that another run continues from the same noisy value. Randomised reports are mechanisms too; reports.py follows the drawn
numbers that choose between values of data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..draws.draw import SHIFTED, Active, Departed, Draw, calling_line, note, outer_lines
from .followed.inverse import of_uniform
from .followed.noise import followed
from .followed.numbers import Lines, Numbers, name_of
from .followed.origin import DOUBLE, Origin
from .followed.same_numbers import bits_of, coarse, of_mirrored, repeated
from .followed.single import Single, in_the_making, single
from .mechanism import TWO_SIDED, Mechanism
from .reports import reported
from .whole import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .followed.memory import Arrays

FOLLOWED = (*SHIFTED, "exponential")
UNREAD = 32.0  # in units of the scale: how far the values of `unfinished` are away
BYTES = 16  # of the clean and the noisy value of one number


Place = tuple[str, tuple[str, ...]]  # see `place_of`


class OtherMechanisms(Departed):
    """The run reached a mechanism that differs from the one whose noisy value it should take. The message names the line."""


@dataclass(eq=False)
class Mechanisms:
    """Finds the mechanisms of one run, in order. script: mechanisms of another run, whose noisy values replace those of this
    run. closely: whether further data that the program adds to a noisy value count as its data, so that the mechanism ends with
    the last sum; it is so if the script was recorded so. unread: in units of the scale, how far noisy numbers are from those of
    the script while further data are to be added to them. A run that reads them then changes. maxima: whether the index of the
    largest of several numbers with Laplace or normal noise is a report, if the run does not use these numbers otherwise; it is so
    if the script was recorded so.
    """

    script: Sequence[Mechanism] | None = None
    known: list[Mechanism | None] = field(default_factory=list)  # None stands for a mechanism of `lines`
    lines: Lines = field(default_factory=Lines)
    singles: dict[float, Origin] = field(default_factory=dict)  # single drawn numbers; PyTorch passes on their values alone
    space: int = 1 << 30  # bytes left for the values of mechanisms; at 0, later mechanisms are not recorded
    arrays: Arrays = field(default_factory=dict)  # see memory.py
    tensors: Any = None  # PyTorch tensors that are noise and have not been added to data yet
    parts: Any = None  # PyTorch tensors -> the pieces of noise that the program has written into them
    scores: Any = None  # PyTorch tensors that are data with Gumbel noise and have not been used yet
    half: Origin | None = None  # of the last sum of data and noise, with the noise that was added
    coins: Any = None  # PyTorch tensors of coins (see reports.py) that have not been combined with data yet
    closely: bool = False
    maxima: bool = False
    unread: float = 0.0
    located: set[Place] = field(default_factory=set)  # where single numbers are drawn whose locations are data
    centred: dict[Place, list[Single]] = field(default_factory=dict)  # where they are drawn -> those at location 0, so far

    def __post_init__(self) -> None:
        ones = [(m.draw, *m.beside) for m in self.script or () if m.line == m.draw.line and m.draw.values.ndim == 0]
        self.closely = self.closely or any(m.closely for m in self.script or ())
        self.maxima = self.maxima or any(m.largest for m in self.script or ())
        self.located |= {place_of(draws[0]) for draws in ones if any(draw.loc for draw in draws)}

    @property
    def found(self) -> list[Mechanism]:
        """The mechanisms so far, without those of which the script has more numbers."""
        if not self.lines.groups:
            return cast("list[Mechanism]", self.known)
        found = self.known.copy()
        for numbers in self.lines.groups.values():
            wanted = None if self.script is None else self.script[numbers.at]
            if wanted is None or wanted.noisy.size == len(numbers.noisy):
                found[numbers.at] = of_numbers(numbers, self.closely)
        return [m for m in found if m is not None]

    @property
    def any_tensors(self) -> bool:
        """Whether tensors of noise are followed."""
        return bool(self.tensors or self.parts)

    def all_played(self) -> bool:
        """Whether this run has run every mechanism of the script."""
        script, groups = self.script or (), self.lines.groups.values()
        return len(self.known) >= len(script) and all(
            g.at >= len(script) or len(g.noisy) >= script[g.at].noisy.size for g in groups
        )

    def follow(self, value: Any, draw: Draw) -> Any:
        """The array `value` of a draw, as an array that stores the draw. If the draw is itself a mechanism, because its location
        or its probabilities are data, records it and returns its noisy value. Initial weights are not followed.
        """
        if draw.weights:
            return value
        if (report := reported(self, value, draw)) is not None:
            return report
        if (numbers := whole(self, value, draw)) is not None:
            return numbers
        one = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value  # as NumPy draws for size=()
        if isinstance(one, (float, np.floating)) and draw.values.ndim == 0 and draw.scale > 0:
            if (computed := of_uniform(self, draw)) is not None:
                return in_the_making(one, computed)
            return self.number(one, draw) if draw.law in FOLLOWED else value
        if type(value) is not np.ndarray or value.ndim == 0 or value.dtype.kind != "f" or draw.law not in FOLLOWED:
            return value
        if located_at_data(draw):
            clean = np.broadcast_to(draw.loc, value.shape).astype(np.float64)
            return self.noise_added(Origin(self, draw, draw.scale), clean, value)
        return followed(value, located(self, draw))

    def number(self, value: Any, draw: Draw) -> Any:
        """The single number `value` of a draw, as a number that stores the draw. If its location is data, it is a mechanism: then
        so are the numbers that the same line drew before at location 0, unless the program has used them as noise.
        """
        loc, place = float(draw.loc), place_of(draw)
        noise = float(value) - loc
        short = float(np.float32(noise)) == noise  # only then may it have so few bits that they matter
        origin = Origin(self, draw, float(draw.scale), bits=bits_of(np.array([noise])) if short else DOUBLE)
        if not loc and place not in self.located:
            one = single(value, origin)
            self.centred.setdefault(place, []).append(one)
            return one
        self.located.add(place)
        for one in self.centred.pop(place, []):
            if one.origin is not None and not one.used:
                self.number_added(one.origin, float(one.plain()), 0.0, one.plain())
        return self.number_added(origin, noise, loc, value)

    def number_added(self, origin: Origin, noise: float, clean: float, noisy: Any) -> Any:
        """As `noise_added`, for one number: the next of the numbers to which this line adds noise."""
        line = calling_line()
        if not self.space or not noise:
            return noisy
        if origin.bits < DOUBLE:
            self.tell_if_coarse(origin, line)
        name = name_of(noise / float(origin.scale))
        numbers = self.lines.of(line, origin.law, outer_lines(), name, len(self.known))
        if numbers.at == len(self.known):
            self.known.append(None)
        again = name not in numbers.names and any(d.values.size == 1 and id(d) in numbers.draws for d in origin.draws)
        if again or (numbers.rest and numbers.names - {name}):
            note(f"several entries of the value at {line} have the same noise number, drawn at {origin.draw.where}")
        count = len(numbers.noisy)
        noisy = self.of_script(origin, numbers, count, noisy, 1)
        numbers.add(origin.draws, float(origin.scale), name, clean, noisy)
        numbers.computed = origin.computed
        self.space = max(0, self.space - BYTES)
        return single(noisy, replace(origin, shift=clean, member=(numbers, count), seen=None)) if self.closely else noisy

    def of_script(self, origin: Origin, numbers: Numbers, count: int, noisy: Any, terms: int) -> Any:
        """A noisy number, or that of the script if there is one. terms: how many times the program has added data to it."""
        if self.script is None:
            return noisy
        wanted = self.script[numbers.at] if numbers.at < len(self.script) else None
        if wanted is None or (wanted.line, wanted.noisy.ndim) != (numbers.line, 1) or count >= wanted.noisy.size:
            self.depart(numbers.line)
            return noisy
        away = self.unread * origin.scale if self.unread and wanted.terms[count] > terms else 0.0
        return type(noisy)(wanted.noisy[count] + away)

    def number_extended(self, origin: Origin, clean: float, noisy: Any) -> Any:
        """As `number_added`, for further data that the program adds to a noisy number. clean: all its data so far."""
        assert origin.member is not None
        numbers, count = origin.member
        numbers.terms[count] += 1
        noisy = self.of_script(origin, numbers, count, noisy, numbers.terms[count])
        numbers.clean[count], numbers.noisy[count] = clean, noisy
        self.tell_if_coarse(origin, numbers.line)
        return single(noisy, replace(origin, shift=clean))

    def noise_added(self, origin: Origin, clean: NDArray[np.float64], noisy: Any, alone: bool = True) -> Any:
        """Records a mechanism, unless all its noise is 0, and returns its noisy value, or that of the script if there is one.

        origin: of the noise; `seen` are the numbers that were added, or None if the draw itself returned the noisy value. A
        continuous law never draws 0, so the program has set the zeros. A note tells if the numbers hide less than their law says.
        alone: whether one number counts among those to which the same line adds noise.
        """
        noise, scale, line = origin.seen, origin.scale, calling_line()
        covered = np.broadcast_to((True if noise is None else noise != 0) & (np.asarray(scale) > 0), noisy.shape)
        if not self.space or not np.all(np.asarray(scale) >= 0) or not np.any(covered):
            return noisy
        if noise is not None and noisy.size == 1 and alone:
            own = replace(origin, scale=float(np.max(scale)), seen=None)
            noisy[...] = self.number_added(own, float(np.ravel(noise)[0]), float(np.ravel(clean)[0]), np.ravel(noisy)[0])
            return noisy
        half, self.half = self.half, None
        if noise is not None and noise.shape == noisy.shape == noisy.shape[::-1] and noisy.ndim == 2:
            signed = noise * np.sign(np.vdot(noise, noisy - clean))
            self.half = replace(origin, seen=signed)
        if half is not None and self.half is not None and (both := self.completed(half, self.half, clean, noisy)) is not None:
            return both
        shared, mirrored, partly = ((), False, False) if noise is None else repeated(origin, noise, noisy.shape)
        if partly:
            note(f"several entries of the value at {line} have the same noise number, drawn at {origin.draw.where}")
        self.tell_if_coarse(origin, line)
        if not np.all(covered):
            scale = np.where(covered, scale, 0.0)
        found = Mechanism(line, origin.draw, scale, clean, noisy, origin.beside, (), mirrored, shared, computed=origin.computed)
        return self.record(covered, found)

    def whole_added(self, draws: tuple[Draw, ...], scale: float, clean: NDArray[np.float64], noisy: Any) -> Any:
        """As `noise_added`, for whole numbers. draws: the two geometric ones whose difference is the noise."""
        if not self.space:
            return noisy
        found = Mechanism(calling_line(), draws[0], scale, clean, noisy, draws[1:], computed=TWO_SIDED)
        return self.record(np.array(True), found)

    def tell_if_coarse(self, origin: Origin, line: str) -> None:
        """Notes if the noise has few bits."""
        if coarse(origin):
            text = f"the noise drawn at {origin.draw.where} is rounded to {origin.bits} significant bits"
            note(f"{text}, so the last bits of the value at {line} may show the data")

    def completed(self, half: Origin, origin: Origin, clean: NDArray[np.float64], noisy: Any) -> Any:
        """As `noise_added`, for the second sum of `data + noise + noise.T`, which completes the last mechanism; None for other
        sums. half: the origin of the noise of the last sum.
        """
        last = self.known[-1] if self.known else None
        known = last is not None and last.draw is origin.draw and np.array_equal(last.noisy, clean)
        scale = of_mirrored(half, origin) if known else None
        if last is None or scale is None or last.mirrored or last.values:
            return None
        data = np.where(last.covered, last.clean, clean)
        whole = replace(last, scale=scale, clean=data, noisy=noisy, mirrored=True, parts=last.parts + 1)
        return self.record(scale > 0, whole, len(self.known) - 1)

    def accumulate(self, origin: Origin, clean: NDArray[np.float64], noisy: Any) -> Origin | None:
        """As `noise_added`, for data that the program adds into the array of the noise, to which it may add more. clean: all data
        so far. Returns the origin with which the array is followed further; None if it is not.
        """
        at = len(self.known) if origin.at is None else origin.at
        mechanism = None if origin.at is None else self.known[at]
        if mechanism is None:
            self.noise_added(origin, clean, noisy, alone=False)
        else:
            self.record(mechanism.covered, replace(mechanism, clean=clean, noisy=noisy, parts=mechanism.parts + 1), at)
        kept = at < len(self.known) and not origin.read
        return replace(origin, shift=clean, seen=noisy.copy(), at=at) if kept else None

    def report(self, draw: Draw, values: tuple[float, ...], chances: Any, value: Any, *more: Any, **fields: Any) -> Any:
        """Records a randomised report and returns its value, or that of the script if there is one.

        value: of the report. chances: its probabilities, as in `Mechanism.clean`; an entry with probability 1 of one
        value is not random. more: `beside` and `mirrored` of the Mechanism. fields: other fields of it.
        """
        if not self.space:
            return value
        beside, mirrored = more
        found = Mechanism(calling_line(), draw, 1.0, chances, value, beside, values, mirrored, **fields)
        return self.record(np.array(True), found)

    def record(self, covered: NDArray[np.bool_], mechanism: Mechanism, at: int | None = None) -> Any:
        """Adds a mechanism to `found`, or replaces the one at position `at`. Returns its noisy value, or that of the script if
        there is one. covered: the entries that the script replaces. Raises OtherMechanisms if the script has no such mechanism at
        this position.
        """
        noisy, line = mechanism.noisy, mechanism.line
        if at is None:
            self.space, at = max(0, self.space - mechanism.clean.nbytes - noisy.nbytes), len(self.known)
        if self.script is not None:
            wanted = self.script[at] if at < len(self.script) else None
            if wanted is None or (wanted.noisy.shape, wanted.line) != (noisy.shape, line) or wanted.parts < mechanism.parts:
                self.depart(line)
            else:
                noisy[...] = np.where(covered, wanted.noisy if wanted.parts == mechanism.parts else unfinished(wanted), noisy)
        self.known[at : at + 1] = [replace(mechanism, noisy=noisy.copy(), closely=self.closely)]
        return noisy

    def depart(self, line: str) -> None:
        """Raises OtherMechanisms."""
        raise OtherMechanisms(line)


def of_numbers(numbers: Numbers, closely: bool) -> Mechanism:
    """The mechanism of the noisy numbers of one line. closely: as in `Mechanism`."""
    first, *beside = numbers.draws.values()
    clean, noisy = np.array(numbers.clean), np.array(numbers.noisy)
    own = Mechanism(numbers.line, first, numbers.scale, clean, noisy, tuple(beside), shared=numbers.shared)
    return replace(own, closely=closely, terms=tuple(numbers.terms), computed=numbers.computed)


def place_of(draw: Draw) -> Place:
    """The line of a draw, and the lines of the calls that led to it."""
    return draw.line, draw.calls


def unfinished(mechanism: Mechanism) -> NDArray[Any]:
    """The noisy value of a mechanism while data are still to be added. It is far from all values of the run: a run that reads it
    changes its release or other clean values, so that the audit notices the reading.
    """
    places = np.arange(mechanism.noisy.size).reshape(mechanism.noisy.shape)
    return np.asarray(mechanism.noisy + UNREAD * mechanism.scale * np.cos(places**2))


def located_at_data(draw: Draw) -> bool:
    """Whether the location of a draw is an array that is not all 0, and therefore data."""
    return np.ndim(draw.loc) > 0 and bool(np.any(draw.loc))


def located(mechanisms: Mechanisms, draw: Draw) -> Origin:
    """The origin of a draw whose location is one number. Its scale is one number if all entries have the same, else an array."""
    same = np.ndim(draw.scale) and np.ptp(draw.scale) == 0
    one = same or np.ndim(draw.scale) == 0
    return Origin(mechanisms, draw, float(np.max(draw.scale)) if one else draw.scale, shift=float(np.max(draw.loc)))


def following() -> Mechanisms | None:
    """The mechanisms of the recording in progress; None if nothing is recorded, or if the recording follows no noise."""
    recorder = Active.recorder
    return recorder.follow if recorder is not None and isinstance(recorder.follow, Mechanisms) else None
