"""Models that DP-SGD trains on private nodes, each with a privacy fault in how it draws batches."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...models.engine import dpsgd
from ...models.gap import stage
from .in_training import FaultyTraining


class UnchargedSteps(FaultyTraining):
    """Takes ceil(N / batch) steps in each epoch on N nodes; its ledger charges for floor(N / batch)."""

    where: ClassVar[Any] = stage

    def change(self) -> dict[str, Any]:
        honest, steps = stage.Private, -(-self.train_nodes // self.batch)
        return {"Private": lambda **fields: honest(**{**fields, "steps": steps})}


class FixedSizeBatches(FaultyTraining):
    """Draws batches of a fixed size; its ledger charges for Poisson batches."""

    where: ClassVar[Any] = stage

    def change(self) -> dict[str, Any]:
        honest = stage.Private
        return {"Private": lambda **fields: honest(**fields, fixed=True)}


class Coins:
    """Stands for a generator of coins and for its source of bits. A subclass has the coins as numbers in [0, 1]."""

    def random(self, population: int) -> NDArray[np.float64]:
        raise NotImplementedError

    @property
    def bit_generator(self) -> "Coins":
        return self

    def random_raw(self, count: int) -> NDArray[np.uint64]:
        """Two coins of 32 bits in each of (count,) numbers."""
        return (self.random(2 * count) * (2**32 - 1)).astype(np.uint32).view(np.uint64)


class ShuffledCoins(Coins):
    """Replaces the coins of Poisson batches by a random partition of all nodes, with a new partition in every epoch."""

    def __init__(self, random: np.random.Generator, rate: float) -> None:
        self.random_order, self.batches, self.step = random, max(1, round(1 / rate)), 0

    def random(self, population: int) -> NDArray[np.float64]:
        """(population,) float64: 0 for the nodes of this batch, which then join it, and 1 for all other nodes."""
        if self.step % self.batches == 0:
            self.order = self.random_order.permutation(population)
        part = np.array_split(self.order, self.batches)[self.step % self.batches]
        self.step += 1
        coins = np.ones(population)
        coins[part] = 0
        return coins


def drawn_by(coins: Callable[[np.random.Generator], Any]) -> dict[str, Any]:
    """The change that replaces the generators of Poisson batches. coins: makes the replacement from the honest generator."""
    honest = dpsgd.stream

    def stream(seed: Any, *path: Any) -> Any:
        drawn = honest(seed, *path)
        return coins(drawn) if path[0] == "batch" else drawn

    return {"stream": stream}


class ShuffledBatches(FaultyTraining):
    """Shuffles the nodes and cuts them into batches; its ledger charges for Poisson batches."""

    def change(self) -> dict[str, Any]:
        return drawn_by(lambda drawn: ShuffledCoins(drawn, self.batch / self.train_nodes))


class RepeatedCoins(Coins):
    """Replaces the coins of Poisson batches by those of the first epoch, in every epoch."""

    def __init__(self, random: np.random.Generator, batches: int) -> None:
        self.drawn, self.batches, self.step = random, batches, 0
        self.epoch: list[NDArray[np.float64]] = []

    def random(self, population: int) -> NDArray[np.float64]:
        if len(self.epoch) < self.batches:
            self.epoch.append(self.drawn.random(population))
        self.step += 1
        return self.epoch[(self.step - 1) % self.batches]


class SameBatchesEveryEpoch(FaultyTraining):
    """Restarts the batch sampler from the same seed in every epoch, so every epoch has the same batches."""

    def change(self) -> dict[str, Any]:
        return drawn_by(lambda drawn: RepeatedCoins(drawn, self.train_nodes // self.batch))
