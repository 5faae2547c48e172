"""Repeats a run without some edges or nodes while every noisy value stays the same, and reports what changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...models.base import Model, Release
from ...models.graph.graph import Graph, Mask, Worlds, dense
from ...models.graph.rows_redrawn import with_features
from ..case import EDGES, with_field
from ..games.edge_catalogue import catalogue
from ..key import Key
from .reported_run import Coins, Diverged, Noisy, Record, recorded

if TYPE_CHECKING:
    from ...accounting.events.counts import Charged

# (largest number of nodes, number of edges or nodes that are removed one at a time); two for larger graphs
SECRETS = ((1_000, 10), (5_000, 4))
MARGIN = 1e-4  # relative tolerance of moves, for rounding in float32 gradients and sums
ROUNDING = 1e-6  # rounding error of a sum in float32, relative to the sum
CLOSE = 1e-4  # largest difference of released numbers that count as equal, relative to the scale of their array
SIMPLEX = 2.0  # largest L1 distance between two probability vectors
NO_NODE = np.zeros(0, dtype=np.int64)
Nodes = np.ndarray[Any, np.dtype[np.int64]]  # ids


def repeated(model: Model, graph: Graph, whole: Release, record: Record, ledger: Charged, key: Key) -> tuple[float, list[str]]:
    """Returns the largest move by one secret, divided by the move for which the ledger's noise suffices, and a sentence for each
    contradiction of the ledger.

    whole, record: the run on the whole graph, with the seed `key.fold("frozen", 0)`. Given the released history, the computed
    move of a sum is exact, and everything else that is released must be a function of noisy values and public data. The last
    repetition lacks many secrets at once. It measures no moves, but shows whether a secret reaches the release past the noise.
    """
    moves: dict[str, float] = {}
    faults: list[str] = []
    secrets = [*neighbours(model.unit, graph, key), without_many(model.unit, graph, key)]
    for worlds, own in secrets:
        try:
            release, again = recorded(model, worlds, script=record.releases, coins=same_coins(record, graph, own))
        except Diverged as where:
            faults.append(f"the steps of the run depend on the secret, from '{where}' on")
            continue
        for before, after in zip(record.releases, again.releases, strict=True):
            if worlds is not secrets[-1][0]:
                by = moved(before, after, ledger, kept_rows(whole, own), graph.nodes)
                moves[before.purpose] = max(moves.get(before.purpose, 0.0), by)
            if np.abs(before.residuals - after.residuals).max(initial=0) > 1e-2:
                faults.append(f"the noise of '{before.purpose}' itself depends on the secret")
        for name in whole.arrays:
            if differs(whole[name], release[name], own, graph.nodes):
                faults.append(f"'{name}' depends on the secret in a way that no noise covers")
    faults += [
        f"the value '{p}' moves {m:.4g} times as far as the ledger's noise covers" for p, m in moves.items() if m > 1 + MARGIN
    ]
    return max(moves.values(), default=0.0), faults


def world(graph: Graph, seed: int) -> Worlds:
    """One run on the whole graph."""
    return Worlds.of(graph, np.array([seed], dtype=np.uint64))


def neighbours(unit: Unit, graph: Graph, key: Key) -> Iterator[tuple[Worlds, Nodes]]:
    """Yields worlds of one run that lack one edge or one node, each with the ids of its absent nodes. The seed is
    `key.fold("frozen", 0).seed`, that of the run on the whole graph.
    """
    whole, absent = world(graph, key.fold("frozen", 0).seed), np.zeros((1, 1), dtype=bool)
    count = next((secrets for nodes, secrets in SECRETS if graph.nodes <= nodes), 2)
    if unit in EDGES:
        for edge in key.fold("secrets").generator().permutation(catalogue(graph, key.fold("edges")))[:count]:
            yield dataclasses.replace(whole, edges=Mask(np.array([edge]), absent)), NO_NODE
        return
    trained = np.flatnonzero(graph.train)
    busiest = trained[graph.degree[trained].argmax()]
    for node in dict.fromkeys(int(v) for v in (busiest, *key.fold("secrets").generator().permutation(trained)[: count - 1])):
        yield dataclasses.replace(whole, nodes=Mask(np.array([node]), absent)), np.array([node])


def without_many(unit: Unit, graph: Graph, key: Key) -> tuple[Worlds, Nodes]:
    """The world of one run without any edge, or without a random half of the training nodes, and the ids of the absent nodes.

    Some paths past the noise have an effect only if many units are absent, for example if a count must cross a threshold.
    """
    whole = world(graph, key.fold("frozen", 0).seed)
    if unit in EDGES:
        count = graph.edges.shape[1]
        return dataclasses.replace(whole, edges=Mask(np.arange(count), np.zeros((1, count), dtype=bool))), NO_NODE
    trained = np.flatnonzero(graph.train)
    half = np.sort(key.fold("half").generator().permutation(trained)[: trained.size // 2])
    return dataclasses.replace(whole, nodes=Mask(half, np.zeros((1, half.size), dtype=bool))), half


def same_coins(first: Record, graph: Graph, absent: Nodes) -> Coins:
    """The samples of a run, for its repetition without the nodes `absent`: all other nodes join the same batches as before.

    This holds for samples whose candidates are the training nodes in ascending order, with or without the absent nodes. Samples
    of other candidates are not changed.
    """
    trained = np.flatnonzero(graph.train)
    places = np.flatnonzero(np.isin(trained, absent))

    def drawn(purpose: str, at: int, candidates: int) -> NDArray[np.bool_] | None:
        if at >= len(first.samples[purpose]) or first.samples[purpose][at].size != trained.size:
            return None
        joined = first.samples[purpose][at]
        if candidates == trained.size:
            return joined
        return np.delete(joined, places) if candidates == trained.size - places.size else None

    return drawn


def shift(before: Noisy, after: Noisy, hidden: Nodes, nodes: int) -> NDArray[np.float64]:
    """The move of every entry of a clean value between two runs. hidden: nodes whose own rows are not released; these rows are
    left out.
    """
    change = after.clean - before.clean
    if hidden.size and before.shapes[0][1:-1] == (nodes,):
        return np.delete(change.reshape(nodes, -1), hidden, axis=0)
    return change


def moved(before: Noisy, after: Noisy, ledger: Charged, hidden: Nodes, nodes: int) -> float:
    """The move of a clean value between two runs, divided by the move for which the ledger's noise suffices. hidden: nodes whose
    own rows are not released.
    """
    change = shift(before, after, hidden, nodes)
    size = np.where(after.clean != before.clean, before.clean, 0.0)  # rounding error of the new sum in float32
    norm = float(np.linalg.norm(change.reshape(before.events, -1), ord=before.order, axis=1).max(initial=0.0))
    norm = max(0.0, norm - ROUNDING * float(np.linalg.norm(size, ord=before.order)))
    if before.order == 1:
        return norm / SIMPLEX
    return norm / before.scale * min(ledger.plain_multiplier, ledger.step_multiplier)


def distance(before: Noisy, after: Noisy, hidden: Nodes, nodes: int) -> float:
    """The Euclidean move of a clean value between two runs, in noise sds, rounded down. hidden: as for `shift`."""
    rounding = ROUNDING * float(np.linalg.norm(np.where(after.clean != before.clean, before.clean, 0.0)))
    return max(0.0, float(np.linalg.norm(shift(before, after, hidden, nodes))) - rounding) / before.scale


def kept_rows(release: Release, absent: Nodes) -> Nodes:
    """The absent nodes whose own rows the release does not contain: none if 'aggregates' has nonzero rows for them, else all of
    them.
    """
    return NO_NODE if "aggregates" in release and np.any(release["aggregates"][:, :, absent]) else absent


def differs(a: NDArray[Any], b: NDArray[Any], own: Nodes, nodes: int) -> bool:
    """Whether two arrays of one run differ by more than CLOSE, or in shape, outside the rows of the nodes `own`."""
    if a.shape != b.shape:
        return True
    axis = next((i for i, size in enumerate(a.shape) if i and size == nodes), None)
    if own.size and axis is not None:
        a, b = np.delete(a, own, axis), np.delete(b, own, axis)
    scale = max(1.0, float(np.abs(a).max(initial=0)))
    return not bool((np.abs(a.astype(np.float64) - b) <= CLOSE * scale).all())


def reports_of_others(model: Any, graph: Graph, seed: int) -> list[str]:
    """Checks a local mechanism. Returns a sentence for each array in which the reports of other users change with one user's
    features, although the seed stays the same.
    """
    # one epoch, because the result of the training does not matter
    quick = with_field(model, "epochs", 1)
    own = graph.degree.argmax(axis=0, keepdims=True)
    other = with_features(graph, own, graph.x.max() + 1 - dense(graph.x[own]))
    before, after = (quick.fit(world(g, seed)) for g in (graph, other))
    names = [name for name in before.arrays if name != "posteriors"]
    return [f"one user's features change the {n} of others" for n in names if differs(before[n], after[n], own, graph.nodes)]
