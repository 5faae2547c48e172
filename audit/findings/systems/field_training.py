"""Experiments on noisy training in public systems: DPDGC, DP-GNN, DP-GNNs, SE-PrivGEmb, FedPerGNN, AdvSGM.

Each mechanism is written from the description of a fault, in the smallest form that shows the fault. No public code is copied.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting import gaussian
from ....accounting.claim import Claim, Relation, Unit
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, bars, computed, confirmed, moved, seen
from ..finding import with_experiments

Array = Any
ENTRY = Claim(1.0, 1e-7, Unit.DIRECTED_EDGE, exposes=("aggregates",))
STEP = Claim(1.0, 1e-5, Unit.NODE, Relation.REPLACE, exposes=("gradients",))
NORM, HIDDEN, COLUMNS = 1e-8, 16, 50  # the column norm for which the noise is made; the shape of the weight matrix
DEGREE, BATCH_ROWS, TENSORS, NEIGHBOURS = 100, 256, 6, 5
# the size of MolBACE's training set, and the defaults of the script
GRAPHS, HELD_OUT, BATCH, NOISE, CLIP, EPOCHS = 1210, 152, 24, 0.5, 5.0, 10
STEPS = 25
USERS, WEIGHTS = 32, 64


def unit_noise(claim: Claim) -> float:
    """The noise std with which a Gaussian release of sensitivity 1 costs exactly the claim."""
    return 1 / gaussian.mu_of_claim(claim)


def clipped(rows: Array) -> Array:
    """Each row scaled to an L2 norm of at most 1. (n, d) -> (n, d)."""
    return rows * np.minimum(1.0, 1 / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def normalisation(key: Key, stored: bool) -> Certificate:
    """Computes the epsilon of one noisy embedding of adjacency rows. The noise is made for normalised weights.

    stored: the normalised weights replace the old weights. Otherwise they go into a new dictionary and have no effect.
    """
    scale = 1 / math.sqrt(COLUMNS)
    layer = {"weight": key.fold("weights").generator().uniform(-scale, scale, (HIDDEN, COLUMNS))}
    unit = NORM * layer["weight"] / np.linalg.norm(layer["weight"], axis=0)
    target = layer if stored else dict(layer)
    target["weight"] = unit
    shift = float(np.linalg.norm(layer["weight"][:, 0]))  # the adjacency entry (u, 0) adds column 0 to the embedding of u
    friendship = math.hypot(shift, float(np.linalg.norm(layer["weight"][:, 1])))
    summary = (
        f"One directed entry moves the embedding by {shift:.3g}, a friendship by {friendship:.3g}; "
        f"the noise is made for columns of norm {NORM:g}, so its std is {NORM * unit_noise(ENTRY):.2g}."
    )
    return moved(ENTRY, shift, NORM * unit_noise(ENTRY), summary, NORM, "change of the embedding", log="y")


def neighbours_rows(covered: float) -> Certificate:
    """Computes the epsilon of one full-batch step on adjacency rows. A node without edges replaces node 0, which DEGREE training
    rows list.

    covered: the move of the sum of clipped gradients, in clipping norms, for which the noise is made.
    """
    rows = np.zeros((DEGREE + 1, DEGREE + 1))
    rows[1:, 0], rows[0, 1:] = 1.0, 1.0  # a star: each leaf lists the hub, the hub lists the leaves
    # the derivative of the loss by the logits of each row; its norm is above 1, so every row's gradient is clipped
    error = np.array([-1.0, 1.0])
    gradients = (error[:, None, None] * rows).transpose(1, 0, 2).reshape(len(rows), -1)
    shift = float(np.linalg.norm(clipped(gradients).sum(0)))  # without the hub's edges all rows are empty
    summary = (
        f"D = {DEGREE}: the clipped gradients of {DEGREE + 1} rows change, and their sum moves by {shift:.1f} clipping norms; "
        f"the noise covers {covered:.1f}."
    )
    return moved(STEP, shift, covered * unit_noise(STEP), summary, covered, "change of the summed gradients, in clipping norms")


def numbered(rows: NDArray[np.int64], compact: bool) -> NDArray[np.int64]:
    """The row number of each stored entry, (n,) -> (n,). compact: empty rows are not counted, so later rows move up."""
    return np.cumsum(np.diff(rows, prepend=rows[0]) != 0) if compact else rows


def row_shift(compact: bool) -> Certificate:
    """Computes the epsilon of one step on 256 rows for the edge of row 0. The only neighbour of each row is the hub of its label.

    compact: whether `numbered` leaves out empty rows.
    """
    claim = Claim(1.0, 1e-7, Unit.DIRECTED_EDGE, exposes=("gradients",))
    labels = np.arange(BATCH_ROWS) % 2
    sums, listed = [], []
    for first in (0, 1):
        stored = np.arange(first, BATCH_ROWS)
        hubs = np.full(BATCH_ROWS, -1)
        hubs[numbered(stored, compact)] = labels[stored]
        listed.append(hubs)
        rows = (hubs[:, None] == np.arange(2)).astype(float)
        error = np.where(labels[:, None] == np.arange(2), -1.0, 1.0)
        sums.append(clipped((error[:, :, None] * rows[:, None, :]).reshape(BATCH_ROWS, -1)).sum(0))
    shift, wrong = float(np.linalg.norm(sums[1] - sums[0])), int(np.sum(listed[0] != listed[1]))
    summary = (
        f"One directed edge less changes {wrong} of {BATCH_ROWS} rows and moves the sum of clipped gradients by {shift:.1f} "
        "clipping norms; the noise covers 2, one row replaced."
    )
    return moved(claim, shift, 2 * unit_noise(claim), summary, 2.0, "change of the summed gradients, in clipping norms")


def per_tensor(joint: bool) -> Certificate:
    """Computes the epsilon of one step with six tensors, each clipped alone. joint: the noise on each covers all six together."""
    clips = np.geomspace(0.1, 1.0, TENSORS)
    covered = 2 * (NEIGHBOURS + 1) * (np.full(TENSORS, np.linalg.norm(clips)) if joint else clips)
    moves = 2 * (NEIGHBOURS + 1) * clips  # the gradients of K + 1 rows change sign
    shift = float(np.linalg.norm(moves / covered))
    summary = (
        f"{TENSORS} tensors move together by {shift:.3f} times what the accountant composes as one mechanism. "
        f"Its bound for ogbn-arxiv (K = 5, lambda = 2, 300 steps) is {google_printed(2.0):.2f} as printed "
        f"and {google_printed(2.0 / shift):.2f} for this noise."
    )
    return moved(STEP, shift, unit_noise(STEP), summary, 1.0, "change / sensitivity in the accounting")


def google_printed(multiplier: float) -> float:
    """The epsilon of the multi-term accountant: 300 batches of 10,000 from 90,941 training nodes, delta = 0.1 / 90,941."""
    from ....models.gap.published import converted, multi_term_rdp

    nodes, batch, steps = 90_941, 10_000, 300
    return converted(lambda order: steps * multi_term_rdp(order, multiplier, NEIGHBOURS, nodes, batch), 1 / (10 * nodes))


def without_clip(scaled: bool) -> Certificate:
    """Computes the epsilon of DP-SGD on MolBACE by the script's defaults. scaled: noise is multiplied by the clipping norm."""
    rate, delta = BATCH / GRAPHS, 1 / (GRAPHS + HELD_OUT)
    steps = EPOCHS * math.ceil(1 / rate)
    multiplier = NOISE if scaled else NOISE / CLIP
    claim = Claim(opacus_rdp(NOISE, rate, steps, delta), delta, Unit.NODE, exposes=("gradients",))
    libraries = exact.sampled_steps(1 / multiplier, rate, steps, delta)
    summary = (
        f"The noise has std {multiplier * CLIP:g} on a sum that one graph moves by {CLIP:g}. "
        f"{EPOCHS} epochs of {steps // EPOCHS} Poisson batches cost {min(libraries.values()):.3g}; "
        f"for this noise the accountant of the code gives the upper bound {opacus_rdp(multiplier, rate, steps, delta):,.0f}."
    )
    clips = np.array([1.0, 2.0, 5.0, 10.0])
    noise = {"needed": (clips, NOISE * clips), "drawn": (clips, NOISE * (clips if scaled else np.ones(4)))}
    return confirmed(claim, libraries, summary, Figure("clipping norm", "noise std", noise))


def opacus_rdp(multiplier: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon that the code prints: by the RDP accountant of Opacus, with the orders that the code uses."""
    import warnings

    from ....accounting.upper.libraries import _opacus_accountants

    rdp, orders = _opacus_accountants().analysis.rdp, [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # suppresses the warning that the best order is the smallest order
        costs = rdp.compute_rdp(q=rate, noise_multiplier=multiplier, steps=steps, orders=orders)
        return float(rdp.get_privacy_spent(orders=orders, rdp=costs, delta=delta)[0])


def touched_rows(key: Key, all_rows: bool) -> Certificate:
    """Trains the embeddings of three nodes for STEPS steps; node 2 has one edge or none.

    all_rows: every row gets noise. Otherwise only rows with a gradient get noise.
    """
    moves = np.zeros((2, 2))  # rows: the two worlds; columns: the vector stays, the vector changes
    for world in (0, 1):
        rng = key.fold("noise", world).generator()
        edges = np.array([[0, 1], [1, 2]][: 1 + world])
        vectors = rng.uniform(-1, 1, (3, 4))
        for _ in range(STEPS):
            before, gradient = vectors[2].copy(), np.zeros_like(vectors)
            for u, v in edges:
                pull = -1 / (1 + math.exp(float(vectors[u] @ vectors[v])))
                gradient[u] += pull * vectors[v]
                gradient[v] += pull * vectors[u]
            noise = rng.standard_normal(vectors.shape)
            vectors = vectors - 0.1 * (gradient + noise * (all_rows | (gradient != 0)))
            moves[world, int((vectors[2] != before).any())] += 1
    claim = Claim(3.0, 1e-5, Unit.UNDIRECTED_EDGE, exposes=("embeddings",))
    summary = (
        f"The vector of node 2 changes in {moves[1, 1]:.0f} of {STEPS} steps if it has an edge, "
        f"and in {moves[0, 1]:.0f} of {STEPS} if it has none."
    )
    return seen(claim, moves / STEPS, summary, ("stays", "changes"), "replay")


def laplace_on_weights(covered: float) -> Certificate:
    """Computes the epsilon of one batch of 32 users and 64 weights, in which one user reverses the sign of the clipped mean
    gradient.

    covered: the L1 change, in clipping norms, for which the Laplace noise is made.
    """
    claim = Claim(1.0, 0.0, Unit.NODE, Relation.REPLACE, exposes=("weights",))
    gradient = np.zeros((USERS, WEIGHTS))
    gradient[0] = 100.0  # the gradients of the other users are 0
    step = clipped(gradient.mean(0, keepdims=True))[0]
    change = float(np.abs(step - -step).sum())
    densities = [abs(2 * w) / covered for w in step]  # the log-ratio of each coordinate at its worst point
    libraries = {exact.CLOSED: change / covered, "sum of the log-ratios": math.fsum(densities)}
    summary = (
        f"The update moves by {change:.3g} clipping norms in L1; the noise covers {covered:.3g}. This is one of many batches."
    )
    return confirmed(
        claim, libraries, summary, bars("L1 change, in clipping norms", {"noise covers": covered, "user moves": change})
    )


def friendship(covered: float) -> Certificate:
    """Computes the epsilon of one noisy embedding with weight columns of norm 1, if a friendship is an entry in two rows."""
    claim = Claim(1.0, 1e-7, Unit.UNDIRECTED_EDGE, exposes=("aggregates",))
    rows = np.zeros((2, 2))
    rows[[0, 1], [1, 0]] = 1.0
    shift = float(np.linalg.norm(rows @ np.eye(2)))
    summary = (
        f"A friendship moves two rows, by {shift:.3f} in all; the noise covers {covered:.3f}. In DP-SGD a friendship is part "
        "of two samples."
    )
    return moved(claim, shift, covered * unit_noise(claim), summary, covered, "change of the embedding")


def reading(summary: str, y: str, values: dict[str, float]) -> Certificate:
    """A certificate for a finding that comes from reading the code. It refutes nothing, because nothing is run."""
    return computed(Claim(1.0, 1e-5, Unit.NODE), 0.0, summary, bars(y, values), "reading")


def sigmoid_noise(key: Key) -> Certificate:
    score = np.array([-2.0, 0.0, 2.0])
    noise = {f"score {s:g}": float(v) for s, v in zip(score, 1 / (1 + np.exp(-score)), strict=True)}
    return reading("From reading: the noise of each pair is multiplied by a sigmoid of its score.", "factor of the noise", noise)


def many_budgets(key: Key) -> Certificate:
    budgets = {f"{k} classes": float(k) for k in (2, 7, 40)}
    return reading(
        "From reading: the limit on the gradient residual grows with the number of classes.", "budget used / proved", budgets
    )


def private_choices(key: Key) -> Certificate:
    nodes, batch = 90_941, 10_000
    twice = batch * (batch - 1) / (2 * nodes)
    summary = (
        f"From reading. A batch of {batch:,} of {nodes:,} nodes, drawn with replacement, holds about {twice:.0f} equal pairs."
    )
    return reading(summary, "expected pairs of equal nodes in a batch", {"with replacement": twice, "without": 0.0})


TRAINING = with_experiments(
    "field_training.toml",
    {
        "dpdgc-normalisation-noop": (lambda key: normalisation(key, False), lambda key: normalisation(key, True)),
        "dpdgc-node-sqrt": (
            lambda key: neighbours_rows(2 * math.sqrt(DEGREE + 1)),
            lambda key: neighbours_rows(2.0 * (DEGREE + 1)),
        ),
        "dpdgc-row-shift": (lambda key: row_shift(True), lambda key: row_shift(False)),
        "dpdgc-friendship": (lambda key: friendship(1.0), lambda key: friendship(math.sqrt(2))),
        "dpgnn-per-tensor": (lambda key: per_tensor(False), lambda key: per_tensor(True)),
        "dpgnn-private-choices": (private_choices, None),
        "dpgnns-noise-without-clip": (lambda key: without_clip(False), lambda key: without_clip(True)),
        "seprivgemb-touched-rows": (lambda key: touched_rows(key, False), lambda key: touched_rows(key, True)),
        "fedpergnn-laplace-clip": (
            lambda key: laplace_on_weights(2 / math.sqrt(USERS)),
            lambda key: laplace_on_weights(2 * math.sqrt(WEIGHTS)),
        ),
        "advsgm-sigmoid-noise": (sigmoid_noise, None),
        "sgcunlearn-class-budget": (many_budgets, None),
    },
)
