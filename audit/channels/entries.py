"""The game on randomised response: from the randomised graph, the audit guesses which edges the true graph has."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.independence import separate_trials
from ...accounting.claim import Unit
from ...accounting.lower.bounds import from_rounds
from ...accounting.lower.detection.error_rates import Rule, epsilon_of_rates, rate_at_most
from ...accounting.lower.detection.power import notices_along
from ...models.capabilities import RandomisedEdges
from ...models.graph.graph import Graph
from ..case import Case, Outcome, Setting
from ..games.game import Game, sample
from ..instruments.reach import worth
from ..key import Key

COINS = 5000  # largest number of edges with a coin in one run
OWN = "each entry of each graph is randomised with its own numbers"
DECOYS = 50_000  # pairs that are drawn as decoys; those without an edge are additional trials of world 0


def refuses(case: Case) -> str | None:
    """The audit needs a model that trains on a graph drawn by randomised response."""
    return case.lacks(RandomisedEdges)


def play_entries(setting: Setting) -> Outcome:
    """Draws randomised graphs. The score of a pair of nodes is the number of its adjacency entries (0, 1 or 2) in such a graph.

    The declared probabilities fix the threshold beforehand. The network reads the edges only through the randomised graph, so the
    audit trains nothing. A test checks that entries are independent, given the noisy density. In mode "sound", all pairs have the
    same density. In mode "paper", each block of rows has its own. The audit then uses no decoys, because they may be in other
    blocks.
    """
    case, key, rounds, alpha = setting.case, setting.key, setting.rounds, setting.alpha
    model = case.model
    assert isinstance(model, RandomisedEdges)
    union = case.counted(setting.graph)
    game = Game(union, "edge", sample(np.arange(union.edges.shape[1]), COINS, key.fold("coins")), key.fold("game"))
    pairs = union.edges[:, game.items]
    apart = unjoined(union, DECOYS, key.fold("decoys")) if model.one_density else pairs[:, :0]
    every = np.concatenate([pairs, apart], axis=1)
    bits = np.zeros((rounds, every.shape[1]), dtype=bool)
    scores = np.zeros(bits.shape)
    for run in range(rounds):
        drawn = game.rounds(run + 1, run)
        bits[run, : pairs.shape[1]] = drawn.bits[0]
        scores[run] = entries(union, model.response(drawn.worlds, 0), every)
    trials, declared = (bits.size - int(bits.sum()), int(bits.sum())), rates(case, union, 1.0)
    low, high = (rate_at_most(n * rate, n, alpha / 2) for n, rate in zip(trials, declared, strict=True))
    cut = Rule(0.5 + int(epsilon_of_rates(low, high, case.claim.delta).argmax()), 1)
    own = separate_trials(scores > cut.threshold, bits, OWN)
    bound = from_rounds(scores, bits, case.claim, alpha=alpha, rule=cut, rounds=own)
    kappa = notices_along(case.claim, lambda k: rates(case, union, k), *bound.trials, setting.level)
    bound = dataclasses.replace(bound, notices=kappa, reach=worth(case.model.ledger, case.claim, kappa))
    reach = f"{rounds} drawn graphs, {pairs.shape[1]} edges with a coin in each and {apart.shape[1]} pairs without an edge"
    return Outcome("entries", (bound,), {}, reach, ("graph",), attack="entry-ratio")


def entries(graph: Graph, drawn: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """(pairs,) float64: how many entries of each pair are in the randomised graph `drawn`. drawn, pairs: (2, ·) node ids."""
    there = among(graph, pairs, drawn).astype(np.float64)
    return there if graph.directed else there + among(graph, pairs[::-1], drawn)


def among(graph: Graph, pairs: NDArray[np.int64], arcs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(pairs,) bool: whether each pair is one of the arcs. pairs, arcs: (2, ·) node ids, senders above receivers."""
    return np.isin(*(ends[0] * graph.nodes + ends[1] for ends in (pairs, arcs)))


def unjoined(graph: Graph, count: int, key: Key) -> NDArray[np.int64]:
    """(2, n) int64: at most `count` distinct random pairs of different nodes that no edge joins."""
    drawn = key.generator().integers(0, graph.nodes, (2, count))
    pairs = drawn if graph.directed else np.sort(drawn, axis=0)
    pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
    return pairs[:, ~among(graph, pairs, graph.arcs)]


def rates(case: Case, graph: Graph, kappa: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two arrays, of false-positive and of false-negative rates. The first entry is about the test "the randomised graph has at
    least one entry of the pair".

    If the two entries of a pair are randomised separately, a second entry is about the test "it has both entries". The rates are
    those at the graph's own density, if entries are randomised with `kappa` times the declared epsilon.
    """
    assert isinstance(case.model, RandomisedEdges)
    density = graph.arc_count / (graph.nodes * (graph.nodes - 1))
    stays, appears = case.model.entry_chances(density, kappa)
    if graph.directed or case.model.unit is Unit.UNDIRECTED_EDGE:
        return np.array([appears]), np.array([1 - stays])
    return np.array([1 - (1 - appears) ** 2, appears**2]), np.array([(1 - stays) ** 2, 1 - stays**2])
