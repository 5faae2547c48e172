"""The planted faults, which the self-test must catch, and the honest models, which it must not refute. Each fault has occurred in
real code.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from ...accounting import events
from ...accounting.claim import Claim
from ...accounting.events.counts import unsampled
from ...accounting.upper.calibration import calibrate
from ...models.baselines.edgerand import EdgeRand
from ...models.dpar.dpar import Dpar
from ...models.facts import Facts
from ...models.gap.gap import Gap
from ...models.gap.progap import ProGap
from ...models.privgnn.privgnn import PrivGnn
from ...models.vesper.vesper import Vesper
from . import in_batches as batches
from . import in_reports as reports
from . import in_sums as sums
from . import in_training as training
from . import shortfall as short
from .fault import (
    DIRECTED_EDGE,
    EDGE,
    LARGE_EPSILON,
    LOCAL,
    NODE,
    SMALL_EPSILON,
    VOTES,
    Factory,
    Fault,
    calibrated,
    dpar,
    faulty,
    gap,
    gap_as_published,
    gap_for_nodes,
    lpgnn,
    mlp,
    of_own_noise,
    privgnn,
)
from .shortfall import (
    INFINITE,
    ROOT_TWO,
    against_honest_noise,
    against_true_ledger,
    by_enumeration,
    constant,
    of_model,
    undivided_budget,
)

MORE = 15  # number of rounds against faults that make the noise less than 1.5 times too small


def less_noise(share: Callable[[float], float], claim: Claim = EDGE) -> Factory:
    """A factory of GAP that adds only a share of its noise. share: computes the share from sigma."""

    def make(facts: Facts) -> Any:
        honest = calibrate(Gap(), claim)
        return dataclasses.replace(sums.TooLittleNoise(share=share(honest.sigma)), sigma=honest.sigma)

    return make


in_gap, in_vesper = partial(faulty, gap, EDGE), partial(faulty, lambda f: Vesper(), EDGE)
for_nodes, few_degrees = (partial(faulty, recipe, NODE) for recipe in (gap_for_nodes, partial(gap_for_nodes, max_degree=4)))
uncharged_hop = partial(of_own_noise, lambda f: sums.OneHopNotCharged(), EDGE)
for_one_direction = calibrated(gap_as_published, DIRECTED_EDGE)

# models that release noisy sums
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

in_mlp, in_dpar, in_large_clip = (partial(faulty, recipe, NODE) for recipe in (mlp, dpar, partial(mlp, clip=5.0)))
in_gap_one_hop = partial(faulty, partial(gap_for_nodes, hops=1), NODE)
# the batch size does not divide the number of training nodes
in_uneven_batches = partial(faulty, lambda f: mlp(f, batch=f.train * 4 // 15), NODE)
# a node is in about eight neighbour lists, and each step trains on all lists
in_dpar_lists = partial(faulty, lambda f: Dpar(train_nodes=f.train, epochs=4, sources=f.train, picks=8, clip=0.01), NODE)
of_partition = against_true_ledger(lambda m: events.dp_sgd_fixed(m.sigma, m.epochs))
of_gap = against_true_ledger(lambda m: Gap(**vars(m)).ledger)

# trainings by DP-SGD
IN_TRAINING = (
    in_uneven_batches("more steps than charged", batches.UnchargedSteps, "differential", short.all_steps),
    in_mlp("fixed-size batches charged as Poisson", batches.FixedSizeBatches, "differential", short.with_replacement),
    in_mlp("shuffled batches charged as Poisson", batches.ShuffledBatches, "differential", of_partition),
    in_uneven_batches("same batches in every epoch", batches.SameBatchesEveryEpoch, "differential", short.one_sample),
    in_mlp("same noise in every epoch", training.SameNoiseEveryEpoch, "differential", INFINITE),
    in_mlp("division by the private batch size", training.DividesByPrivateBatchSize, "differential", constant(2.0)),
    in_mlp("a clipping norm that is ignored", training.NoClipping, "differential", INFINITE),
    in_mlp("a clipping norm that is ignored, by a canary", training.NoClipping, "gradients", INFINITE),
    in_mlp("mean gradient clipped", training.ClipsMeanGradient, "differential", of_model(lambda m: 2 * m.batch - 1)),
    in_mlp("noise for the mean added to the sum", training.DividedNoise, "differential", of_model(lambda m: m.batch)),
    in_large_clip(
        "noise not scaled by the clipping norm", training.DividedNoise, "differential", of_model(lambda m: m.clip), by="clip"
    ),
    in_mlp("each layer clipped separately", training.ClipsEachLayer, "differential", of_model(lambda m: m.layers**0.5)),
    in_mlp("node in two micro-batches", training.NodeInTwoMicroBatches, "differential", constant(2.0)),
    in_mlp("features standardised by private nodes", training.StandardisesByPrivateNodes, "differential", INFINITE),
    in_mlp("epoch selected by private labels", training.SelectsEpochByPrivateLabels, "differential", INFINITE),
    in_gap_one_hop("two modules charged as one", training.OneOfTwoModulesCharged, "differential", of_gap),
    in_dpar_lists("neighbour lists not capped", training.ListsNotCapped, "differential", of_model(lambda m: m.sources / m.cap)),
    in_dpar("PageRank vectors not clipped", training.PageRankNotClipped, "differential", of_model(lambda m: 1 / m.source_clip)),
)

in_lpgnn, in_privgnn = partial(faulty, lpgnn, LOCAL), partial(faulty, privgnn(), NODE)
edges_for_one_direction = calibrated(lambda f: EdgeRand(mode="paper", nodes=f.nodes), DIRECTED_EDGE)
without_samples = against_true_ledger(lambda m: unsampled(m.ledger))
of_all_queries = against_true_ledger(lambda m: PrivGnn(**vars(m)).ledger)
TEN_TIMES_DELTA = dataclasses.replace(EDGE, delta=10 * EDGE.delta)
above_claim = calibrated(gap, dataclasses.replace(SMALL_EPSILON, epsilon=SMALL_EPSILON.epsilon + 1e-3))
of_mlp, of_single = (against_honest_noise(recipe, NODE) for recipe in (mlp, privgnn(single=True)))

# local reports, votes and ledgers
IN_REPORTS = (
    in_lpgnn("full budget on each of two features", reports.FullBudgetPerFeature, "exact", by_enumeration),
    in_lpgnn("full budget on features and again on the label", reports.FullBudgetForFeaturesAndLabel, "exact", by_enumeration),
    in_lpgnn("label response for two classes used for more", reports.BinaryLabelProbability, "exact", by_enumeration),
    in_lpgnn(
        "full budget on each of two features, undeclared", reports.UndeclaredFullBudgetPerFeature, "reports", undivided_budget
    ),
    in_lpgnn("either of two reports", reports.EitherOfTwoReports, "reports", undivided_budget),
    in_lpgnn("feature range taken from private values", reports.PrivateFeatureRange, "differential", INFINITE),
    Fault("each direction of an edge randomised, charged once", edges_for_one_direction, EDGE, "entries", constant(2.0)),
    of_own_noise(lambda f: reports.StoredZeros(), EDGE, "dropped edges stay as stored zeros", "entries", INFINITE),
    of_own_noise(
        lambda f: reports.MarginSensitivityOne(queries=4), VOTES, "margin sensitivity 1 in place of 2", "exact", by_enumeration
    ),
    in_privgnn("noise for probabilities added to their logarithms", reports.NoiseOnLogProbabilities, "differential", INFINITE),
    in_privgnn("sampling charged but not done", reports.NoSampling, "differential", without_samples),
    of_own_noise(privgnn(reports.HalfTheQueriesCharged), NODE, "half of the queries not charged", "differential", of_all_queries),
    in_privgnn("queries selected without noise", reports.ScreensBeforeNoise, "differential", INFINITE),
    Fault("ten times the delta", calibrated(gap, TEN_TIMES_DELTA), EDGE, "account", against_honest_noise(gap, EDGE)),
    of_own_noise(lambda f: reports.EpsilonToBaseTen(), EDGE, "epsilon to base ten", "account", against_honest_noise(gap, EDGE)),
    Fault("calibration stops above the claim", above_claim, SMALL_EPSILON, "account", against_honest_noise(gap, SMALL_EPSILON)),
    of_own_noise(lambda f: mlp(f, reports.SmallDivergencesDropped), NODE, "small divergences counted as 0", "account", of_mlp),
    of_own_noise(privgnn(reports.LinearAmplification, single=True), NODE, "sampling multiplies epsilon", "account", of_single),
    dataclasses.replace(in_gap("no noise in one run of a million", sums.NoNoiseOnceInAMillion, "game"), undetectable=True),
)

FAULTS: tuple[Fault, ...] = (*IN_SUMS, *IN_TRAINING, *IN_REPORTS)
HONEST = (
    *(of_own_noise(gap, EDGE, "GAP, sound", audit) for audit in ("replay", "residual", "game", "differential", "account")),
    of_own_noise(gap_as_published, DIRECTED_EDGE, "GAP as published, for a directed edge", "game"),
    of_own_noise(gap_for_nodes, NODE, "GAP, sound, for a node", "differential"),
    of_own_noise(lambda f: ProGap(depth=2), EDGE, "ProGAP, sound", "differential"),
    of_own_noise(lambda f: Vesper(), EDGE, "VESPER, sound", "differential"),
    of_own_noise(mlp, NODE, "DP-MLP, sound", "differential"),
    of_own_noise(mlp, NODE, "DP-MLP, sound", "gradients"),
    of_own_noise(dpar, NODE, "DPAR, sound", "differential"),
    of_own_noise(privgnn(), NODE, "PrivGNN, sound", "differential"),
    of_own_noise(lambda f: EdgeRand(), EDGE, "EdgeRand, sound", "entries"),
    of_own_noise(lambda f: reports.TwoClassPate(queries=4), VOTES, "PATE, sound", "exact"),
    of_own_noise(lpgnn, LOCAL, "LPGNN, sound", "exact"),
    of_own_noise(lpgnn, LOCAL, "LPGNN, sound", "differential"),
)
