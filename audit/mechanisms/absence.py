"""Repeats a run without a secret. Every mechanism returns the noisy value of the first run."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...models.base import Model
from ...models.capabilities import RunsElsewhere
from ...models.errors import one_line, raised
from ...models.graph.graph import Worlds
from ...models.random.streams import fold
from ...models.recorder import Draw
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.mechanism import PICK, REPORT, Mechanism
from ..recorded.playing import Cell, Diverged, Play, marked, play
from ..recorded.secrets.own_rows import Located, own_places, private
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History, Shifts, Study, on_its_base, same, unreplaced
from .reading import ENDS, FAR, alike, others, repeated
from .relations import same_size

FULL = "the values of the mechanisms within the run take more than 1 GiB, and were not followed"


class Incomparable(Departed):
    """A run without a secret cannot be compared with the run that it repeats; the message says why."""


class OtherNoise(Incomparable):
    """The noise of a run without a secret, or without several, is of another size or kind. absent: the world without them."""

    def __init__(self, text: str, absent: Absence) -> None:
        super().__init__(text)
        self.absent = absent


def history(made: Study, number: int) -> History:
    """A run on the whole graph, and the mechanisms that it ran. Number 0 has the seed of the study; every other number has
    another seed.

    The other seeds are hashes, because a model may ignore the lowest bits of its seed. If the recorder's arrays end run number 0,
    which the study has seen without them, the result is the study's run, without mechanisms; a note says why. Raises Diverged if
    the training ends with another seed.
    """
    if number < len(made.histories) and not (made.closely or made.maxima):
        return History(made, *made.histories[number])
    seeds = [fold(int(s), "history", number) % 2**64 if number else int(s) for s in made.whole.seeds]
    worlds = dataclasses.replace(made.whole, seeds=np.array(seeds, dtype=np.uint64))
    recorded = Mechanisms(closely=made.closely, maxima=made.maxima)
    try:
        script = marked(play(made.model, worlds).draws, made.weights) if made.weights else None
        played = play(made.model, worlds, script=script, follow=recorded)
    except Exception as fault:  # a user's code may refuse a subclass of ndarray with any exception
        if number:
            raise Diverged(f"{ENDS} ({type(fault).__name__}), so they may hide a secret") from fault
        text = f"the recorder's arrays end the training: {raised(fault)}"
        return History(made, worlds, dataclasses.replace(made.base, notes=(text,)), ())
    if not recorded.space:
        played = dataclasses.replace(played, notes=(*played.notes, FULL))
    return History(made, worlds, played, tuple(recorded.found))


def draws_nothing(model: Model, worlds: Worlds) -> bool:
    """Whether a run in this process draws no random number, and releases the same with another seed. False if a run fails."""
    if isinstance(model, RunsElsewhere):
        return False
    other = dataclasses.replace(worlds, seeds=np.array([fold(int(s), "nothing") % 2**64 for s in worlds.seeds], dtype=np.uint64))
    try:
        one, again = (play(model, each) for each in (worlds, other))
    except Exception:  # a user's model may refuse a graph with any exception
        return False
    return not one.draws and not again.draws and same(one, again)


def moves_without(first: History, absent: Absence) -> Shifts:
    """How far each clean value moves without a secret, with every noisy value the same, see `moved`. Raises Incomparable if the
    run cannot be repeated in this way.
    """
    return moved(first, absent, kept(first, absent))


def kept(first: History, absent: Absence, again: Mechanisms | None = None, draws: list[Draw] | None = None) -> History:
    """The repetition of a run without a secret, with every noisy value the same. again: finds the mechanisms of the repetition.
    draws: by default those of the run. Raises Incomparable if the run cannot be repeated in this way.
    """
    again = again or Mechanisms(first.mechanisms)
    worlds = dataclasses.replace(absent.worlds, seeds=first.worlds.seeds)
    try:
        script = draws or first.play.draws
        same = unreplaced(first.study, script)
        after = play(first.study.model, worlds, script=script, follow=again, constant=same)
    except Departed as line:
        raise Incomparable(f"{absent.secret} changes what is drawn or which mechanisms are run ({line})") from None
    except Exception as fault:  # a user's model may refuse a graph with any exception
        text = f"in a world that differs by {absent.secret} the training ends ({type(fault).__name__}: {one_line(fault)})"
        raise Incomparable(text) from None
    if len(again.found) != len(first.mechanisms):
        raise Incomparable(f"{absent.secret} changes how many mechanisms are run")
    both = list(zip(first.mechanisms, again.found, strict=True))
    if not all(same_size(m, o) for m, o in both):
        raise OtherNoise(f"{absent.secret} changes the size of the noise", absent)
    if other := next((m.line for m, o in both if m.parts != o.parts), ""):
        raise Incomparable(f"{absent.secret} changes how many times data are added to the noise at {other}")
    if any(m.values != o.values for m, o in both):
        raise OtherNoise(f"{absent.secret} changes which values a report can have", absent)
    return History(first.study, worlds, after, tuple(again.found))


def moved_cells(one: Play, other: Play, absent: Absence) -> Iterator[Cell]:
    """Yields the cells that differ in two runs by more than rounding. Own rows of absent nodes do not count."""
    for cell, values in one.cells.items():
        if (absent.shown(values.shape) & ~one.same(other, cell)).any():
            yield cell


def changed_without(run: History, absent: Absence) -> set[Cell] | None:
    """The cells that change without a secret although every noisy value is the same; None if the run cannot be repeated."""
    try:
        return set(moved_cells(run.play, kept(run, absent).play, absent))
    except Incomparable:
        return None


def run_on_its_base(first: History, absent: Absence) -> tuple[History, Absence]:
    """As `on_its_base`, for a run whose mechanisms were recorded."""
    made, one = on_its_base(first.study, absent)
    return first if one is absent else history(made, 0), one


def both(first: History, absent: Absence) -> tuple[History, History]:
    """The runs with and without a secret, with the noisy values of `first`."""
    return first if absent.base is None else kept(first, absent.base), kept(first, absent)


def moved_between(one: History, other: History, absent: Absence) -> Shifts:
    """How far each clean value moves between two runs, in units of its noise. Own rows of absent nodes do not count. Raises
    ValueError if a clean value has another shape.
    """
    gaps = [(m, o.clean - m.clean) for m, o in zip(one.mechanisms, other.mechanisms, strict=True)]
    return tuple(m.over(by * absent.shown(by.shape)) for m, by in gaps)


def sizes_between(one: History, absent: Absence, draws: list[Draw] | None = None) -> Sequence[float]:
    """How far each clean value moves from a run to its repetition without a secret; empty if they cannot be compared. draws: the
    numbers that the repetition gets, by default those of the run.
    """
    try:
        return one.sizes(moved_between(one, kept(one, absent, draws=draws), absent))
    except (Incomparable, ValueError):  # a clean value of another shape has no move
        return ()


def moved(first: History, absent: Absence, after: History) -> Shifts:
    """How far the clean value of each mechanism moves from a run to its repetition `after` without a secret, in units of the
    scale. If the world has a `base`, the move is that from the repetition in the base; of a report, only entries count whose
    probabilities in the base are those of the run, because the cost of their move depends on where it starts.

    Rows of absent nodes do not count if the repetition reads them for nothing but these nodes' own released rows. Raises
    Incomparable if it is not known which entries are rows of an absent node.
    """
    start = first if absent.base is None else kept(first, absent.base)
    gaps = [other.clean - one.clean for one, other in zip(start.mechanisms, after.mechanisms, strict=True)]
    if absent.base is not None:
        gaps = [_from_first(*each) for each in zip(first.mechanisms, start.mechanisms, gaps, strict=True)]
    if absent.hidden is not None:
        _leave_out_own(first, absent, after, gaps)
    if absent.half:
        gaps = [_half(m, by, absent) for m, by in zip(first.mechanisms, gaps, strict=True)]
    return tuple(m.over(by) for m, by in zip(first.mechanisms, gaps, strict=True))


def _half(mechanism: Mechanism, by: NDArray[np.float64], absent: Absence) -> NDArray[np.float64]:
    """What one of two steps moves at least, if both together move a clean value `by`. A report of a node's own value is changed
    by one of the steps, as far as by both; so is a pick in the node's own row. How far one step changes another pick is not
    known, so it does not count.
    """
    if mechanism.law != REPORT:
        return by / 2
    if mechanism.shown != PICK:
        return by
    own = np.zeros_like(by)
    if len(by) == absent.worlds.graph.nodes:
        own[absent.among] = by[absent.among]
    return own


def _from_first(mechanism: Mechanism, start: Mechanism, by: NDArray[np.float64]) -> NDArray[np.float64]:
    """The move `by` of a mechanism from `start`, 0 for entries of a report that start from other probabilities than the run's."""
    if mechanism.law != REPORT:
        return by
    return np.where(np.any(start.clean != mechanism.clean, axis=-1, keepdims=True), 0.0, by)


def _leave_out_own(first: History, absent: Absence, after: History, gaps: list[NDArray[np.float64]]) -> None:
    """Leaves the rows of absent nodes that are read for their own released rows alone out of the moves `gaps`, in place. Raises
    Incomparable as `moved`.
    """
    assert absent.hidden is not None
    nodes = absent.worlds.graph.nodes
    tried = [
        (i, place)
        for i, (m, by) in enumerate(zip(first.mechanisms, gaps, strict=True))
        for place in own_places(m.noisy.shape, nodes, absent.hidden)
        if np.any(by[place.mask(m.noisy.shape)])
    ]
    own = private(tried, lambda changed, known: _read_alone(first, absent, after, changed, known))
    for i, place in own:
        gaps[i] = place.left_out(gaps[i], first.mechanisms[i].shared)
    known = {(i, place.axis) for i, place in own}
    if lost := next((i for i, place in tried if not place.exact and (i, place.axis) not in known), None):
        line = first.mechanisms[lost].line
        raise Incomparable(f"it is not known which entries of the value at {line} are rows of {absent.secret}")


def _read_alone(first: History, absent: Absence, after: History, changed: Sequence[Located], known: Sequence[Located]) -> bool:
    """Whether other noisy values at the places `changed`, in the run `after` without a secret, change nothing but released rows
    of absent nodes and clean values at the places `known`.
    """
    masks, own = (
        [
            np.logical_or.reduce([np.zeros(m.noisy.shape, dtype=bool), *(p.mask(m.noisy.shape) for j, p in some if j == i)])
            for i, m in enumerate(after.mechanisms)
        ]
        for some in (changed, known)
    )
    for size in FAR if first.study.effort.thorough else FAR[1:2]:
        instead = {
            i: dataclasses.replace(m, noisy=np.where(mask, others(m, size), m.noisy).astype(m.noisy.dtype))
            for i, (m, mask) in enumerate(zip(after.mechanisms, masks, strict=True))
            if mask.any()
        }
        run = repeated(after, instead, first.play.draws)
        if run is None or not alike(after, run.play, absent.hidden):
            return False
        for m, o, mask in zip(after.mechanisms, run.mechanisms, own, strict=True):
            if not np.array_equal(m.scale, o.scale) or np.any((o.clean != m.clean)[~mask]):
                return False
    return True
