"""Repeats a run without one edge or one node, with every noisy value made the same: what may change, and what may not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting.claim import Unit
from ...models.graph.graph import Mask, Worlds
from ..case import EDGES
from ..games.edge_catalogue import catalogue
from .recorder import Coins, Diverged, Noisy, Record, recorded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...accounting.events.counts import Charged
    from ...models.base import Model, Release
    from ...models.graph.graph import Graph
    from ..key import Key

SECRETS = 2  # number of edges or nodes that are removed, one at a time
MARGIN = 1e-4  # relative: float32 gradients and sums
ROUNDING = 1e-6  # rounding error of a sum in float32, relative to the sum
SAME = 1e-4  # tolerance, relative to the scale of a released array
SIMPLEX = 2.0  # largest L1 distance between two probability vectors


def repeated(model: Model, graph: Graph, whole: Release, record: Record, ledger: Charged, key: Key) -> tuple[float, list[str]]:
    """The largest move over the one that the ledger's noise covers, and everything else that changed, over all secrets.

    whole, record: the run on the whole graph, with the seed `key.fold("frozen", 0)`. Given the released history, a sum moves by
    exactly what is computed here, and all that is not a noisy value is a function of noisy values and public data.
    """
    moves: dict[str, float] = {}
    faults: list[str] = []
    for worlds, own in neighbours(model.unit, graph, key):
        try:
            release, again = recorded(model, worlds, script=record.releases, coins=same_coins(record, graph, own))
        except Diverged as where:
            faults.append(f"what is run depends on the secret, from '{where}' on")
            continue
        hidden = kept_row(whole, own)
        for before, after in zip(record.releases, again.releases, strict=True):
            moves[before.purpose] = max(moves.get(before.purpose, 0.0), moved(before, after, ledger, hidden, graph.nodes))
            if np.abs(before.residuals - after.residuals).max(initial=0) > 1e-2:
                faults.append(f"the noise of '{before.purpose}' itself depends on the secret")
        for name in whole.arrays:
            if differs(whole[name], release[name], own, graph.nodes):
                faults.append(f"'{name}' depends on the secret by a way that no noise covers")
    faults += [f"'{p}' moves by {m:.4g} times what the ledger's noise covers" for p, m in moves.items() if m > 1 + MARGIN]
    return max(moves.values(), default=0.0), faults


def world(graph: Graph, seed: int) -> Worlds:
    """One run on the whole graph."""
    return Worlds.of(graph, np.array([seed], dtype=np.uint64))


def neighbours(unit: Unit, graph: Graph, key: Key) -> Iterator[tuple[Worlds, int | None]]:
    """Worlds of one run that lack one edge or one node, with the seed of the run on the whole graph, and the id of the node."""
    whole, absent = world(graph, key.fold("frozen", 0).seed), np.zeros((1, 1), dtype=bool)
    if unit in EDGES:
        for edge in key.fold("secrets").generator().permutation(catalogue(graph, key.fold("edges")))[:SECRETS]:
            yield dataclasses.replace(whole, edges=Mask(np.array([edge]), absent)), None
        return
    trained = np.flatnonzero(graph.train)
    busiest = trained[graph.degree[trained].argmax()]
    for node in dict.fromkeys(int(v) for v in (busiest, *key.fold("secrets").generator().permutation(trained)[: SECRETS - 1])):
        yield dataclasses.replace(whole, nodes=Mask(np.array([node]), absent)), node


def same_coins(first: Record, graph: Graph, node: int | None) -> Coins:
    """The samples of a run, for its repetition without `node`: all other nodes join the same batches as before.

    Candidates are the training nodes in ascending order, with or without the absent one; other samples are not changed.
    """
    trained = np.flatnonzero(graph.train)
    place = int(np.searchsorted(trained, node)) if node is not None and graph.train[node] else None

    def drawn(purpose: str, at: int, candidates: int) -> NDArray[np.bool_] | None:
        if at >= len(first.samples[purpose]) or first.samples[purpose][at].size != trained.size:
            return None
        joined = first.samples[purpose][at]
        if candidates == trained.size - 1 and place is not None:
            return np.delete(joined, place)
        return joined if candidates == trained.size else None

    return drawn


def shift(before: Noisy, after: Noisy, hidden: int | None, nodes: int) -> NDArray[np.float64]:
    """How far every entry of a release's mean moves. hidden: a node whose own row is not released, and left out."""
    change = after.clean - before.clean
    if hidden is not None and before.shapes[0][1:-1] == (nodes,):
        return np.delete(change.reshape(nodes, -1), hidden, axis=0)
    return change


def moved(before: Noisy, after: Noisy, ledger: Charged, hidden: int | None, nodes: int) -> float:
    """The move of one release's mean, over the move that the ledger's noise covers. hidden: a node whose own row is not
    released.
    """
    change = shift(before, after, hidden, nodes)
    size = np.where(after.clean != before.clean, before.clean, 0.0)  # rounding error of the new sum in float32
    norm = float(np.linalg.norm(change.reshape(before.events, -1), ord=before.order, axis=1).max(initial=0.0))
    norm = max(0.0, norm - ROUNDING * float(np.linalg.norm(size, ord=before.order)))
    if before.order == 1:
        return norm / SIMPLEX
    return norm / before.scale * min(ledger.plain_multiplier, ledger.step_multiplier)


def kept_row(release: Release, node: int | None) -> int | None:
    """The secret node, if its own sums are not released; None if they are, or if the secret is an edge."""
    if node is None or ("aggregates" in release and np.any(release["aggregates"][:, :, node])):
        return None
    return node


def differs(a: NDArray[Any], b: NDArray[Any], own: int | None, nodes: int) -> bool:
    """Whether two arrays of one run differ in anything but the row of node `own`."""
    if a.shape != b.shape:
        return True
    axis = next((i for i, size in enumerate(a.shape) if i and size == nodes), None)
    if own is not None and axis is not None:
        a, b = np.delete(a, own, axis), np.delete(b, own, axis)
    scale = max(1.0, float(np.abs(a).max(initial=0)))
    return not bool((np.abs(a.astype(np.float64) - b) <= SAME * scale).all())


def reports_of_others(model: Any, graph: Graph, seed: int) -> list[str]:
    """Local mechanisms: which reports of other users change with one user's features, if the coins stay the same."""
    # the result of the training does not matter
    quick = dataclasses.replace(model, epochs=1) if hasattr(model, "epochs") else model
    user = int(graph.degree.argmax())
    x = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x.copy()
    x[user] = x.max() + 1 - x[user]
    before, after = (quick.fit(world(g, seed)) for g in (graph, dataclasses.replace(graph, x=x)))
    names = [name for name in before.arrays if name != "posteriors"]
    return [f"one user's features change the {n} of others" for n in names if differs(before[n], after[n], user, graph.nodes)]
