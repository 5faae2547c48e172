"""The planted faults of models that release noisy sums. Each has occurred in real code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...accounting.claim import Claim
from ...accounting.upper.calibration import calibrate
from ...models.facts import Facts
from ...models.gap.gap import Gap
from ...models.vesper.vesper import Vesper
from . import in_sums as sums
from . import in_training as training
from . import shortfall as short
from .fault import (
    DIRECTED_EDGE,
    EDGE,
    LARGE_EPSILON,
    NODE,
    Factory,
    Fault,
    calibrated,
    gap,
    gap_as_published,
    gap_for_nodes,
    gap_small_degree_bound,
    with_noise_of,
)
from .shortfall import INFINITE, ROOT_TWO

MORE = 15  # number of rounds against faults that make the noise less than 1.5 times too small


def faulty_gap(kind: type[Any], **fields: Any) -> Factory:
    return with_noise_of(gap, EDGE, kind, **fields)


def less_noise(share: Callable[[float], float], claim: Claim = EDGE) -> Factory:
    """A factory of GAP that adds only a share of its noise. share: computes the share from sigma."""

    def make(facts: Facts) -> Any:
        honest = calibrate(Gap(), claim)
        return dataclasses.replace(sums.TooLittleNoise(share=share(honest.sigma)), sigma=honest.sigma)

    return make


IN_SUMS = (
    Fault("half the noise", faulty_gap(sums.TooLittleNoise), EDGE, "game", short.LESS_NOISE),
    Fault("10 % less noise", faulty_gap(sums.TooLittleNoise, share=0.9), EDGE, "residual", short.LESS_NOISE),
    Fault("square root of sigma in place of sigma", less_noise(lambda s: s**-0.5), EDGE, "game", short.LESS_NOISE, rounds=MORE),
    Fault("square of sigma in place of sigma", less_noise(lambda s: s, LARGE_EPSILON), LARGE_EPSILON, "game", short.LESS_NOISE),
    Fault("noise multiplier used as noise std", less_noise(lambda s: 0.5**0.5), EDGE, "residual", short.LESS_NOISE),
    Fault(
        "undirected edge charged as one directed edge, by replay",
        calibrated(gap_as_published, DIRECTED_EDGE),
        EDGE,
        "replay",
        ROOT_TWO,
    ),
    Fault(
        "undirected edge charged as one directed edge, by game",
        calibrated(gap_as_published, DIRECTED_EDGE),
        EDGE,
        "game",
        ROOT_TWO,
        rounds=MORE,
    ),
    Fault("rows not normalised", faulty_gap(sums.RowsNotNormalised), EDGE, "replay", short.longest_row),
    Fault(
        "rows of the first hop not normalised",
        faulty_gap(sums.RowsNotNormalised, faulty_hops=1),
        EDGE,
        "replay",
        short.longest_row,
    ),
    Fault("rows normalised after the sum", faulty_gap(sums.NormalisesAfterSumming), EDGE, "replay", short.longest_row),
    Fault("noise of the first hop reused", faulty_gap(sums.ReusesFirstHopNoise), EDGE, "residual", INFINITE),
    Fault("same noise in every row", faulty_gap(sums.OneNoiseRowForAll), EDGE, "residual", INFINITE),
    Fault("noise on every other column only", faulty_gap(sums.NoiseOnHalfTheColumns), EDGE, "residual", INFINITE),
    Fault("noise tiled over blocks of rows", faulty_gap(sums.NoiseTiledOverBlocks), EDGE, "residual", INFINITE),
    Fault("noise seeded by private edges", faulty_gap(sums.NoiseSeededByEdges), EDGE, "replay", INFINITE),
    Fault("fixed noise seed in the code", faulty_gap(sums.FixedNoiseSeed), EDGE, "differential", INFINITE),
    Fault(
        "greedy degree cap: removing an edge admits others", faulty_gap(sums.GreedyDegreeCap), EDGE, "replay", short.changed_rows
    ),
    Fault(
        "messages not normalised",
        with_noise_of(lambda f: Vesper(), EDGE, sums.MessagesNotNormalised),
        EDGE,
        "differential",
        INFINITE,
    ),
    Fault(
        "sums of the protected node released",
        with_noise_of(gap_for_nodes, NODE, sums.ReleasesProtectedRow),
        NODE,
        "differential",
        short.with_own_row,
    ),
    Fault(
        "degree bound not enforced",
        with_noise_of(gap_small_degree_bound, NODE, training.DegreeBoundNotEnforced),
        NODE,
        "differential",
        short.largest_degree,
    ),
    Fault(
        "one hop not charged, by game",
        calibrated(lambda f: sums.OneHopNotCharged(), EDGE),
        EDGE,
        "game",
        short.ONE_HOP_MORE,
        rounds=MORE,
    ),
    Fault(
        "one hop not charged, by counting",
        calibrated(lambda f: sums.OneHopNotCharged(), EDGE),
        EDGE,
        "differential",
        short.ONE_HOP_MORE,
    ),
    Fault("fresh sums for predictions not charged", faulty_gap(sums.UnchargedSumsForPredictions), EDGE, "differential", ROOT_TWO),
    Fault("exact mean degree in a log", faulty_gap(sums.LogsMeanDegree), EDGE, "differential", INFINITE),
)
