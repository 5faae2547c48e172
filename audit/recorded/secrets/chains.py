"""Graphs of which each lacks one secret of the next, so that degrees and counts take many values.

Programs drop nodes of more than 20 neighbours, or suppress counts below 10. One secret then decides what a whole neighbourhood or
a whole count adds, but only where the degree or the count stands at the threshold. On a usual graph perhaps none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....models.graph.graph import Graph, Worlds, dense, joining
from ....reports.rounding import several
from ...case import EDGES
from .worlds import CLIQUE, LEAVES, Absence, lacking, small

COMPLETE = "complete graph"
BALANCED = f"{COMPLETE} with classes of almost the same size"
CLIQUES = "graph of two cliques"
WINDMILL, ALIKE = "windmill of cliques", "windmill of cliques of one class each"
STAR, STARS, TWO_KINDS = "star", "pair of stars", f"{COMPLETE} of two kinds of nodes"
REGULAR, ROUNDS = "graph of almost equal degrees", 2  # largest degree
TELLING_PATH, OF_EACH = "path on which a column tells a class", 4  # nodes of each class
PAIRS = 40  # of rows that are tried in turn
NO_SEED = np.zeros(1, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Link:
    """A graph, the id of one of its secrets, (1,), and the graph without this secret."""

    graph: Graph
    unit: Unit
    secret: NDArray[np.int64]
    without: Graph

    def absence(self, whole: Worlds) -> Absence:
        """The world without the secret. whole: a world of the graph."""
        return lacking(whole, self.unit, self.secret)

    def presence(self, whole: Worlds) -> Absence:
        """The world with the secret, as if the secret were an absence. whole: a world of the graph `without`."""
        there = Worlds.of(self.graph, whole.seeds)
        absent = self.absence(there)
        return replace(absent, secret=absent.secret.replace("the absence", "the presence", 1), worlds=there, fewer=None)


def chains(graph: Graph, unit: Unit, most: int | None, random: np.random.Generator) -> Iterator[list[Link]]:
    """Yields chains of links, which begin with the fewest secrets. All graphs of a chain have the same nodes.

    Edges: those of `small` go in a random order, so that its hub loses leaf by leaf. So do those of a complete graph of CLIQUE
    nodes, which are then most of all possible edges or not, and those of a star. Two cliques of growing size have one edge
    between them, or lack an edge of one clique. Two stars have one edge between their centres, so that both centres cross a
    threshold at once. Of nodes with equal degrees, two after two get one more edge, so that all quantiles of the degrees rise
    from 0 to ROUNDS. One edge then joins the last two nodes that have none, and the next one is the first between two classes.

    Nodes: those of a complete graph go one after the other, so that all others lose a neighbour. The last class of a first one
    has one node. The classes of a second one, all of whose nodes are training nodes, have almost the same size, so that the
    smallest one takes many sizes. In windmills, a centre joins cliques of growing size, so that all their nodes lose a neighbour
    with it. In a second series of them, no edge is then left between two classes.

    Features: those of the nodes of `small` change in a random order, at last those of the only node of a class; then those of
    nodes whose classes have almost the same size, and those of a path on which a column tells the first class.

    The leaves of the stars and the nodes of some complete graphs have two rows in turn: a vote among them may be balanced. most:
    the largest degree of the graphs, at most LEAVES. Graphs without any edge or training node are left out, because many programs
    make an exception for them.
    """
    for links in _chains(graph, unit, most, random):
        if some := [link for link in links if link.without.edges.size and link.without.train.any()]:
            yield some


def _chains(graph: Graph, unit: Unit, most: int | None, random: np.random.Generator) -> Iterator[list[Link]]:
    """As `chains`, down to graphs without any secret."""
    few = small(graph, most)
    nodes = 1 + (LEAVES if most is None else min(LEAVES, most))
    complete = _complete(graph, few, nodes)
    balanced = replace(complete, y=np.arange(nodes) % graph.classes, train=np.ones(nodes, dtype=bool), name=BALANCED)
    if unit is Unit.NODE:
        for each in (complete, balanced):
            yield _emptied(each, unit, random.permutation(nodes))
        for alike in (False, True):
            yield list(_windmills(balanced, unit, alike))
        yield list(_of_two_kinds(graph, complete, unit, random))
    elif unit is Unit.FEATURES:
        yield _emptied(few, unit, np.append(few.nodes - 1, random.permutation(few.nodes - 1)))
        yield _emptied(balanced, unit, random.permutation(nodes))
        yield list(_of_two_kinds(graph, complete, unit, random))
        telling = _telling(graph, balanced)
        yield _emptied(telling, unit, random.permutation(telling.nodes))
    else:
        yield _emptied(few, unit, random.permutation(few.edges.shape[1]))
        yield list(_two_cliques(_complete(graph, few, LEAVES + 1), unit, nodes // 2))
        yield list(_two_stars(graph, few, unit, nodes - 1, random))
        yield list(_almost_regular(_complete(graph, few, LEAVES), unit, nodes - 1))
        clique = _complete(graph, few, min(CLIQUE, nodes))
        star = replace(
            complete, edges=joining(np.stack([np.zeros(nodes - 1, int), np.arange(1, nodes)]), graph.directed), name=STAR
        )
        for each in (clique, star):
            yield _emptied(each, unit, random.permutation(each.edges.shape[1]))


def _emptied(graph: Graph, unit: Unit, order: NDArray[np.int64]) -> list[Link]:
    """The links of a graph whose secrets go in this order."""
    words = {Unit.NODE: "without {} of its nodes", Unit.FEATURES: "with other features of {} of its nodes"}
    what, whole = words.get(unit, "without {} of its edges"), Worlds.of(graph, NO_SEED)
    links: list[Link] = []
    later = lacking(whole, unit, np.sort(order)).worlds.graph
    for gone in range(order.size - 1, -1, -1):
        some, secret = np.sort(order[:gone]), order[gone]
        one = lacking(whole, unit, some).worlds.graph if gone else graph
        one = replace(one, name=f"{graph.name}, {what.format(gone)}" if gone else graph.name)
        number = secret - np.count_nonzero(some < secret) if unit in EDGES else secret
        links.append(Link(one, unit, np.array([number]), later))
        later = one
    return links


def _complete(graph: Graph, few: Graph, nodes: int) -> Graph:
    """The complete graph of the first nodes of `few`. The last one has the last class of `graph`."""
    edges = joining(np.array(np.triu_indices(nodes, 1), dtype=np.int64), graph.directed)
    first = _of_nodes(few, np.arange(nodes))
    return replace(first, y=np.append(first.y[:-1], graph.classes - 1), edges=edges, name=COMPLETE)


def _telling(graph: Graph, balanced: Graph) -> Graph:
    """A path of the first nodes of `balanced`, OF_EACH for each class. They have two rows of `graph`: those of the first class
    have the one with the largest number in a column, all others the one with the smallest. It is the first column with several.
    """
    count = min(balanced.nodes, OF_EACH * graph.classes)
    nodes = _of_nodes(balanced, np.arange(count))
    low, high = (dense(end).ravel() for end in (graph.x.min(axis=0), graph.x.max(axis=0)))
    values = dense(graph.x[:, [int(np.argmax(low < high))]]).ravel()
    rows = np.where(nodes.y == 0, values.argmax(), values.argmin())
    edges = joining(np.stack([np.arange(count - 1), np.arange(1, count)]), graph.directed)
    return replace(nodes, x=graph.x[rows], edges=edges, name=TELLING_PATH)


def _windmills(nodes: Graph, unit: Unit, alike: bool) -> Iterator[Link]:
    """The links of windmills, each of as many cliques of one size as there are nodes for, at least two. The secret is the centre,
    which is a neighbour of all their nodes. alike: whether all nodes of a clique have one class.
    """
    others = nodes.nodes - 1
    for size in range(1, others // 2 + 1):
        one = np.array(np.triu_indices(size, 1), dtype=np.int64)
        blocks = [one + 1 + size * i for i in range(others // size)]
        near = np.arange(1, 1 + size * len(blocks))
        edges = joining(np.concatenate([np.stack([np.zeros_like(near), near]), *blocks], axis=1), nodes.directed)
        y = np.append(nodes.y[0], np.arange(others) // size % nodes.classes) if alike else nodes.y
        name = f"{ALIKE if alike else WINDMILL}, {several(size, 'node')} each beside the centre"
        windmill = replace(nodes, y=y, edges=edges, name=name)
        centre = np.array([0])
        yield Link(windmill, unit, centre, lacking(Worlds.of(windmill, NO_SEED), unit, centre).worlds.graph)


def _two_cliques(nodes: Graph, unit: Unit, largest: int) -> Iterator[Link]:
    """The links of two cliques of 1 to `largest` nodes each. The first secret is an edge in a clique, the next one the edge that
    joins them.
    """
    for size in range(1, largest + 1):
        one = np.array(np.triu_indices(size, 1), dtype=np.int64)
        both = joining(np.concatenate([one, one + nodes.nodes // 2], axis=1), nodes.directed)
        bridge = np.array([[size - 1], [size - 1 + nodes.nodes // 2]])
        name = f"{CLIQUES}, {several(size, 'node')} each"
        groups = replace(nodes, edges=both, name=name)
        if size > 1:
            yield Link(groups, unit, np.array([0]), replace(nodes, edges=both[:, 1:], name=name))
        joined = replace(nodes, edges=np.concatenate([both, bridge], axis=1), name=f"{name}, with an edge between them")
        yield Link(joined, unit, np.array([both.shape[1]]), groups)


def _almost_regular(nodes: Graph, unit: Unit, most: int) -> Iterator[Link]:
    """The links of graphs whose edges come in rounds. In each of ROUNDS rounds, or of `most` if these are fewer, each node meets
    one that it has not met before, as in a tournament. The secret is the last edge. Those who meet in the first round have one
    class. nodes: an even number.
    """
    circle = nodes.nodes - 1
    steps = np.arange(1, nodes.nodes // 2)
    rounds = np.arange(ROUNDS)[:, None]
    met = np.stack([(rounds + steps) % circle, (rounds - steps) % circle])
    ends = np.concatenate([met, np.stack([rounds, np.full_like(rounds, circle)])], axis=2).reshape(2, -1)
    pairs, y = nodes.nodes // 2, np.empty_like(nodes.y)
    y[ends[:, :pairs]] = np.arange(pairs) % nodes.classes
    edges = joining(np.sort(ends[:, : pairs * most], axis=0), nodes.directed)
    nodes = replace(nodes, y=y)
    before = replace(nodes, edges=edges[:, :0], name=REGULAR)
    for count in range(1, edges.shape[1] + 1):
        one = replace(nodes, edges=edges[:, :count], name=f"{REGULAR}, {several(count, 'edge')}")
        yield Link(one, unit, np.array([count - 1]), before)
        before = one


def _two_stars(graph: Graph, few: Graph, unit: Unit, most: int, random: np.random.Generator) -> Iterator[Link]:
    """The links of two stars of 1 to `most` - 1 leaves each, then of PAIRS of stars with an even number of leaves. The secret is
    the edge that joins their centres. In each link, the leaves of both stars have two rows in turn.
    """
    each = np.arange(2 * most) // 2
    bridge = np.array([[0], [1]])
    for leaves in (*range(1, most), *[(most - 1) // 2 * 2] * (PAIRS if most > 2 else 0)):
        ends = np.stack([np.tile([0, 1], leaves), np.arange(2, 2 + 2 * leaves)])
        both = joining(ends, graph.directed)
        name = f"{STARS}, {several(leaves, 'node')} each beside the centre"
        apart = replace(_of_two_rows(graph, few, each, random), edges=both, name=name)
        joined = replace(apart, edges=np.concatenate([both, bridge], axis=1), name=f"{name}, with an edge between their centres")
        yield Link(joined, unit, np.array([both.shape[1]]), apart)


def _of_two_kinds(graph: Graph, complete: Graph, unit: Unit, random: np.random.Generator) -> Iterator[Link]:
    """The links of PAIRS of complete graphs. The nodes of each have two rows in turn."""
    first = np.array([0])
    for _ in range(PAIRS):
        some = replace(_of_two_rows(graph, complete, np.arange(complete.nodes), random), name=TWO_KINDS)
        yield Link(some, unit, first, lacking(Worlds.of(some, NO_SEED), unit, first).worlds.graph)


def _of_two_rows(graph: Graph, few: Graph, each: NDArray[np.int64], random: np.random.Generator) -> Graph:
    """The graph `few` with one node for each entry of `each`, its part of the split, and in turn the features and labels of two
    nodes of `graph`, drawn at random. What its nodes say may be balanced: then one secret decides.
    """
    rows = random.integers(graph.nodes, size=2)[each % 2]
    return replace(_of_nodes(few, each), x=graph.x[rows], y=graph.y[rows])


def _of_nodes(graph: Graph, each: NDArray[np.int64]) -> Graph:
    """A graph with one node for each entry of `each`, which has the features, the label and the part of the split of that node.
    Its edges are those of `graph`, which the caller replaces.
    """
    train, val, test = (part[each] for part in (graph.train, graph.val, graph.test))
    return replace(graph, x=graph.x[each], y=graph.y[each], train=train, val=val, test=test)
