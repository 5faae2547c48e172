"""The challenges of a membership game: units with random bits, in the edge game also fixed edges and pairs without an edge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...attacks.base import Challenge
from ...attacks.links.link_stealing import unordered
from ...attacks.registry import UNITS
from ...models.capabilities import ANSWERS, has
from ...models.graph.graph import Graph
from ..case import Case
from ..games.game import Game, sample
from ..key import Key

ASKED = 1000  # the largest number of units with random bits, and of fixed pairs of each kind


@dataclass(frozen=True, eq=False)
class Question:
    """A game, and all challenges that attacks score on its runs.

    challenge: the game's units first, then fixed pairs. Its graph, which the attacker knows, lacks these edges. there: (pairs,)
    bool, which of the fixed pairs are edges. kinds: kind of non-member -> the columns of the challenge that hold these
    non-members, and the members with which they are compared.
    """

    game: Game
    challenge: Challenge
    there: NDArray[np.bool_]
    kinds: dict[str, NDArray[np.int64]]

    def bits(self, units: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The bits of all challenges, (runs, challenges), from the bits of the units, (runs, units)."""
        return np.concatenate([units, np.tile(self.there, (len(units), 1))], axis=1)

    def few(self, count: int) -> Question:
        """The same game with about `count` members and `count` non-members of each kind, for attacks that query models."""
        thinned = {kind: self._halves(columns, count) for kind, columns in self.kinds.items()}
        return dataclasses.replace(self, kinds=thinned)

    def _halves(self, columns: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        units = len(self.game.items)
        if columns[0] < units:
            return columns[: 2 * count]  # units of the game, about half of them members
        there = self.there[columns - units]
        return np.concatenate([columns[there][:count], columns[~there][:count]])


def question(graph: Graph, kind: str, key: Key) -> Question:
    """The challenges of a game. Label and node games challenge training nodes. The edge game challenges edges with random bits,
    edges that are always there, and pairs without an edge.
    """
    if kind != "edge":
        items = sample(np.flatnonzero(graph.train), ASKED, key.fold("nodes"))
        game = Game(graph, kind, items, key.fold(kind), watch=items, paired=True)
        return Question(game, game.challenge, np.zeros(0, dtype=bool), {UNITS[kind]: np.arange(len(items))})
    order = key.fold("edges").generator().permutation(graph.edges.shape[1])
    some = min(ASKED, order.size // 3 or order.size)  # of three or more edges, at least a third stay known to the attacker
    items, known = np.sort(order[:some]), np.sort(order[some : 2 * some])
    parts = {"known": graph.edges[:, known].T, **{name: pairs(graph, ASKED, key.fold(name)) for name, pairs in NON_EDGES.items()}}
    asked = np.concatenate([graph.edges[:, items].T, *parts.values()])
    ends = np.cumsum([len(items), *(len(p) for p in parts.values())])
    columns = dict(zip(parts, np.split(np.arange(len(asked)), ends[:-1])[1:], strict=True))
    there = np.arange(len(items), len(asked)) < ends[1]
    kinds = {UNITS[kind]: np.arange(len(items))}
    kinds |= {name: np.concatenate([columns["known"], columns[name]]) for name in NON_EDGES if len(known) and len(parts[name])}
    rest = np.delete(graph.edges, np.concatenate([items, known]), axis=1)
    game = Game(graph, kind, items, key.fold(kind), watch=np.unique(asked), paired=True)
    return Question(game, Challenge(kind, dataclasses.replace(graph, edges=rest), asked), there, kinds)


def public_part(graph: Graph, key: Key) -> Graph:
    """The graph of the nodes that are not training nodes, as public data for shadow models. `key` draws its split: 75 % train, 10
    % validation, 15 % test.
    """
    nodes = np.flatnonzero(~graph.train)
    place = np.full(graph.nodes, -1)
    place[nodes] = np.arange(len(nodes))
    edges = place[graph.edges]
    split = key.generator().permutation(len(nodes)) / max(1, len(nodes))
    return dataclasses.replace(
        graph,
        x=graph.x[nodes],
        y=graph.y[nodes],
        edges=edges[:, (edges >= 0).all(0)],
        train=split < 0.75,
        val=(split >= 0.75) & (split < 0.85),
        test=split >= 0.85,
    )


def random_pairs(graph: Graph, count: int, key: Key) -> NDArray[np.int64]:
    """(<= count, 2) int64: distinct pairs of different nodes without an edge, drawn uniformly from all such pairs."""
    drawn = key.generator().integers(graph.nodes, size=(4 * count, 2))
    return without_edges(graph, drawn)[:count]


def two_hop_pairs(graph: Graph, count: int, key: Key) -> NDArray[np.int64]:
    """(<= count, 2) int64: distinct pairs without an edge that have a common neighbour, drawn by two random steps along arcs."""
    rng = key.generator()
    send, receive = graph.arcs[:, np.argsort(graph.arcs[0], kind="stable")]
    first = np.searchsorted(send, np.arange(graph.nodes + 1))
    step = rng.integers(send.size, size=8 * count)
    middle = receive[step]
    out = first[middle + 1] - first[middle]
    last = receive[np.minimum(first[middle] + (rng.random(step.size) * out).astype(np.int64), send.size - 1)]
    return without_edges(graph, np.stack([send[step], last], 1)[out > 0])[:count]


def without_edges(graph: Graph, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs of different nodes without an edge in either direction, each once, in the given order."""
    code = unordered(pairs, graph.nodes)
    once = np.sort(np.unique(code, return_index=True)[1])
    free = (pairs[once, 0] != pairs[once, 1]) & ~np.isin(code[once], unordered(graph.edges.T, graph.nodes))
    return pairs[once[free]]


NON_EDGES: dict[str, Callable[[Graph, int, Key], NDArray[np.int64]]] = {"random": random_pairs, "2-hop": two_hop_pairs}


def view(case: Case) -> tuple[str, ...]:
    """What the adversary sees: the arrays of the claim, and "queries" or "graph queries" if the model answers on chosen features
    or graphs.
    """
    live = (kind for kind, capability in ANSWERS.items() if has(case.model, capability))
    return tuple(dict.fromkeys((*case.claim.exposes, *live)))
