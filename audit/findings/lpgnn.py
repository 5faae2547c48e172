"""LPGNN (Sajadmanesh and Gatica-Perez, CCS 2021): local privacy of features, and what a tiny budget learns."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ...accounting.claim import Claim, Relation, Unit
from . import certificates as exact
from .finding import Certificate, Figure, agreed, computed, joined

if TYPE_CHECKING:
    from ..key import Key

USERS = 100


def scaling(by_data: bool) -> Certificate:
    """User 0's feature is 1 or 2, all others' 1 but one 0; what the other users' reports say of user 0."""
    from scipy.stats import binom

    from ...models.lpgnn import ldp

    claim = Claim(
        1.0, 1e-9, Unit.FEATURES, Relation.REPLACE, exposes=("reports",)
    )  # the promise is for delta = 0, hence for this
    laws, chances = [], []
    for own in (1.0, 2.0):
        x = np.ones((USERS + 2, 1), dtype=np.float32)
        x[0], x[1] = own, 0.0
        seen, low, high = (ldp.scaled(x), 0.0, 1.0) if by_data else (x, 0.0, 2.0)
        chance = float(ldp.one_probability(seen[2:3], 1.0, low, high)[0, 0])
        chances.append(chance)
        laws.append(binom.pmf(np.arange(USERS + 1), USERS, chance))
    libraries = exact.coins(max(chances), min(chances), USERS, claim.delta)
    told = (
        f"{USERS} other users with a feature of 1 report a 1 with chance {chances[0]:.3f} if user 0 has 1, {chances[1]:.3f} if 2."
    )
    series = {f"user 0 has {own}": (np.arange(USERS + 1), law) for own, law in zip((1, 2), laws, strict=True)}
    return agreed(claim, libraries, told, Figure("ones among the other users' reports", "probability", series, "steps"))


def fair_coins(key: Key) -> Certificate:
    """LPGNN at epsilon = 0.01 and with fair coins, at equal propagation: accuracy over ten trainings each."""
    from ...models.data.loading import load
    from ...models.graph.graph import Worlds
    from ...models.lpgnn.lpgnn import Lpgnn

    graph, means, spreads = load("campus:n=600"), [], []
    blind = dataclasses.replace(
        graph, x=np.full((graph.nodes, graph.dim), 0.5, np.float32)
    )  # every coin is then fair, and as loud
    for known, budget in ((graph, 0.01), (blind, 0.01), (graph, 1.0)):
        worlds = Worlds.of(known, key.seeds(0, 10), np.flatnonzero(graph.test))
        model = Lpgnn(feature_budget=budget, feature_steps=4, label_steps=0, epochs=200)
        right = (model.fit(worlds)["posteriors"].argmax(2) == graph.y[worlds.watch]).mean(axis=1)
        means.append(float(right.mean()))
        spreads.append(float(right.std(ddof=1) / len(right) ** 0.5))
    told = (
        f"Test accuracy with clean labels {means[0]:.3f} at epsilon = 0.01 and {means[1]:.3f} with coins that know nothing, "
        f"standard errors {spreads[0]:.3f} and {spreads[1]:.3f}; {means[2]:.3f} at epsilon = 1. A synthetic graph of 600 nodes."
    )
    figure = Figure("", "test accuracy", {"accuracy": (("epsilon 0.01", "fair coins", "epsilon 1"), np.array(means))}, "bars")
    return computed(Claim(0.01, 0.0, Unit.FEATURES, Relation.REPLACE), 0.0, told, figure, "accuracy")


LPGNN = joined(
    "lpgnn.toml",
    {
        "lpgnn-scaling": (lambda key: scaling(True), lambda key: scaling(False)),
        "lpgnn-fair-coins": (fair_coins, None),
    },
)
