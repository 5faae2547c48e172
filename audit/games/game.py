"""The membership game: units with random bits, and the worlds that the bits define."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...attacks.base import Challenge, Pilot
from ...models.base import Release
from ...models.graph.edge_removed import without
from ...models.graph.graph import Graph, Mask, Worlds
from ...models.random.streams import fold
from ..key import Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

KINDS = ("edge", "node", "label")
MANY = 1 << 20  # number of edges above which edges are sampled instead of shuffled
DRAWS = 64  # number of blocks in which MANY edges are sampled


@dataclass(frozen=True, eq=False)
class Rounds:
    """Worlds for the model, the challenge for the attacker, and the secret bits.

    bits: (runs, challenges) bool, True if the unit is present.
    """

    worlds: Worlds
    challenge: Challenge
    bits: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.worlds)


@dataclass(frozen=True, eq=False)
class Seen:
    """The releases of rounds, with their challenge and bits. A slice holds some of the runs, such as the pilot runs or the target
    runs.
    """

    release: Release
    challenge: Challenge
    bits: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.release)

    def __getitem__(self, runs: slice | NDArray[np.int64]) -> Seen:
        return Seen(self.release.part(runs), self.challenge, self.bits[runs])

    @property
    def pilot(self) -> Pilot:
        return Pilot(self.release, self.challenge, self.bits)


@dataclass(frozen=True, eq=False)
class Game:
    """In every run, each unit of `items` is present with probability 1/2, independently; everything else is always present.

    graph: the union graph, with all challenge units in it. kind: "edge" (items are edge ids), "node" or "label" (node ids).
    items: (c,) int64, ascending. watch: node ids whose rows are released, all by default. paired: run 2k + 1 has the
    complementary bits of run 2k, so that each unit is a member in half of an even number of runs. Raises ValueError for ids
    out of range.
    """

    graph: Graph
    kind: str
    items: NDArray[np.int64]
    key: Key
    watch: NDArray[np.int64] | None = None
    paired: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind='{self.kind}': must be one of {', '.join(KINDS)}.")
        size = self.graph.edges.shape[1] if self.kind == "edge" else self.graph.nodes
        bad = self.items[(self.items < 0) | (self.items >= size)]
        if bad.size or np.any(np.diff(self.items) <= 0):
            raise ValueError(f"items={bad[:1]}: must be distinct ascending {self.kind} ids below {size}.")

    @property
    def identity(self) -> str:
        """A hash of the game's key, units and graph, for the store."""
        seed = fold(
            *self.key.path,
            self.kind,
            int(self.paired),
            self.graph.digest,
            self.items.tobytes().hex(),
            self._watch.tobytes().hex(),
        )
        return f"{seed:032x}"

    @property
    def _watch(self) -> NDArray[np.int64]:
        return np.arange(self.graph.nodes, dtype=np.int64) if self.watch is None else self.watch

    @property
    def challenge(self) -> Challenge:
        """The challenge for the attacker: the units, and the public graph without them."""
        g = self.graph
        if not self.items.size:
            return Challenge(self.kind, g, np.empty((0, 2), dtype=np.int64) if self.kind == "edge" else self.items)
        if self.kind == "edge":
            return Challenge("edge", without(g, self.items), g.edges[:, self.items].T.copy())
        train = g.train.copy()
        train[self.items] = False
        return Challenge(self.kind, dataclasses.replace(g, train=train), self.items)

    def rounds(self, stop: int, start: int = 0) -> Rounds:
        """Runs start … stop-1. The noise of a run is independent of its bits: they use different branches of the key."""
        runs = range(start, stop)
        bits = np.array([self._bits(k) for k in runs], dtype=bool).reshape(len(runs), self.items.size)
        mask = {f"{self.kind}s": Mask(self.items, bits)}
        worlds = Worlds(self.graph, self.key.seeds(start, stop), self._watch, **mask)
        return Rounds(worlds, self.challenge, bits)

    def _bits(self, run: int) -> NDArray[np.bool_]:
        if self.paired and run % 2:
            return ~self._bits(run - 1)
        return self.key.fold("bits", run).generator().random(self.items.size) < 0.5


def matching(graph: Graph, limit: int, key: Key) -> NDArray[np.int64]:
    """At most `limit` random edges, no two with a common node. Returns their ids, (c,) int64, ascending.

    Given the earlier releases, an edge changes only the aggregates of its own ends, so these edges are independent trials.
    """
    used = np.zeros(graph.nodes, dtype=bool)
    chosen: list[int] = []
    for edge in shuffled(graph, used, key):
        u, v = graph.edges[:, edge]
        if u != v and not used[u] and not used[v]:
            used[u] = used[v] = True
            chosen.append(int(edge))
            if len(chosen) == limit:
                break
    return np.sort(np.array(chosen, dtype=np.int64))


def shuffled(graph: Graph, used: NDArray[np.bool_], key: Key) -> Iterator[int]:
    """Yields edge ids in random order. The caller marks nodes in `used` meanwhile; edges at marked nodes may be repeated or
    missing.

    On a large graph, a random sample of edges comes first, and then a shuffle of the edges whose ends are not marked. So the
    function never stores a permutation of all edges.
    """
    random, count = key.generator(), graph.edges.shape[1]
    if count > MANY:
        for _ in range(DRAWS):
            yield from random.integers(0, count, MANY // DRAWS)
        free = (~used[block].any(axis=0) for block in graph.edge_blocks())
        yield from random.permutation(np.flatnonzero(np.concatenate(list(free))))
    else:
        yield from random.permutation(count)


def sample(ids: NDArray[np.int64], limit: int, key: Key) -> NDArray[np.int64]:
    """At most `limit` of `ids`, chosen at random, ascending."""
    return np.sort(key.generator().permutation(ids)[:limit])
