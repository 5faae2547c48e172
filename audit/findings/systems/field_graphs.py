"""Experiments on graphs, counts and scores that public systems release: LPGNet, Eclipse, Blink, LinkTeller, EdgeRand, PushFlow.

Each mechanism is written from the description of a fault, in the smallest form that shows the fault. No public code is copied.
"""

import itertools
import math
import pickle

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ....accounting.claim import Claim, Unit
from ....accounting.closed_forms import channel_epsilon
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, bars, computed, confirmed, sampled, seen
from ..finding import with_experiments

FRIENDS, CALLS = 40, 100
LEAVES, RANK, RELEASES = 200, 20, 1500
# SIZE: number of nodes; the row of the last node is one chunk. MOST: the enumeration counts the row's other ones up to MOST - 1
SIZE, MOST = 501, 60
HUB, KEPT = 200, 0.8  # number of leaves of the hub; share of the flow that continues at each step (beta)
EDGE = Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("edges",))


def shared_noise(key: Key, spawned: bool) -> Certificate:
    """Counts the friends of two nodes with noise, in two tasks. Both nodes have FRIENDS friends; node 0 may have one more.

    spawned: each task gets a generator of its own. Otherwise each gets a pickled copy of one generator, as in a process pool.
    """
    table, again = np.zeros((2, 2)), 0
    for call in range(CALLS):
        for world in (0, 1):
            parent = np.random.default_rng(key.fold("noise", call, world).seed)
            tasks = parent.spawn(2) if spawned else [pickle.loads(pickle.dumps(parent)) for _ in range(2)]
            counts = [max(0.0, FRIENDS + more + task.laplace(0, 2.0)) for task, more in zip(tasks, (world, 0), strict=True)]
            table[world, int(abs(counts[0] - counts[1] - 1) < 1e-9)] += 1
        later = parent.spawn(1)[0] if spawned else pickle.loads(pickle.dumps(parent))
        again += counts[1] == max(0.0, FRIENDS + later.laplace(0, 2.0))
    summary = (
        f"The two noisy counts differ by exactly 1 in {table[1, 1]:.0f} of {CALLS} runs with the friendship and in "
        f"{table[0, 1]:.0f} of {CALLS} without. A later call gives the same counts, bit for bit, in {again} of {CALLS} runs."
    )
    claim = Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("counts",))
    return seen(claim, table / CALLS, summary, ("another difference", "exactly 1"), "replay")


def singular_vectors(key: Key, all_entries: bool) -> Certificate:
    """Releases a star with or without the edge of its last leaf, at epsilon = 4.

    all_entries: each entry of the matrix gets noise. Otherwise only the singular values get noise.
    """
    claim, shown = Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE, exposes=("edges",)), []
    rng, upper = key.fold("noise").generator(), np.triu_indices(LEAVES + 1, 1)
    spread = 2 * math.sqrt(math.log(1.25 / claim.delta)) / (0.99 * claim.epsilon)  # scan: intended
    at = int(np.flatnonzero((upper[0] == 0) & (upper[1] == LEAVES))[0])
    for leaves in (LEAVES - 1, LEAVES):
        star = np.zeros((LEAVES + 1, LEAVES + 1))
        star[0, 1 : leaves + 1] = star[1 : leaves + 1, 0] = 1.0
        u, s, v = np.linalg.svd(star)
        # (pairs, rank): an entry of the matrix is the sum over singular values of the value times its part
        parts = (u[upper[0], :RANK] * v[:RANK, upper[1]].T).astype(np.float32)
        hits = np.zeros(RELEASES)
        for run in range(RELEASES):
            count = max(1, int(leaves + rng.laplace(0, 1 / (0.01 * claim.epsilon))))
            if all_entries:
                values = star[upper] + rng.laplace(0, 1 / (0.99 * claim.epsilon), parts.shape[0])
            else:
                values = parts @ np.maximum(s[:RANK] + rng.normal(0, spread, RANK), 0).astype(np.float32)
            hits[run] = values[at] >= np.partition(values, -count)[-count]
        shown.append(hits)
    summary = (
        f"A star of {LEAVES} leaves, rank {RANK}: one leaf's friendship is in the released graph in {shown[1].mean():.1%} of "
        f"{RELEASES:,} runs with it and in {shown[0].mean():.1%} without it."
    )
    return sampled(claim, shown[0], shown[1], key, summary, "the friendship is in the released graph")


def answered_twice(diagonal: int) -> Certificate:
    """Enumerates all answers of randomised response on the pairs of three nodes. The outcome is the released entry of the pair
    (0, 1).

    diagonal: the released matrix mirrors the answers on and below this diagonal; 1 keeps both answers about the pair (0, 1).
    """
    flip, nodes, table = 1 / (1 + math.e), 3, np.zeros((2, 2))
    for bits in itertools.product((False, True), repeat=nodes * nodes):
        flips = np.array(bits).reshape(nodes, nodes)
        chance = flip ** int(flips.sum()) * (1 - flip) ** int((~flips).sum())
        for world in (0, 1):
            truth = np.zeros((nodes, nodes), bool)
            truth[0, 1] = truth[1, 0] = bool(world)
            answer = np.tril(truth ^ flips, diagonal)
            table[world, int((answer | answer.T)[0, 1])] += chance
    reports = 2 if diagonal > 0 else 1
    libraries = {exact.CLOSED: reports * math.log((1 - flip) / flip)}
    summary = (
        f"All {2 ** (nodes * nodes)} cases of three nodes: the pair (0, 1) is answered {'twice' if reports == 2 else 'once'}."
    )
    one = seen(EDGE, table, summary, ("0", "1"))
    return confirmed(EDGE, libraries | {"enumeration": one.bound.epsilon}, summary, one.figure)


def stored_zero(dropped: bool) -> Certificate:
    """Enumerates the outcomes for one pair of randomised response that is computed as a sum of sparse matrices.

    dropped: whether stored zeros are removed.
    """
    hit = 2 / (math.e + 1)  # the probability that the pair gets a new random entry
    table = np.zeros((2, 3))
    for world in (0, 1):
        for chance, add, minus in ((1 - hit, 0, 0), (hit / 2, 1, 0), (hit / 2, 0, 1)):
            entry, plus, less = (sp.csr_matrix(np.array([[0, bit], [bit, 0]])) for bit in (world, add, minus))
            answer = sp.csr_matrix(entry + plus - less)
            answer.data = np.clip(answer.data, 0, 1)
            if dropped:
                answer.eliminate_zeros()
            table[world, 0 if not answer.nnz else 1 + int(answer.data[0] == 1)] += chance
    summary = (
        f"A zero is stored for the pair with probability {table[0, 1]:.3f} without the edge, {table[1, 1]:g} with it. "
        "The scripts release two randomised copies of the graph, which together cost epsilon = 2. "
        f"With the fixed seed, {1 - hit:.0%} of the pairs are unchanged, and everybody can compute which."
    )
    return seen(EDGE, table, summary, ("nothing stored", "stored 0", "stored 1"))


def row_outcomes(noisy: NDArray[np.float64], edge: int) -> NDArray[np.float64]:
    """(n,) noisy densities -> (n, 2 MOST): the probabilities of the row's outcomes (bit of the edge, number of other ones).

    edge: 1 if the row has the edge, else 0.
    """
    from scipy.stats import binom

    keep = 1 / (1 + math.exp(-0.9))
    share = np.clip(noisy / (2 * keep * noisy - keep - noisy + 1), 0, 1)[:, None]
    count = binom.pmf(np.arange(MOST), SIZE - 1, (1 - keep) * share)
    bit = (keep if edge else 1 - keep) * share
    return np.concatenate([(1 - bit) * count, bit * count], axis=1)


def density(rows: int) -> Certificate:
    """Computes the epsilon of one chunk, a single row of SIZE entries with one edge or none.

    rows: the noise on the density is made for a chunk of this many rows.
    """
    from scipy.integrate import simpson

    # the density gets a tenth of the budget
    claim, scale = Claim(1.0, 1e-5, Unit.DIRECTED_EDGE, exposes=("edges",)), 10 / (rows * SIZE)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    tables = {"Gauss-Legendre": np.zeros((2, 2 * MOST)), "Simpson": np.zeros((2, 2 * MOST))}
    for edge in (0, 1):
        middle = edge / SIZE
        cuts = np.unique([0.0, *(middle + scale * np.array([-30, -12, -6, -3, -1.5, -0.7, 0, 0.7, 1.5, 3, 6, 12, 30]))])
        for low, high in itertools.pairwise(cuts):
            at, grid = (low + high) / 2 + (high - low) / 2 * nodes, np.linspace(low, high, 401)
            laws = [np.exp(-np.abs(d - middle) / scale) / (2 * scale) for d in (at, grid)]
            tables["Gauss-Legendre"][edge] += (high - low) / 2 * (weights * laws[0]) @ row_outcomes(at, edge)
            tables["Simpson"][edge] += simpson(laws[1][:, None] * row_outcomes(grid, edge), x=grid, axis=0)
    for table in tables.values():
        table /= table.sum(axis=1, keepdims=True)  # the last outcomes and e^-30 of the noise are left out
    table = tables["Gauss-Legendre"]
    ones = table[:, :MOST].copy()  # probabilities of the number of ones in the row, which includes the edge's own bit
    ones[:, 1:] += table[:, MOST:-1]
    libraries = {name: channel_epsilon(t, claim.delta) for name, t in tables.items()}
    summary = (
        f"One edge moves the density of the row by 1/{SIZE}, {1 / SIZE / scale:.3g} noise scales; the budget covers 0.1. "
        f"The row comes out empty with probability {ones[0, 0]:.3f} without the edge and {ones[1, 0]:.3f} with it."
    )
    shown = 8
    series = {
        name: (tuple(str(i) for i in range(shown)), row[:shown]) for name, row in zip(("without", "with"), ones, strict=True)
    }
    return confirmed(claim, libraries, summary, Figure("ones in the row", "probability", series, "bars"))


def pushed(leaves: int, limit: float) -> NDArray[np.float64]:
    """(HUB + 1,): the PageRank scores from the hub of a star with `leaves` leaves, if each leaf pushes at most `limit` in all."""
    flow, scores, sent = np.eye(1, HUB + 1)[0], np.zeros(HUB + 1), np.zeros(HUB + 1)
    limits = np.append(1.0, np.full(HUB, limit))
    for _ in range(100):
        push = np.minimum(flow, limits - sent)
        sent += push
        scores += (1 - KEPT) * push
        walked = push / 2
        walked[1 : leaves + 1] += push[0] / (2 * leaves)
        walked[0] += push[1:].sum() / 2
        flow = flow - push + KEPT * walked
    return scores


def push_limit(public: bool) -> Certificate:
    """Computes the epsilon of the scores of a star whose hub loses a leaf. A leaf pushes at most eta times the largest degree.

    public: a leaf pushes at most eta times a public degree bound, and the noise is made for this bound too.
    """
    claim, eta = Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("scores",)), 1e-6
    limits = [eta * (HUB if public else leaves) for leaves in (HUB, HUB - 1)]
    covered = (2 + KEPT) * eta * (HUB if public else 1)
    change = pushed(HUB, limits[0]) - pushed(HUB - 1, limits[1])
    total = float(np.abs(change).sum())
    worst = math.fsum(abs(c) / covered for c in change)
    summary = f"The scores move by {total:.3g} in L1, {total / covered:.3g} times what the Laplace noise covers ({covered:.3g})."
    libraries = {exact.CLOSED: claim.epsilon * total / covered, "sum of the log-ratios": worst}
    return confirmed(claim, libraries, summary, bars("L1 change of the scores", {"noise covers": covered, "edge moves": total}))


def two_lists(key: Key) -> Certificate:
    """Enumerates the four outcomes if both users of a friendship report it by randomised response at epsilon = 1."""
    flip = 1 / (1 + math.e)
    one = np.array([[1 - flip, flip], [flip, 1 - flip]])
    table = np.stack([np.kron(row, row) for row in one])
    epsilon = channel_epsilon(table)
    summary = f"Enumeration of both reports: a friendship costs {epsilon:.2f}, one list 1."
    return computed(EDGE, 0.0, summary, bars("epsilon", {"one list": 1.0, "a friendship": epsilon}), "enumeration")


GRAPHS = with_experiments(
    "field_graphs.toml",
    {
        "lpgnet-shared-noise": (lambda key: shared_noise(key, False), lambda key: shared_noise(key, True)),
        "eclipse-singular-vectors": (lambda key: singular_vectors(key, False), lambda key: singular_vectors(key, True)),
        "blink-symrr-diagonal": (lambda key: answered_twice(1), lambda key: answered_twice(-1)),
        "blink-two-lists": (two_lists, None),
        "linkteller-edgerand": (lambda key: stored_zero(False), lambda key: stored_zero(True)),
        "arr-density-chunk": (lambda key: density(SIZE), lambda key: density(1)),
        "pushflow-max-degree": (lambda key: push_limit(False), lambda key: push_limit(True)),
    },
)
