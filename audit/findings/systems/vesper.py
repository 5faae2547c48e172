"""Experiments on VESPER (Wu et al., arXiv 2310.20552), in which party A holds the graph and party B the labels."""

import math
from typing import Any

import numpy as np

from ....accounting import gaussian as closed
from ....accounting.claim import Claim, Unit
from ....accounting.lower.detection.error_rates import Rule
from ....models.vesper import published as printed
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, along, bars, computed, confirmed, sampled
from ..finding import with_experiments

LARGE = Claim(1.0, 1 / 61_859_140, Unit.UNDIRECTED_EDGE, exposes=("transcript",))  # ogbn-products
ROOTS, BATCH, EPOCHS = 196_615, 256, 20
STEPS = EPOCHS * math.ceil(ROOTS / BATCH)
RATE = 1 - (1 - BATCH / ROOTS) * (1 - BATCH / (ROOTS - 1))  # probability that a batch holds at least one end of the edge
ONE = Claim(1.0, 2e-4, Unit.UNDIRECTED_EDGE, exposes=("transcript",))
FLOOR = 10


def large_sigma(bound: str) -> float:
    """The noise multiplier of one layer at which `vesper_epsilon` with this bound gives epsilon = 1 on ogbn-products."""
    from ....accounting.cache import remembered

    def epsilon(sigma: float) -> float:
        return printed.vesper_epsilon(sigma, 1, RATE, STEPS, LARGE.delta, bound)

    def search() -> float:
        return exact.sigma_for(epsilon, 1.0)

    def holds(sigma: float) -> bool:
        return abs(epsilon(sigma) - 1) < 1e-6

    return float(remembered(search, "vesper finding", bound, STEPS, LARGE.delta, holds=holds))


def public_batches(bound: str) -> Certificate:
    """Computes the epsilon of an edge between two training nodes without other neighbours. Party B knows which batches hold them.

    bound: the bound of `vesper_epsilon` that sets the noise.
    """
    std = math.sqrt(2) * large_sigma(bound)
    visits = total([1 - RATE, RATE - both(), both()], STEPS)

    def delta_at(epsilon: float) -> float:
        return float(visits @ closed.delta_of(np.sqrt(np.arange(visits.size)) / std, epsilon))

    libraries = {
        exact.CLOSED: exact.epsilon_at(delta_at, LARGE.delta),
        "dp_accounting": mixture_by_library(visits, std, LARGE.delta),
    }
    mean = visits @ np.arange(visits.size)
    summary = (
        f"Noise std {std:.2f}, {STEPS} batches. The ends of the edge occur {mean:.0f} times on average, and each time one row "
        "moves by 1. The epsilon is exact over the distribution of this count, which B sees."
    )
    at = np.linspace(0.1, 12, 40)
    figure = Figure("epsilon", "delta", {"rows that B sees": (at, np.maximum([delta_at(e) for e in at], 1e-14))}, log="y")
    return confirmed(LARGE, libraries, summary, figure)


def both() -> float:
    """The probability that one batch holds both ends."""
    return BATCH * (BATCH - 1) / (ROOTS * (ROOTS - 1))


def total(chances: list[float], count: int) -> Any:
    """(512,) float64: the distribution of the sum of `count` independent draws of 0, 1, … with the probabilities `chances`."""
    size = 512
    wave = np.fft.rfft(np.array(chances), size) ** count
    masses = np.maximum(np.fft.irfft(wave, size), 0.0)
    return masses / masses.sum()


def mixture_by_library(visits: Any, std: float, delta: float) -> float:
    """The epsilon, by dp_accounting, if party B sees how often the ends occur. visits: the probability of each number."""
    from ....accounting.events.mechanisms import gaussian_hops
    from ....accounting.events.types import VisibleMixtureDpEvent
    from ....accounting.upper.tradeoff import curve

    kept = np.flatnonzero(visits > 1e-13)
    mechanisms = tuple(gaussian_hops(std, int(k)) for k in kept)
    mixed = VisibleMixtureDpEvent(tuple((visits[kept] / visits[kept].sum()).tolist()), mechanisms)
    return curve(mixed, interval=1e-3).epsilon(delta)


def evaluation(charged: bool) -> Certificate:
    """Computes the epsilon of the rows that are released for validation, once in each epoch, without the cost of the training.

    charged: whether the noise is made for the evaluations.
    """
    std = math.sqrt(4 * EPOCHS) / closed.mu_of_claim(LARGE) if charged else math.sqrt(2) * large_sigma("theorem-27")
    libraries = exact.gaussian(math.sqrt(2 * EPOCHS) / std, LARGE.delta)
    summary = f"{EPOCHS} evaluations at noise std {std:.2f}: in each, two rows move by 1 and nothing is sampled."
    times = np.arange(1, 2 * EPOCHS + 1)
    cost = closed.epsilon_of(np.sqrt(2 * times) / std, LARGE.delta)
    return confirmed(LARGE, libraries, summary, Figure("evaluations", "epsilon", {"evaluations alone": (times, cost)}, level=1.0))


def shift(aggregator: str, floor: int, flips: bool) -> float:
    """How far one edge moves the output of one layer of this library's message passing. The layer has weight 1.

    In "gcn-truncated", the output of a node below degree `floor` is the node's own row times -1 and does not depend on edges.

    flips: both ends have degree `floor`, so without the edge they are below; all features are equal. Otherwise one end has degree
    floor + 1, and the other end has degree 1 and the opposite feature. All other neighbours have degree 1.
    """
    import torch

    from ....models.vesper.aggregators import Neighbours, aggregate

    degrees = (floor, floor) if flips else (floor + 1, 1)
    edges = [(0, 1)]
    for end, degree in enumerate(degrees):
        edges += [(end, 2 + len(edges) - 1 + i) for i in range(degree - 1)]
    table = np.array(edges).T
    present = np.ones((2, len(edges)), dtype=bool)
    present[1, 0] = False
    near = Neighbours.of(table, present, int(table.max()) + 1)
    rows = torch.ones(2, 1, int(table.max()) + 1)
    rows[..., 1] = 1.0 if flips else -1.0  # without the edge, node 0 loses this row and weighs the others more; both add up
    out = aggregate(aggregator, floor, near, rows)
    if aggregator == "gcn-truncated":
        out = torch.where(near.degree < floor, -rows, out)
    return float((out[0] - out[1]).double().norm())


def one_layer(aggregator: str, flips: bool) -> Certificate:
    """Computes the epsilon of one layer that is released once, with noise for epsilon = 1 at the claimed sensitivity."""
    from ....models.vesper.aggregators import sensitivity

    def claimed(floor: int) -> float:
        return sensitivity(aggregator, floor)

    moved, mu = shift(aggregator, FLOOR, flips), closed.mu_of_claim(ONE)
    libraries = exact.gaussian(mu * moved / claimed(FLOOR), ONE.delta)
    summary = f"D_min = {FLOOR}: the edge moves the layer by {moved:.3f}; the claimed sensitivity is {claimed(FLOOR):.3f}."
    floors = np.array([2, 3, 5, 10, 20, 50])
    series = {"claimed": along(floors, claimed), "moved": along(floors, lambda floor: shift(aggregator, floor, flips))}
    return confirmed(ONE, libraries, summary, Figure("D_min", "sensitivity of one layer", series, log="xy"))


def substitution(charged: bool) -> Certificate:
    """Computes the epsilon of an edge whose ends have fan_out + 1 neighbours each, on a secret sample of fan_out neighbours. Both
    ends have the same unit feature f, and all their other neighbours have -f.

    charged: whether the noise is made for sensitivity 2 sqrt(2). Otherwise it is made for sqrt(2).
    """
    fan_out, std = 10, (2 if charged else 1) * math.sqrt(2) / closed.mu_of_claim(ONE)
    chance = fan_out / (fan_out + 1)
    libraries = exact.mixture([0.0, 2.0], [1 - chance, chance], std, 2, ONE.delta)
    summary = (
        f"Fan-out {fan_out}, {fan_out + 1} neighbours at both ends, noise std {std:.2f}: with probability {chance:.2f} the edge "
        "replaces another in the sample and the row moves by 2. The epsilon is exact over the secret sample."
    )
    at = np.array([2, 5, 10, 20, 50])
    figure = Figure(
        "fan-out, of a node with one neighbour more",
        "largest move of one row",
        {"claimed": (at, np.ones(5)), "moved": (at, np.full(5, 2.0))},
        log="x",
    )
    return confirmed(ONE, libraries, summary, figure)


def backward(key: Key, variant: str) -> Certificate:
    """Runs 100 trainings in each world. Their score is the likelihood ratio of the rows of nodes that are no ends of the edge.

    Party B simulates party A in both worlds with the same messages, so B knows the mean of every row in each world.
    """
    claim = Claim(0.0, ONE.delta, Unit.UNDIRECTED_EDGE, exposes=("transcript",))
    scores = {bit: [far_rows(key.fold("run", run), bit, variant) for run in range(100)] for bit in (False, True)}
    right = np.mean(np.concatenate([np.array(scores[False]) < 0, np.array(scores[True]) > 0]))
    summary = (
        f"200 trainings of 30 steps. The likelihood ratio of rows away from the edge names the true world in {right:.0%} of them."
    )
    return sampled(
        claim, scores[False], scores[True], key, summary, "log-likelihood ratio of rows away from the edge", rule=Rule(0.0, 1)
    )


def far_rows(key: Key, bit: bool, variant: str) -> float:
    """Trains on 60 nodes. Returns the log-likelihood ratio of the edge 0 - 1 from the noisy rows of nodes 2 … 59."""
    from ....models.vesper.parties import batches, party_a, party_b
    from ....models.vesper.vesper import Vesper

    recipe = Vesper(
        "paper", variant, layers=1, hidden=8, fan_out=100, batch_size=20, n_train=60, epochs=10, learning_rate=0.05, sigma=0.7
    )
    rng, seed, std = key.fold("graph").generator(), key.fold("seed").seed, recipe.noise_std
    x, y = np.abs(rng.standard_normal((60, 12))).astype(np.float32), rng.integers(2, size=60)
    x[:2] *= 20  # the encoder normalises rows, so the factor only reduces the effect of the bias on their direction
    edges = np.array([[0, *rng.integers(2, 60, 60)], [1, *rng.integers(2, 60, 60)]])
    edges = edges[:, edges[0] != edges[1]]
    noise = key.fold("noise", int(bit)).generator()
    released: list[Any] = []
    means: dict[bool, list[Any]] = {False: [], True: []}

    def party(world: bool, perturb: Any) -> Any:
        present = np.ones((1, edges.shape[1]), dtype=bool)
        present[0, 0] = world
        return party_a(recipe, x, edges, present, [seed], perturb=perturb).sender

    def release(path: Any, clean: Any) -> Any:
        means[bit].append(clean.detach().double().numpy())
        released.append(clean + std * clean.new_tensor(noise.standard_normal(tuple(clean.shape))))
        return released[-1]

    def replay(path: Any, clean: Any) -> Any:
        means[not bit].append(clean.detach().double().numpy())
        return clean + (released[len(means[not bit]) - 1] - clean).detach()

    real, other = party(bit, release), party(not bit, replay)
    b = party_b(recipe, y, 2, np.ones((1, 60), dtype=bool), [seed])
    total = 0.0
    for nodes in batches(recipe, np.arange(60), seed):
        gradient = b.learn(nodes, real.rows(nodes, True))
        other.rows(nodes, True)
        if variant == "pmp":
            real.learn(gradient)
            other.learn(gradient)
        far = np.unique(nodes) > 1
        gap = [released[-1].detach().double().numpy() - means[world][-1] for world in (False, True)]
        total += float(((gap[0] ** 2 - gap[1] ** 2)[:, :, far]).sum()) / (2 * std**2)
    return total


def corrected_gap(key: Key) -> Certificate:
    """Compares the noise of the corrected GAP, drawn for every batch, with the noise of GAP, drawn once."""
    from ....accounting import events

    rate, steps = events.inclusion(2000, 64, 10, 2), 640
    resampled = math.sqrt(2) * exact.sigma_for(lambda s: printed.vesper_epsilon(s, 2, rate, steps, ONE.delta), 1.0)
    once = math.sqrt(4) / closed.mu_of_claim(ONE)
    summary = (
        f"2,000 training nodes, batches of 64, two hops: noise std {resampled:.1f} if drawn in every batch, "
        f"{once:.1f} if drawn once."
    )
    figure = bars("noise std", {"in every batch": resampled, "once": once}, "epsilon = 1", log="y")
    return computed(ONE, 0.0, summary, figure, "arithmetic")


VESPER = with_experiments(
    "vesper.toml",
    {
        "vesper-public-batches": (lambda key: public_batches("theorem-27"), lambda key: public_batches("seen")),
        "vesper-backward-state": (lambda key: backward(key, "pmp"), lambda key: backward(key, "gap-resampled")),
        "vesper-truncation": (lambda key: one_layer("gcn-truncated", True), lambda key: one_layer("gcn-floor", True)),
        "vesper-low-degree-senders": (lambda key: one_layer("gcn-truncated", False), lambda key: one_layer("gcn-floor", False)),
        "vesper-neighbour-substitution": (lambda key: substitution(False), lambda key: substitution(True)),
        "vesper-evaluation": (lambda key: evaluation(False), lambda key: evaluation(True)),
        "vesper-corrected-gap": (corrected_gap, None),
    },
)
