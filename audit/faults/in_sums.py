"""Recipes that release noisy sums over neighbours, each broken in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.base import Release
from ...models.engine.layers import UnitLength
from ...models.gap import common
from ...models.gap.gap import Gap
from ...models.graph.graph import Mask
from ...models.random.streams import stream
from ...models.vesper import party_a_sound
from ...models.vesper.vesper import Vesper

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray
    from torch import Tensor

    from ...models.engine.run_batches import Company
    from ...models.graph.graph import Graph, Worlds


@contextmanager
def patched(where: Any, **names: Any) -> Iterator[None]:
    """Other values for some names of a module, until the block is left."""
    before = {name: getattr(where, name) for name in names}
    for name, value in names.items():
        setattr(where, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(where, name, value)


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
    """Forgets to bring rows to length one before they are summed, in the first `hops_wrong` hops; there they have length two."""

    hops_wrong: int = 2

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        inputs = release["inputs"].copy()
        inputs[:, : self.hops_wrong] *= 2
        return with_sums(release, release["aggregates"] + sums_of(worlds, inputs - release["inputs"]), inputs=inputs)


@dataclass(frozen=True)
class ScalesAfterwards(Gap):
    """Sums what the encoder gives as it is, and brings rows to length one only after they were summed."""

    def _encoded(self, company: Company) -> Tensor:
        def forward(layer: Any, own: Any, x: Any, training: bool = False) -> Any:
            return (x, None) if not training else lengths(layer, own, x, training)

        lengths = UnitLength.forward
        with patched(UnitLength, forward=forward):
            return super()._encoded(company)


@dataclass(frozen=True)
class Peeks(Gap):
    """Takes its noise from a seed that depends on the number of edges."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        counts = worlds.edge_present().sum(1).astype(np.uint64)
        return super().fit(dataclasses.replace(worlds, seeds=worlds.seeds + counts), device)


@dataclass(frozen=True)
class FixedSeed(Gap):
    """Takes the noise of every run from one seed that is written in the code."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return super().fit(dataclasses.replace(worlds, seeds=np.full_like(worlds.seeds, 2763934991)), device)


@dataclass(frozen=True)
class Uncounted(Gap):
    """Its ledger counts one hop fewer than are released."""

    @property
    def ledger(self) -> DpEvent:
        return Gap(hops=self.hops - 1, sigma=self.sigma).ledger


@dataclass(frozen=True)
class SumsAgain(Gap):
    """Draws fresh noisy sums when it is asked for predictions, which its ledger does not count."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        answers = dataclasses.replace(self, keep=("posteriors",))
        asked = Gap.fit(answers, dataclasses.replace(worlds, seeds=worlds.seeds + np.uint64(1)), device)
        release = super().fit(worlds, device)
        return dataclasses.replace(release, arrays={**release.arrays, **{n: asked[n] for n in asked.arrays if n in release}})


@dataclass(frozen=True)
class GreedyBound(Gap):
    """Keeps edges one after the other while both ends have fewer than `most`: one edge less lets others in."""

    most: int = 10

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        present = np.stack([self.bounded(worlds.graph, p) for p in worlds.edge_present()])
        edges = Mask(np.arange(present.shape[1]), present)
        return super().fit(dataclasses.replace(worlds, edges=edges), device)

    def bounded(self, graph: Graph, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(edges,) bool: those of `present` that are kept."""
        kept, degree = present.copy(), np.zeros(graph.nodes, dtype=np.int64)
        for i in np.flatnonzero(present):
            ends = graph.edges[:, i]
            kept[i] = (degree[ends] < self.most).all()
            degree[ends] += kept[i]
        return kept


@dataclass(frozen=True)
class Logs(Gap):
    """Writes how long the longest sum is, before any noise, into a log that is published."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        rows = np.ones((worlds.runs, 1, worlds.graph.nodes, 1), dtype=np.float32)
        degrees = sums_of(worlds, rows)[:, 0, :, 0]
        return dataclasses.replace(release, arrays={**release.arrays, "log": degrees.mean(1, keepdims=True)})


@dataclass(frozen=True)
class OwnRow(Gap):
    """At node level, releases the sums of the protected nodes themselves, which hold all that was sent to them."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patched(common, withhold=lambda model, worlds, arrays: arrays):
            return super().fit(worlds, device)


@dataclass(frozen=True)
class Rare(Gap):
    """In one run of a million it adds no noise at all."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        unlucky = np.array([stream(s, "rare").random() < 1e-6 for s in worlds.seeds])
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, np.where(unlucky[:, None, None, None], clean, release["aggregates"]))


@dataclass(frozen=True)
class LongRows(Vesper):
    """Does not bring the rows of its messages to length one."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patched(party_a_sound, normalise=lambda rows: rows):
            return super().fit(worlds, device)
