"""The planted faults of models that release noisy sums. Each has occurred in real code."""

import dataclasses
from collections.abc import Callable
from functools import partial
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
    faulty,
    gap,
    gap_as_published,
    gap_for_nodes,
    gap_small_degree_bound,
    of_own_noise,
)
from .shortfall import INFINITE, ROOT_TWO

MORE = 15  # number of rounds against faults that make the noise less than 1.5 times too small


def less_noise(share: Callable[[float], float], claim: Claim = EDGE) -> Factory:
    """A factory of GAP that adds only a share of its noise. share: computes the share from sigma."""

    def make(facts: Facts) -> Any:
        honest = calibrate(Gap(), claim)
        return dataclasses.replace(sums.TooLittleNoise(share=share(honest.sigma)), sigma=honest.sigma)

    return make


in_gap, in_vesper = partial(faulty, gap, EDGE), partial(faulty, lambda f: Vesper(), EDGE)
for_nodes, few_degrees = partial(faulty, gap_for_nodes, NODE), partial(faulty, gap_small_degree_bound, NODE)
uncharged_hop = partial(of_own_noise, lambda f: sums.OneHopNotCharged(), EDGE)
for_one_direction = calibrated(gap_as_published, DIRECTED_EDGE)

IN_SUMS = (
    in_gap("half the noise", sums.TooLittleNoise, "game", short.LESS_NOISE),
    in_gap("10 % less noise", sums.TooLittleNoise, "residual", short.LESS_NOISE, share=0.9),
    Fault("square root of sigma in place of sigma", less_noise(lambda s: s**-0.5), EDGE, "game", short.LESS_NOISE, rounds=MORE),
    Fault("square of sigma in place of sigma", less_noise(lambda s: s, LARGE_EPSILON), LARGE_EPSILON, "game", short.LESS_NOISE),
    Fault("noise multiplier used as noise std", less_noise(lambda s: 0.5**0.5), EDGE, "residual", short.LESS_NOISE),
    Fault("undirected edge charged as one directed edge, by replay", for_one_direction, EDGE, "replay", ROOT_TWO),
    Fault("undirected edge charged as one directed edge, by game", for_one_direction, EDGE, "game", ROOT_TWO, rounds=MORE),
    in_gap("rows not normalised", sums.RowsNotNormalised, "replay", short.longest_row),
    in_gap("rows of the first hop not normalised", sums.RowsNotNormalised, "replay", short.longest_row, faulty_hops=1),
    in_gap("rows normalised after the sum", sums.NormalisesAfterSumming, "replay", short.longest_row),
    in_gap("noise of the first hop reused", sums.ReusesFirstHopNoise, "residual", INFINITE),
    in_gap("same noise in every row", sums.OneNoiseRowForAll, "residual", INFINITE),
    in_gap("noise on every other column only", sums.NoiseOnHalfTheColumns, "residual", INFINITE),
    in_gap("noise tiled over blocks of rows", sums.NoiseTiledOverBlocks, "residual", INFINITE),
    in_gap("noise seeded by private edges", sums.NoiseSeededByEdges, "replay", INFINITE),
    in_gap("fixed noise seed in the code", sums.FixedNoiseSeed, "differential", INFINITE),
    in_gap("greedy degree cap: removing an edge admits others", sums.GreedyDegreeCap, "replay", short.changed_rows),
    in_vesper("messages not normalised", sums.MessagesNotNormalised, "differential", INFINITE),
    for_nodes("sums of the protected node released", sums.ReleasesProtectedRow, "differential", short.with_own_row),
    few_degrees("degree bound not enforced", training.DegreeBoundNotEnforced, "differential", short.largest_degree),
    uncharged_hop("one hop not charged, by game", "game", short.ONE_HOP_MORE, rounds=MORE),
    uncharged_hop("one hop not charged, by counting", "differential", short.ONE_HOP_MORE),
    in_gap("fresh sums for predictions not charged", sums.UnchargedSumsForPredictions, "differential", ROOT_TWO),
    in_gap("exact mean degree in a log", sums.LogsMeanDegree, "differential", INFINITE),
)
