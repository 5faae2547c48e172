"""Whether the noisy sums of a program, which nobody can listen to, are what audits of sums assume of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import NoOpDpEvent
from scipy import special

from ...accounting.checks.independence import not_normal
from ...models.capabilities import SUMS, NoisySums, has
from ...models.graph.graph import Mask, Worlds
from ..case import EDGES, Setting, keeping
from ..games.edge_catalogue import catalogue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Release

ONCE = 1e-9  # how often an honest program may be doubted
MOST = 1_000_000  # numbers whose law is tested
EQUAL = 1e-3  # relative: what rounding of float32 sums adds to noise


def doubted(name: str, setting: Setting) -> str | None:
    """Why `name` may conclude nothing from a program's sums; None where it may.

    Two trainings, on the whole graph and without one edge: what is released less the sum of the inputs must pass for Gaussian
    noise, for a replay of at most the size that is stated. Noise that is smaller only makes a replay's bound too low.
    """
    case = setting.case
    if name == "replay" and isinstance(case.model.ledger, NoOpDpEvent):
        return "a program that charges for nothing may still draw other numbers on another graph"
    if name not in ("replay", "game") or case.claim.unit not in EDGES or not has(case.model, NoisySums):
        return None
    union = case.counted(setting.graph)
    edge = catalogue(union, setting.key)[:1]
    seeds = np.array([setting.key.fold("unheard", i).seed for i in range(2)], dtype=np.uint64)
    rows = np.arange(union.nodes, dtype=np.int64)
    worlds = Worlds(union, seeds, rows, edges=Mask(edge, np.array([[True], [False]])))
    release = keeping(case.model, SUMS).fit(worlds)
    std = float(release.public["noise_std"])
    for run in range(2):
        noise = left_over(release, worlds, run) / std
        size = float(np.sqrt(np.square(noise).mean()))
        if name == "replay" and special.gammaincc(noise.size / 2, np.square(noise).sum() / (1 + EQUAL) ** 2 / 2) < ONCE:
            found = f"have a standard deviation of {size * std:.4g}; noise_std says {std:.4g}"
            return f"'aggregates' less the sums of 'inputs' over neighbours {found}"
        if (p_value := not_normal(noise[:: max(1, noise.size // MOST)])) < ONCE:
            return f"'aggregates' less the sums of 'inputs' over neighbours do not look like Gaussian noise (p={p_value:.1g})"
    return None


def left_over(release: Release, worlds: Worlds, run: int) -> NDArray[np.float64]:
    """(hops * nodes * columns,): the released sums of a run less the sums of its inputs over the neighbours that it has."""
    adjacency = worlds.removed(run).graph.adjacency()
    sums, inputs = (release[name][run].astype(np.float64) for name in SUMS)
    return np.concatenate([(s - adjacency @ x).ravel() for s, x in zip(sums, inputs, strict=True)])
