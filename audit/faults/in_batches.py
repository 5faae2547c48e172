"""Models that DP-SGD trains on private nodes, each with a privacy fault in how it draws batches."""

from collections.abc import Callable
from types import SimpleNamespace
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


class ShuffledCoins:
    """Replaces the bits of Poisson batches by a random partition of all nodes, with a new partition in every epoch."""

    def __init__(self, random: np.random.Generator, rate: float) -> None:
        self.random, self.batches, self.step = random, max(1, round(1 / rate)), 0

    def random_raw(self, count: int) -> NDArray[np.uint64]:
        """(count,) uint64, each of two coins of 32 bits: 0 for the nodes of this batch, which then join it, and all bits set for
        all other nodes.
        """
        if self.step % self.batches == 0:
            self.order = self.random.permutation(2 * count)
        part = np.array_split(self.order, self.batches)[self.step % self.batches]
        self.step += 1
        coins = np.full(2 * count, 2**32 - 1, dtype=np.uint32)
        coins[part] = 0
        return coins.view(np.uint64)


def drawn_by(coins: Callable[[np.random.Generator], Any]) -> dict[str, Any]:
    """The change that replaces the bits of Poisson batches. coins: makes their new source from the honest generator."""
    honest = dpsgd.stream

    def stream(seed: Any, *path: Any) -> Any:
        drawn = honest(seed, *path)
        return SimpleNamespace(bit_generator=coins(drawn)) if path[0] == "batch" else drawn

    return {"stream": stream}


class ShuffledBatches(FaultyTraining):
    """Shuffles the nodes and cuts them into batches; its ledger charges for Poisson batches."""

    def change(self) -> dict[str, Any]:
        return drawn_by(lambda drawn: ShuffledCoins(drawn, self.batch / self.train_nodes))


class RepeatedCoins:
    """Replaces the bits of Poisson batches by those of the first epoch, in every epoch."""

    def __init__(self, random: np.random.Generator, batches: int) -> None:
        self.random, self.batches, self.step = random, batches, 0
        self.epoch: list[NDArray[np.uint64]] = []

    def random_raw(self, count: int) -> NDArray[np.uint64]:
        if len(self.epoch) < self.batches:
            self.epoch.append(self.random.bit_generator.random_raw(count))
        self.step += 1
        return self.epoch[(self.step - 1) % self.batches]


class SameBatchesEveryEpoch(FaultyTraining):
    """Restarts the batch sampler from the same seed in every epoch, so every epoch has the same batches."""

    def change(self) -> dict[str, Any]:
        return drawn_by(lambda drawn: RepeatedCoins(drawn, self.train_nodes // self.batch))
