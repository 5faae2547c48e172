"""Finds paths past the noise: a secret changes entries of the release although every noisy value stays the same."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Worlds
from ...models.recorder import Draw
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.sharing import ALIKE
from ...reports.rounding import several
from .forcing import Forced
from .other_numbers import tried_hard, tried_harder
from .playing import Cell, Diverged, Play, play
from .secrets.worlds import Absence
from .sources import WHOLE, in_line, laid_out, moved_by, nudge
from .study import History, Study

NO_SEED = "no seed changes these entries"
Masks = Mapping[Cell, "NDArray[np.bool_]"]


@dataclass(frozen=True)
class Certificate:
    """A proof that epsilon is infinite: one secret changes entries of a cell that no draw changes.

    rows, entries: how many rows and entries of the cell change. size: the largest change. seeded: the line of draws that are the
    same for all seeds, if this is the reason why no draw changes the entries. beside: see `other_hop` and `not_fresh`.
    """

    secret: str
    cell: Cell
    rows: int
    entries: int
    size: float
    seeded: str = ""
    beside: str = ""

    def __str__(self) -> str:
        entries = several(self.entries, "entry", f"entries in {several(self.rows, 'row')}")
        where = f"{entries} of {self.cell}"
        changes = f"{self.secret} changes {where} by up to {self.size:.3g}"
        if self.seeded:
            return f"{changes}, and {NO_SEED}: the random numbers of {self.seeded} are the same for all seeds"
        same = "although every value with noise of its own is the same, so no noise of their own covers these entries"
        return f"{changes} {same}{self.beside}"


def changed(made: Study, after: Play, hidden: NDArray[np.int64] | None = None) -> dict[Cell, NDArray[np.bool_]]:
    """For each cell, the entries that differ from the study's first run by more than rounding; cells without such entries are
    left out. hidden: nodes whose own rows are not compared.
    """
    found = {}
    for cell in made.base.cells:
        differ = ~(_gap(made, after, cell) <= made.slack[cell])
        if hidden is not None and differ.ndim and differ.shape[0] == made.whole.graph.nodes:
            differ[hidden] = False
        if differ.any():
            found[cell] = differ
    return found


def _gap(made: Study, after: Play, cell: Cell) -> NDArray[np.float64]:
    """How far the entries of a cell are from those of the study's first run; infinite if their number or their type differs."""
    before = made.base.cells[cell]
    return np.abs(after.cells[cell] - before) if made.base.comparable(after, cell) else np.full(before.shape, np.inf)


def certificate(made: Study, worlds: Worlds, other: Forced, differ: Masks, secret: str) -> Certificate | None:
    """A certificate for entries that differ between two neighbouring worlds, and that no draw changes in one of the worlds.

    Given the noisy values, these entries are a function of the graph alone, so they certainly differ between the two graphs.
    Returns None if there are no such entries, or if other entries of a noisy cell differ, because then no adjustment of the noise
    gives this cell its earlier value.

    worlds, other: the second world, and the run in it with adjusted noise. differ: the entries of each cell that differ. Of these
    only the ones count that differ by more than any entry of the cell may by rounding. A cell with another number of entries in
    the second world has no entries that correspond to those of the first.
    """
    differ = {cell: mask & ~(_gap(made, other.play, cell) <= made.wide[cell]) for cell, mask in differ.items()}
    after = other.play.cells
    differ = {cell: mask for cell, mask in differ.items() if mask.any() and cell in after and after[cell].shape == mask.shape}
    if differ and covered(made, worlds):
        return None
    sides = ((made.whole, None), (worlds, other))
    found: dict[Cell, NDArray[np.bool_]] = {}
    for cell, mask in sorted(differ.items(), key=lambda item: not made.on(item[0])):
        entries = np.zeros_like(mask)
        for world, side in sides:
            entries |= mask & fixed(made, world, side, cell)
            if entries.any() and not (mask & ~entries).any():
                break
        if made.on(cell) and (mask & ~entries).any():
            return None
        if entries.any() and (entries := entries & ~exchanged(made, cell)).any():
            found[cell] = entries
    if not found:
        return None
    cell = min(found, key=lambda c: int(found[c].sum()))
    entries = found[cell]
    gap = np.abs(other.play.cells[cell] - made.base.cells[cell])[entries]
    rows = int(entries.reshape(len(entries), -1).any(1).sum()) if entries.ndim else 1
    return Certificate(
        secret,
        cell,
        rows,
        int(entries.sum()),
        float(gap.max()),
        beside=other_hop(made, cell) or unseeded(made) or drawn_twice(made),
    )


def other_hop(made: Study, cell: Cell) -> str:
    """Says which other hop of the array of a cell has noise, if the cell itself has none; "" if there is none."""
    source = next((s for s in made.sources if s.cell.array == cell.array), None)
    if source is None or made.on(cell):
        return ""
    return f"; {source.cell} has the noise drawn at {source.block.line}, and none of its own was found in {cell}"


def unseeded(made: Study) -> str:
    """Says which numbers the run draws anew in no run, and which are therefore no noise; "" if there are none."""
    draws = [made.base.draws[at] for at in sorted(made.of_one_value)]
    lines = ", ".join(dict.fromkeys(draw.where for draw in draws if not draw.weights))
    return f"; the numbers drawn at {lines} are the same for all seeds, so they are no noise" if lines else ""


def drawn_twice(made: Study) -> str:
    """Says where the run draws numbers a second time, which hide nothing beside the first; "" if it does not."""
    draws = made.base.draws
    again = [(draws[at].where, draws[first].where) for at, first in made.copies.items() if not draws[at].weights]
    pairs = dict.fromkeys(again)
    if not pairs:
        return ""
    (here, there), more = next(iter(pairs)), len(pairs) - 1
    text = f"are those drawn at {there}" if here != there else "were drawn before, at the same line"
    others = f" (the same holds for {several(more, 'more pair')} of lines)" if more else ""
    return f"; the numbers drawn at {here} {text}{others}, so they are no further noise"


def seeded(made: Study, absent: Absence) -> Certificate | None:
    """A certificate for a run without a secret that draws more or fewer numbers, if no seed changes the release.

    Such a release is a function of the graph alone: its draws are the same for all tried seeds, although equal numbers are
    practically impossible, and the draws of which this is not known change nothing. The same must hold without the secret.
    Returns None if a draw of the first run is new for some seed, or if no release changes.
    """
    draws = made.base.draws
    known = made.of_one_value
    same = all(np.array_equal(d.values, other[at].values) for other in made.others for at, d in enumerate(draws))
    free = [draws[at] for at in made.free]
    tried = all(d.bounded or (d.law == "random" and _of_64_bits(d)) for d in free)
    if made.sources or not known or not same or not tried:
        return None
    seeds = [dataclasses.replace(absent.worlds, seeds=absent.worlds.seeds ^ np.uint64(change)) for change in (0, 1 << 40)]
    one, other = (play(made.model, world) for world in seeds)
    differ = changed(made, one, absent.hidden)
    for cell, mask in sorted(differ.items(), key=lambda item: int(item[1].sum())):
        before, after = made.base.cells[cell], one.cells.get(cell)
        if after is None or after.shape != before.shape or not np.array_equal(after, other.cells[cell]):
            continue
        if fixed(made, made.whole, None, cell).all():
            gap = np.abs(after - before)[mask]
            rows = int(mask.reshape(len(mask), -1).any(1).sum()) if mask.ndim else 1
            line = draws[min(known, key=lambda at: (draws[at].weights or not draws[at].spread, at))].where
            return Certificate(absent.secret, cell, rows, int(mask.sum()), float(gap.max()), line)
    return None


def covered(made: Study, worlds: Worlds) -> bool:
    """Whether the release is the same in two worlds if all mechanisms within the run return the noisy values of the first run.
    Then noise covers every difference, even if it seldom changes the release. False if the noise of a mechanism is the same for
    all seeds, or serves another mechanism whose clean value does not move as its own does, and if the two runs have other
    mechanisms. (A run that computes a noisy value twice has two mechanisms with the same noise, which move alike.)
    """
    recorded = Mechanisms()
    try:
        first = play(made.model, made.whole, script=made.base.draws, follow=recorded)
        follow = Mechanisms(recorded.found)
        again = play(made.model, worlds, script=made.base.draws, follow=follow, constant=made.constant)
    except Exception:  # a user's model may refuse the recorder's arrays with any exception
        return False
    run = History(made, made.whole, first, tuple(recorded.found))
    if not run.noise or run.noise & made.constant:
        return False
    if [m.clean.shape for m in recorded.found] != [m.clean.shape for m in follow.found]:
        return False
    twice, shared = run.sharing
    moves = [m.over(o.clean - m.clean) for m, o in zip(recorded.found, follow.found, strict=True)]
    if shared or not all(np.allclose(moves[i], moves[j], rtol=0, atol=ALIKE) for i, j in twice.items()):
        return False
    return not changed(made, again)


def _of_64_bits(draw: Draw) -> bool:
    """Whether each number is an integer of all 63 positive bits, as data loaders of PyTorch draw for their workers. Two seeds
    practically never draw the same one.
    """
    return draw.values.dtype == np.int64 and draw.values.size > 0 and not draw.parameters


def exchanged(made: Study, cell: Cell) -> NDArray[np.bool_]:
    """The entries of a cell that change if two draws, whose sum is the noise on another cell, change by opposite amounts.

    Such a change keeps the noisy value of the other cell. So the returned entries have noise although all noisy values are fixed,
    and no certificate may use them. If one of the two draws consists of integers, the function tests nothing and returns all
    entries.
    """
    loose = np.zeros(made.base.cells[cell].shape, dtype=bool)
    for other in {s.cell for s in made.sources} - {cell}:
        first, *rest = made.on(other)
        for number, source in enumerate(rest):
            both = first.noised & source.noised
            if {first.block.law, source.block.law} & set(WHOLE):
                return np.ones_like(loose)
            by = np.where(both, laid_out(nudge(source.block, number), both.shape, source.across), 0.0)
            back = np.divide(-by * source.factor, first.factor, out=np.zeros_like(by), where=both)
            pair = [(source.block, in_line(by, source.across)), (first.block, in_line(back, first.across))]
            after = play(made.model, made.whole, moved_by(made.base.draws, pair, made.copies), made.base.draws).cells[cell]
            loose |= ~(np.abs(after - made.base.cells[cell]) <= made.slack[cell])
    return loose


def fixed(made: Study, worlds: Worlds, other: Forced | None, cell: Cell) -> NDArray[np.bool_]:
    """The entries of a cell that no draw changes while the noise on other cells stays the same.

    The function replaces the draws several times (see `tried_hard` and `tried_harder`). In a cell without noise of its own, all
    entries must stay the same every time. In a noisy cell, all entries that the first replacement leaves unchanged must stay
    unchanged in the later ones. If an entry violates these rules, it has noise of another kind, and the function returns no
    entries.
    """
    shifts = other.shifts if other is not None else tuple(np.zeros(s.block.size) for s in made.sources)
    start = made.shifted(shifts)
    before = other.play.cells[cell] if other is not None else made.base.cells[cell]
    noisy = bool(made.on(cell))
    same = np.ones(before.shape, dtype=bool)
    loose = made.loose
    if not made.free and not loose and not noisy:
        return same
    for number, (instead, far) in enumerate(chain(tried_hard(made, cell), tried_harder(made, cell))):
        moved = {s.block: d for s, d in zip(made.sources, shifts, strict=True)}
        moved |= {block: moved[block] + change for block, change in far}
        placed = moved_by(made.base.draws, moved.items(), made.copies)
        mixed = {at: np.where(loose[at], instead[at], placed[at]) for at in loose.keys() & instead.keys() & placed.keys()}
        numbers = {**start, **instead, **placed, **mixed}
        try:
            after = play(made.model, worlds, numbers, made.base.draws, constant=made.constant).cells[cell]
        except (Diverged, ValueError, FloatingPointError, ArithmeticError):
            return np.zeros_like(same)
        differ = same & (np.abs(after - before) > 0) if after.shape == before.shape else same
        if number == 0 and noisy:
            same &= ~differ
        elif differ.any():
            return np.zeros_like(same)
    return same
