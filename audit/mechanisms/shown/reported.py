"""Finds the randomised reports that a release shows, and which of their values it tells apart: a released parity of a randomised
label tells less than the label, and costs less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ....models.recorder.mechanisms.mechanism import REPORT
from ...recorded.study import Floats, History, Shifts
from ..reading import Entry, all_else, in_place, others, repeated

REPEATED = 4  # smallest number of runs with each value of a report
Place = tuple[int, Entry]  # the position of a report in the run, and one of its entries
Values = Mapping[Place, float]  # the values of some entries


@dataclass(frozen=True, eq=False)
class Tested:
    """An entry of a report. values: in the first run, and another one. own: the positions of the released numbers that depend on
    this entry and, as far as the runs until now show, on no other random value. before, after: these numbers with either value.
    """

    at: Place
    values: tuple[float, float]
    own: NDArray[np.int64]
    before: Floats
    after: Floats

    def agreeing(self, run: Floats, changed: bool) -> "Tested":
        """The entry with the numbers that are in this run as they should be. changed: whether the entry has the other value."""
        kept = run[self.own] == (self.after if changed else self.before)
        return self if kept.all() else replace(self, own=self.own[kept], before=self.before[kept], after=self.after[kept])


def shown(first: History, moves: Shifts) -> Shifts:
    """The moves of the mechanisms, set to 0 at the entries of reports that no released number shows. Values of an entry that the
    release does not tell apart move together: their probabilities change by the ratio of the sums of their probabilities. The
    index of the largest of several noisy values counts as not shown then.

    A number shows an entry if it depends on this entry and on no other random value. The search tests the first moved entries of
    each report. It changes each of them alone, to find the numbers that change. Of the other entries, it tests those that an
    array shows at their place. Then it repeats the run many times with other values for everything else that is random, and
    changes a random half of the tested entries. A number that shows an entry has the same value in all runs with the same value
    of the entry. Entries that are not tested count as not shown, and so do all entries if such a run fails.
    """
    found, numbers = _tested(first, moves), first.play.numbers.shape
    for seed in range(first.study.effort.redrawn):
        if not found:
            break
        random = np.random.default_rng(seed)
        changed = random.random(len(found)) < 0.5
        run = _redrawn(first, {t.at: t.values[int(other)] for t, other in zip(found, changed, strict=True)}, random)
        if run is None or run.shape != numbers:
            found = []
            break
        agreeing = (each.agreeing(run, other) for each, other in zip(found, changed, strict=True))
        found = [each for each in agreeing if each.own.size]
    left = [np.zeros_like(by) if m.law == REPORT else by for m, by in zip(first.mechanisms, moves, strict=True)]
    known = {each.at: each.values[0] for each in found if len(first.mechanisms[each.at[0]].values) == 2}
    for i, entry in known:
        left[i][entry] = moves[i][entry]
    for i in dict.fromkeys(each.at[0] for each in found if each.at not in known):
        for at, by in _grouped(first, moves, [each for each in found if each.at[0] == i], known).items():
            left[i][at[1]] = by
    for i, m in enumerate(first.mechanisms):
        if m.law == REPORT and (j := first.first_of(i)) != i:
            left[i] = left[j] if np.array_equal(moves[i], moves[j]) else moves[i]
    return tuple(left)


def _tested(first: History, moves: Shifts) -> list[Tested]:
    found, before, most = [], first.play.numbers, first.study.effort.shown
    for i, report in enumerate(first.mechanisms):
        if report.law != REPORT or first.first_of(i) != i:
            continue
        entries, other = [tuple(entry) for entry in np.argwhere(report.moved(moves[i])).tolist()], others(report)
        values = {entry: (float(report.noisy[entry]), float(other[entry])) for entry in entries}
        for entry in entries[:most]:
            after = _with(first, {(i, entry): values[entry][1]})
            if after is not None and after.shape == before.shape and (own := np.flatnonzero(after != before)).size:
                found.append(Tested((i, entry), values[entry], own, before[own], after[own]))
        if entries[most:]:
            for entry, (place, number) in in_place(first, i, entries[most:]).items():
                own = np.array([place])
                found.append(Tested((i, entry), values[entry], own, before[own], np.array([number])))
    return found


def _grouped(first: History, moves: Shifts, found: Sequence[Tested], known: dict[Place, float]) -> dict[Place, Floats]:
    """The moves of shown entries of one report, (values,), after the values that the release does not tell apart are grouped.

    The search repeats the run with each possible value of each entry, several times, while everything else that is random has
    other values. The release tells two values apart if a number has one value in all runs with the first, and another in all runs
    with the second. Of more possible values than `Effort.redrawn` the search tries that many; unless it tells all of these apart,
    the entry counts as not shown, and so do all entries if a run fails. known: entries whose value the release tells; they keep
    it, because the adversary knows it. The function adds the entries of which it finds that to be so.
    """
    own = {each.at: each.values[0] for each in found}
    possible = {at: _possible(first, moves, at) for at in own}
    tried = {at: _some(possible[at], value, first.study.effort.redrawn) for at, value in own.items()}
    longest, before = max(map(len, tried.values())), first.play.numbers
    random, moved = np.random.default_rng(longest), {at: np.zeros_like(moves[at[0]][at[1]]) for at in tried}
    steady, telling = np.ones(before.shape, dtype=bool), np.zeros(before.shape, dtype=bool)
    for _ in range(REPEATED):
        steady &= equal(_redrawn(first, known | own, random), before)
    for step in range(longest):
        run = _with(first, known | {at: values[step % len(values)] for at, values in tried.items()})
        if run is None:
            return moved
        telling |= steady & ~equal(run, before)
    seen: dict[tuple[Place, float], list[Floats]] = {}
    for _ in range(max(REPEATED, ceil(first.study.effort.redrawn / longest))):
        orders = {at: random.permutation(values).tolist() for at, values in tried.items()}
        for step in range(longest):
            values = {at: order[step % len(order)] for at, order in orders.items()}
            run = _redrawn(first, known | values, random)
            if run is None or run.shape != before.shape:
                return moved
            for at, value in values.items():
                seen.setdefault((at, value), []).append(run[telling])
    for (i, entry), all_ in tried.items():
        groups = groups_of([np.array(seen[(i, entry), value]) for value in all_])
        report = first.mechanisms[i]
        if len(groups) == len(all_):
            moved[i, entry], known[i, entry] = moves[i][entry], own[i, entry]
        elif len(all_) == len(possible[i, entry]) and not report.largest:
            places = [report.values.index(value) for value in all_]
            after = report.after(moves[i])[entry]
            moved[i, entry] = together(report.chances[entry], after, [np.take(places, group) for group in groups])
    return moved


def together(before: Floats, after: Floats, groups: Sequence[NDArray[np.intp]]) -> Floats:
    """How far the probabilities of values move if those of a group move by one ratio, that of the sums of their probabilities. A
    group that was impossible moves as before. before, after: (values,).
    """
    moved = after.copy()
    for group in groups:
        if len(group) > 1 and (sum_ := before[group].sum()) > 0:
            moved[group] = before[group] * (after[group].sum() / sum_)
    return np.asarray(moved - before)


def groups_of(seen: Sequence[Floats]) -> list[NDArray[np.intp]]:
    """Groups of values that a release does not tell apart. seen: for each value some released numbers, (runs, numbers)."""
    steady = np.array([np.all(runs == runs[:1], axis=0) for runs in seen])
    usual = np.array([runs[0] for runs in seen])
    apart = np.any(steady[:, None] & steady & (usual[:, None] != usual), axis=-1)
    labels = connected_components(~apart, directed=False)[1]
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _possible(first: History, moves: Shifts, at: Place) -> list[float]:
    """The values that an entry may have before or after the move."""
    report = first.mechanisms[at[0]]
    chance = report.chances[at[1]] + report.after(moves[at[0]])[at[1]]
    return [value for value, positive in zip(report.values, chance > 0, strict=True) if positive]


def _some(values: list[float], value: float, most: int) -> list[float]:
    """At most `most` of the values: neighbours of `value`, because a function often groups neighbours, and others at random."""
    if len(values) <= most:
        return values
    start = max(0, min(int(np.abs(np.array(values) - value).argmin()) - most // 4, len(values) - most // 2))
    near = values[start : start + most // 2]
    far = [v for v in values if v not in near]
    return near + np.random.default_rng(most).choice(far, most - len(near), replace=False).tolist()


def equal(run: Floats | None, other: Floats) -> NDArray[np.bool_]:
    """Which released numbers of a run are those of another; none if the run failed or releases more or fewer."""
    return run == other if run is not None and run.shape == other.shape else np.zeros(other.shape, dtype=bool)


def _with(first: History, values: Values) -> Floats | None:
    """The numbers that the first run releases if some entries have other values; None if it fails."""
    instead = {i: first.mechanisms[i].with_noisy(first.mechanisms[i].noisy.copy()) for i, _ in values}
    for (i, entry), value in values.items():
        instead[i].noisy[entry] = value
    run = repeated(first, instead)
    return None if run is None else run.play.numbers


def _redrawn(first: History, values: Values, random: np.random.Generator) -> Floats | None:
    """As `_with`, but all other random values are replaced too."""
    instead, draws = all_else(first, (), random)
    for (i, entry), value in values.items():
        instead[i].noisy[entry] = value
    run = repeated(first, instead, draws)
    return None if run is None else run.play.numbers
