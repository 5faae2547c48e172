"""Lower bounds from noisy values that a run divides by private numbers before it releases them.

A mean is often computed as a noisy sum, divided by the exact count. The scale of the released noise then depends on the count.
The adversary compares how far the released numbers lie from their means with both scales, as for noise whose own scale depends on
a secret.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder.mechanisms.mechanism import Mechanism
from ...reports.rounding import several
from ..case import Case, offered
from ..mechanisms.absence import Incomparable, both, history
from ..mechanisms.inside import Inside
from ..mechanisms.reading import with_other_values
from ..recorded.playing import Cell, Diverged
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History
from .size_of_noise import POWERS, Resized, refuting

TRIED = 8  # largest number of secrets
SAME = 1e-5  # relative: factors that differ by less count as equal, because releases are rounded to float32
CLEAR = 1e-3  # relative: a secret changes a factor if it does so by more
SMALL = 1e-3  # of the scale: the factor of a smaller noisy value is not known
FACTORS = proved(
    "both scales are exact", "the recorder knows the scale of the noise, and the release is the noisy value times a factor"
)
SETTLED = Condition(
    "no draw changes the factors or the clean values",
    "checked",
    "another seed gives the same ones in the same two worlds, and other noisy values give the same factors",
)


@dataclass(frozen=True)
class Factors:
    """What a cell is the noisy value of a mechanism times, in one world. mechanism: with its clean value. known: the entries of
    which the factor is known.
    """

    mechanism: Mechanism
    by: NDArray[np.float64]
    known: NDArray[np.bool_]

    @property
    def scale(self) -> NDArray[np.float64]:
        return np.abs(self.by) * np.asarray(self.mechanism.scale, dtype=np.float64)

    def agrees(self, other: "Factors") -> NDArray[np.bool_]:
        """The entries with the same factor and the same clean value in another run."""
        alike = np.abs(self.by - other.by) <= SAME * np.abs(self.by)
        still = np.abs(self.mechanism.clean - other.mechanism.clean) <= SAME * np.asarray(self.mechanism.scale)
        return np.asarray(self.known & other.known & alike & still, dtype=np.bool_)


def from_factors(case: Case, within: Inside) -> Bound | None:
    """A bound that refutes the claim, if a secret changes the factor between a noisy value and a released array so much, in the
    graph or in a small graph of unusual nodes; else None.
    """
    for part, where in within.parts:
        arrays = set(part.past) & set(offered(case.model))
        with suppress(Diverged):
            for absent, line, cell, found in divided(part, arrays) if arrays else ():
                times = f"is {found.wide / found.narrow:.4g} times as large in one world as in the other"
                text = f"{absent.secret} changes a number by which the noisy value at {line} is multiplied or divided; the "
                text += f"noise in {several(found.count, 'entry', 'entries')} of {cell} {times}{where}"
                if bound := refuting(case, part.run, found, text, FACTORS, SETTLED):
                    return bound
    return None


def divided(within: Inside, arrays: Collection[str]) -> Iterator[tuple[Absence, str, Cell, Resized]]:
    """Yields secrets that change a factor between a noisy value and a cell of these arrays, with the line, the cell and the noise
    on the entries with the most frequent change.
    """
    first = within.run
    pairs = [
        (i, cell)
        for i, m in enumerate(first.mechanisms)
        for cell, values in first.play.cells.items()
        if m.law in POWERS and m.plain and cell.array in arrays and values.size == m.noisy.size
    ]
    if not pairs or len(first.mechanisms) != len((second := history(first.study, 1)).mechanisms):
        return
    secrets = dict.fromkeys((*within.across, *within.secrets))
    for absent in islice((a for a in secrets if a.is_single), TRIED):
        with suppress(Incomparable):
            runs, others = both(first, absent), both(second, absent)
            for i, cell in pairs:
                worlds, again = ([f for run in pair if (f := factors(run, i, cell)) is not None] for pair in (runs, others))
                if len(worlds) == len(again) == 2:
                    found = clearest(worlds, again, absent, first.play.cells[cell].shape)
                    if found is not None and all(steady(run, i, cell) for run in runs):
                        yield absent, first.mechanisms[i].line, cell, found


def factors(run: History, i: int, cell: Cell) -> Factors | None:
    """What a cell is the noisy value of mechanism `i` times; None if the two have different sizes."""
    mechanism, values = run.mechanisms[i], run.play.cells.get(cell)
    if values is None or values.size != mechanism.noisy.size:
        return None
    noisy = np.asarray(mechanism.noisy, dtype=np.float64)
    large = np.abs(noisy) > SMALL * np.asarray(mechanism.scale, dtype=np.float64)
    by = np.divide(values.reshape(noisy.shape), noisy, out=np.zeros_like(noisy), where=large)
    return Factors(mechanism, by, large & (by != 0))


def steady(run: History, i: int, cell: Cell) -> bool:
    """Whether other noisy values give the same factors wherever these are known."""
    before = factors(run, i, cell)
    for again in with_other_values(run, range(len(run.mechanisms))):
        after = None if again is None else factors(again, i, cell)
        if before is None or after is None:
            return False
        both_known = before.known & after.known
        if not both_known.any() or not np.allclose(before.by[both_known], after.by[both_known], rtol=SAME, atol=0):
            return False
    return True


def clearest(worlds: Sequence[Factors], again: Sequence[Factors], absent: Absence, shape: tuple[int, ...]) -> Resized | None:
    """The noise on the entries whose scale changes by the most frequent factor; of Laplace noise, on the entry whose scale
    changes most. Its narrow scale is 1. None if no scale changes. Own rows of absent nodes do not count.
    """
    one, other = worlds
    agree = [w.agrees(a) for w, a in zip(worlds, again, strict=True)]
    seen = agree[0] & agree[1] & absent.shown(shape).reshape(agree[0].shape)
    if not seen.any():
        return None
    scales = [w.scale[seen] for w in (one, other)]
    logs = np.log(scales[1] / scales[0])
    if not (np.abs(logs) > CLEAR).any():
        return None
    apart = np.abs(other.by * other.mechanism.clean - one.by * one.mechanism.clean)[seen] / np.minimum(*scales)
    law = one.mechanism.law
    if law != "normal":
        at = int(np.abs(logs).argmax())
        return Resized(law, 1, 1.0, math.exp(abs(float(logs[at]))), float(apart[at]))
    rounded = np.where(np.abs(logs) > CLEAR, np.round(logs, 4), 0.0)
    changes, counts = np.unique(rounded[rounded != 0], return_counts=True)
    some = rounded == changes[counts.argmax()]
    least = math.exp(float(np.abs(logs[some]).min()))
    return Resized(law, int(some.sum()), 1.0, least, float(np.linalg.norm(apart[some])))
