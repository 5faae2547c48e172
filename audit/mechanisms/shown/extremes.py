"""Tests whether some release shows the randomised reports that a secret moves, although each released number mixes many reports.

At delta = 0 one release decides. Suppose that each report moves a released number in one direction only, whatever the other
reports are, and that where this number is largest each moved report does move it. Then its largest value occurs only if each
moved report has its favourable value. If the secret makes these values of all moved reports more probable, or those of all less
probable, the probabilities of this largest value in the two worlds have the ratio of the moved reports: a sum of reports, or the
maximum of the two reports on an edge, costs as much as the reports.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....models.recorder import Draw
from ....models.recorder.mechanisms.mechanism import Mechanism
from ...recorded.playing import rounding
from ...recorded.study import History
from ..reading import Entry, all_else, anywhere, ends, repeated

Values = NDArray[np.float64]

BACKGROUNDS = 12  # number of random values of all other reports with which each moved report is changed
REDRAWN = 2  # number of runs with the same reports in which all that is random besides is drawn anew
OTHERS, TIMES = 24, 3  # number of other reports that are changed, and with how many values of the rest
MOVED = 4  # largest number of moved reports that are tested
SYMMETRIC = 1e-6  # relative tolerance between the ratios of the two values of a report


def shown_at_an_end(first: History, i: int, by: Values) -> bool:
    """Whether the largest value of some function of released numbers shows all reports that a secret moves.

    i: position of the reports in the run; they must have two values, of which both change by the same ratio. by: their move. The
    function is a sum of one released number for each moved report, with signs. It must not depend on anything else that is
    random. The value of each moved report that the secret makes more probable (or for all of them: less probable) must move it
    upwards: strictly for all BACKGROUNDS, or for all of them not downwards, and strictly where all other reports have their
    higher, or all their lower value and make the function largest. No other report that was tried may move it in both directions.
    """
    mechanism = first.mechanisms[i]
    moved = [tuple(entry) for entry in np.argwhere(mechanism.moved(by)).tolist()]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs([np.log(one) - np.log(other) for one, other in mechanism.pairs(by)])
    if len(mechanism.values) != 2 or not 0 < len(moved) <= MOVED or not np.isfinite(ratios).all():
        return False
    if np.ptp(ratios, axis=1).max() > SYMMETRIC * ratios.max():
        return False
    return _Probe(first, i).decides(moved, np.array([np.sign(by[entry][1]) for entry in moved]))


class _Probe:
    """Runs with other values of the reports at position `i`."""

    def __init__(self, first: History, i: int) -> None:
        self.first, self.i = first, i
        self.random = np.random.default_rng(i)

    def decides(self, moved: list[Entry], towards: Values) -> bool:
        """Whether `shown_at_an_end` holds for these moved reports. towards: for each of them 1 if the secret makes its higher
        value more probable, and -1 if it makes it less probable.
        """
        alone = self._alone()
        own = [steps * sign for entry, sign in zip(moved, towards, strict=True) if (steps := self._steps(entry)) is not None]
        others = self._others(moved)
        rest = [steps for entry in others if (steps := self._steps(entry, TIMES)) is not None]
        if not alone.any() or len(own) + len(rest) < len(moved) + len(others):
            return False
        one_way = np.logical_and.reduce([alone, *(~both_ways(steps) for steps in rest)])
        if self._everywhere(own, rest, one_way):
            return True
        both = [(end, sign) for end in (0, 1) for sign in (1.0, -1.0)]
        return any(self._at(end, moved, sign * towards, [sign * steps for steps in own], rest, one_way) for end, sign in both)

    def _everywhere(self, own: list[Values], rest: list[Values], one_way: NDArray[np.bool_]) -> bool:
        """Whether each moved report moves the function upwards for all backgrounds. own: how far the values that the secret makes
        more probable move the released numbers.
        """
        weights = np.zeros(one_way.shape)
        for steps in own:
            up, down = (steps > 0).all(0) & one_way, (steps < 0).all(0) & one_way
            if not (up | down).any():
                return False
            at = self.random.choice(np.flatnonzero(up | down))
            weights[at] = 1.0 if up[at] else -1.0
        return all((steps @ weights > 0).all() for steps in own) and not any(both_ways(steps @ weights) for steps in rest)

    def _at(
        self, end: int, moved: list[Entry], towards: Values, own: list[Values], rest: list[Values], one_way: NDArray[np.bool_]
    ) -> bool:
        """Whether the function is largest only for the favourable values of the moved reports, `towards`, where all other reports
        have their lower (end = 0) or higher value (1).
        """
        mechanism, everything_else = self.first.mechanisms[self.i], self._rest()
        reports = ends(mechanism)[end].noisy
        for entry, sign in zip(moved, towards, strict=True):
            reports[entry] = mechanism.values[int(sign > 0)]
        best, weights = self._released(reports, everything_else), np.zeros(one_way.shape)
        losses = []
        for entry, sign in zip(moved, towards, strict=True):
            less = reports.copy()
            less[entry] = mechanism.values[int(sign < 0)]
            worse = self._released(less, everything_else)
            if best is None or worse is None or best.shape != worse.shape or best.shape != one_way.shape:
                return False
            loss = np.where(np.abs(best - worse) > rounding(best), best - worse, 0.0)
            if not (one_way & (loss != 0)).any():
                return False
            at = self.random.choice(np.flatnonzero(one_way & (loss != 0)))
            weights[at] = np.sign(loss[at])
            losses.append(loss)
        most = 1.0 if end else -1.0
        upwards = [*own, *(most * steps for steps in rest)]
        return all((steps @ weights >= 0).all() for steps in upwards) and all(loss @ weights > 0 for loss in losses)

    def _steps(self, entry: Entry, times: int = BACKGROUNDS) -> Values | None:
        """How far all released numbers move with one report, for random values of all else: (times, numbers). None if a run
        fails.
        """
        steps = [self._step(self._background(), entry, self._rest()) for _ in range(times)]
        known = [step for step in steps if step is not None]
        return np.array(known) if len(known) == times else None

    def _others(self, moved: list[Entry]) -> list[Entry]:
        """Other reports: half of them anywhere, half of them in a row or a column of a moved report."""
        shape = self.first.mechanisms[self.i].noisy.shape
        found = []
        for k in range(OTHERS):
            entry = [int(self.random.integers(size)) for size in shape]
            if k % 2:
                kept = moved[self.random.integers(len(moved))]
                axis = int(self.random.integers(len(shape)))
                entry = [at if j == axis else kept[j] for j, at in enumerate(entry)]
            found.append(tuple(entry))
        return [entry for entry in found if entry not in moved]

    def _background(self) -> Values:
        """Random reports: the share of the higher value is random too."""
        low, high = self.first.mechanisms[self.i].values
        return np.where(self.random.random(self.first.mechanisms[self.i].noisy.shape) < self.random.random(), high, low)

    def _rest(self) -> tuple[dict[int, Mechanism], list[Draw]]:
        """Other values for all that is random besides the reports."""
        return all_else(self.first, [self.i], self.random)

    def _alone(self) -> NDArray[np.bool_]:
        """Which released numbers depend on nothing random but the reports, for several values of these; none if a run fails."""
        alone = []
        mechanism = self.first.mechanisms[self.i]
        for other in (*ends(mechanism), anywhere(mechanism, self.random), anywhere(mechanism, self.random)):
            runs = [self._released(other.noisy, self._rest()) for _ in range(1 + REDRAWN)]
            if any(run is None for run in runs):
                return np.zeros(1, dtype=bool)
            alone.append(np.logical_and.reduce([run == runs[0] for run in runs]))
        return np.logical_and.reduce(alone)

    def _step(self, reports: Values, entry: Entry, rest: tuple[dict[int, Mechanism], list[Draw]]) -> Values | None:
        """How far all released numbers move if one report has its higher value instead of its lower one; None if a run fails."""
        runs = []
        for value in self.first.mechanisms[self.i].values:
            reports = reports.copy()
            reports[entry] = value
            runs.append(self._released(reports, rest))
        low, high = runs
        if low is None or high is None or low.shape != high.shape:
            return None
        step = high - low
        return np.where(np.abs(step) > rounding(low), step, 0.0)

    def _released(self, reports: Values, rest: tuple[dict[int, Mechanism], list[Draw]]) -> Values | None:
        mechanism = self.first.mechanisms[self.i]
        instead = rest[0] | {self.i: replace(mechanism, noisy=reports.astype(mechanism.noisy.dtype))}
        run = repeated(self.first, instead, rest[1])
        return None if run is None else run.play.numbers


def both_ways(steps: Values) -> NDArray[np.bool_]:
    """Which numbers move upwards in one step and downwards in another: (times, ...) -> (...)."""
    return np.any(steps > 0, axis=0) & np.any(steps < 0, axis=0)
