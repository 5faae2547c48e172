"""One measured quantity of a benchmark, and the band in which its mean must be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnnaudit.attacks.roc import mean_interval
from gnnaudit.models.random.streams import stream


@dataclass(frozen=True, eq=False)
class Proof:
    """A measured quantity. values: (n,), by target or seed. source: the published figure. lowest, highest: band of the mean."""

    name: str
    data: str
    what: str
    values: NDArray[np.float64]
    source: str
    lowest: float = -np.inf
    highest: float = np.inf

    @property
    def reached(self) -> bool:
        return bool(self.lowest <= self.values.mean() <= self.highest)

    def line(self) -> str:
        """A row of a Markdown table."""
        mean, n = self.values.mean(), len(self.values)
        interval = "" if n < 2 else "[{:.3f}, {:.3f}]".format(*mean_interval(self.values, stream(0, "proof")))
        low, high = f"≥ {self.lowest:g}", f"≤ {self.highest:g}"
        bands = [b for b, limit in ((low, self.lowest), (high, self.highest)) if np.isfinite(limit)]
        verdict = ("yes" if self.reached else "**no**") if bands else ""
        cells = (self.name, self.data, self.what, f"{mean:.3f}", interval, str(n), self.source, " ".join(bands), verdict)
        return "| " + " | ".join(cells) + " |"


HEAD = "| id | data | what | mean | 95 % over targets or seeds | n | source | band | reached |\n" + "|---" * 9 + "|"
