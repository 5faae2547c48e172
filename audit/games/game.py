"""The membership game: random bits decide which units are in the graph, and so define worlds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...attacks.base import Challenge, Pilot
from ...models.base import Release
from ...models.graph.edge_removed import without
from ...models.graph.graph import Graph, Mask, Worlds
from ...models.random.streams import fold
from ..key import Key

KINDS = ("edge", "node", "label")
MANY = 1 << 20  # of a graph with more edges than this, `shuffled` first draws this many edges with replacement
DRAWS = 64  # number of blocks in which MANY edges are drawn


@dataclass(frozen=True, eq=False)
class Rounds:
    """The worlds on which the model trains, the challenge for the attacker, and the secret bits.

    bits: (runs, units) bool, True if the unit is present.
    """

    worlds: Worlds
    challenge: Challenge
    bits: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.worlds)


@dataclass(frozen=True, eq=False)
class Seen:
    """The releases of rounds, with their challenge and bits. An index or slice selects runs, such as the pilot runs."""

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
    """In every run, a fair coin for each unit of `items` decides whether it is present. Everything else is always present.

    graph: the graph with all units. kind: "edge" (items are edge ids), "node" or "label" (items are node ids). items: (c,) int64,
    ascending. watch: the ids of the nodes whose rows are released; None: all nodes. paired: run 2k + 1 has the complementary bits
    of run 2k, so each unit is a member in half of an even number of runs. Raises ValueError for another kind, and for ids that
    are out of range, repeated or not ascending.
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
        """A hash of all that defines the game, as 32 hexadecimal digits. The store finds the parts of a game by this hash."""
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
        """What the attacker gets: the units, and the graph without these edges, or with these nodes outside the training set."""
        g = self.graph
        if not self.items.size:
            return Challenge(self.kind, g, np.empty((0, 2), dtype=np.int64) if self.kind == "edge" else self.items)
        if self.kind == "edge":
            return Challenge("edge", without(g, self.items), g.edges[:, self.items].T.copy())
        train = g.train.copy()
        train[self.items] = False
        return Challenge(self.kind, dataclasses.replace(g, train=train), self.items)

    def rounds(self, stop: int, start: int = 0) -> Rounds:
        """Runs start … stop-1. The noise and the bits of a run are independent, because their keys differ."""
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
    """The ids of at most `limit` random edges, no two of which share a node: (c,) int64, ascending.

    Given the released history, an edge changes only the aggregates of its own ends, so these edges are independent trials.
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
    """Yields edge ids in random order. Between two edges, the caller may mark nodes in `used`.

    If a graph has more than MANY edges, the function first yields random edges, which may repeat, and then a permutation of the
    edges without a marked end. So it stores no permutation of all edges, and may leave out edges with a marked end.
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
    """At most `limit` of `ids`, chosen at random without replacement, ascending."""
    return np.sort(key.generator().permutation(ids)[:limit])
