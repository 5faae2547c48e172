"""How much of a noisy value, or of several together, the release shows.

The release may show only part of a noisy value: sums over groups, a projection, or the fractional part. Of several it may show
only sums of them, such as a weighted sum for each row or a linear head on all of them. Then an adversary who sees the release
learns less than from the noisy values, and a proof may rely on this. A release that a run computes from a noisy value by steps
that depend on the value itself, as training does, counts as one that shows it.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...models.recorder.mechanisms.found import Mechanism
from ..recorded.playing import ULPS, Cell, left_in, rounding
from ..recorded.study import History, Shifts
from .reading import Entry, moved_entries, repeated, same_means

Floats = NDArray[np.float64]

PART = 0.38  # share of a jump; it must change the release
POINTS = 8  # largest number of noisy values at which a jump is tried
SINGLE = 4  # largest number of entries whose jumps are tried one by one
MANY = 128  # if the release has fewer numbers than this, that many entries and LINE more are changed
LINE = 24  # a row of at most this many entries is changed entry by entry
STEP = 0.02  # in units of the noise: a change whose effect is nearly linear and larger than rounding
EXACT = 1e-5  # of the largest singular value: a smaller one is rounding
SMALL = 0.03  # of the largest singular value: a smaller one counts as zero
LOST = 0.1, 0.02  # of the squared move: a release that hides less than this shows the noisy value; several noisy values
ROUNDING = 1e-6  # of the squared move: the release hides less than this only by rounding
UNDONE = 0.05  # of the effect of one entry: the effect of a direction that the release does not show
LINES = 3  # largest number of lines that a sentence names
MOVED = 6  # number of noisy values to which the move is added
LEVEL = 1e-4  # probability that the noise of the release is larger than its upper limit
AFFINE = 0.02  # of the move: largest deviation of a number of the release that counts as a linear function of the noisy value


@dataclass(frozen=True, eq=False)
class View:
    """What a release shows of some mechanisms. cells: the released arrays that count. hidden: nodes whose own rows do not count.

    The noisy values of all mechanisms stand in one row of numbers, and so do changes of them, in units of the noise. nearby:
    whether the release has to show the move near some noisy value. If the ledger does not charge for the noise, a proof may rely
    on a release that selects a few of many noisy values: it shows one here and another one elsewhere, and never all. Nor may it
    show fewer numbers of several noisy values near any of them, as their product does.
    """

    first: History
    at: tuple[int, ...]
    cells: tuple[Cell, ...]
    hidden: NDArray[np.int64] | None = None
    nearby: bool = False

    @property
    def mechanisms(self) -> list[Mechanism]:
        return [self.first.mechanisms[i] for i in self.at]

    def row(self, each: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """One array for each mechanism, in one row."""
        return np.concatenate([one.ravel() for one in each])

    def split(self, row: Floats) -> list[Floats]:
        """One array for each mechanism, from one row."""
        parts = np.split(row, np.cumsum([m.clean.size for m in self.mechanisms])[:-1])
        return [part.reshape(m.clean.shape) for part, m in zip(parts, self.mechanisms, strict=True)]

    def released(self, units: Floats, centred: bool = False) -> Floats | None:
        """The released numbers, in one row, if the noisy values change by `units` times the noise. None if the run fails with
        them; for several mechanisms also if the data of one depend on the noisy value of another, as in training.

        centred: subtract its mean from each row of an array, which undoes the normalisation of log-probabilities.
        """
        pairs = zip(self.at, self.mechanisms, self.split(units), strict=True)
        noisy = {i: m.with_noisy(m.noisy + m.scale * by) for i, m, by in pairs}
        other = repeated(self.first, noisy)
        if other is None or (len(self.at) > 1 and not same_means(self.first.mechanisms, other.mechanisms)):
            return None
        return self.numbers(other, centred)

    def numbers(self, run: History, centred: bool = False) -> Floats:
        """The released numbers of a run, in one row."""
        rows = []
        for cell in self.cells:
            array = left_in(run.play.cells[cell], self.first.worlds.graph.nodes, self.hidden)
            rows.append((array - array.mean(-1, keepdims=True) if centred and array.ndim > 1 else array).ravel())
        return np.nan_to_num(np.concatenate(rows)) if rows else np.zeros(0)

    def rounding(self) -> Floats:
        """How far rounding alone may move the released numbers: one unit in the last place of the largest number of each row."""
        nodes, play = self.first.worlds.graph.nodes, self.first.play
        return np.concatenate([left_in(play.largest_places(cell), nodes, self.hidden).ravel() / ULPS for cell in self.cells])

    def elsewhere(self, seed: int) -> Floats:
        """A change to other noisy values: none for seed 0; else more noise, of up to twice the size."""
        size = sum(m.clean.size for m in self.mechanisms)
        return np.asarray((1 + seed % 2) * np.random.default_rng(seed).standard_normal(size) * (seed > 0), dtype=np.float64)


def shown_part(view: View, by: Floats) -> tuple[Floats, str]:
    """The move `by` of a mechanism, as far as the release shows it, and a sentence if the release shows only part of the noisy
    value, or "". If the noise is normal and this part is linear, the move shrinks to a lower bound on the move of the part over
    its noise; otherwise to 0.
    """
    (mechanism,) = view.mechanisms
    reason = f"the release shows only part of the noisy value at {mechanism.line}"
    by = np.where(np.isfinite(by), by, 0.0).ravel()
    kept = _jumps(view, by) if view.cells else None
    if kept is None:
        return np.zeros(mechanism.clean.shape), reason
    hidden = 0.0 if mechanism.shared else _hidden(view, kept)
    shows = hidden < 1 if mechanism.law == "normal" else hidden <= ROUNDING
    share = math.sqrt(1 - hidden) if shows else _pushed(view, kept) if mechanism.law == "normal" else 0.0
    return kept.reshape(mechanism.clean.shape) * share, "" if shows else reason


def shown_together(view: View, by: Shifts, known: bool) -> tuple[list[Floats] | None, str]:
    """As `shown_part`, for the moves of all mechanisms of a run that may hide one another; None if the release shows all of them.
    known: whether the release is known to show only part of one of them.

    A release of fewer linear functions than noisy values, such as a weighted sum for each row or a linear head on several
    values, hides a part of the joint move behind the noise of all.
    """
    row = view.row([np.where(np.isfinite(each), each, 0.0) for each in by])
    if not row.any() or any(m.shared for m in view.mechanisms) or view.released(view.elsewhere(1)) is None:
        return None, ""
    normal = all(m.law == "normal" for m in view.mechanisms)
    if not (known and normal) and (hidden := _hidden(view, row)) <= (0.999 if normal else ROUNDING):
        return (view.split(row * math.sqrt(1 - hidden)) if hidden > ROUNDING else None), ""
    share = _pushed(view, row) if normal else 0.0
    lines = " and ".join(list(dict.fromkeys(m.line for m in view.mechanisms))[:LINES])
    return view.split(row * share), f"the release shows only part of the noisy values at {lines} together"


def _jumps(view: View, by: Floats) -> Floats | None:
    """The move, set to 0 at entries that jump by their move without changing the release, as the fractional part of whole numbers
    does; None if the release does not show the move, or if not all entries are known. A part of the jump must change the release,
    because a run may clip.
    """
    moved = moved_entries(by)
    largest = sorted(moved, key=lambda e: -abs(by[e]))[:SINGLE]
    before: dict[int, Floats | None] = {}

    def seen(jump: Floats) -> bool:
        known = 0
        for seed in range(POINTS):
            start = view.elsewhere(seed)
            if seed not in before:
                before[seed] = view.released(start)
            one, whole = before[seed], view.released(start + jump)
            if one is None or whole is None or (np.abs(one - whole) > 10 * rounding(one)).any():
                return True
            part = view.released(start + PART * jump)
            known += part is not None and bool((np.abs(one - part) > 10 * rounding(one)).any())
        return not known

    if not seen(by):
        return None
    unseen = [entry for entry in largest if len(moved) > 1 and not seen(_only(by, [entry]))]
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


def _hidden(view: View, by: Floats) -> float:
    """The share of the squared move that other entries of the noisy value can undo, for every noisy value that is tried: 1 if it
    is large, and entries that were not tested may undo more. The release is then a function of fewer numbers, such as sums over
    groups.

    Changes of the noisy value that leave the release the same are found from small changes of some entries, and tested with large
    ones. A row in which a common change is undone, as softmax undoes it, hides nothing; `common_changes` looks for them. Neither
    does a row of which the release shows all but one direction that depends on the noisy value, as with a network before the
    softmax.
    """
    effort = view.first.study.effort
    count = view.numbers(view.first).size
    most = max(effort.entries * min(2, len(view.at)), count + LINE if count < MANY else 0)
    most = most if effort.thorough else 3 * effort.entries
    entries = _candidates(view, by, most)
    move, effects = np.array([by[entry] for entry in entries]), []
    sums = _row_sums(view, entries)
    several, nowhere, mixed = len(view.at) > 1, view.nearby, False
    large = LOST[several]
    for seed in range(effort.starts):  # the first is the noisy value of the run
        effect = _effects(view, entries, view.elsewhere(seed))
        if effect is None:
            return 0.0
        effects.append(effect)
        shown = sums * float(np.median(np.linalg.norm(effects[0], axis=0)))
        if view.nearby:
            all_, seen = _unshown(np.concatenate([shown, effect]), move)
            nowhere, mixed = nowhere and all_ > large, mixed or (several and seen > large)
        undone = _undone(np.concatenate([shown, *effects]), move, SMALL)
        if float(undone @ undone) >= large * float(move @ move):
            if _invariant(view, entries, undone, move):
                return 1 - _shown_alone(view, entries, by)
        elif not (nowhere or mixed) and (not (view.nearby and several) or seed == effort.starts - 1):
            return _always_undone(view, entries, np.concatenate(effects), sums, move)
    return float(nowhere or mixed)


def _shown_alone(view: View, entries: list[Entry], by: Floats) -> float:
    """The share of the squared move that some released numbers show: linear functions of `entries`, as log-probabilities are up
    to a common number, which depend on no other entry.
    """
    move, others = np.array([by[entry] for entry in entries]), np.random.default_rng(8).standard_normal(by.size)
    others[[at for (at,) in entries]] = 0.0
    shares = [0.0]
    for centred in (False, True):
        one, other = (_effects(view, entries, view.elsewhere(seed), centred, 1.0) for seed in (0, 1))
        runs = [run for size in (0.0, STEP, 1.0) if (run := view.released(size * others, centred)) is not None]
        if one is None or other is None or len(runs) < 3:
            return 0.0
        error = 4 * view.rounding()
        alone = np.all([np.abs(run - runs[0]) <= error for run in runs], axis=0) & (np.abs(one - other).max(axis=1) <= error)
        shown = move - _undone(one[alone], move, EXACT, float(np.linalg.norm(error[alone])))
        shares.append(float(shown @ shown) / float(by @ by))
    return max(shares)


def _always_undone(view: View, entries: list[Entry], effect: Floats, sums: Floats, move: Floats) -> float:
    """The share of the squared move that one change of the noisy value always undoes; 0 if there is none. A common change of a
    row does not count if it is in `sums`, see `_row_sums`. effect: as `_effects` gives it, at one noisy value or more.
    """
    alone = np.abs(sums) @ np.abs(effect).T
    common = sums[np.linalg.norm(sums @ effect.T, axis=1) <= SMALL * np.linalg.norm(alone, axis=1)]
    shown = np.concatenate([common * float(np.linalg.norm(effect)), effect])
    error = np.tile(view.rounding(), len(effect) // len(view.rounding()))[np.abs(effect).max(axis=1) > 0]
    undone = _undone(shown, move, EXACT, float(np.linalg.norm(error)) / STEP)
    share = float(undone @ undone) / float(move @ move)
    return share if share > ROUNDING and _invariant(view, entries, undone, move) else 0.0


def _undone(shown: Floats, move: Floats, small: float, error: float = 0.0) -> Floats:
    """The part of the move that changes nothing of what is shown. shown: (numbers, entries). small: a singular value below this
    share of the largest counts as zero. error: a singular value below it counts as zero.
    """
    # all directions of the entries; a full matrix for the released numbers as well may take many GiB
    _, sizes, directions = np.linalg.svd(shown, full_matrices=len(shown) < shown.shape[1])
    rank = int((sizes > max(small * sizes.max(initial=0), error)).sum())
    return np.asarray(directions[rank:].T @ (directions[rank:] @ move), dtype=np.float64)


def _unshown(effect: Floats, move: Floats) -> tuple[float, float]:
    """The share of the squared move that changes no released number near one noisy value: of all entries, and of those that
    change a number at all. effect: (numbers, entries), with the sums of rows, which count as shown.
    """
    _, sizes, directions = np.linalg.svd(effect, full_matrices=False)
    shown = np.square(directions[sizes > EXACT * sizes.max(initial=0)] @ move).sum()
    seen = np.abs(effect).max(axis=0, initial=0) > 0
    whole, part = float(move @ move), float(move[seen] @ move[seen])
    return 1 - float(shown) / whole, 1 - float(shown) / part if part else 0.0


def _effects(view: View, entries: list[Entry], start: Floats, centred: bool = False, step: float = STEP) -> Floats | None:
    """How the release changes with each entry, in units of the noise, (numbers, entries); None if a run fails."""
    before, steps = view.released(start, centred), np.full(start.shape, step)
    columns = [view.released(start + _only(steps, [entry]), centred) for entry in entries]
    if before is None or any(column is None for column in columns):
        return None
    effect = (np.stack([np.asarray(column) for column in columns], axis=1) - before[:, None]) / step
    return effect.astype(np.float64)  # whole numbers of 64 bits may make it wider, which no decomposition takes


def _invariant(view: View, entries: list[Entry], undone: Floats, move: Floats) -> bool:
    """Whether the release stays nearly the same if the entries change in proportion to `undone`, at new noisy values; a change of
    one entry alone, of those that move the most undone one, is the measure.
    """
    known, top = 0, int(np.abs(np.where(move != 0, undone, 0.0)).argmax())
    undone = undone / undone[top]
    for seed, size in ((4, 1.0), (5, 1.0), (6, 1.0), (7, 4.0)):
        start = view.elsewhere(seed)
        change = np.zeros_like(start)
        for entry, amount in zip(entries, undone, strict=True):
            change[entry] = size * amount
        runs = [view.released(start + part) for part in (np.zeros_like(start), _only(change, [entries[top]]), change)]
        if any(run is None for run in runs):
            return False
        before, alone, both = (np.asarray(run) for run in runs)
        error = 10 * float(rounding(before).max(initial=0))
        measure = float(np.abs(alone - before).max(initial=0))
        if measure <= error / UNDONE:
            continue
        if float(np.abs(both - before).max(initial=0)) > UNDONE * measure + error:
            return False
        known += 1
    return known > 1


def _candidates(view: View, by: Floats, most: int) -> list[Entry]:
    """The first entries of `_in_order`, each once."""
    return list(dict.fromkeys(islice(_in_order(view, by, most), 3 * most)))[:most]


def _in_order(view: View, by: Floats, most: int) -> Iterator[Entry]:
    """Entries with noise: a third that move; then, for one mechanism, entries on a line with the farthest one and a few other
    rows, and for several the rows that move farthest; then any.
    """
    random, own = np.random.default_rng(view.at[0]), view.row([m.own for m in view.mechanisms])
    moved = sorted(moved_entries(by) or [(int(np.abs(by).argmax()),)], key=lambda e: -abs(by[e]))
    yield from moved[: max(2, most // 3)]
    near = _on_lines(view.mechanisms[0].clean.shape, moved[0][0], most, random) if len(view.at) == 1 else _in_rows(view, by)
    yield from ((at,) for at in near if own[at])
    width = (view.mechanisms[0].clean.shape or (1,))[-1]
    if len(view.at) == 1 and width <= LINE:
        yield from ((at,) for (top,) in moved[1:SINGLE] for at in range(top - top % width, top - top % width + width) if own[at])
    some = np.flatnonzero(own)
    yield from ((int(at),) for at in some[random.permutation(len(some))[: 2 * most]])


def _on_lines(shape: Entry, farthest: int, most: int, random: np.random.Generator) -> Iterator[int]:
    """The places of the entries on a line with the farthest one, along each axis."""
    top = [int(at) for at in np.unravel_index(farthest, shape)]
    for axis in reversed(range(len(shape))):
        near = [at for step in (1, -1, 2, -2) if 0 <= (at := top[axis] + step) < shape[axis]]
        line = range(shape[axis]) if shape[axis] <= LINE else [*near, *random.permutation(shape[axis])[: most // 3]]
        yield from (int(np.ravel_multi_index((*top[:axis], at, *top[axis + 1 :]), shape)) for at in line)


def _in_rows(view: View, by: Floats) -> Iterator[int]:
    """The places of the entries in all mechanisms, row by row: first the row in which all of them together move farthest. A row
    belongs to a node; without an axis for the nodes, it is an index of the first axis.
    """
    nodes, rows = view.first.worlds.graph.nodes, []
    for shape in (m.clean.shape for m in view.mechanisms):
        axis = shape.index(nodes) if nodes in shape else 0
        rows.append(np.indices(shape)[axis] if shape else np.zeros(1, dtype=int))
    row = view.row(rows)
    for top in np.argsort(-np.bincount(row, np.square(by)), kind="stable"):
        yield from np.random.default_rng(0).permutation(np.flatnonzero(row == top)).tolist()


def _row_sums(view: View, entries: list[Entry]) -> Floats:
    """For each row of a noisy value whose entries are all changed: how each entry moves the row's sum, scaled to length 1."""
    places, sums, first = {entry: at for at, (entry,) in enumerate(entries)}, [], 0
    for m in view.mechanisms:
        shape = m.clean.shape or (1,)
        scale, width = np.broadcast_to(np.asarray(m.scale, dtype=np.float64), shape).ravel(), shape[-1]
        for start in sorted({e - (e - first) % width for e in places if first <= e < first + m.clean.size}):
            if width > 1 and all(e in places for e in range(start, start + width)):
                row = np.zeros(len(entries))
                row[[places[e] for e in range(start, start + width)]] = scale[start - first : start - first + width]
                sums.append(row / np.linalg.norm(row))
        first += m.clean.size
    return np.array(sums).reshape(len(sums), len(entries))


def _pushed(view: View, by: Floats) -> float:
    """A lower bound on the move of one linear function of the release over its noise, as a share of the move of the noisy values;
    0 if no linear function is found. The noise is estimated from runs with new noise, and its upper limit counts.
    """
    return max(_pushed_as(view, by, centred) for centred in (False, True))


def _pushed_as(view: View, by: Floats, centred: bool) -> float:
    own = view.row([m.units for m in view.mechanisms])
    probes = view.first.study.effort.probes
    count = probes[len(view.at) > 1]

    def noise(k: int) -> Floats:
        return np.asarray(np.random.default_rng((7, k)).standard_normal(own.shape) - own)

    runs = [view.released(noise(k), centred) for k in range(count)]
    moved = [view.released(noise(k) + by, centred) for k in range(MOVED)]
    middle = [view.released((noise(2 * k) + noise(2 * k + 1)) / 2, centred) for k in range(MOVED // 2)]
    if any(run is None for run in (*runs, *moved, *middle)):
        return 0.0
    released = np.array(runs, dtype=np.float64)
    gaps = np.array(moved) - released[:MOVED]
    fitted = min(count, probes[0]) // 2
    spread = released[:fitted].var(axis=0, ddof=1)
    weights = np.divide(gaps.mean(0), spread, out=np.zeros_like(spread), where=spread > 1e-9 * spread.max(initial=0))
    best = np.zeros_like(weights)
    best[(np.abs(weights) * np.sqrt(spread)).argmax()] = 1.0
    tried = [weights, best, *_decorrelated(view, by, gaps.mean(0), centred)]
    return max(_over_its_noise(w, released[fitted:], gaps, released, np.array(middle)) for w in tried) / float(np.linalg.norm(by))


def _decorrelated(view: View, by: Floats, gap: Floats, centred: bool) -> list[Floats]:
    """For several mechanisms, the weights of the released numbers with the largest move over the noise of the tested entries."""
    if len(view.at) == 1:
        return []
    most = (2 if view.first.study.effort.thorough else 3) * view.first.study.effort.entries
    effect = _effects(view, _candidates(view, by, most), view.elsewhere(0), centred)
    if effect is None:
        return []
    numbers, sizes, _ = np.linalg.svd(effect, full_matrices=False)
    kept = sizes > SMALL * sizes.max(initial=0)
    return [numbers[:, kept] @ ((gap @ numbers[:, kept]) / np.square(sizes[kept]))]


def _over_its_noise(weights: Floats, released: Floats, gaps: Floats, pairs: Floats, middle: Floats) -> float:
    """The move of one weighted sum of the released numbers, over the upper limit of its noise; 0 if this sum is not linear in the
    noisy value. released: numbers of runs with new noise. gaps: how far the move changes them, in MOVED runs. middle:
    the released numbers at the middle of each of the first `pairs`.
    """
    moves, noise = gaps @ weights, released @ weights
    between = (pairs[0 : 2 * len(middle) : 2] + pairs[1 : 2 * len(middle) : 2]) @ weights / 2
    move = float(np.abs(moves).min())
    bent = max(float(np.ptp(moves)), float(np.abs(middle @ weights - between).max()))
    if move == 0 or bent > AFFINE * max(move, float(noise.std())) or float(np.ptp(moves)) > AFFINE * move:
        return 0.0
    df = len(noise) - 1
    limit = float(noise.std(ddof=1)) * math.sqrt(df / float(stats.chi2.ppf(LEVEL, df)))
    return move / limit if limit else 0.0
