"""The audit `replay` on released sums. It runs neighbouring graphs with the same noise, so the effect of one edge is computed and
not estimated.
"""

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from dp_accounting import NoOpDpEvent
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition, proved
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...accounting.lower.bounds import Bound, resting
from ...attacks.canary.gaussian_ratio import noise_std
from ...models.base import Release
from ...models.capabilities import NoisySums, RunsElsewhere
from ...models.graph.graph import Graph, Mask, Worlds
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.edge_catalogue import catalogue, first
from ..instruments.reach import worth
from ..own.model_file import is_built_in

TOLERANCE = 1e-3  # in noise sds: rounding changes float32 sums over thousands of neighbours by less
ROUNDING = 1e-6  # relative tolerance: rounding to float32 makes a row of length one longer by at most this much
THEOREM = "the noise that the ledger charges on means that are a known distance apart (Dong, Roth and Su 2022)"
SPREADS = "standard deviations of the stated noise"
SIZE_UNTESTED = (
    "replay tests how far a secret moves the sums before noise, not the size of the noise; unless it refutes, its bound is 0"
)
MOVES = proved(
    "the means move by the stated distance", "the moves were computed along the released history, with the noise of the first run"
)
OURS = proved("the noise is as stated", "this package draws it; 'residual' and 'differential' test its size")
HEARD = Condition(
    "the noise is as stated", "checked", "every draw was recorded, and removing a secret does not change which draws are made"
)
UNHEARD = Condition(
    "the noise is as stated",
    "checked",
    "the released sums of two runs minus their means have this size and are normal, level 1e-9",
)


def refuses(case: Case) -> str | None:
    """The audit needs released sums, or a model that must not read edges."""
    if not reads_no_edge(case) and not {"aggregates", "inputs"} <= set(offered(case.model)):
        why = f"{case.model.name} releases no sums from which the noise could be subtracted"
        return f"{why}. {lack}" if (lack := case.lacks(NoisySums)) else why
    return None


def reads_no_edge(case: Case) -> bool:
    return isinstance(case.model.ledger, NoOpDpEvent)


def replay(setting: Setting) -> Outcome:
    """Trains with one seed on the whole graph, and on the graph without each edge of a catalogue and each of the worst edges.

    With the noise fixed, a released sum minus its known mean must be the same in all runs. Then the edge moves the means by
    exactly (A - A') inputs, where A and A' are the adjacency matrices with and without the edge. If noise of the stated size does
    not cover this move, the recipe itself contradicts the claim. The first run shows how far every edge moves the means, so the
    worst of all edges is among those that are removed.

    A model with an empty ledger must not read edges. For such a model the audit only checks that no edge changes a posterior.
    """
    case, store = setting.case, setting.store
    union = case.counted(setting.graph)
    seed = setting.key.fold("frozen").seed
    listed, notices = catalogue(union, setting.key), np.inf  # this audit does not test the size of the noise
    curves: dict[str, Any] = {}
    read: tuple[str, ...] = ("posteriors",) if reads_no_edge(case) else ("aggregates", "inputs")
    if reads_no_edge(case):
        edges = listed
        release = keeping(case.model, read).fit(without_each(union, seed, edges), store.device)
        moved = float(np.abs(release["posteriors"] - release["posteriors"][:1]).max())
        epsilon, notices = (0.0 if moved <= TOLERANCE else np.inf), 1.0
        text = f"removing an edge moves no posterior by more than {moved:.1g}"
    else:
        model = keeping(case.model, read)
        whole = model.fit(without_each(union, seed, listed)[:1], store.device)
        edges = np.union1d(listed, heaviest(whole["inputs"][0], union))
        worlds = without_each(union, seed, edges)[1:]
        step = store.chunk(case.model, union)  # results do not depend on the number of runs in a chunk
        parts = (model.fit(worlds[at : at + step], store.device) for at in range(0, len(worlds), step))
        each, stray = moves(chain([whole], parts), union, edges)
        strength, allowed = max(each, default=0.0), mu_of_claim(case.claim)
        epsilon = float(epsilon_of(strength * (1 - ROUNDING), case.claim.delta))
        names = ["edge {}–{}".format(*union.edges[:, int(edge)]) for edge in edges]
        curves = (
            {"moves": {"of": dict(zip(names, each, strict=True)), "by": SPREADS, "allowed": allowed, "limit": limit(case)}}
            if each
            else {}
        )
        text = "no edge that was removed moves the sums before noise"
        if strength > 0:
            worst = f"removing {names[each.index(strength)]}, the worst of {union.edges.shape[1]} edges,"
            text = f"{worst} moves the sums before noise by {strength:.4g} {SPREADS}"
        text += f"; ε = {case.claim.epsilon:g} allows {allowed:.4g}"
        if stray > TOLERANCE and not isinstance(case.model, RunsElsewhere):  # on another graph, a program may draw other noise
            curves, epsilon, text = {}, np.inf, f"removing one edge moves the noise by {stray:.2g} of its standard deviation"
    bound = replayed(case, epsilon, len(edges) + 1, notices)
    text += "" if bound.refuted or reads_no_edge(case) else f". {SIZE_UNTESTED}"
    return Outcome("replay", (bound,), curves, text, read, attack="replay")


def limit(case: Case) -> str:
    """The words for the largest move that the claim allows."""
    return f"allowed by ε = {case.claim.epsilon:g}"


def without_each(graph: Graph, seed: int, edges: NDArray[np.int64]) -> Worlds:
    """Worlds with one seed: run 0 has all edges, and run i + 1 lacks edges[i]."""
    present = np.vstack([np.ones((1, edges.size), dtype=bool), ~np.eye(edges.size, dtype=bool)])
    seeds = np.full(len(present), seed, dtype=np.uint64)
    return Worlds(graph, seeds, np.arange(graph.nodes, dtype=np.int64), edges=Mask(edges, present))


def heaviest(inputs: NDArray[np.float32], graph: Graph) -> NDArray[np.int64]:
    """The ids of the EACH edges (see `edge_catalogue`) that move the sums most along one history. inputs: (hops, nodes, dim).

    An edge adds its sender's row to the sum of its receiver, so its squared move is the squared norm of that row, summed over the
    hops. An undirected edge has two senders.
    """
    squares, at = np.zeros(graph.nodes), 0
    most: NDArray[Any] = np.zeros((2, 0))
    for hop in inputs:
        squares += np.einsum("nd,nd->n", hop, hop, dtype=np.float64)
    for block in graph.edge_blocks():
        moved = squares[block[0]] if graph.directed else squares[block].sum(0)
        most = first(np.concatenate([most, [-moved, at + np.arange(block.shape[1])]], axis=1))
        at += block.shape[1]
    return most[1].astype(np.int64)


def replayed(case: Case, epsilon: float, runs: int, notices: float = np.inf) -> Bound:
    """The bound of a replay: `epsilon` if it refutes the claim, else 0, because replay does not test the size of the noise.

    runs: the number of runs. notices: the smallest detectable violation, as the factor by which the noise is too small.
    """
    refuted, reach = epsilon > case.claim.epsilon, worth(case.model.ledger, case.claim, notices)
    bound = Bound(epsilon if refuted else 0.0, 0.0, "exact", "replay", (runs, 0), refuted, None, notices, reach)
    noise = OURS if is_built_in(case.model) else UNHEARD if isinstance(case.model, RunsElsewhere) else HEARD
    return resting(bound, THEOREM, MOVES, noise)


def moves(parts: Iterable[Release], graph: Graph, edges: NDArray[np.int64]) -> tuple[list[float], float]:
    """The move of the means by each edge, over all hops, and the largest change of a residual. Both are in noise sds.

    With the noise fixed, residuals must not change. parts: consecutive runs, of which one part at a time is in memory; run 0 has
    all edges, and run i + 1 lacks edges[i].
    """
    runs = ((part["inputs"][k], part["aggregates"][k], noise_std(part)) for part in parts for k in range(len(part)))
    start, sums, std = next(runs)
    noise = [row - summed(graph, hop) for row, hop in zip(sums.astype(np.float64), start.astype(np.float64), strict=True)]
    each, stray = [], 0.0
    for edge, (inputs, sums, _) in zip(edges, runs, strict=True):
        gone = arcs_of(graph, int(edge))
        for hop, row, drawn in zip(inputs.astype(np.float64), sums, noise, strict=True):
            stray = max(stray, float(np.abs(row - (summed(graph, hop) - gone @ hop) - drawn).max()) / std)
        squares = sum(float(((gone @ hop.astype(np.float64)) ** 2).sum()) for hop in start)
        each.append(math.sqrt(squares) / std)
    return each, stray


def summed(graph: Graph, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of every node's neighbours' rows: (nodes, dim) -> (nodes, dim). The function computes it for a part of the nodes at
    a time, because there may be very many arcs.
    """
    total = np.empty_like(rows)
    for some, starts, senders in graph.into(np.arange(graph.nodes)):
        ones = np.ones(len(senders), dtype=np.float32)
        total[some] = sp.csr_array((ones, senders, starts), (len(starts) - 1, graph.nodes)) @ rows
    return total


def arcs_of(graph: Graph, edge: int) -> sp.csr_array:
    """(nodes, nodes): the adjacency matrix of one edge alone."""
    u, v = graph.edges[:, edge]
    rows, columns = ([v], [u]) if graph.directed else ([v, u], [u, v])
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(graph.nodes, graph.nodes))
