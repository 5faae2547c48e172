"""Finds out which mechanisms of a run, and which entries of a randomised report, the run reads.

If the run does not read a value, another value in its place changes neither the release nor another mechanism.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...models.hearing.mechanisms.meetings import REPORT, Meetings
from ..own.program import External
from .playing import play
from .study import History

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.hearing import Draw
    from ...models.hearing.mechanisms.meetings import Meeting
    from .playing import Play
    from .study import Study

SHOWN, SHOWN_OF_PROGRAM = 8, 1  # largest number of entries of a report that are tested for a released number that shows them
RUNS, RUNS_OF_PROGRAM = 64, 12  # largest number of runs that test, for one secret, which moved entries of a report are read
Entry = tuple[int, ...]


def idle(made: Study, first: History, groups: Iterable[Sequence[int]]) -> frozenset[int]:
    """The mechanisms that the run does not read. The mechanisms of a group are tested together, and all count as read if one is
    read.
    """
    found: set[int] = set()
    for some in groups:
        other = repeated(made, first, {i: elsewhere(first.meetings[i], i) for i in some})
        if other is not None and same_means(first.meetings, other.meetings, found) and alike(first, other.play):
            found |= set(some)
    return frozenset(found)


def repeated(made: Study, first: History, instead: Mapping[int, Meeting], draws: list[Draw] | None = None) -> History | None:
    """Repeats a run, in which some mechanisms give other noisy values.

    instead: position of a mechanism -> the mechanism with its other noisy value. draws: if given, they replace the other draws of
    the run. Returns None if the run cannot go on, because later mechanisms depend on these values or the model refuses them.
    """
    heard = Meetings([instead.get(i, m) for i, m in enumerate(first.meetings)])
    try:
        played = play(made.model, first.worlds, script=draws or first.play.draws, follow=heard)
    except Exception:  # a user's model may refuse other values with any exception
        return None
    return History(first.worlds, played, tuple(heard.found)) if len(heard.found) == len(first.meetings) else None


def same_means(some: Sequence[Meeting], other: Sequence[Meeting], left_out: Collection[int] = ()) -> bool:
    """Whether noise was added to the same values in both runs. The mechanisms `left_out` are not compared."""
    pairs = enumerate(zip(some, other, strict=True))
    return all(i in left_out or np.array_equal(m.clean, o.clean) for i, (m, o) in pairs)


def alike(first: History, other: Play) -> bool:
    return all(np.array_equal(a, other.cells[c]) for c, a in first.play.cells.items())


def elsewhere(meeting: Meeting, seed: int) -> Meeting:
    """The mechanism with another noisy value. The entries move by separate random amounts, because a softmax or a normalisation
    may undo a common change. A report gets the values of `others`.
    """
    if meeting.law == REPORT:
        return replace(meeting, noisy=others(meeting).astype(meeting.noisy.dtype))
    return moved_by(meeting, 1.0, seed)


def moved_by(meeting: Meeting, size: float, seed: int) -> Meeting:
    """The mechanism with noisy values that are moved at random by about `size` times the noise, and by no less than rounding."""
    step = np.maximum(size * np.asarray(meeting.scale, dtype=np.float64), 8.0 * np.spacing(np.abs(meeting.noisy)))
    other = np.random.default_rng(seed).standard_normal(meeting.noisy.shape)
    return replace(meeting, noisy=(meeting.noisy + step * other).astype(meeting.noisy.dtype))


def others(report: Meeting) -> NDArray[np.float64]:
    """For each entry of a report another possible value: the next in order, or the first after the last."""
    values = np.array(report.values)
    return values[(np.abs(np.asarray(report.noisy, dtype=np.float64)[..., None] - values).argmin(-1) + 1) % len(values)]


def unread(
    made: Study, first: History, i: int, by: NDArray[np.float64], known: dict[Entry, bool | None]
) -> tuple[NDArray[np.float64], int]:
    """The move of a report, set to 0 at the entries that the run does not read, and the number of entries for which this is not
    known.

    The search halves groups of entries until each group is unread or has one entry. After RUNS runs (RUNS_OF_PROGRAM for a
    program), the remaining entries are not known, and get 0 too. known: entry -> whether the run reads it, None if this is not
    known. The function adds entries to it.
    """
    moved = [tuple(entry) for entry in np.argwhere(first.meetings[i].moved(by)).tolist()]
    left = RUNS_OF_PROGRAM if isinstance(made.model, External) else RUNS

    def told(group: list[Entry], certain: bool = False) -> bool | None:
        """Tests a group and writes to `known`. Returns whether the run reads an entry of the group, None if this is not known.
        certain: it is already known that the run reads one.
        """
        nonlocal left
        if not group:
            return False
        left -= not certain
        read = True if certain else None if left < 0 else _read(made, first, i, group)
        if not read or len(group) == 1:
            known.update(dict.fromkeys(group, read))
            return read
        half = len(group) // 2
        one = told(group[:half])
        told(group[half:], certain=one is False)
        return True

    told([entry for entry in moved if entry not in known])
    kept = np.zeros_like(by)
    for entry in (entry for entry in moved if known[entry]):
        kept[entry] = by[entry]
    return kept, sum(known[entry] is None for entry in moved)


def _read(made: Study, first: History, i: int, entries: Sequence[Entry]) -> bool:
    """Whether other values of these entries of a report change the release or another mechanism."""
    report = first.meetings[i]
    noisy, other = report.noisy.copy(), others(report)
    for entry in entries:
        noisy[entry] = other[entry]
    other_run = repeated(made, first, {i: replace(report, noisy=noisy)})
    return other_run is None or not same_means(first.meetings, other_run.meetings) or not alike(first, other_run.play)


def shown(made: Study, first: History, i: int, by: NDArray[np.float64]) -> NDArray[np.float64]:
    """The move of a report, set to 0 at the entries that no released number shows. Only the first moved entries are tested; all
    others get 0.
    """
    left = np.zeros_like(by)
    most = SHOWN_OF_PROGRAM if isinstance(made.model, External) else SHOWN
    for entry in map(tuple, np.argwhere(first.meetings[i].moved(by))[:most].tolist()):
        if _shown(made, first, i, entry):
            left[entry] = by[entry]
    return left


def _shown(made: Study, first: History, i: int, entry: Entry) -> bool:
    """Whether some released number depends on this entry of a report and on no other report, noise or draw.

    The test replaces all other random values, twice. Each time the number must stay the same, and must change as before if the
    entry changes.
    """
    runs = [_replaced(made, first, i, entry, changed, seed) for seed in (None, 0, 1) for changed in (False, True)]
    before, after, *others_ = [None if run is None else run.play.cells for run in runs]
    if before is None or after is None:
        return False
    for cell, one in before.items():
        here = one != after[cell]
        for known, wanted in zip(others_, (one, after[cell]) * 2, strict=True):
            if known is None:
                return False
            here &= known[cell] == wanted
        if here.any():
            return True
    return False


def _replaced(made: Study, first: History, i: int, entry: Entry, changed: bool, seed: int | None) -> History | None:
    """The first run, with another value of one entry if `changed`. If `seed` is given, all other random values are replaced; in
    the same report, about half of the other entries.
    """
    report = first.meetings[i]
    script, draws = list(first.meetings), None
    other, noisy = others(report), report.noisy.copy()
    if seed is not None:
        script = [elsewhere(m, seed + k) for k, m in enumerate(script)]
        draws = made.others[seed % len(made.others)]
        some = np.random.default_rng(seed).random(noisy.shape) < 0.5
        noisy[some] = other[some]
    noisy[entry] = other[entry] if changed else report.noisy[entry]
    script[i] = replace(report, noisy=noisy)
    return repeated(made, first, dict(enumerate(script)), draws)
