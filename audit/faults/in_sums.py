"""Models that release noisy sums over neighbours, each with one privacy fault."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...models.base import Release
from ...models.engine.layers import UnitLength
from ...models.engine.run_batches import RunGroup
from ...models.gap import common
from ...models.gap.gap import Gap
from ...models.graph.graph import Graph, Mask, Worlds
from ...models.random.streams import stream
from ...models.vesper import party_a_sound
from ...models.vesper.vesper import Vesper

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def sums_of(worlds: Worlds, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sums A x without noise, for every run and hop. inputs: (runs, hops, nodes, dim). Returns the same shape."""
    each = []
    for run, present in enumerate(worlds.edge_present()):
        graph = dataclasses.replace(worlds.graph, edges=worlds.graph.edges[:, present])
        adjacency = graph.adjacency()
        each.append(np.stack([adjacency @ hop for hop in inputs[run]]))
    return np.stack(each).astype(np.float64)


def with_sums(release: Release, sums: NDArray[np.float64], **arrays: NDArray[Any]) -> Release:
    """The release with `sums` as its aggregates, and with the given arrays."""
    return dataclasses.replace(release, arrays={**release.arrays, "aggregates": sums.astype(np.float32), **arrays})


def with_all_sums(model: Gap, worlds: Worlds, device: str) -> Release:
    """The honest release of GAP: the arrays that the model keeps, its sums, and the rows that were summed."""
    asked = tuple(dict.fromkeys((*model.keep, "aggregates", "inputs")))
    return Gap.fit(dataclasses.replace(model, keep=asked), worlds, device)


@dataclass(frozen=True)
class TooLittleNoise(Gap):
    """Adds `share` times the noise that it states."""

    share: float = 0.5

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = Gap.fit(dataclasses.replace(self, sigma=self.sigma * self.share), worlds, device)
        return dataclasses.replace(release, public={"noise_std": self.noise_std, "sigma": self.sigma})


class OtherNoise(Gap):
    """GAP with faulty noise on its released sums. `changed` replaces honest noise by faulty noise, (runs, hops, nodes, dim)."""

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        raise NotImplementedError

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = with_all_sums(self, worlds, device)
        clean = sums_of(worlds, release["inputs"])
        return with_sums(release, clean + self.changed(release["aggregates"] - clean, worlds)).only(self.keep)


class ReusesFirstHopNoise(OtherNoise):
    """Adds the noise of the first hop to every hop, so differences between hops contain no noise."""

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        return np.repeat(noise[:, :1], self.hops, axis=1)


class OneNoiseRowForAll(OtherNoise):
    """Draws one row of noise and adds it to every row."""

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        return np.repeat(noise[:, :, :1], noise.shape[2], axis=2)


@dataclass(frozen=True)
class NoiseTiledOverBlocks(OtherNoise):
    """Adds the same noise to each of `blocks` blocks of rows, as if each task got a copy of one generator."""

    blocks: int = 4

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        rows = noise.shape[2]
        return noise[:, :, np.arange(rows) % -(-rows // self.blocks)]


class NoiseOnHalfTheColumns(OtherNoise):
    """Adds noise to every other column only."""

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        return noise * (np.arange(noise.shape[3]) % 2)


class NoNoiseOnceInAMillion(OtherNoise):
    """Adds no noise with probability one in a million, in each run."""

    def changed(self, noise: NDArray[np.float64], worlds: Worlds) -> NDArray[np.float64]:
        lucky = np.array([stream(s, "rare").random() >= 1e-6 for s in worlds.seeds])
        return noise * lucky[:, None, None, None]


@dataclass(frozen=True)
class RowsNotNormalised(Gap):
    """Sums rows of length two instead of one in the first `faulty_hops` hops."""

    faulty_hops: int = 2

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = with_all_sums(self, worlds, device)
        inputs = release["inputs"].copy()
        inputs[:, : self.faulty_hops] *= 2
        more = sums_of(worlds, inputs - release["inputs"])
        return with_sums(release, release["aggregates"] + more, inputs=inputs).only(self.keep)


class NormalisesAfterSumming(Gap):
    """Sums the encoder's rows without normalisation, and normalises only the sums."""

    def _encoded(self, group: RunGroup) -> Tensor:
        def forward(layer: Any, own: Any, x: Any, training: bool = False) -> Any:
            return (x, None) if not training else lengths(layer, own, x, training)

        lengths = UnitLength.forward
        with patch.multiple(UnitLength, forward=forward):
            return super()._encoded(group)


class NoiseSeededByEdges(Gap):
    """Seeds its noise with the number of edges, which is private."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        counts = worlds.edge_present().sum(1).astype(np.uint64)
        return super().fit(dataclasses.replace(worlds, seeds=worlds.seeds + counts), device)


class FixedNoiseSeed(Gap):
    """Draws the noise of every run from one seed that is written in the code."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return super().fit(dataclasses.replace(worlds, seeds=np.full_like(worlds.seeds, 2763934991)), device)


class OneHopNotCharged(Gap):
    """Charges for one hop fewer than it releases."""

    @property
    def ledger(self) -> DpEvent:
        return Gap(hops=self.hops - 1, sigma=self.sigma).ledger


class UnchargedSumsForPredictions(Gap):
    """Draws fresh noisy sums for predictions. Its ledger does not charge for them."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        answers = dataclasses.replace(self, keep=("posteriors",))
        asked = Gap.fit(answers, dataclasses.replace(worlds, seeds=worlds.seeds + np.uint64(1)), device)
        release = super().fit(worlds, device)
        return dataclasses.replace(release, arrays={**release.arrays, **{n: asked[n] for n in asked.arrays if n in release}})


@dataclass(frozen=True)
class GreedyDegreeCap(Gap):
    """Visits the edges in order, and keeps an edge if both of its ends have fewer than `most` kept edges so far. So, if one edge
    is removed, the cap may keep other edges in its place.
    """

    most: int = 10

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        present = np.stack([self.bounded(worlds.graph, p) for p in worlds.edge_present()])
        edges = Mask(np.arange(present.shape[1]), present)
        return super().fit(dataclasses.replace(worlds, edges=edges), device)

    def bounded(self, graph: Graph, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(edges,) bool: which of the present edges are kept."""
        kept, degree = present.copy(), np.zeros(graph.nodes, dtype=np.int64)
        for i in np.flatnonzero(present):
            ends = graph.edges[:, i]
            kept[i] = (degree[ends] < self.most).all()
            degree[ends] += kept[i]
        return kept


class LogsMeanDegree(Gap):
    """Publishes the mean degree of the graph, without noise, in a log."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        release = super().fit(worlds, device)
        rows = np.ones((worlds.runs, 1, worlds.graph.nodes, 1), dtype=np.float32)
        degrees = sums_of(worlds, rows)[:, 0, :, 0]
        return dataclasses.replace(release, arrays={**release.arrays, "log": degrees.mean(1, keepdims=True)})


class ReleasesProtectedRow(Gap):
    """At node level, also releases the protected nodes' own sums, each of which contains the rows of all neighbours."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patch.multiple(common, withhold=lambda model, worlds, arrays: arrays):
            return super().fit(worlds, device)


class MessagesNotNormalised(Vesper):
    """VESPER without the normalisation of the rows of its messages."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patch.multiple(party_a_sound, normalise=lambda rows: rows):
            return super().fit(worlds, device)
