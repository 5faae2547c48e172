"""How much of a noisy value, or of several together, the release shows.

The release may show only part of a noisy value: sums over groups, a projection, or the fractional part. Of several it may show
only sums of them, such as a weighted sum for each row or a linear head on all of them. Then an adversary who sees the release
learns less than from the noisy values, and a proof may rely on this. A release that a run computes from a noisy value by steps
that depend on the value itself, as training does, counts as one that shows it.
"""

import math
import time

import numpy as np
from numpy.typing import NDArray

from ...recorded.playing import rounding
from ...recorded.study import Shifts
from ..reading import Entry, moved_entries
from .linear import SMALL, linear_part
from .view import LINE, SINGLE, STEP, View, candidates, effects_of, only, row_sums

Floats = NDArray[np.float64]

PART = 0.38  # share of a jump; it must change the release
POINTS = 8  # largest number of noisy values at which a jump is tried
WHOLE = 512  # largest number of entries that are all changed; each of them takes a training
SECONDS = 120.0  # of processor time for them
NUMBERS = 1 << 23  # largest number of effects of entries on released numbers
MANY = 128  # if the release has fewer numbers than this, that many entries and LINE more are changed
EXACT = 1e-5  # of the largest singular value: a smaller one is rounding
LOST = 0.1, 0.02  # of the squared move: a release that hides less than this shows the noisy value; several noisy values
ROUNDING = 1e-6  # of the squared move: the release hides less than this only by rounding
UNDONE = 0.05  # of the effect of one entry: the effect of a direction that the release does not show
LINES = 3  # largest number of lines that a sentence names


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
    normal = mechanism.law == "normal"
    shows = hidden < 1 if normal else hidden <= ROUNDING
    share = math.sqrt(1 - hidden) if shows else 0.0
    if normal and hidden > LOST[0]:  # the numbers that `_shown_alone` knows may be few
        share = max(share, linear_part(view, kept))
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
    hidden = 1.0 if known and normal else _hidden(view, row)
    if hidden <= ROUNDING:
        return None, ""
    share = math.sqrt(1 - hidden) if normal else 0.0
    if normal and hidden > LOST[1]:
        share = max(share, linear_part(view, row))
    if normal and hidden < 1:
        return view.split(row * share), ""
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
    unseen = [entry for entry in largest if len(moved) > 1 and not seen(only(by, [entry]))]
    if unseen and len(moved) > len(largest):
        return None
    kept = by.copy()
    for entry in unseen:
        kept[entry] = 0.0
    return kept


def _hidden(view: View, by: Floats) -> float:
    """The share of the squared move that other entries of the noisy value can undo, for every noisy value that is tried. If it is
    large, the release is a function of fewer numbers, such as sums over groups, and all that `_shown_alone` does not know counts
    as hidden.

    Changes of the noisy value that leave the release the same are found from small changes of some entries, and tested with large
    ones. If the ledger charges for the noise, or the release has rows of log-probabilities, the sum of a row counts as shown:
    `common_changes` has looked for rows of which a softmax hides it, and a network before the softmax hides nothing.
    """
    effort = view.first.study.effort
    count = view.numbers(view.first).size
    most = max(effort.entries * min(2, len(view.at)), count + LINE if count < MANY else 0)
    most = most if effort.thorough else 3 * effort.entries
    entries = candidates(view, by, most)
    if share := _hidden_of_all(view, by):
        return share
    move, effects = np.array([by[entry] for entry in entries]), []
    sums = _sums_shown(view, entries)
    nowhere, mixed, large = view.nearby, False, LOST[len(view.at) > 1]
    for seed in range(effort.starts):  # the first is the noisy value of the run
        effect = effects_of(view, entries, view.elsewhere(seed))
        if effect is None:
            return 0.0
        effects.append(effect)
        shown = sums * float(np.median(np.linalg.norm(effects[0], axis=0)))
        if view.nearby:
            all_, seen = _unshown(effect, shown, move)
            nowhere, mixed = nowhere and all_ > large, mixed or seen > large
        undone = _undone(np.concatenate([shown, *effects]), move, SMALL)
        if float(undone @ undone) >= large * float(move @ move):
            if _invariant(view, entries, undone, move):
                return 1 - _shown_alone(view, entries, by)
        elif not (nowhere or mixed) and (not view.nearby or seed == effort.starts - 1):
            share = _always_undone(view, entries, np.concatenate(effects), sums, move)
            return share if share <= large else 1 - _shown_alone(view, entries, by)
    return float(nowhere or mixed)


def _sums_shown(view: View, entries: list[Entry]) -> Floats:
    """The sums of rows that count as shown, as `row_sums` gives them: all if the ledger charges for the noise, or if the release
    has rows of log-probabilities. `common_changes` has looked for rows of which a softmax hides the sum, and a network before
    the softmax hides nothing.
    """
    return row_sums(view, entries) if not view.nearby or view.of_probabilities else np.zeros((0, len(entries)))


def _hidden_of_all(view: View, by: Floats) -> float:
    """The share of the squared move that a change of all entries always undoes; 0 if there is none, if there are more entries
    than WHOLE, or if their trainings would take more than SECONDS. A projection of many dimensions hides a part of a move that no
    few entries undo.
    """
    numbers, thorough = view.numbers(view.first).size, view.first.study.effort.thorough
    if not thorough or by.size > min(WHOLE, NUMBERS // max(1, numbers)):
        return 0.0
    begin = time.process_time()
    view.released(view.elsewhere(0))
    if (time.process_time() - begin) * by.size > SECONDS:
        return 0.0
    entries: list[Entry] = [(at,) for at in range(by.size)]
    effect = effects_of(view, entries, view.elsewhere(0))
    if effect is None:
        return 0.0
    shown = _sums_shown(view, entries) * float(np.median(np.linalg.norm(effect, axis=0)))
    for small in (SMALL, SMALL / 10):  # a release of sums of unlike sizes has small singular values
        undone = _undone(np.concatenate([shown, effect]), by, small)
        share = float(undone @ undone) / float(by @ by)
        if share > ROUNDING and _invariant(view, entries, undone, by):
            return share
    return 0.0


def _shown_alone(view: View, entries: list[Entry], by: Floats) -> float:
    """The share of the squared move that some released numbers show: linear functions of `entries`, as log-probabilities are up
    to a common number, which depend on no other entry.
    """
    move, others = np.array([by[entry] for entry in entries]), np.random.default_rng(8).standard_normal(by.size)
    others[[at for (at,) in entries]] = 0.0
    shares = [0.0]
    for centred in (False, True):
        one, other = (effects_of(view, entries, view.elsewhere(seed), centred, 1.0) for seed in (0, 1))
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
    row does not count if it is in `sums`, see `row_sums`. effect: as `effects_of` gives it, at one noisy value or more.
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


def _unshown(effect: Floats, shown: Floats, move: Floats) -> tuple[float, float]:
    """The share of the squared move that changes no released number near one noisy value: of all entries, and of those that
    change a number at all. effect: (numbers, entries). shown: the sums of rows, which count as shown.
    """
    shares, seen = [], np.abs(effect).max(axis=0, initial=0) > 0
    for some in (np.full(len(move), True),) if seen.all() else (np.full(len(move), True), seen):
        _, sizes, directions = np.linalg.svd(np.concatenate([shown, effect])[:, some], full_matrices=False)
        left, whole = directions[sizes > EXACT * sizes.max(initial=0)] @ move[some], float(move[some] @ move[some])
        shares.append(1 - float(left @ left) / whole if whole else 0.0)
    return shares[0], shares[-1]


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
        runs = [view.released(start + part) for part in (np.zeros_like(start), only(change, [entries[top]]), change)]
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
