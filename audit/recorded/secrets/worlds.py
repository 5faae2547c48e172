"""Worlds that lack one secret or many, and a small graph with unusual nodes, which a real graph may not have.

A secret is an edge, a node, or the features of a node. Edges and nodes are removed from the graph, and features are replaced in
it. Nothing is masked, so results in these worlds do not depend on how the model treats masks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....models.capabilities import BoundedDegree, has
from ....models.graph.graph import Graph, Mask, Worlds, dense, joining
from ....models.graph.rows_redrawn import redrawn, with_features, with_rows
from ...case import EDGES
from ...games.edge_catalogue import catalogue
from ...key import Key

UNUSUAL = "small graph of unusual nodes"
UNUSUAL_NODES = "nodes that the graph may lack, such as hubs, nodes without edges and an empty class,"
LEAVES, ALONE, CLIQUE = 130, 5, 12  # in the small graph: leaves of the hub, nodes without edges, nodes of the clique
LENGTHS = 0.1, 1.5, 16.0  # of rows that `of_unlike_rows` makes shorter or longer, in units of their own
ONE_ENTRY = len(LENGTHS) + 1  # the place of a row with one entry among the kinds of rows
ALMOST = 0.1  # the part of a move that `Absence.loudest` leaves out of account
NEAR = 6  # largest number of secrets that `without_one` chooses at the nodes `rows`


@dataclass(frozen=True, eq=False)
class Absence:
    """One run in a world without some secrets. secret: their description. hidden: absent nodes, whose own released rows are not
    compared. None if the world lacks no node. If only the features of a node are secret, its rows are compared as all others.

    half: whether a value's move counts by half. A world in which a node also has other features or another label lies two steps
    away: one node goes, and another one comes. One of the two steps moves the value by half of the whole, or more.

    among: the ids of the secrets. fewer: ids -> the world without these of the secrets only; None if there is no such world.

    base: the world with which this one is compared, if it is not the whole graph: it lacks the same secrets but for `among`.
    """

    secret: str
    worlds: Worlds
    hidden: NDArray[np.int64] | None = None
    half: bool = False
    among: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fewer: Callable[[NDArray[np.int64]], Absence] | None = None
    base: Absence | None = None

    @property
    def is_single(self) -> bool:
        """Whether it lacks one secret, of which whole moves are known."""
        return self.among.size == 1 and not self.half

    def single(self, moves: Callable[[Absence], bool]) -> Absence | None:
        """A world that lacks one of the secrets and for which `moves` returns True, found by halving; None if the search finds
        none. It lacks this secret alone if each half that is searched moves alone; else it has a `base`.
        """
        absent: Absence | None = self
        while absent is not None and absent.fewer is not None and absent.among.size > 1:
            lacking = np.zeros(0, dtype=np.int64) if absent.base is None else absent.base.among
            one, two = np.array_split(absent.among, 2)
            parts = ((one, lacking), (two, lacking), (two, np.concatenate([lacking, one])))
            absent = next((part for part in (self._beyond(*ids) for ids in parts) if moves(part)), None)
        return absent

    def without_own_rows(self) -> Absence:
        """The same world, of which no own row of its secrets is compared."""
        fewer = self.fewer
        return dataclasses.replace(
            self, hidden=self.among, fewer=None if fewer is None else lambda part: fewer(part).without_own_rows()
        )

    def shown(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which entries of an array of this shape are no own rows of absent nodes."""
        shown = np.ones(shape, dtype=bool)
        if self.hidden is not None and shape and shape[0] == self.worlds.graph.nodes:
            shown[self.hidden] = False
        return shown

    def _beyond(self, part: NDArray[np.int64], lacking: NDArray[np.int64]) -> Absence:
        """The world without the secrets `part`, compared with the whole graph or, if `lacking` names some, without both."""
        assert self.fewer is not None
        alone = self.fewer(np.sort(part))
        if not lacking.size:
            return alone
        both, base = self.fewer(np.sort(np.concatenate([lacking, part]))), self.fewer(np.sort(lacking))
        secret = f"{alone.secret}, with the same change of {lacking.size} others in both worlds"
        return dataclasses.replace(both, secret=secret, among=part, fewer=self.fewer, base=base)

    def loudest(self, moved: Callable[[Absence], float], size: float) -> Absence:
        """A world that lacks only the secret that moves a value farthest, found by halving: of two halves, the one that moves it
        farther. The second half is not tried if the first one moves it almost as far as both, or almost not at all.

        size: how far all secrets together move it.
        """
        absent: Absence = self
        while absent.fewer is not None and absent.among.size > 1:
            one, two = map(absent.fewer, np.array_split(absent.among, 2))
            first = moved(one)
            second = size - first if min(first, size - first) < ALMOST * size else moved(two)
            absent, size = (one, first) if first >= second else (two, second)
        return absent


def alone(worlds: Iterable[Absence], changes: Callable[[Absence], bool], half: bool = False) -> Iterator[Absence]:
    """Yields worlds without one secret. Of a world without many secrets, one is found by halving that `changes` what is looked
    for. half: whether to yield the worlds of which only half of a move is known, in place of all others.
    """
    found = (absent if absent.among.size == 1 else absent.single(changes) for absent in worlds if absent.half == half)
    yield from (one for one in found if one is not None and one.among.size == 1)


def single_secrets(
    many: Iterable[tuple[Absence, set[int]]], names: Sequence[object], seen: set[int], moved: Callable[[Absence], set[int]]
) -> Iterator[tuple[int, Absence, Absence | None]]:
    """Yields, for each value that many secrets together move and no value `seen` resembles, its number, the world without the
    many, and a world without one secret that moves it, see `Absence.single`; None if the search by halving finds none.

    many: worlds, each with the numbers of the values that move in it. names: for each value; values of one name resemble one
    another. seen: the caller adds the values that move in the worlds that it was given. moved: a world -> the values that move.
    """
    tried: set[object] = set()
    for absent, values in many:
        for i in sorted(values) if absent.fewer is not None else ():
            if names[i] not in {names[j] for j in seen} | tried:
                tried.add(names[i])

                def moves(part: Absence, i: int = i) -> bool:
                    return i in moved(part)

                yield i, absent, absent.single(moves)


def without_any(whole: Worlds, unit: Unit, key: Key) -> Iterator[Absence]:
    """Yields worlds that lack very many secrets. For edges, one world without any edge. For nodes, two worlds, each without one
    half of the nodes, whose rows have other features and labels, one world in which the nodes have other labels, and one in which
    half of the nodes are no training nodes; in the last two their own rows are compared. For features, four worlds, two for each
    half: its features are reflected, or drawn from other rows.
    """
    graph = whole.graph
    if unit in EDGES:
        yield without_edges(whole, np.arange(graph.edges.shape[1], dtype=np.int64), "the absence of all edges")
        return
    random = key.fold("halves").generator()
    order = random.permutation(graph.nodes)
    for half in (np.sort(order[: graph.nodes // 2]), np.sort(order[graph.nodes // 2 :])):
        absent = without_nodes(whole, unit, half, "half of the nodes")
        if unit is Unit.FEATURES:
            yield absent
        yield dataclasses.replace(with_other_rows(whole, unit, half, random), secret=absent.secret)
    if unit is Unit.NODE:
        yield dataclasses.replace(with_other_labels(whole, np.arange(graph.nodes), half=True), secret="a change of all labels")
        fewer = dataclasses.replace(whole.graph, train=whole.graph.train & ~np.isin(np.arange(whole.graph.nodes), half))
        yield Absence("the exclusion of half of the nodes from training", dataclasses.replace(whole, graph=fewer))


def without_many(whole: Worlds, unit: Unit, key: Key) -> Iterator[tuple[Absence, ...]]:
    """Yields the worlds of `without_any` as one tuple, then one world without half of the secrets, then one without a tenth of
    them.

    The later worlds are for models that cannot be trained if very many secrets are absent.
    """
    yield tuple(without_any(whole, unit, key))
    graph, in_edges = whole.graph, unit in EDGES
    order = key.fold("some").generator().permutation(graph.edges.shape[1] if in_edges else graph.nodes)
    for share in (2, 10):
        some = np.sort(order[: order.size // share])
        yield (lacking(whole, unit, some),)


def without_one(
    whole: Worlds, unit: Unit, key: Key, rows: NDArray[np.int64], limit: int | None = None, loud: Sequence[int] = ()
) -> Iterator[Absence]:
    """Yields worlds without one edge or node, or with the features and the label of one node replaced.

    For a node claim there are three worlds of each node. One lacks the node. One lacks it too and gives it other features and
    another label. One gives it another label only, see `_relabelled`. For a claim about features there are three: one reflects
    the features of the node, one draws them from other rows, and one changes the label only. The busiest node in training and the
    busiest other node also get rows of the lowest and of the highest feature value. (Absent nodes get them, if the claim is about
    nodes.)

    rows: nodes of special interest, such as those with the least noise. Up to NEAR of them, or one edge of each, are among the
    secrets. So is one training node of each class, because a model may weigh classes. limit: largest number of secrets. loud:
    further edges, which are among the secrets beyond this limit.
    """
    graph = whole.graph
    if unit in EDGES:
        near = [int(np.flatnonzero((graph.edges == r).any(0))[0]) for r in rows if (graph.edges == r).any()][:NEAR]
        listed = list(dict.fromkeys([*near, *(int(e) for e in catalogue(graph, key.fold("edges")))]))[:limit]
        for edge in dict.fromkeys([*listed, *loud]):
            yield without_edges(whole, np.array([edge]))
        return
    trained = np.flatnonzero(graph.train)
    busiest, loneliest = trained[graph.degree[trained].argmax()], trained[graph.degree[trained].argmin()]
    of_classes, others = trained[np.unique(graph.y[trained], return_index=True)[1]], np.flatnonzero(~graph.train)
    others = others[np.argsort(-graph.degree[others], kind="stable")[:1]]
    for node in list(dict.fromkeys(int(v) for v in (busiest, *others, loneliest, *rows[:NEAR], trained[-1], *of_classes)))[
        :limit
    ]:
        yield without_nodes(whole, unit, np.array([node]))
        for value in (graph.x.min(), graph.x.max()) if node in (busiest, *others) else ():
            yield _with_row(whole, unit, node, float(value))
        yield with_other_rows(whole, unit, np.array([node]), key.fold("other", node).generator())
        yield _relabelled(whole, node) if unit is Unit.NODE else with_other_labels(whole, np.array([node]))


def _with_row(whole: Worlds, unit: Unit, node: int, value: float) -> Absence:
    """A world in which all features of a node have one value. For node claims the node is absent."""
    gone = whole if unit is Unit.FEATURES else without_nodes(whole, unit, np.array([node])).worlds
    worlds = dataclasses.replace(gone, graph=with_features(gone.graph, np.array([node]), value))
    if unit is Unit.FEATURES:
        return Absence(f"a row of features that are all {value:g}, for node {node},", worlds)
    return Absence(f"the absence of node {node}, with features that are all {value:g},", worlds, np.array([node]), True)


def outliers(whole: Worlds, absent: Absence) -> Iterator[Absence]:
    """Yields the world `absent`, which lacks one node, compared with worlds in which the node has a row of the lowest or of the
    highest feature value. Such a row may move a sum farther, for example if nothing clips it.
    """
    for value in (whole.graph.x.min(), whole.graph.x.max()):
        base = Absence("", dataclasses.replace(whole, graph=with_features(whole.graph, absent.among, float(value))))
        yield dataclasses.replace(absent, secret=f"{absent.secret}, whose features are all {value:g},", base=base)


def _relabelled(whole: Worlds, node: int) -> Absence:
    """A world in which a node has another label and is no training node, but keeps its features and its edges.

    Whoever asks about the node gives its features. The label, and whether the model was trained on it, are secret, so the node's
    own rows are compared. The world lies two steps away: the node goes, and one with another label comes.
    """
    other = with_other_labels(whole, np.array([node])).worlds.graph
    other = dataclasses.replace(other, train=other.train & (np.arange(other.nodes) != node))
    secret = f"a change of the label of node {node} and its exclusion from training"
    return Absence(secret, dataclasses.replace(whole, graph=other), half=True, among=np.array([node]))


def with_other_labels(whole: Worlds, nodes: NDArray[np.int64], half: bool = False) -> Absence:
    """A world in which nodes have other labels and keep their features, which then add to the sums of other classes. half: see
    `Absence`.
    """
    y = whole.graph.y.copy()
    y[nodes] = (y[nodes] + 1) % whole.graph.classes
    name = f"another label of node {nodes[0]}" if nodes.size == 1 else f"other labels of {nodes.size} nodes"
    worlds = dataclasses.replace(whole, graph=dataclasses.replace(whole.graph, y=y))
    return Absence(name, worlds, half=half, among=nodes, fewer=lambda part: with_other_labels(whole, part, half))


def with_other_rows(whole: Worlds, unit: Unit, nodes: NDArray[np.int64], random: np.random.Generator) -> Absence:
    """A world in which the nodes have other features and labels, drawn from other rows. For node claims the nodes are absent."""
    other = redrawn(whole.graph, nodes, random)

    def fewer(part: NDArray[np.int64]) -> Absence:
        name = f"node {part[0]}" if part.size == 1 else f"{part.size} nodes"
        if unit is Unit.FEATURES:
            worlds = dataclasses.replace(whole, graph=with_rows(whole.graph, part, other))
            return Absence(f"a replacement of the features and labels of {name}", worlds, among=part, fewer=fewer)
        gone = without_nodes(whole, unit, part).worlds
        worlds = dataclasses.replace(gone, graph=with_rows(gone.graph, part, other))
        return Absence(f"the absence of {name} with its features and labels", worlds, part, True, part, fewer)

    return fewer(nodes)


def lacking(whole: Worlds, unit: Unit, secrets: NDArray[np.int64]) -> Absence:
    """A world without these edges or nodes, or with other features of these nodes."""
    return without_edges(whole, secrets) if unit in EDGES else without_nodes(whole, unit, secrets)


def without_edges(whole: Worlds, edges: NDArray[np.int64], secret: str = "") -> Absence:
    """A world without these edges, given by their ids."""
    name = "edge ({}, {})".format(*whole.graph.edges[:, edges[0]]) if edges.size == 1 else f"{edges.size} edges"
    mask = Mask(edges, np.zeros((1, edges.size), dtype=bool))
    worlds = dataclasses.replace(whole, edges=mask).removed(0)
    return Absence(secret or f"the absence of {name}", worlds, among=edges, fewer=lambda part: without_edges(whole, part))


def without_nodes(whole: Worlds, unit: Unit, nodes: NDArray[np.int64], name: str = "") -> Absence:
    name = name or (f"node {nodes[0]}" if nodes.size == 1 else f"{nodes.size} nodes")

    def fewer(part: NDArray[np.int64]) -> Absence:
        return without_nodes(whole, unit, part)

    if unit is not Unit.FEATURES:
        mask = Mask(nodes.astype(np.int64), np.zeros((1, nodes.size), dtype=bool))
        worlds = dataclasses.replace(whole, nodes=mask).removed(0)
        return Absence(f"the absence of {name}", worlds, nodes, among=nodes, fewer=fewer)
    graph = whole.graph
    other = with_features(graph, nodes, graph.x.max() + graph.x.min() - dense(graph.x[nodes]))
    y = graph.y.copy()
    y[nodes] = (y[nodes] + 1) % graph.classes
    new = dataclasses.replace(other, y=y)
    secret = f"a change of the features and the label of {name}"
    return Absence(secret, dataclasses.replace(whole, graph=new), among=nodes, fewer=fewer)


def in_no_mask(whole: Worlds, nodes: NDArray[np.int64]) -> Absence:
    """A world without these nodes, which are no training, validation or test nodes there, as most authors understand absence."""
    gone = without_nodes(whole, Unit.NODE, nodes)
    graph, present = gone.worlds.graph, ~np.isin(np.arange(whole.graph.nodes), nodes)
    unmasked = dataclasses.replace(graph, val=graph.val & present, test=graph.test & present)
    return dataclasses.replace(gone, worlds=dataclasses.replace(gone.worlds, graph=unmasked))


def small(graph: Graph, most: int | None) -> Graph:
    """A small graph with as many classes and columns as `graph`. Its features are rows of `graph.x`.

    It has a hub with leaves, nodes without edges, a path, a pair of nodes with one edge, a clique of nodes with equal features, a
    class that no training node has, and no validation set. most: the largest degree that it may have, see `public_bound`; it
    lacks the edges beyond this bound.
    """
    clique = [(LEAVES + 1 + i, LEAVES + 1 + j) for i in range(CLIQUE) for j in range(i + 1, CLIQUE)]
    start = LEAVES + 1 + CLIQUE
    path = [*((start + i, start + i + 1) for i in range(5)), (start + 6, start + 7)]
    edges = np.array(
        [(0, leaf) for leaf in range(1, LEAVES + 1)] + clique + path + [(LEAVES, LEAVES + 1), (1, 2)], dtype=np.int64
    ).T
    nodes = start + 8 + ALONE
    if most is not None:
        edges = _within(edges, nodes, most)
    edges = joining(edges, graph.directed)
    rows = np.arange(nodes) % graph.nodes
    rows[LEAVES + 1 : start] = rows[LEAVES + 1]
    y = np.arange(nodes, dtype=np.int64) % max(graph.classes - 1, 1)
    y[-1] = graph.classes - 1  # the last node is the only one of the last class, and is no training node
    train = np.arange(nodes) % 3 != 2
    train[-1] = False
    part = {"train": train, "val": np.zeros(nodes, dtype=bool), "test": ~train}
    return dataclasses.replace(graph, x=graph.x[rows], y=y, edges=edges, name=UNUSUAL, **part)


def of_unlike_rows(graph: Graph) -> Graph:
    """The graph in which each node has a row unlike its own: 0.1, 1.5 or 16 times as long, or its negative; or, with the length L
    of the longest row, a row of length L with one entry that is not 0, one of length L with entries of one size and alternating
    signs, or one whose entries are all L. Of the rows with one entry, those of training nodes have it in the last column, in the
    first one, and so on: code that clips rows may forget a column at an end.
    """
    x = dense(graph.x).astype(np.float64)
    longest, nodes = float(np.linalg.norm(x, axis=1).max(initial=0)), np.arange(graph.nodes)
    kind = np.random.default_rng(0).permutation(graph.nodes) % (len(LENGTHS) + 4)
    single = np.flatnonzero((kind == ONE_ENTRY) & graph.train)
    columns = nodes % graph.dim
    columns[single] = (np.arange(single.size) - 1) % graph.dim
    one = longest * np.eye(graph.dim)[columns]
    signs = np.where((nodes[:, None] + np.arange(graph.dim)) % 2, 1, -1)
    kinds = np.stack(
        [*(times * x for times in LENGTHS), -x, one, signs * longest / math.sqrt(graph.dim), np.full(x.shape, longest)]
    )
    rows = kinds[kind, nodes]
    return dataclasses.replace(with_features(graph, nodes, rows.astype(np.float32)), name=f"{graph.name} with other rows")


def of_cancelling_rows(graph: Graph) -> Graph:
    """The graph in which all rows lie on one line, that of the longest row, in either direction, and all training nodes have one
    label. Each row is 16 times as long as the longest one, or 4, 16, 64, 256 or 1,024 times shorter than that. So what training
    nodes add to a gradient cancels, and a sum over few of them may turn round if one is absent.
    """
    x, random = dense(graph.x).astype(np.float64), np.random.default_rng(0)
    longest = x[np.square(x).sum(axis=1).argmax()]
    factors = random.choice([-1.0, 1.0], graph.nodes) * LENGTHS[-1] * 4.0 ** -random.integers(6, size=graph.nodes)
    y = np.where(graph.train, graph.y[graph.train.argmax()], graph.y)
    rows = (factors[:, None] * longest).astype(np.float32)
    other = dataclasses.replace(graph, y=y, name=f"{graph.name} with rows that cancel")
    return with_features(other, np.arange(graph.nodes), rows)


def public_bound(model: Any, graph: Graph) -> int | None:
    """The public bound on degrees that the model declares, if the graph respects it. A claim may hold for such graphs only."""
    return model.max_degree if has(model, BoundedDegree) and graph.degree.max(initial=0) <= model.max_degree else None


def _within(edges: NDArray[np.int64], nodes: int, most: int) -> NDArray[np.int64]:
    """The edges, (2, m), without each one at which an end already has `most` earlier edges."""
    degree, kept = np.zeros(nodes, dtype=np.int64), []
    for i, ends in enumerate(edges.T):
        if (degree[ends] < most).all():
            degree[ends] += 1
            kept.append(i)
    return edges[:, kept]
