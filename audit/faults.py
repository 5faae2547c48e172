"""Planted privacy faults: real recipes, each broken in one way that really happened somewhere, with what must catch it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.calibrate import calibrate
from ..accounting.claim import Claim, Relation, Unit
from ..models.base import Release
from ..models.gap import Gap
from ..models.lpgnn import Lpgnn
from ..models.noise import stream

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from ..models.graph import Worlds

EDGE = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
LOCAL = Claim(2.0, 0.0, Unit.FEATURES, Relation.REPLACE)


@dataclass(frozen=True)
class Fault:
    """name: what is wrong. kappa: by how much the noise is too small for the claim; None where one number does not say it.

    undetectable: sampling cannot see it, and the harness says so instead of passing in silence.
    """

    name: str
    model: Callable[[], Any]
    claim: Claim
    caught_by: str
    kappa: float | None
    undetectable: bool = False


def sums_of(worlds: Worlds, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """A h for every run and hop: (K, hops, nodes, dim) -> the same."""
    each = []
    for run, present in enumerate(worlds.edge_present()):
        graph = dataclasses.replace(worlds.graph, edges=worlds.graph.edges[:, present])
        adjacency = graph.adjacency()
        each.append(np.stack([adjacency @ hop for hop in inputs[run]]))
    return np.stack(each).astype(np.float64)


def with_sums(release: Release, sums: NDArray[np.float64], **arrays: NDArray[Any]) -> Release:
    return dataclasses.replace(release, arrays={**release.arrays, "aggregates": sums.astype(np.float32), **arrays})


@dataclass(frozen=True)
class Quiet(Gap):
    """Adds `share` of the noise that it states."""

    share: float = 0.5

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = Gap.fit(dataclasses.replace(self, sigma=self.sigma * self.share), worlds, device)
        return dataclasses.replace(release, public={"noise_std": self.noise_std, "sigma": self.sigma})


@dataclass(frozen=True)
class Reuses(Gap):
    """Draws noise for the first hop and adds it to every hop: differences of hops are free of noise."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, clean + (release["aggregates"] - clean)[:, :1])


@dataclass(frozen=True)
class Broadcasts(Gap):
    """Draws one row of noise and adds it to every row."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, clean + (release["aggregates"] - clean)[:, :, :1])


@dataclass(frozen=True)
class HalfColumns(Gap):
    """Adds noise to every other column only."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        clean = sums_of(worlds, release["inputs"])
        noise = release["aggregates"] - clean
        noise[..., ::2] = 0
        return with_sums(release, clean + noise)


@dataclass(frozen=True)
class Unscaled(Gap):
    """Forgets to bring rows to length one before they are summed; here they have length two."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, release["aggregates"] + clean, inputs=2 * release["inputs"])


@dataclass(frozen=True)
class Peeks(Gap):
    """Takes its noise from a seed that depends on the number of edges."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        counts = worlds.edge_present().sum(1).astype(np.uint64)
        return super().fit(dataclasses.replace(worlds, seeds=worlds.seeds + counts), device)


@dataclass(frozen=True)
class Uncounted(Gap):
    """Its ledger counts one hop fewer than are released."""

    @property
    def ledger(self) -> DpEvent:
        return Gap(hops=self.hops - 1, sigma=self.sigma).ledger


@dataclass(frozen=True)
class Rare(Gap):
    """In one run of a million it adds no noise at all."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        unlucky = np.array([stream(s, "rare").random() < 1e-6 for s in worlds.seeds])
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, np.where(unlucky[:, None, None, None], clean, release["aggregates"]))


@dataclass(frozen=True)
class EveryBit(Lpgnn):
    """Spends the whole feature budget on every sampled feature, and samples two."""

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        (bit, copies), labels = super().channels(dim, classes)
        return (bit, 2 * copies), labels


@dataclass(frozen=True)
class BinaryLabels(Lpgnn):
    """Keeps a label with the chance that is right for two classes, whatever the number of classes."""

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        bits, (labels, copies) = super().channels(dim, classes)
        keep = 1 / (1 + math.exp(-self.label_budget))
        wrong = np.full_like(labels, (1 - keep) / (classes - 1))
        np.fill_diagonal(wrong, keep)
        return bits, (wrong, copies)


def broken(kind: type[Any], **fields: Any) -> Callable[[], Any]:
    """A fault's model with the noise that the honest recipe is calibrated to."""

    def make() -> Any:
        honest = calibrate(Lpgnn() if issubclass(kind, Lpgnn) else Gap(), LOCAL if issubclass(kind, Lpgnn) else EDGE)
        return dataclasses.replace(kind(**fields), **{f.name: getattr(honest, f.name) for f in dataclasses.fields(honest)})

    return make


def published() -> Any:
    return calibrate(Gap(mode="paper"), dataclasses.replace(EDGE, unit=Unit.DIRECTED_EDGE))


def uncounted() -> Any:
    return calibrate(Uncounted(), EDGE)


def root_noise() -> Any:
    honest = calibrate(Gap(), EDGE)
    return dataclasses.replace(Quiet(share=honest.sigma**-0.5), sigma=honest.sigma)


FAULTS = (
    Fault("half the noise", broken(Quiet), EDGE, "game", 2.0),
    Fault("10 % less noise", broken(Quiet, share=0.9), EDGE, "residual", 1 / 0.9),
    Fault("the root of sigma where sigma was meant", root_noise, EDGE, "game", None),
    Fault("an undirected edge counted as one arc, by replay", published, EDGE, "replay", math.sqrt(2)),
    Fault("an undirected edge counted as one arc, by the game", published, EDGE, "game", math.sqrt(2)),
    Fault("rows not brought to length one", broken(Unscaled), EDGE, "replay", 2.0),
    Fault("noise of the first hop used again", broken(Reuses), EDGE, "residual", None),
    Fault("one row of noise added to every row", broken(Broadcasts), EDGE, "residual", None),
    Fault("noise on every other column", broken(HalfColumns), EDGE, "residual", None),
    Fault("noise seeded by the private edges", broken(Peeks), EDGE, "replay", None),
    Fault("one hop fewer in the ledger than in the release", uncounted, EDGE, "game", math.sqrt(2)),
    Fault("the whole budget on each of two features", broken(EveryBit), LOCAL, "exact", 1.5),
    Fault("label coins for two classes used for more", broken(BinaryLabels), LOCAL, "exact", None),
    Fault("no noise once in a million runs", broken(Rare), EDGE, "game", None, undetectable=True),
)
HONEST = (
    Fault("GAP, sound", lambda: calibrate(Gap(), EDGE), EDGE, "replay", 1.0),
    Fault("GAP, sound", lambda: calibrate(Gap(), EDGE), EDGE, "residual", 1.0),
    Fault("GAP, sound", lambda: calibrate(Gap(), EDGE), EDGE, "game", 1.0),
    Fault("GAP as published, for a directed edge", published, dataclasses.replace(EDGE, unit=Unit.DIRECTED_EDGE), "game", 1.0),
    Fault("LPGNN, sound", lambda: calibrate(Lpgnn(), LOCAL), LOCAL, "exact", 1.0),
)
