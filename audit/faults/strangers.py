"""Models as a user would write them: they release noisy sums of unit rows, and never call the tool. Each faulty model overrides
one part of an honest model.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import dp_accounting as dp
import numpy as np
import torch
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...accounting.events.types import PureDpEvent
from ...models.base import Release
from ...models.graph.graph import Graph, Worlds

Floats = NDArray[np.float64]


def unit(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


@dataclass(frozen=True)
class Sums:
    """An honest model: noisy sums over neighbours in two hops. Class scores are random projections of the last noisy rows."""

    sigma: float = 1.0
    hops: int = 2
    keep: tuple[str, ...] = ("posteriors",)
    mode: ClassVar[str] = "sound"
    unit: ClassVar[Unit] = Unit.UNDIRECTED_EDGE
    offers: ClassVar[tuple[str, ...]] = ("posteriors", "aggregates", "inputs")
    public: ClassVar[tuple[str, ...]] = ("features",)

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def releases(self) -> tuple[str, ...]:
        return self.keep

    @property
    def std(self) -> float:
        return float(2**0.5 * self.sigma)

    @property
    def ledger(self) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(dp.GaussianDpEvent(self.sigma), self.hops) if self.sigma else dp.NonPrivateDpEvent()

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        return 64 * graph.nodes * graph.dim

    def rows(self, graph: Graph) -> Floats:
        return unit(np.asarray(graph.x, float))

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return self.std * np.random.default_rng([int(seed), hop]).standard_normal(shape)

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return clean + noise

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        return rows @ np.random.default_rng(0).standard_normal((rows.shape[1], graph.classes))

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        out: dict[str, list[Any]] = {}
        for run in range(worlds.runs):
            graph, seed = worlds.removed(run).graph, worlds.seeds[run]
            adjacency, rows, inputs, sums = graph.adjacency().astype(float), self.rows(graph), [], []
            degree = np.asarray(adjacency.sum(1)).ravel()
            for hop in range(self.hops):
                clean = adjacency @ rows
                inputs.append(rows)
                sums.append(self.release(clean, self.noise(seed, clean.shape, hop), degree))
                rows = unit(sums[-1])
            logits = self.scores(rows, graph, degree, seed)
            arrays = {"aggregates": np.stack(sums), "inputs": np.stack(inputs)}
            arrays["posteriors"] = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
            for name in self.keep:
                out.setdefault(name, []).append(np.take(arrays[name], worlds.watch, axis=-2).astype(np.float32))
        return Release({name: np.stack(parts) for name, parts in out.items()}, worlds.watch, {"noise_std": self.std})


class TorchNoise(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        torch.manual_seed(int(seed) % 2**63 + hop)
        return self.std * torch.randn(*shape, dtype=torch.float64).numpy()


class RowByRow(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        rng = np.random.default_rng([int(seed), hop])
        return np.stack([rng.normal(0, self.std, size=shape[1]) for _ in range(shape[0])])


class NodesLast(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return super().noise(seed, shape[::-1], hop).T


class AroundTheSum(Sums):
    """Draws the noisy sum directly, with the clean sum as the location of the draw."""

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        torch.manual_seed(int(seed) % 2**63 + hop)
        return np.zeros(shape)

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return torch.normal(torch.from_numpy(clean), self.std).numpy()


class TwoServers(Sums):
    """Each of two servers adds noise with half of the variance."""

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return (super().noise(seed, shape, hop) + super().noise(seed, shape, hop + 100)) / 2**0.5


class TrainedHead(Sums):
    """Trains a network on the noisy rows, with dropout and random batches. The network computes the class scores."""

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        torch.manual_seed(int(seed) % 2**31)
        x, y = torch.tensor(rows, dtype=torch.float32), torch.tensor(graph.y)
        net = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, graph.classes)
        )
        step = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            batch = torch.randperm(len(x))[: len(x) // 2]
            step.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            step.step()
        with torch.no_grad():
            return net.eval()(x).double().numpy()


@dataclass(frozen=True)
class LaplaceSums(Sums):
    """Adds Laplace noise of scale sigma times the L1 sensitivity of the sums. An edge moves two rows by a unit vector each."""

    hops: int = 1

    @property
    def ledger(self) -> dp.DpEvent:
        return dp.LaplaceDpEvent(self.sigma) if self.sigma else dp.NonPrivateDpEvent()

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return 2 * shape[1] ** 0.5 * self.sigma * np.random.default_rng([int(seed), hop]).laplace(size=shape)


@dataclass(frozen=True)
class GeometricCounts(Sums):
    """Counts the labels of neighbours and adds two-sided geometric noise. An edge moves two counts by one each."""

    hops: int = 1
    moves: ClassVar[int] = 2

    @property
    def ledger(self) -> dp.DpEvent:
        return PureDpEvent(1 / self.sigma) if self.sigma else dp.NonPrivateDpEvent()

    def rows(self, graph: Graph) -> Floats:
        return np.eye(graph.classes)[graph.y] * graph.train[:, None]

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        rng, chance = np.random.default_rng([int(seed), hop]), -np.expm1(-1 / (self.moves * self.sigma))
        return (rng.geometric(chance, shape) - rng.geometric(chance, shape)).astype(float)

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        return rows


class GeometricForOneCount(GeometricCounts):
    """A faulty version whose noise covers only one of the two counts that an edge moves."""

    moves: ClassVar[int] = 1


class Rounded(Sums):
    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return np.round(clean + noise)


class Clipped(Sums):
    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return np.clip(clean + noise, -2, 3)


class OnlyTheLargest(Sums):
    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        noisy = clean + noise
        size = np.linalg.norm(noisy, axis=1)
        return noisy * (size >= np.sort(size)[-len(size) // 4])[:, None]


class NoisyAnswers(Sums):
    """Releases only the class with the largest noisy score."""

    offers: ClassVar[tuple[str, ...]] = ("posteriors",)

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        return 5.0 * np.eye(graph.classes)[rows[:, : graph.classes].argmax(1)]


class NoiseByDegree(Sums):
    """Divides rows, noise included, by the exact degree."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return (clean + noise) / np.maximum(degree, 1)[:, None]


class EveryOtherColumn(Sums):
    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return clean + noise * (np.arange(clean.shape[1]) % 2)


class NoiseByBlock(Sums):
    """Adds the same noise to each quarter of the rows."""

    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        block = -(-shape[0] // 4)
        return np.tile(super().noise(seed, (block, shape[1]), hop), (4, 1))[: shape[0]]


class ExactBases(Sums):
    """Adds noise to the singular values of the sums, and keeps their singular vectors."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        left, values, right = np.linalg.svd(clean, full_matrices=False)
        return (left * (values + noise[: len(values), 0])) @ right


class OneStream(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return super().noise(seed, shape, 0)


class ConstantSeed(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return super().noise(42, shape, hop)


class ConstantGlobalSeed(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        np.random.seed(hop)
        return self.std * np.random.randn(*shape)


class LonelyRows(Sums):
    """Adds no noise to the sums of nodes without neighbours."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return np.where(degree[:, None] > 0, clean + noise, 0.0)


class PopularRows(Sums):
    """Adds no noise to the sums of nodes with more than 100 neighbours."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return np.where(degree[:, None] > 100, clean, clean + noise)


class WithoutHubs(Sums):
    """Leaves out the sums of nodes with more than 40 neighbours. The exact degree decides, so one edge moves a whole sum."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return np.where(degree[:, None] > 40, 0.0, clean) + noise


class DegreeBeside(Sums):
    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        return super().scores(rows, graph, degree, seed) + np.log1p(degree)[:, None] * np.arange(graph.classes)


class ServedClean(Sums):
    """Adds noise to the sums only if it releases them."""

    def release(self, clean: Floats, noise: Floats, degree: Floats) -> Floats:
        return clean + noise if "aggregates" in self.keep else clean


class SecondPass(Sums):
    """Computes class scores from additional noisy sums, for which the ledger does not charge."""

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        again = unit(graph.adjacency() @ unit(np.asarray(graph.x, float)) + self.noise(seed, rows.shape, 7))
        return super().scores(rows + again, graph, degree, seed)


class CentredByFew(TrainedHead):
    """Subtracts from noisy rows their mean over the tenth of nodes with the most neighbours. About one edge in twenty changes
    which nodes these are.
    """

    def scores(self, rows: Floats, graph: Graph, degree: Floats, seed: int) -> Floats:
        many = degree >= np.quantile(degree, 0.9)
        return super().scores(rows - rows[many].mean(0), graph, degree, seed)


class QuietSecondHop(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return super().noise(seed, shape, hop) / (1 + 3 * hop)


class SeededByTheGraph(Sums):
    """Adds the number of edges to the seed, so the same seed draws other noise on another graph."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        edges = worlds.edge_present().sum(1).astype(np.uint64)
        return super().fit(dataclasses.replace(worlds, seeds=worlds.seeds + edges), device)


class NoSeed(Sums):
    def noise(self, seed: int, shape: tuple[int, ...], hop: int) -> Floats:
        return self.std * np.random.default_rng().standard_normal(shape)


HEARD = (Sums, TorchNoise, RowByRow, NodesLast, AroundTheSum, TwoServers, TrainedHead)  # honest models that must pass
# honest models; on those that are not in HEARD the audit may be inconclusive
HONEST = (*HEARD, LaplaceSums, GeometricCounts, Rounded, Clipped, OnlyTheLargest, NoisyAnswers, NoSeed)
INFINITE = (EveryOtherColumn, OneStream, ConstantSeed, ConstantGlobalSeed, LonelyRows, PopularRows, DegreeBeside, ServedClean)
UNCERTAIN = (NoiseByBlock, ExactBases, NoiseByDegree, SecondPass, SeededByTheGraph, CentredByFew)
FAULTY = (*INFINITE, *UNCERTAIN, QuietSecondHop, WithoutHubs, GeometricForOneCount)
