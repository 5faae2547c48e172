"""Finds out whether released numbers depend on the noisy values of a run only through weighted sums of them that are released.

Trained weights are often such sums: of noisy gradients, each times a learning rate. Numbers that the run computes from trained
weights and from the graph are then a function of the release's other arrays and of the graph.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...models.recorder.mechanisms.found import REPORT, Mechanism
from ..mechanisms.absence import both
from ..mechanisms.reading import repeated
from ..recorded.playing import Cell
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History

Floats = NDArray[np.float64]
Sum = Mapping[int, float]  # position of a mechanism -> its weight

MOST, FEW = 128, 16  # largest number of mechanisms: with much `Effort`, and with little
RUNS = 6  # pairs of runs whose noisy values change while the sums stay the same
SIZES = (1.0, 8.0)  # of these changes, in units of the scale
LINEAR = 1e-4  # relative error up to which two responses count as proportional
SAME = 1e-2  # in units of the largest change by the secret: how far other changes may move a number that counts as the same


def only_through(sums: Sequence[Sum], first: History, absent: Absence, cell: Cell, entries: NDArray[np.bool_]) -> bool:
    """Whether some entries of a cell, which the secret `absent` changes, depend on noisy values only through these sums, with and
    without the secret; False if there are no sums. Raises Incomparable as `kept`.
    """
    pair = both(first, absent)
    largest = np.abs(pair[0].play.cells[cell] - pair[1].play.cells[cell])[entries].max()
    for number in range(RUNS if sums else 0):
        run = repeated(first, with_same_sums(first, sums, SIZES[number % len(SIZES)], np.random.default_rng(number)))
        if run is None:
            return False
        for one, other in zip(pair, both(run, absent), strict=True):
            before, after = one.play.cells[cell], other.play.cells[cell]
            if before.shape != after.shape or np.any(np.abs(after - before)[entries] > SAME * largest):
                return False
    return bool(sums)


def released_sums(first: History, cells: Sequence[Cell]) -> list[Sum]:
    """The weighted sums of noisy values that these cells show, each entry for itself; empty if the run has other mechanisms too,
    or if the cells do not show all entries of the sums.
    """
    most = MOST if first.study.effort.thorough else FEW
    if not cells or len(first.mechanisms) > most or not all(map(additive, first.mechanisms)):
        return []
    found: list[tuple[int, dict[int, float], Floats]] = []
    for i, mechanism in enumerate(first.mechanisms):
        run = repeated(first, {i: moved(mechanism, pattern(mechanism))})
        if run is None:
            return []
        by = (numbers(run, cells) - numbers(first, cells)) / scale(mechanism)
        for ref, weights, response in found:
            share = float(by @ response) / float(response @ response)
            same = first.mechanisms[ref].noisy.shape == mechanism.noisy.shape
            if same and np.linalg.norm(by - share * response) <= LINEAR * np.linalg.norm(by):
                weights[i] = share
                break
        else:
            if not shows_each(by, mechanism):
                return []
            found.append((i, {i: 1.0}, by))
    apart = np.sum([np.abs(by) > LINEAR * np.abs(by).max() for _, _, by in found], axis=0)
    return [weights for _, weights, _ in found] if np.all(apart <= 1) else []


def additive(mechanism: Mechanism) -> bool:
    """Whether the mechanism adds a noise number of its own to each entry."""
    return mechanism.law != REPORT and not mechanism.mirrored and not mechanism.shared and bool(np.all(mechanism.covered))


def shows_each(by: Floats, mechanism: Mechanism) -> bool:
    """Whether a response of the release shows each entry of a change by `pattern`, all times the same number."""
    seen = np.sort(np.abs(by[np.abs(by) > LINEAR * np.abs(by).max(initial=0)]))
    given = np.sort(np.abs(pattern(mechanism)).ravel())
    return 0 < seen.size == given.size and np.allclose(seen / seen[-1], given / given[-1], rtol=0, atol=LINEAR)


def with_same_sums(first: History, sums: Sequence[Sum], size: float, random: np.random.Generator) -> dict[int, Mechanism]:
    """Other noisy values for the mechanisms of these sums, which leave each sum as it is: its first term makes up for the changes
    of the others.
    """
    found: dict[int, Mechanism] = {}
    for weights in sums:
        (last, own), *others = weights.items()
        total = np.zeros(first.mechanisms[last].noisy.shape)
        for i, weight in others:
            by = size * scale(first.mechanisms[i]) * random.standard_normal(total.shape)
            found[i], total = moved(first.mechanisms[i], by / scale(first.mechanisms[i])), total + weight * by
        found[last] = moved(first.mechanisms[last], -total / own / scale(first.mechanisms[last]))
    return found


def pattern(mechanism: Mechanism) -> Floats:
    """A change of all entries of a noisy value by 1 to 2 times the scale; the same for all mechanisms of a shape."""
    return np.random.default_rng(mechanism.noisy.size).uniform(1, 2, mechanism.noisy.shape)


def moved(mechanism: Mechanism, by: Floats) -> Mechanism:
    """The mechanism with a noisy value that is moved by so many times its scale."""
    return mechanism.with_noisy(mechanism.noisy + scale(mechanism) * by)


def scale(mechanism: Mechanism) -> float:
    return float(np.max(mechanism.scale))


def numbers(run: History, cells: Sequence[Cell]) -> Floats:
    return np.concatenate([run.play.cells[c].ravel() for c in cells]).astype(np.float64)
