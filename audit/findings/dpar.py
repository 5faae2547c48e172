"""DPAR (Zhang et al., WWW 2024, arXiv 2210.04442), as its public code computes: what does not hold."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...accounting import gaussian as closed
from ...accounting.claim import Claim, Unit
from ...models.dpar import published as code
from . import certificates as exact
from .finding import Certificate, Figure, Finding, agreed, played
from .gap import smallest

if TYPE_CHECKING:
    from ..key import Key

PAPER = "DPAR (WWW 2024)"
NODE = Claim(1.0, 1e-5, Unit.NODE, exposes=("gradients",))
NODE_RATE, SIGMA, RECORDS, BATCH, EPOCHS = 0.09, 0.95, 211, 60, 200  # the defaults of the code, on Cora-ML


def amplification(linear: bool) -> Certificate:
    """Randomised response on a sampled node. linear: its epsilon is 1 / q, so that q times it is 1."""
    from ...accounting.lower.finite_channels import channel_epsilon

    claim = Claim(1.0, 0.0, Unit.NODE)
    inner = 1 / NODE_RATE if linear else math.log1p(math.expm1(1.0) / NODE_RATE)
    low = 1 / (1 + math.exp(inner))
    high = (1 - NODE_RATE) * low + NODE_RATE * (1 - low)
    libraries = exact.coins(high, low, 1, 0.0) | {"enumeration": channel_epsilon([[high, 1 - high], [low, 1 - low]])}
    at = np.linspace(0.1, 40, 80)
    series = {"q times epsilon": (at, NODE_RATE * at), "exact": (at, np.log1p(NODE_RATE * np.expm1(at)))}
    told = f"One answer with epsilon = {inner:.2f}, asked of a node that is sampled with chance {NODE_RATE}: enumerated."
    return agreed(claim, libraries, told, Figure("epsilon without sampling", "epsilon on a secret sample", series))


def cached_batches(sigma: float) -> Certificate:
    """The steps as they are run: a node is in the same batch in every epoch, so its sum is seen once an epoch."""
    claim = Claim(printed(EPOCHS), 1e-3, Unit.NODE, exposes=("gradients",))
    libraries = exact.sampled_gaussian(math.sqrt(EPOCHS) / sigma, NODE_RATE, claim.delta)
    told = f"{EPOCHS} noisy sums at sigma = {sigma:.3g} hold the node, if it was sampled (chance {NODE_RATE}): one Gaussian."
    epochs = np.array([1, 10, 50, EPOCHS])
    series = {
        "printed": (epochs, np.array([printed(int(e)) for e in epochs])),
        "as run": (epochs, np.array([as_run(sigma, int(e)) for e in epochs])),
    }
    return agreed(claim, libraries, told, Figure("epochs", "epsilon", series, log="xy"))


def as_run(sigma: float, epochs: int) -> float:
    return exact.sampled_gaussian_closed(math.sqrt(epochs) / sigma, NODE_RATE, 1e-3)


def repaired_sigma() -> float:
    return smallest(lambda sigma: as_run(sigma, EPOCHS), 0.999 * printed(EPOCHS))


@cache
def printed(epochs: int) -> float:
    return code.dp_sgd_printed(SIGMA, RECORDS, BATCH, epochs, NODE_RATE)


def many_lists(cap: int | None) -> Certificate:
    """One step over 60 rows that all list one node. cap: how many besides its own may, with noise for that many."""
    claim = Claim(1.0, 1e-5, Unit.NODE, exposes=("gradients",))
    rows = np.array([1, 2, 5, 10, 20, 60])
    moves = np.array([moved(int(k), cap) for k in rows])
    charged = 1 if cap is None else 1 + 2 * cap
    libraries = exact.gaussian(closed.mu_of_claim(claim) * moves[-1] / charged, claim.delta)
    told = f"The node is in 60 lists; the clipped sum moves by {moves[-1]:.2f} clipping norms, the noise is made for {charged}."
    series = {"moved": (rows, moves), "charged": (rows, np.full(rows.size, float(charged)))}
    return agreed(claim, libraries, told, Figure("lists that hold the node", "clipping norms", series, log="xy"))


def moved(rows: int, cap: int | None) -> float:
    """How far the library's own sum of clipped gradients moves when node 0, in `rows` lists besides its own, leaves."""
    import torch

    from ...models.dpar.list_dpsgd import How, Trainer
    from ...models.dpar.pagerank import capped, column_normalised
    from ...models.dpar.row_products import Lists
    from ...models.graph.graph import Graph

    nodes = rows + 1
    x, none = np.zeros((nodes, 2), np.float32), np.zeros(nodes, dtype=bool)
    x[0] = 1000, 500  # a feature scale at which every gradient is clipped
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
    """The row of a leaf of a star, with and without its hub, at teleport 0.01. widening: sensitivity / clip as charged."""
    clip, std, delta = 0.01, 0.0067 * widening, 1e-4
    claim = Claim(code.gaussian_row_epsilon(0.0067, clip, delta), delta, Unit.NODE, exposes=("rows",))
    teleports = np.array([0.01, 0.02, 0.05, 0.15, 0.25, 0.5])
    found = np.array([leaf_row(float(t)) for t in teleports])
    libraries = exact.gaussian(found[0] * clip / std, delta)
    told = f"At teleport 0.01 the clipped row moves by {found[0]:.3f} clips; at the default 0.25 by {found[4]:.3f}."
    series = {"moved": (teleports, found), "charged": (teleports, np.full(6, widening))}
    return agreed(claim, libraries, told, Figure("teleport probability", "clips that the row moves", series, log="x"))


def leaf_row(teleport: float, leaves: int = 30) -> float:
    import scipy.sparse as sp

    from ...models.dpar.pagerank import page_rank

    star = np.zeros((leaves + 1, leaves + 1), np.float32)
    star[0, 1:] = star[1:, 0] = 1
    rows = []
    for adjacency in (star, np.zeros_like(star)):
        row = page_rank(sp.csr_array(adjacency), np.array([1]), teleport, 1e-7).toarray()[0].astype(float)
        rows.append(row / max(float(np.linalg.norm(row)), 0.01) * 0.01)
    return float(np.linalg.norm(rows[0] - rows[1])) / 0.01


def known_noise(key: Key, fixed: bool) -> Certificate:
    """One DP-SGD step on ten nodes, of which one has a feature nobody else has; everybody takes the noise of seed 0 off."""
    from ...models.dpar.dpar import Dpar
    from ...models.graph.graph import Graph, Mask, Worlds
    from ...models.random.streams import stream

    nodes, hidden, runs, none = 10, 4, 300, np.zeros(10, dtype=bool)
    x = np.eye(nodes, dtype=np.float32)
    y = np.arange(nodes) % 2
    graph = Graph(x, y, np.empty((2, 0), np.int64), ~none, none, none, classes=2)
    sigma = 1 / closed.mu_of_claim(NODE)
    model = Dpar(
        sigma=sigma,
        sources=0,
        batch=nodes,
        epochs=1,
        hidden=hidden,
        dropout=0.0,
        fixed_noise=fixed,
        keep=("gradients",),
        mode="paper",
    )
    scores = []
    noise = stream(0, "gradients").standard_normal((nodes, hidden), dtype=np.float32) * model.noise_std
    for world in (0, 1):
        mask = Mask(np.array([0]), np.full((runs, 1), bool(world)))
        worlds = Worlds(graph, key.seeds(world * runs, (world + 1) * runs), np.arange(nodes), nodes=mask)
        sums = model.fit(worlds)["gradients"][:, 0, : nodes * hidden].reshape(runs, nodes, hidden)
        scores.append(np.abs(sums - noise)[:, 0].max(axis=1))
    told = (
        f"{2 * runs} trainings with secret initial weights: without the noise of seed 0 its feature's gradient is "
        f"{np.mean(scores[0]):.2g} without the node and {np.mean(scores[1]):.2g} with it, on average."
    )
    return played(NODE, scores[0], scores[1], key, told, "size of the gradient once seed 0's noise is off")


DPAR = (
    Finding(
        id="dpar-amplification",
        short="sampling multiplies epsilon by q",
        paper=PAPER,
        claim="Both stages run on a sample of 9 per cent of the nodes, and the epsilon of each is multiplied by the sampling "
        "rate q. A node is added or removed with all its edges.",
        printed=1.0,
        view="one answer of any epsilon-private mechanism on the sampled nodes",
        argument="A secret sample turns epsilon into ln(1 + q (e^epsilon - 1)), near q epsilon for small epsilon only; beyond a "
        "few nats it takes ln(1/q) = 2.4 away and no more. Smallest example: one randomised response.",
        remains="For epsilon well below 1 the product is right to first order. Two faults of opposite sign in the list "
        "stage (the composition is loose below 0.9 a row) make its printed values up to about 3 hold.",
        source="the public code: epsilon times privacy_amplify_sampling_rate; Balle, Barthe and Gaboardi 2018",
        experiment=lambda key: amplification(True),
        fixed=lambda key: amplification(False),
        repair="ln(1 + q (e^epsilon - 1)), taken once of everything that uses the sample",
        proof="exact",
    ),
    Finding(
        id="dpar-cached-batches",
        short="DP-SGD samples its batches",
        paper=PAPER,
        claim="DP-SGD draws Poisson batches at rate B / N; by its defaults on Cora-ML the code prints epsilon = 7.07 at delta = "
        "1e-3 for a node.",
        printed=7.0723,
        view="the noisy sums of gradients of every step",
        argument="Batches are cut in the first epoch and kept: in all 200 epochs a node meets the same companions. Nothing is "
        "sampled but the nodes, once. Worst case: a node whose features nobody shares and whose gradient is always clipped.",
        remains="The noise is drawn for each step and the clipping is right for a node in one row. The default sigma of 0.95 "
        "is a normal choice for batches that are sampled.",
        source="the public code: feeds cached by start index; sigma 0.95, batches of 60 out of 211, 200 epochs, q = 0.09",
        experiment=lambda key: cached_batches(SIGMA),
        fixed=lambda key: cached_batches(repaired_sigma()),
        repair="noise for what is run: one Gaussian in all epochs together",
        proof="exact",
    ),
    Finding(
        id="dpar-many-lists",
        short="a node moves one gradient",
        paper=PAPER,
        claim="The columns of the matrix of lists are normalised, so one node moves the sum of clipped gradients by one clipping "
        "norm C2. Printed here as epsilon = 1 for one step.",
        printed=1.0,
        view="the noisy sum of one step that holds all rows",
        argument="Clipping acts on rows, after the features of the listed nodes are mixed. A node in k lists moves k clipped "
        "gradients, however small its weight in each. Smallest example: k rows that list nobody else.",
        remains="Right where a node is in its own list only. In the lists of real runs with noise a node stood in five or six of "
        "70 at most.",
        source="DP-SGD with sensitivity C2 in the public code; that the paper argues by the column norm is from memory",
        experiment=lambda key: many_lists(None),
        fixed=lambda key: many_lists(1),
        repair="at most one list besides a node's own, and noise for 3 C2",
        proof="exact",
    ),
    Finding(
        id="dpar-row-sensitivity",
        short="a clipped row moves by C1",
        paper=PAPER,
        claim="DP-APPR-GM: a PageRank row clipped to norm C1 has sensitivity C1; default epsilon = 6.48 a row, delta = 1e-4.",
        printed=6.483,
        view="one noisy PageRank row of another node",
        argument="Clipping bounds each of two rows, not their distance: two non-negative rows of norm C1 are up to sqrt(2) C1 "
        "apart. Smallest family: a star. With its hub a leaf's row lies on hub and other leaves, without it on the leaf alone.",
        remains="At teleport 0.25, the default, no example beyond C1 was found; the star gives far less. The claim fails for "
        "teleport probabilities of a few per cent.",
        source="the public code: sigma_ista 0.0067, clip 0.01, and the classical Gaussian formula",
        experiment=lambda key: row_sensitivity(1.0),
        fixed=lambda key: row_sensitivity(math.sqrt(2)),
        repair="noise for sqrt(2) C1",
        proof="exact",
    ),
    Finding(
        id="dpar-fixed-noise",
        short="DP-SGD noise is secret",
        paper=PAPER,
        claim="DP-SGD is private for a node; one step, printed epsilon = 1 at delta = 1e-5.",
        printed=1.0,
        view="the noisy sum of gradients; initial weights stay secret",
        argument="The code sets the seed of its graph to 0, so the noise is the same in every training that anybody runs. "
        "Whoever repeats the program holds the noise and takes it off.",
        remains="With a seed from the operating system the noise is what the accounting assumes. The noise on the PageRank rows "
        "is not seeded.",
        source="the public code: set_random_seed(0); played on a re-implementation with a public seed",
        experiment=lambda key: known_noise(key, True),
        fixed=lambda key: known_noise(key, False),
        repair="a secret seed for each training",
    ),
)
