"""The planted faults of local reports, votes and ledgers. Each has occurred in real code."""

import dataclasses
from functools import partial

from ...accounting.events.counts import unsampled
from ...models.baselines.edgerand import EdgeRand
from ...models.privgnn.privgnn import PrivGnn
from . import in_reports as reports
from . import in_sums as sums
from .fault import (
    DIRECTED_EDGE,
    EDGE,
    LOCAL,
    NODE,
    SMALL_EPSILON,
    VOTES,
    Fault,
    calibrated,
    dpsgd_fields,
    faulty,
    gap,
    lpgnn,
    mlp,
    of_own_noise,
    privgnn,
)
from .shortfall import INFINITE, against_honest_noise, against_true_ledger, by_enumeration, constant, undivided_budget

in_lpgnn, in_privgnn = partial(faulty, lpgnn, LOCAL), partial(faulty, privgnn(), NODE)
for_one_direction = calibrated(lambda f: EdgeRand(mode="paper", nodes=f.nodes), DIRECTED_EDGE)
without_samples = against_true_ledger(lambda m: unsampled(m.ledger))
of_all_queries = against_true_ledger(lambda m: PrivGnn(**vars(m)).ledger)
TEN_TIMES_DELTA = dataclasses.replace(EDGE, delta=10 * EDGE.delta)
SLIGHTLY_MORE = dataclasses.replace(SMALL_EPSILON, epsilon=SMALL_EPSILON.epsilon + 1e-3)

IN_REPORTS = (
    in_lpgnn("full budget on each of two features", reports.FullBudgetPerFeature, "exact", by_enumeration),
    in_lpgnn("full budget on features and again on the label", reports.FullBudgetForFeaturesAndLabel, "exact", by_enumeration),
    in_lpgnn("label response for two classes used for more", reports.BinaryLabelProbability, "exact", by_enumeration),
    in_lpgnn(
        "full budget on each of two features, undeclared", reports.UndeclaredFullBudgetPerFeature, "reports", undivided_budget
    ),
    in_lpgnn("either of two reports", reports.EitherOfTwoReports, "reports", undivided_budget),
    in_lpgnn("feature range taken from private values", reports.PrivateFeatureRange, "differential", INFINITE),
    Fault("each direction of an edge randomised, charged once", for_one_direction, EDGE, "entries", constant(2.0)),
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
    Fault(
        "calibration stops above the claim",
        calibrated(gap, SLIGHTLY_MORE),
        SMALL_EPSILON,
        "account",
        against_honest_noise(gap, SMALL_EPSILON),
    ),
    of_own_noise(
        lambda f: reports.SmallDivergencesDropped(**dpsgd_fields(f)),
        NODE,
        "small divergences counted as 0",
        "account",
        against_honest_noise(mlp, NODE),
    ),
    of_own_noise(
        privgnn(reports.LinearAmplification, single=True),
        NODE,
        "sampling multiplies epsilon",
        "account",
        against_honest_noise(privgnn(single=True), NODE),
    ),
    dataclasses.replace(
        faulty(gap, EDGE, "no noise in one run of a million", sums.NoNoiseOnceInAMillion, "game"), undetectable=True
    ),
)
