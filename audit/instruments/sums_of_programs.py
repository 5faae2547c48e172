"""Checks whether the noisy sums of a program are sums over neighbours plus Gaussian noise, as the audits of sums assume."""

import numpy as np
from dp_accounting import NoOpDpEvent
from numpy.typing import NDArray
from scipy import special

from ...accounting.checks.independence import not_normal
from ...models.base import Release
from ...models.capabilities import SUMS, NoisySums, has
from ...models.graph.graph import Mask, Worlds
from ..case import EDGES, Setting, keeping
from ..games.edge_catalogue import catalogue

ONCE = 1e-9  # the probability that an honest program fails a check
MOST = 1_000_000  # largest number of noise values whose law is tested
EQUAL = 1e-3  # largest relative increase of the size of the noise by the rounding of float32 sums


def doubted(name: str, setting: Setting) -> str | None:
    """The reason why the audit `name` may not rely on a program's sums; None if it may, or if it does not use them.

    The check trains twice, on the whole graph and without one edge. In both trainings, the released sums minus the sums of the
    inputs must pass a test for Gaussian noise. For a replay, this noise must also not be larger than stated. If it is smaller
    than stated, the bound of a replay is only too low.
    """
    case = setting.case
    if name == "replay" and isinstance(case.model.ledger, NoOpDpEvent):
        return "the ledger lists no mechanism; without one, the program may draw other numbers on another graph"
    if name not in ("replay", "game") or case.claim.unit not in EDGES or not has(case.model, NoisySums):
        return None
    union = case.counted(setting.graph)
    edge = catalogue(union, setting.key)[:1]
    seeds = np.array([setting.key.fold("unrecorded", i).seed for i in range(2)], dtype=np.uint64)
    rows = np.arange(union.nodes, dtype=np.int64)
    worlds = Worlds(union, seeds, rows, edges=Mask(edge, np.array([[True], [False]])))
    release = keeping(case.model, SUMS).fit(worlds)
    std = float(release.public["noise_std"])
    for run in range(2):
        noise = left_over(release, worlds, run) / std
        size = float(np.sqrt(np.square(noise).mean()))
        if name == "replay" and special.gammaincc(noise.size / 2, np.square(noise).sum() / (1 + EQUAL) ** 2 / 2) < ONCE:
            found = f"have a standard deviation of {size * std:.4g}; noise_std says {std:.4g}"
            return f"'aggregates' minus the sums of 'inputs' over neighbours {found}"
        if (p_value := not_normal(noise[:: max(1, noise.size // MOST)])) < ONCE:
            found = f"do not look like Gaussian noise (p = {p_value:.1g}, level {ONCE:g})"
            return f"'aggregates' minus the sums of 'inputs' over neighbours {found}"
    return None


def left_over(release: Release, worlds: Worlds, run: int) -> NDArray[np.float64]:
    """The released sums of a run minus the sums of its inputs over the neighbours in its world. -> (hops * nodes * columns,)
    float64.
    """
    adjacency = worlds.removed(run).graph.adjacency()
    sums, inputs = (release[name][run].astype(np.float64) for name in SUMS)
    return np.concatenate([(s - adjacency @ x).ravel() for s, x in zip(sums, inputs, strict=True)])
