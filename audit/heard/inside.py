"""Computes how far one secret moves the clean values of the mechanisms within a run. The noisy values need not be released.

A clean value is a value before its noise is added. This module repeats the run without the secret, and gives every mechanism the
same noisy value as before. If the release still changes, a path past the noise leads from the secret to the release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...models.errors import one_line
from ...models.hearing.mechanisms.meetings import REPORT, Meeting, Meetings, OtherMechanisms
from ...models.hearing.mechanisms.sharing import again
from ...models.hearing.returns import digest, parting, returned
from ...models.random.streams import fold
from ..own.program import External
from .own_rows import own_places, private
from .playing import Diverged, play, rounding
from .reading import EACH, FAR, Entry, alike, idle, others, redrawn, repeated, unread
from .study import History, Shifts
from .worlds import without_many, without_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...accounting.claim import Unit
    from ..key import Key
    from .own_rows import Located
    from .playing import Play
    from .study import Study
    from .worlds import Without

# largest number of secrets that are removed one by one, each in a separate training; fewer for a program, which starts anew for
# each training
SECRETS, OF_PROGRAM = 12, 4
QUIET = 3  # number of nodes with the least noise that are among the secrets, for each mechanism
SAME = 1e-6  # relative tolerance between the sizes of the noise with and without the secret
SMALL = 1e-3  # in units of the scale: a change whose effect is nearly linear
ALIKE = 1e-2  # relative tolerance of `proportional`
REPEATED = 1e-4  # in units of the scale: tolerance between two moves that count as equal
LINES = 8  # largest number of lines that `_shows` tests one by one


class Incomparable(Exception):
    """A run without a secret cannot be compared with the run that it repeats; the message says why."""


@dataclass(frozen=True, eq=False)
class Inside:
    """The mechanisms within a run, and how far secrets move them.

    meetings: the mechanisms in order, each a place where noise is added to data. moves: for each secret, the move of each
    mechanism in units of its scale. past: for each array with a path past the noise, a sentence that names the secret which
    changes the array. doubts: why some secrets could not be tried. worst: the secret with the largest total move. shifts: the
    moves of `worst`, one array for each mechanism. again: mechanism -> the earlier mechanism whose noise it uses at all entries,
    both as positions. sums: groups of mechanisms. The run uses only the sum of the noisy values of a group. shared: why
    mechanisms share noise in another way, so that their moves cannot be composed; "" if none do. entangled: see `entangled`.
    together: whether the run could
    be repeated without many secrets at once. idle: the mechanisms that the run does not read; empty if there are more than EACH
    mechanisms. steady: the mechanisms that no secret moves, neither alone nor together with many others; empty if the run could
    not be repeated without many.
    """

    meetings: tuple[Meeting, ...]
    moves: tuple[tuple[str, tuple[float, ...]], ...]
    past: dict[str, str]
    doubts: tuple[str, ...]
    worst: Without | None = None
    shifts: Shifts = ()
    again: Mapping[int, int] = field(default_factory=dict)
    sums: tuple[tuple[int, ...], ...] = ()
    shared: str = ""
    entangled: str = ""
    together: bool = False
    idle: frozenset[int] = frozenset()
    steady: frozenset[int] = frozenset()

    def counted(self, shifts: Shifts) -> Shifts:
        """The moves that count in the composition; all other moves are set to 0.

        A mechanism that uses the noise of an earlier one and moves as the earlier one does repeats the same noisy value, so its
        move does not count. In a group of `sums`, only the sum counts. The last term gets the move of the sum, divided by the
        noise of the sum. The other terms get 0.
        """
        each = [
            np.zeros_like(by) if i in self.again and np.abs(by - shifts[self.again[i]]).max(initial=0) <= REPEATED else by
            for i, by in enumerate(shifts)
        ]
        for group in self.sums:
            scales = [np.broadcast_to(np.asarray(self.meetings[k].scale, dtype=np.float64), each[k].shape) for k in group]
            move = np.sum([each[k] * scale for k, scale in zip(group, scales, strict=True)], axis=0)
            noise = np.sqrt(np.sum(np.square(scales), axis=0))
            for k in group:
                each[k] = np.zeros_like(each[k])
            each[group[-1]] = np.divide(move, noise, out=np.zeros_like(move), where=noise > 0)
        return tuple(each)


def sums(made: Study, first: History, again: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yields groups of mechanisms whose noisy values the run uses only in their sum. All mechanisms of a group are on one line of
    code and have normal noise.

    The test changes all noisy values of a group at once, by random amounts. The values are terms of a sum if amounts that add up
    to 0 change nothing else. They are also terms of a sum if each amount changes only the clean value of the next term, by the
    same amount, as in a running sum.
    """
    lines: dict[object, list[int]] = {}
    for i, m in enumerate(first.meetings):
        if i not in again and m.law == "normal":
            lines.setdefault((m.line, m.clean.shape), []).append(i)
    random = np.random.default_rng(0)
    for group in (tuple(places) for places in lines.values() if len(places) > 1):
        terms = [first.meetings[k] for k in group]
        covered = np.logical_and.reduce([m.covered for m in terms])
        amounts = [np.where(covered, m.scale * random.standard_normal(m.clean.shape), 0.0) for m in terms[:-1]]
        zero = np.zeros(covered.shape)
        as_terms = _changes(made, first, group, (*amounts, -np.sum(amounts, axis=0)), (zero,) * len(group))
        if as_terms or _changes(made, first, group, (*amounts, zero), (zero, *amounts)):
            yield group


def added_only(made: Study, first: History, i: int, j: int, released: bool = False) -> bool:
    """Whether the run uses the noisy values of two mechanisms only in their sum. released: whether only the release counts, and
    not the clean values of other mechanisms.
    """
    one, other = first.meetings[i], first.meetings[j]
    if one.clean.shape != other.clean.shape or REPORT in (one.law, other.law):
        return False
    zero = np.zeros(one.clean.shape)
    by = np.where(one.covered & other.covered, one.scale * np.random.default_rng(0).standard_normal(zero.shape), 0.0)
    if released:
        run = repeated(made, first, _moved(first, (i, j), (by, -by)))
        return run is not None and same_release(first, run)
    return _changes(made, first, (i, j), (by, -by), (zero, zero))


def entangled(made: Study, first: History) -> str:
    """Why a recorded mechanism is not data plus noise of a known size that the release shows only in the noisy value; "" if all
    are.

    With other noise numbers, but the same noisy values, the data at each mechanism and the release must stay the same. With other
    numbers for all draws, the scales of the noise must stay the same: a normal number over the norm of its vector is not normal,
    for example.
    """
    noise = _drawn(first, first.meetings)
    for some in (noise, range(len(first.play.draws))) if noise else ():
        other = repeated(made, first, {}, redrawn(made, some))
        if other is None:
            return "with other random numbers the run has other mechanisms, or fails"
        for m, o in zip(first.meetings, other.meetings, strict=True):
            if m.law != REPORT and not np.allclose(m.scale, o.scale, rtol=SAME, atol=0):
                return f"the size of the noise at {m.line} depends on random numbers"
            if some is noise and not np.array_equal(m.clean, o.clean):
                return f"the value to which noise is added at {m.line} depends on this noise itself"
        if some is noise and not alike(first, other.play):
            return f"the release shows the noise itself, drawn at {_shows(made, first)}"
    return ""


def _drawn(first: History, meetings: Sequence[Meeting]) -> list[int]:
    """The positions of the draws that are the noise of these mechanisms."""
    own = {id(draw) for m in meetings for draw in (m.draw, *m.beside)}
    return [at for at, draw in enumerate(first.play.draws) if id(draw) in own]


def _shows(made: Study, first: History) -> str:
    """The first line that draws noise which the release shows besides the noisy values; all lines if no line alone does, or if
    there are more than LINES.
    """
    lines: dict[str, list[int]] = {}
    for at in _drawn(first, first.meetings):
        lines.setdefault(first.play.draws[at].line, []).append(at)
    for line, places in lines.items() if len(lines) <= LINES else ():
        other = repeated(made, first, {}, redrawn(made, places))
        if other is None or not alike(first, other.play):
            return line
    return ", ".join(lines)


def proportional(made: Study, first: History, i: int, j: int) -> bool:
    """Whether small changes of two noisy values by the same amounts change the release in proportion, as if the run used only one
    weighted sum of both.
    """
    one = first.meetings[i]
    by = SMALL * _amounts(one)
    gaps = []
    for k in (i, j):
        run = repeated(made, first, _moved(first, (k,), (by,)))
        if run is None:
            return True
        gaps.append(np.concatenate([(run.play.cells[c] - a).ravel() for c, a in first.play.cells.items()]))
    share = float(gaps[0] @ gaps[1]) / max(float(gaps[0] @ gaps[0]), 1e-300)
    return float(np.linalg.norm(gaps[1] - share * gaps[0])) <= ALIKE * float(np.linalg.norm(gaps[1]))


def averaged(made: Study, first: History, i: int) -> bool:
    """Whether the run uses the entries of a mechanism that share a noise number only in their sum."""
    one = first.meetings[i]
    by = _amounts(one)
    by -= by.mean(axis=one.shared, keepdims=True)
    return _changes(made, first, (i,), (by,), (np.zeros(by.shape),))


def _changes(made: Study, first: History, group: Sequence[int], amounts: Shifts, expected: Shifts) -> bool:
    """Whether these amounts, added to the noisy values of a group, change its clean values as expected, and nothing else."""
    other = repeated(made, first, _moved(first, group, amounts))
    if other is None:
        return False
    wanted = dict(zip(group, expected, strict=True))
    for k, (m, o) in enumerate(zip(first.meetings, other.meetings, strict=True)):
        size = max(1.0, float(np.abs(m.noisy).max(initial=0)))
        if np.abs(o.clean - m.clean - wanted.get(k, 0.0)).max(initial=0) > REPEATED * SAME * size:
            return False
    return same_release(first, other)


def _amounts(met: Meeting) -> NDArray[np.float64]:
    """Random amounts, as large as the noise, for the entries with noise; 0 for the others."""
    return np.where(met.covered, met.scale * np.random.default_rng(0).standard_normal(met.clean.shape), 0.0)


def _moved(first: History, group: Sequence[int], amounts: Shifts) -> dict[int, Meeting]:
    """The mechanisms of a group with these amounts added to their noisy values."""
    moved = {}
    for k, by in zip(group, amounts, strict=True):
        noisy = first.meetings[k].noisy
        moved[k] = dataclasses.replace(first.meetings[k], noisy=(noisy + by).astype(noisy.dtype))
    return moved


def same_release(first: History, other: History) -> bool:
    """Whether two runs release the same numbers, up to rounding."""
    return all((np.abs(other.play.cells[c] - a) <= 10 * rounding(a)).all() for c, a in first.play.cells.items())


def inside(made: Study, unit: Unit, key: Key) -> Inside | str:
    """The mechanisms of the run on the whole graph, with their moves by several secrets. If the mechanisms are not known, returns
    the reason instead, and "" if the run adds no recorded noise to data.
    """
    first = history(made, 0)
    if first.play.notes:
        return first.play.notes[0]
    cells = made.base.cells
    same = first.play.cells.keys() == cells.keys() and all(np.array_equal(a, first.play.cells[c]) for c, a in cells.items())
    if not same:
        return "recording the mechanisms within a run changes its release"
    if not first.complete:
        return "the values of the mechanisms within the run take more than 1 GiB, and were not followed"
    if not first.meetings:
        return ""
    repeats, shared = again(first.meetings, first.play.draws, made.copies)
    moves: list[tuple[str, tuple[float, ...]]] = []
    read: dict[int, dict[Entry, bool | None]] = {i: {} for i, m in enumerate(first.meetings) if m.law == REPORT}
    past: dict[str, str] = {}
    bound_up = entangled(made, first)
    doubts = [why for why in (bound_up, shared) if why]
    worst: Without | None = None
    most = 0.0
    largest: Shifts = ()
    places = range(len(first.meetings))
    unused = idle(made, first, [[i] for i in reversed(places)]) if len(places) <= EACH else frozenset[int]()
    repeats = without_idle(repeats, unused)
    added = tuple(sums(made, first, repeats))
    found = Inside(first.meetings, (), {}, (), again=repeats, sums=added, shared=shared, entangled=bound_up, idle=unused)
    limit = OF_PROGRAM if isinstance(made.model, External) else SECRETS
    for absent in without_one(made.whole, unit, key, quietest(first), limit):
        try:
            after, shifts = without(made, first, absent)
        except Incomparable as reason:
            doubts.append(str(reason))
            continue
        shifts, lost = _used(made, first, found.idle, shifts, read)
        doubts += lost
        each = tuple(m.size(by) for m, by in zip(first.meetings, found.counted(shifts), strict=True))
        moves.append((absent.secret, each))
        if (total := float(np.linalg.norm(each))) > most * (1 + SAME):
            worst, most, largest = absent, total, shifts
        past = changed(made, first, absent, after, past)
    together, steady = False, {i for i in places if not any(each[i] for _, each in moves)}
    for many in without_many(made.whole, unit, key.fold("many")):
        try:
            runs = [(absent, kept(made, first, absent)) for absent in many]
        except Incomparable:
            continue
        for absent, repetition in runs:
            past = changed(made, first, absent, repetition.play, past)
            clean = zip(first.meetings, repetition.meetings, strict=True)
            steady -= {i for i, (m, o) in enumerate(clean) if not np.array_equal(m.clean, o.clean)}
        together = True
        break
    return dataclasses.replace(
        found,
        moves=tuple(moves),
        past=past,
        doubts=tuple(doubts),
        worst=worst,
        shifts=largest,
        together=together,
        steady=frozenset(steady if together else ()),
    )


def quietest(first: History) -> NDArray[np.int64]:
    """The nodes with the least noise in mechanisms whose noise differs from node to node, QUIET of each mechanism."""
    nodes, found = first.worlds.graph.nodes, []
    for m in first.meetings:
        scale = np.asarray(m.scale, dtype=np.float64)
        if m.law != REPORT and scale.ndim and np.ptp(scale) > 0 and len(m.clean) == nodes:
            each = np.where(m.covered, np.broadcast_to(scale, m.clean.shape), np.inf).reshape(nodes, -1).min(1)
            found.append(np.argsort(each, kind="stable")[:QUIET])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def _used(
    made: Study, first: History, idle: Collection[int], shifts: Shifts, read: Mapping[int, dict[Entry, bool | None]]
) -> tuple[Shifts, list[str]]:
    """The moves, set to 0 for mechanisms and entries of reports that the run does not read.

    The second result is a sentence for each report of which it is not known which entries the run reads. read: for each report,
    whether the run reads an entry, as far as this is known; the function adds to it.
    """
    kept, doubts = [], []
    for i, by in enumerate(shifts):
        if i in idle or i not in read:
            kept.append(np.zeros_like(by) if i in idle else by)
            continue
        left, lost = unread(made, first, i, by, read[i])
        kept.append(left)
        if lost:
            doubts.append(f"it is not known which of {lost} randomised reports at {first.meetings[i].line} the run uses")
    return tuple(kept), doubts


def changed(made: Study, first: History, absent: Without, after: Play, known: dict[str, str]) -> dict[str, str]:
    """`known` and the arrays that differ without the secret although every noisy value is the same, each with a sentence."""
    past = dict(known)
    for cell, before in made.base.cells.items():
        other = after.cells.get(cell)
        gap = np.abs(other - before) if other is not None and other.shape == before.shape else np.full(before.shape, np.inf)
        if absent.hidden is not None and gap.ndim and len(gap) == made.whole.graph.nodes:
            gap[absent.hidden] = 0.0
        if (gap <= made.base.last_places(cell)).all() or cell.array in past:
            continue
        told = f"{absent.secret} changes '{cell.array}' although every noisy value is the same"
        where = "" if past or isinstance(made.model, External) else parted(made, first, absent)
        past[cell.array] = f"{told}; the path past the noise begins at {where}" if where else told
    return past


def parted(made: Study, first: History, absent: Without) -> str:
    """The line of the model where a path past the noise begins.

    It is the first line whose result differs without the secret and is not the clean value of a mechanism.
    """
    with returned() as one:
        play(made.model, first.worlds, script=first.play.draws, follow=Meetings(first.meetings))
    with returned() as other:
        kept(made, first, absent)
    return parting(one, other, {number for m in first.meetings if (number := digest(m.clean)) is not None})


def without_idle(again: Mapping[int, int], idle: Collection[int]) -> dict[int, int]:
    """`again`, restricted to the mechanisms that the run reads. If the first of several mechanisms with the same noise is idle,
    the next of them replaces it.
    """
    firsts: dict[int, int] = {}
    left = {}
    for i, j in sorted(again.items()):
        if i not in idle and (stands := j if j not in idle else firsts.setdefault(j, i)) != i:
            left[i] = stands
    return left


def history(made: Study, number: int) -> History:
    """A run on the whole graph, and the mechanisms that it ran. Number 0 has the seed of the study; every other number has
    another seed.

    The other seeds are hashes, because a model may ignore the lowest bits of its seed.
    """
    if number < len(made.histories):
        return made.histories[number]
    seeds = [fold(int(s), "history", number) % 2**64 if number else int(s) for s in made.whole.seeds]
    worlds = dataclasses.replace(made.whole, seeds=np.array(seeds, dtype=np.uint64))
    heard = Meetings()
    played = play(made.model, worlds, follow=heard)
    return History(worlds, played, tuple(heard.found), bool(heard.space))


def without(made: Study, first: History, absent: Without) -> tuple[Play, Shifts]:
    """Repeats a run without a secret, with every noisy value the same. Returns the run and the move of each clean value, see
    `moved`.

    Raises Incomparable if the run cannot be repeated in this way.
    """
    after = kept(made, first, absent)
    return after.play, moved(made, first, absent, after)


def kept(made: Study, first: History, absent: Without) -> History:
    """The repetition of a run without a secret, with every noisy value the same. Raises Incomparable as `without`."""
    again = Meetings(first.meetings)
    worlds = dataclasses.replace(absent.worlds, seeds=first.worlds.seeds)
    try:
        after = play(made.model, worlds, script=first.play.draws, follow=again)
    except (Diverged, OtherMechanisms) as line:
        raise Incomparable(f"{absent.secret} changes what is drawn or which mechanisms are run ({line})") from None
    except Exception as fault:  # a user's model may refuse a graph with any exception
        told = f"in a world that differs by {absent.secret} the training ends ({type(fault).__name__}: {one_line(fault)})"
        raise Incomparable(told) from None
    if len(again.found) != len(first.meetings):
        raise Incomparable(f"{absent.secret} changes how many mechanisms are run")
    both = list(zip(first.meetings, again.found, strict=True))
    if any(not np.allclose(m.scale, o.scale, rtol=SAME, atol=0) for m, o in both):
        raise Incomparable(f"{absent.secret} changes the size of the noise")
    if any(m.values != o.values for m, o in both):
        raise Incomparable(f"{absent.secret} changes which values a report can have")
    return History(worlds, after, tuple(again.found))


def moved(made: Study, first: History, absent: Without, after: History) -> Shifts:
    """How far the clean value of each mechanism moves from a run to its repetition `after` without a secret, in units of the
    scale.

    Rows of absent nodes do not count if the repetition reads them for nothing but these nodes' own released rows. Raises
    Incomparable if it is not known which entries are rows of an absent node.
    """
    gaps = [other.clean - one.clean for one, other in zip(first.meetings, after.meetings, strict=True)]
    if absent.hidden is None:
        return tuple(m.over(by) for m, by in zip(first.meetings, gaps, strict=True))
    nodes = absent.worlds.graph.nodes
    tried = [
        (i, place)
        for i, (m, by) in enumerate(zip(first.meetings, gaps, strict=True))
        for place in own_places(m.noisy.shape, nodes, absent.hidden)
        if np.any(by[place.mask(m.noisy.shape)])
    ]
    own = private(tried, lambda changed, known: _read_alone(made, first, absent, after, changed, known))
    for i, place in own:
        gaps[i] = place.left_out(gaps[i], first.meetings[i].shared)
    known = {(i, place.axis) for i, place in own}
    if lost := next((i for i, place in tried if not place.exact and (i, place.axis) not in known), None):
        line = first.meetings[lost].line
        raise Incomparable(f"it is not known which entries of the value at {line} are rows of {absent.secret}")
    return tuple(m.over(by) for m, by in zip(first.meetings, gaps, strict=True))


def _read_alone(
    made: Study, first: History, absent: Without, after: History, changed: Sequence[Located], known: Sequence[Located]
) -> bool:
    """Whether other noisy values at the places `changed`, in the run `after` without a secret, change nothing but released rows
    of absent nodes and clean values at the places `known`.
    """
    masks, own = (
        [
            np.logical_or.reduce([np.zeros(m.noisy.shape, dtype=bool), *(p.mask(m.noisy.shape) for j, p in some if j == i)])
            for i, m in enumerate(after.meetings)
        ]
        for some in (changed, known)
    )
    for size in (FAR[1],) if isinstance(made.model, External) else FAR:
        instead = {
            i: dataclasses.replace(m, noisy=np.where(mask, others(m, size), m.noisy).astype(m.noisy.dtype))
            for i, (m, mask) in enumerate(zip(after.meetings, masks, strict=True))
            if mask.any()
        }
        run = repeated(made, after, instead, first.play.draws)
        if run is None or not alike(after, run.play, absent.hidden):
            return False
        for m, o, mask in zip(after.meetings, run.meetings, own, strict=True):
            if not np.array_equal(m.scale, o.scale) or np.any((o.clean != m.clean)[~mask]):
                return False
    return True
