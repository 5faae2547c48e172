"""Experiments on DPAR (Zhang et al., WWW 2024, arXiv 2210.04442), as its public code computes it."""

import math
from functools import cache
from typing import Any

import numpy as np

from ....accounting import gaussian as closed
from ....accounting.claim import Claim, Unit
from ....accounting.closed_forms import channel_epsilon
from ....models.dpar import published as code
from ....models.random.streams import normal32, stream
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, along, confirmed, sampled
from ..finding import with_experiments

NODE = Claim(1.0, 1e-5, Unit.NODE, exposes=("gradients",))
NODE_RATE, SIGMA, RECORDS, BATCH, EPOCHS = 0.09, 0.95, 211, 60, 200  # the defaults of the code, on Cora-ML


def amplification(linear: bool) -> Certificate:
    """Computes the epsilon of randomised response on a node that is sampled with probability q.

    linear: the response has epsilon 1 / q, for which the code's linear amplification gives 1. Otherwise the response has the
    epsilon that sampling truly reduces to 1.
    """
    claim = Claim(1.0, 0.0, Unit.NODE)
    inner = 1 / NODE_RATE if linear else math.log1p(math.expm1(1.0) / NODE_RATE)
    low = 1 / (1 + math.exp(inner))
    high = (1 - NODE_RATE) * low + NODE_RATE * (1 - low)
    libraries = exact.coin_flips(high, low, 1, 0.0) | {"enumeration": channel_epsilon([[high, 1 - high], [low, 1 - low]])}
    at = np.linspace(0.1, 40, 80)
    series = {"q times epsilon": (at, NODE_RATE * at), "exact": (at, np.log1p(NODE_RATE * np.expm1(at)))}
    summary = f"Randomised response with epsilon = {inner:.2f} on a node sampled with probability {NODE_RATE}, by enumeration."
    return confirmed(claim, libraries, summary, Figure("epsilon without sampling", "epsilon on a secret sample", series))


def cached_batches(repaired: bool) -> Certificate:
    """Computes the epsilon of the steps as the code runs them: a sampled node is in the same batch in every epoch.

    repaired: the noise is made for 0.999 times the printed epsilon of these steps.
    """
    claim = Claim(printed(EPOCHS), 1e-3, Unit.NODE, exposes=("gradients",))
    sigma = exact.sigma_for(lambda sigma: as_run(sigma, EPOCHS), 0.999 * claim.epsilon) if repaired else SIGMA
    libraries = exact.sampled_gaussian(math.sqrt(EPOCHS) / sigma, NODE_RATE, claim.delta)
    summary = (
        f"If the node was sampled (probability {NODE_RATE}), {EPOCHS} noisy sums at sigma = {sigma:.3g} hold it: one Gaussian."
    )
    epochs = np.array([1, 10, 50, EPOCHS])
    series = {"printed": along(epochs, printed), "as run": along(epochs, lambda count: as_run(sigma, count))}
    return confirmed(claim, libraries, summary, Figure("epochs", "epsilon", series, log="xy"))


def as_run(sigma: float, epochs: int) -> float:
    """The exact epsilon of DP-SGD if a sampled node is in the same batch in every epoch."""
    return exact.sampled_gaussian_closed(math.sqrt(epochs) / sigma, NODE_RATE, 1e-3)


@cache
def printed(epochs: int) -> float:
    """The epsilon that the code prints for its defaults."""
    return code.dp_sgd_printed(SIGMA, RECORDS, BATCH, epochs, NODE_RATE)


def many_lists(cap: int | None) -> Certificate:
    """Computes the epsilon of one step on up to 60 rows whose neighbour lists all hold node 0, if node 0 is removed.

    cap: the largest number of lists, besides its own, that may hold a node; the noise covers 1 + 2 cap clipping norms. None: no
    cap, and noise that covers one clipping norm.
    """
    claim = Claim(1.0, 1e-5, Unit.NODE, exposes=("gradients",))
    rows = np.array([1, 2, 5, 10, 20, 60])
    moves = np.array([moved(int(k), cap) for k in rows])
    charged = 1 if cap is None else 1 + 2 * cap
    libraries = exact.gaussian(closed.mu_of_claim(claim) * moves[-1] / charged, claim.delta)
    summary = f"The node is in 60 lists. The clipped sum moves by {moves[-1]:.2f} clipping norms; the noise covers {charged}."
    series = {"moved": (rows, moves), "charged": (rows, np.full(rows.size, float(charged)))}
    return confirmed(claim, libraries, summary, Figure("lists that hold the node", "clipping norms", series, log="xy"))


def moved(rows: int, cap: int | None) -> float:
    """How far this library's sum of clipped gradients moves if node 0, in `rows` lists besides its own, is removed."""
    import torch

    from ....models.dpar.list_dpsgd import How, Trainer
    from ....models.dpar.pagerank import capped, column_normalised
    from ....models.dpar.row_products import Lists
    from ....models.graph.graph import Graph

    nodes = rows + 1
    x, none = np.zeros((nodes, 2), np.float32), np.zeros(nodes, dtype=bool)
    x[0] = 1000, 500  # so large that every gradient is clipped
    graph = Graph(x, np.zeros(nodes, np.int64), np.empty((2, 0), np.int64), ~none, none, none, classes=2)
    index, weights = np.zeros((nodes, 1), np.int64), np.ones((nodes, 1))
    if cap is not None:
        weights = capped(index, weights, np.arange(nodes), cap)
    weights = column_normalised(index, weights, nodes)
    lists = [Lists(np.arange(nodes), alive, index, weights) for alive in (~none, np.arange(nodes) > 0)]
    how = How(noise_std=0.0, clip=1.0, expected=1.0, hidden=16, dropout=0.0, learning_rate=0.01)
    trainer = Trainer(graph, lists, np.array([7, 7], dtype=np.uint64), how)
    sums = [g.double().flatten(1) for g in trainer.gradient(torch.ones(2, nodes))]
    return float(sum((g[0] - g[1]).square().sum() for g in sums) ** 0.5)


def row_sensitivity(widening: float) -> Certificate:
    """Computes the epsilon of the PageRank row of a star's leaf, with and without the star's hub, at teleport probability 0.01.

    widening: the sensitivity for which the noise is made, divided by the clipping norm.
    """
    clip, std, delta = 0.01, 0.0067 * widening, 1e-4
    claim = Claim(code.gaussian_row_epsilon(0.0067, clip, delta), delta, Unit.NODE, exposes=("rows",))
    teleports = np.array([0.01, 0.02, 0.05, 0.15, 0.25, 0.5])
    found = np.array([leaf_row(float(t)) for t in teleports])
    libraries = exact.gaussian(found[0] * clip / std, delta)
    summary = f"At teleport 0.01 the clipped row moves by {found[0]:.3f} clipping norms; at the default 0.25 by {found[4]:.3f}."
    series = {"moved": (teleports, found), "charged": (teleports, np.full(6, widening))}
    return confirmed(
        claim, libraries, summary, Figure("teleport probability", "move of the row, in clipping norms", series, log="x")
    )


def leaf_row(teleport: float) -> float:
    """How far a leaf's clipped PageRank row moves if the hub of its star of 30 leaves is removed, in clipping norms."""
    import scipy.sparse as sp

    from ....models.dpar.pagerank import page_rank

    star = np.zeros((31, 31), np.float32)
    star[0, 1:] = star[1:, 0] = 1
    rows = []
    for adjacency in (star, np.zeros_like(star)):
        row = page_rank(sp.csr_array(adjacency), np.array([1]), teleport, 1e-7).toarray()[0].astype(float)
        rows.append(row / max(float(np.linalg.norm(row)), 0.01) * 0.01)
    return float(np.linalg.norm(rows[0] - rows[1])) / 0.01


def known_noise(key: Key, fixed: bool) -> Certificate:
    """Trains one DP-SGD step on ten nodes with one feature each. The adversary subtracts the noise that seed 0 gives.

    fixed: whether the mechanism draws its noise from seed 0.
    """
    from ....models.dpar.dpar import Dpar
    from ....models.graph.graph import Graph, Mask, Worlds

    nodes, hidden, runs, none = 10, 4, 300, np.zeros(10, dtype=bool)
    x = np.eye(nodes, dtype=np.float32)
    y = np.arange(nodes) % 2
    graph = Graph(x, y, np.empty((2, 0), np.int64), ~none, none, none, classes=2)
    sigma = 1 / closed.mu_of_claim(NODE)
    training: Any = {"batch": nodes, "epochs": 1, "hidden": hidden, "dropout": 0.0, "mode": "paper"}
    model = Dpar(sigma=sigma, sources=0, fixed_noise=fixed, keep=("gradients",), **training)
    scores = []
    noise = normal32(stream(0, "gradients"), nodes * hidden).reshape(nodes, hidden) * model.noise_std
    for world in (0, 1):
        mask = Mask(np.array([0]), np.full((runs, 1), bool(world)))
        worlds = Worlds(graph, key.seeds(world * runs, (world + 1) * runs), np.arange(nodes), nodes=mask)
        sums = model.fit(worlds)["gradients"][:, 0, : nodes * hidden].reshape(runs, nodes, hidden)
        scores.append(np.abs(sums - noise)[:, 0].max(axis=1))
    summary = (
        f"{2 * runs} trainings with secret initial weights. After the noise of seed 0 is subtracted, the gradient of the node's "
        f"feature averages {np.mean(scores[0]):.2g} without the node and {np.mean(scores[1]):.2g} with it."
    )
    return sampled(NODE, scores[0], scores[1], key, summary, "gradient minus the noise of seed 0")


DPAR = with_experiments(
    "dpar.toml",
    {
        "dpar-amplification": (lambda key: amplification(True), lambda key: amplification(False)),
        "dpar-cached-batches": (lambda key: cached_batches(False), lambda key: cached_batches(True)),
        "dpar-many-lists": (lambda key: many_lists(None), lambda key: many_lists(1)),
        "dpar-row-sensitivity": (lambda key: row_sensitivity(1.0), lambda key: row_sensitivity(math.sqrt(2))),
        "dpar-fixed-noise": (lambda key: known_noise(key, True), lambda key: known_noise(key, False)),
    },
)
