"""How much of a noisy value the release shows.

The release may show only part of a noisy value: sums over groups, a projection, or the fractional part. Then an adversary who
sees the release learns less than from the noisy value, and a proof may rely on this. A release that a run computes from a noisy
value by steps that depend on the value itself, as training does, counts as one that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ..heard.playing import left_in, rounding
from ..own.programs.program import External
from .reading import ENTRIES, ENTRIES_OF_PROGRAM, Entry, moved_entries, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..heard.playing import Cell
    from ..heard.study import History, Study

    Floats = NDArray[np.float64]

PART = 0.38  # share of a jump; it must change the release
POINTS = 8  # largest number of noisy values at which a jump is tried
SINGLE = 4  # largest number of entries whose jumps are tried one by one
MANY = 128  # if the release has fewer numbers than this, that many entries and LINE more are changed
LINE = 24  # a row of at most this many entries is changed entry by entry
SEEDS = (0, 1, 2)  # noisy values at which small changes are made; the first is that of the run
STEP = 0.02  # in units of the noise: a change whose effect is nearly linear and larger than rounding
SMALL = 0.03  # of the largest singular value: a smaller one counts as zero
LOST = 0.1  # of the squared move: a release that hides less than this shows the noisy value
SAME = 0.05  # of the effect of one entry: the effect of a direction that the release does not show
PROBES, OF_PROGRAM = 40, 16  # number of noisy values from which the noise of the release is estimated
MOVED = 6  # number of noisy values to which the move is added
LEVEL = 1e-4  # probability that the noise of the release is larger than its upper limit
AFFINE = 0.02  # of the move: largest deviation of a number of the release that counts as a linear function of the noisy value


@dataclass(frozen=True, eq=False)
class Look:
    """What a release shows of one mechanism. cells: the released arrays that count. hidden: nodes whose own rows do not count."""

    made: Study
    first: History
    at: int
    cells: tuple[Cell, ...]
    hidden: NDArray[np.int64] | None = None

    @property
    def scale(self) -> Floats:
        met = self.first.meetings[self.at]
        return np.broadcast_to(np.asarray(met.scale, dtype=np.float64), met.clean.shape)

    def released(self, noisy: Floats, centred: bool = False) -> Floats | None:
        """The released numbers, in one row, if the mechanism returns `noisy`; None if the run fails with it.

        centred: subtract its mean from each row of an array, which undoes the normalisation of log-probabilities.
        """
        met = self.first.meetings[self.at]
        other = repeated(self.made, self.first, {self.at: met.with_noisy(noisy)})
        return None if other is None else self.numbers(other, centred)

    def numbers(self, run: History, centred: bool = False) -> Floats:
        """The released numbers of a run, in one row."""
        rows = []
        for cell in self.cells:
            array = left_in(run.play.cells[cell], self.first.worlds.graph.nodes, self.hidden)
            rows.append((array - array.mean(-1, keepdims=True) if centred and array.ndim > 1 else array).ravel())
        return np.nan_to_num(np.concatenate(rows)) if rows else np.zeros(0)

    def elsewhere(self, seed: int) -> Floats:
        """Another noisy value: that of the run for seed 0; else with more noise, of up to twice the size."""
        met = self.first.meetings[self.at]
        more = (1 + seed % 2) * self.scale * np.random.default_rng(seed).standard_normal(met.clean.shape) * (seed > 0)
        return np.asarray(met.noisy + more, dtype=np.float64)


def shown_part(look: Look, by: Floats) -> tuple[Floats, str]:
    """The move `by` of a mechanism, as far as the release shows it, and a sentence if the release shows only part of the noisy
    value, or "". If the noise is normal and this part is linear, the move shrinks to a lower bound on the move of the part over
    its noise; otherwise to 0.
    """
    met = look.first.meetings[look.at]
    told = f"the release shows only part of the noisy value at {met.line}"
    by = np.where(np.isfinite(by), by, 0.0)
    kept = _jumps(look, by) if look.cells else None
    if kept is None:
        return np.zeros_like(by), told
    if met.shared or not _hides(look, kept):
        return kept, ""
    share = _pushed(look, kept) if met.law == "normal" else 0.0
    return kept * share, told


def _jumps(look: Look, by: Floats) -> Floats | None:
    """The move, set to 0 at entries that jump by their move without changing the release, as the fractional part of whole numbers
    does; None if the release does not show the move, or if not all entries are known. A part of the jump must change the release,
    because a run may clip.
    """
    move = by * look.scale
    moved = moved_entries(by)
    largest = sorted(moved, key=lambda e: -abs(by[e]))[:SINGLE]
    before: dict[int, Floats | None] = {}

    def seen(jump: Floats) -> bool:
        known = 0
        for seed in range(POINTS):
            noisy = look.elsewhere(seed)
            if seed not in before:
                before[seed] = look.released(noisy)
            one, whole = before[seed], look.released(noisy + jump)
            if one is None or whole is None or (np.abs(one - whole) > 10 * rounding(one)).any():
                return True
            part = look.released(noisy + PART * jump)
            known += part is not None and bool((np.abs(one - part) > 10 * rounding(one)).any())
        return not known

    if not seen(move):
        return None
    unseen = [entry for entry in largest if len(moved) > 1 and not seen(_only(move, [entry]))]
    if unseen and len(moved) > len(largest):
        return None
    kept = by.copy()
    for entry in unseen:
        kept[entry] = 0.0
    return kept


def _only(move: Floats, entries: Collection[Entry]) -> Floats:
    """The move at these entries, 0 elsewhere."""
    kept = np.zeros_like(move)
    for entry in entries:
        kept[entry] = move[entry]
    return kept


def _hides(look: Look, by: Floats) -> bool:
    """Whether other entries of the noisy value can undo a part of the move, for every noisy value that is tried: then the release
    is a function of fewer numbers, such as sums over groups.

    Changes of the noisy value that leave the release the same are found from small changes of some entries, and tested with large
    ones. A row in which a common change is undone, as softmax undoes it, hides nothing.
    """
    program = isinstance(look.made.model, External)
    count = look.numbers(look.first).size
    most = 3 * ENTRIES_OF_PROGRAM if program else max(ENTRIES, count + LINE if count < MANY else 0)
    entries = list(dict.fromkeys(_candidates(look, by, most)))[:most]
    move, effects = np.array([by[entry] for entry in entries]), [_row_sums(look, entries)]
    for seed in SEEDS[: 1 if program else None]:
        effect = _effects(look, entries, look.elsewhere(seed))
        if effect is None:
            return False
        effects.append(effect)
        effects[0] *= float(np.median(np.linalg.norm(effect, axis=0))) if len(effects) == 2 else 1.0
        every = np.concatenate(effects)
        # all directions of the entries; a full matrix for the released numbers as well may take many GiB
        _, sizes, directions = np.linalg.svd(every, full_matrices=len(every) < len(entries))
        rank = int((sizes > SMALL * sizes.max(initial=0)).sum())
        undone = directions[rank:].T @ (directions[rank:] @ move)
        if float(undone @ undone) < LOST * float(move @ move):
            return False
        top = int(np.abs(np.where(move != 0, undone, 0.0)).argmax())
        if _invariant(look, entries, undone / undone[top], top):
            return True
    return False


def _effects(look: Look, entries: list[Entry], noisy: Floats) -> Floats | None:
    """How the release changes with each entry of a noisy value, over the noise, (numbers, entries); None if a run fails."""
    before = look.released(noisy)
    columns = [look.released(noisy + STEP * _only(look.scale, [entry])) for entry in entries]
    if before is None or any(column is None for column in columns):
        return None
    return (np.stack([np.asarray(column) for column in columns], axis=1) - before[:, None]) / STEP


def _invariant(look: Look, entries: list[Entry], undone: Floats, top: int) -> bool:
    """Whether the release stays nearly the same if the entries change by `undone` times the noise, at new noisy values; a change
    of the entry `top` alone is the measure.
    """
    known = 0
    for seed, size in ((4, 1.0), (5, 1.0), (6, 1.0), (7, 4.0)):
        noisy = look.elsewhere(seed)
        change = np.zeros_like(noisy)
        for entry, amount in zip(entries, undone, strict=True):
            change[entry] = size * amount * look.scale[entry]
        runs = [look.released(noisy + part) for part in (np.zeros_like(noisy), _only(change, [entries[top]]), change)]
        if any(run is None for run in runs):
            return False
        before, alone, both = (np.asarray(run) for run in runs)
        error = 10 * float(rounding(before).max(initial=0))
        measure = float(np.abs(alone - before).max(initial=0))
        if measure <= error / SAME:
            continue
        if float(np.abs(both - before).max(initial=0)) > SAME * measure + error:
            return False
        known += 1
    return known > 1


def _candidates(look: Look, by: Floats, most: int) -> Iterator[Entry]:
    """Entries with noise: a third that move, then entries on a line with the farthest one, then any."""
    met = look.first.meetings[look.at]
    random = np.random.default_rng(look.at)
    moved = sorted(moved_entries(by), key=lambda e: -abs(by[e]))
    yield from moved[: max(2, most // 3)]
    shape, top = met.clean.shape, moved[0]
    for axis in reversed(range(len(shape))):
        near = [at for step in (1, -1, 2, -2) if 0 <= (at := top[axis] + step) < shape[axis]]
        line = range(shape[axis]) if shape[axis] <= LINE else [*near, *random.permutation(shape[axis])[: most // 3]]
        others = [(*top[:axis], int(at), *top[axis + 1 :]) for at in line]
        yield from (entry for entry in others if met.own[entry])
    some = np.argwhere(met.own)
    yield from (tuple(map(int, e)) for e in some[random.permutation(len(some))[: 2 * most]])


def _row_sums(look: Look, entries: list[Entry]) -> Floats:
    """For each row of the noisy value whose entries are all changed: how each entry moves the row's sum, scaled to length 1."""
    rows: dict[Entry, list[int]] = {}
    for at, entry in enumerate(entries):
        rows.setdefault(entry[:-1], []).append(at)
    whole = [places for places in rows.values() if len(places) == look.scale.shape[-1]] if look.scale.ndim else []
    sums = np.zeros((len(whole), len(entries)))
    for row, places in zip(sums, whole, strict=True):
        row[places] = [look.scale[entries[at]] for at in places]
        row /= np.linalg.norm(row)
    return sums


def _pushed(look: Look, by: Floats) -> float:
    """A lower bound on the move of one linear function of the release over its noise, as a share of the move of the noisy value;
    0 if no linear function is found. The noise is estimated from runs with new noise, and its upper limit counts.
    """
    return max(_pushed_as(look, by, centred) for centred in (False, True))


def _pushed_as(look: Look, by: Floats, centred: bool) -> float:
    met, random = look.first.meetings[look.at], np.random.default_rng(7)
    size = float(np.linalg.norm(by))
    count = OF_PROGRAM if isinstance(look.made.model, External) else PROBES
    noisy = [met.clean + look.scale * random.standard_normal(met.clean.shape) for _ in range(count)]
    runs = [look.released(one, centred) for one in noisy]
    moved = [look.released(one + by * look.scale, centred) for one in noisy[:MOVED]]
    middle = [look.released((noisy[2 * k] + noisy[2 * k + 1]) / 2, centred) for k in range(MOVED // 2)]
    if any(run is None for run in (*runs, *moved, *middle)):
        return 0.0
    told = np.array(runs)
    gaps = np.array(moved) - told[:MOVED]
    half = count // 2
    spread = told[:half].var(axis=0, ddof=1)
    weights = np.divide(gaps.mean(0), spread, out=np.zeros_like(spread), where=spread > 1e-9 * spread.max(initial=0))
    best = np.zeros_like(weights)
    best[(np.abs(weights) * np.sqrt(spread)).argmax()] = 1.0
    return max(_over_its_noise(w, told[half:], gaps, told, np.array(middle)) for w in (weights, best)) / size


def _over_its_noise(weights: Floats, told: Floats, gaps: Floats, pairs: Floats, middle: Floats) -> float:
    """The move of one weighted sum of the released numbers, over the upper limit of its noise; 0 if this sum is not linear in the
    noisy value. told: the released numbers of runs with new noise. gaps: how far the move changes them, in MOVED runs. middle:
    the released numbers at the middle of each of the first `pairs`.
    """
    moves, noise = gaps @ weights, told @ weights
    between = (pairs[0 : 2 * len(middle) : 2] + pairs[1 : 2 * len(middle) : 2]) @ weights / 2
    move = float(np.abs(moves).min())
    bent = max(float(np.ptp(moves)), float(np.abs(middle @ weights - between).max()))
    if move == 0 or bent > AFFINE * max(move, float(noise.std())) or float(np.ptp(moves)) > AFFINE * move:
        return 0.0
    df = len(noise) - 1
    limit = float(noise.std(ddof=1)) * math.sqrt(df / float(stats.chi2.ppf(LEVEL, df)))
    return move / limit if limit else 0.0
