"""Experiments on LPGNN (Sajadmanesh and Gatica-Perez, CCS 2021): local privacy of features, and accuracy at a tiny epsilon."""

import dataclasses

import numpy as np

from ....accounting.claim import Claim, Unit
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, bars, computed, confirmed
from ..finding import with_experiments

USERS = 100


def scaling(by_data: bool) -> Certificate:
    """Computes the epsilon of other users' reports if user 0 has feature 1 or 2. User 1 has feature 0, and all others have 1.

    by_data: features are scaled by their minimum and maximum over users. Otherwise the public range is 0 to 2.
    """
    from scipy.stats import binom

    from ....models.lpgnn import ldp

    # the paper claims delta = 0, which implies this claim
    claim = Claim(1.0, 1e-9, Unit.FEATURES, exposes=("reports",))
    distributions, chances = [], []
    for own in (1.0, 2.0):
        x = np.ones((USERS + 2, 1), dtype=np.float32)
        x[0], x[1] = own, 0.0
        scaled, low, high = (ldp.scaled(x), 0.0, 1.0) if by_data else (x, 0.0, 2.0)
        chance = float(ldp.one_probability(scaled[2:3], 1.0, low, high)[0, 0])
        chances.append(chance)
        distributions.append(binom.pmf(np.arange(USERS + 1), USERS, chance))
    libraries = exact.coin_flips(max(chances), min(chances), USERS, claim.delta)
    summary = (
        f"{USERS} users with feature 1 report a 1 with probability {chances[0]:.3f} if user 0 has 1, and {chances[1]:.3f} if 2."
    )
    series = {f"user 0 has {own}": (np.arange(USERS + 1), p) for own, p in zip((1, 2), distributions, strict=True)}
    return confirmed(claim, libraries, summary, Figure("ones among the other users' reports", "probability", series, "steps"))


def fair_coins(key: Key) -> Certificate:
    """Measures the accuracy of LPGNN at epsilon = 0.01, with fair coins in place of the reports, and at epsilon = 1. Each has ten
    trainings with the same propagation steps.
    """
    from ....models.data.loading import load
    from ....models.graph.graph import Worlds
    from ....models.lpgnn.lpgnn import Lpgnn

    graph, means, spreads = load("campus:n=600"), [], []
    # a feature in the middle of its range makes every report a fair coin, at the same noise scale
    blind = dataclasses.replace(graph, x=np.full((graph.nodes, graph.dim), 0.5, np.float32))
    for known, budget in ((graph, 0.01), (blind, 0.01), (graph, 1.0)):
        worlds = Worlds.of(known, key.seeds(0, 10), np.flatnonzero(graph.test))
        model = Lpgnn(feature_budget=budget, feature_steps=4, label_steps=0, epochs=200)
        right = (model.fit(worlds)["posteriors"].argmax(2) == graph.y[worlds.watch]).mean(axis=1)
        means.append(float(right.mean()))
        spreads.append(float(right.std(ddof=1) / len(right) ** 0.5))
    summary = (
        f"Test accuracy with clean labels is {means[0]:.3f} at epsilon = 0.01 and {means[1]:.3f} with fair coins "
        f"(standard errors {spreads[0]:.3f} and {spreads[1]:.3f}), and {means[2]:.3f} at epsilon = 1. "
        "The graph is synthetic, of 600 nodes."
    )
    figure = bars("test accuracy", dict(zip(("epsilon 0.01", "fair coins", "epsilon 1"), means, strict=True)), "accuracy")
    return computed(Claim(0.01, 0.0, Unit.FEATURES), 0.0, summary, figure, "accuracy")


LPGNN = with_experiments(
    "lpgnn.toml",
    {"lpgnn-scaling": (lambda key: scaling(True), lambda key: scaling(False)), "lpgnn-fair-coins": (fair_coins, None)},
)
