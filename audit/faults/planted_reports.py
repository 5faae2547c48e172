"""The planted faults of local reports, votes and ledgers. Each has occurred in real code."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...accounting.events.counts import unsampled
from ...models.baselines.edgerand import EdgeRand
from ...models.privgnn.privgnn import PrivGnn
from . import in_reports as reports
from . import in_sums as sums
from . import shortfall as short
from .fault import (
    DIRECTED_EDGE,
    EDGE,
    LOCAL,
    NODE,
    SMALL_EPSILON,
    VOTES,
    Factory,
    Fault,
    calibrated,
    dpsgd_fields,
    gap,
    lpgnn,
    mlp,
    privgnn,
    with_noise_of,
)
from .shortfall import INFINITE, against_true_ledger


def faulty_gap(kind: type[Any], **fields: Any) -> Factory:
    return with_noise_of(gap, EDGE, kind, **fields)


def faulty_lpgnn(kind: type[Any]) -> Factory:
    return with_noise_of(lpgnn, LOCAL, kind)


IN_REPORTS = (
    Fault(
        "full budget on each of two features", faulty_lpgnn(reports.FullBudgetPerFeature), LOCAL, "exact", short.by_enumeration
    ),
    Fault(
        "full budget on features and again on the label",
        faulty_lpgnn(reports.FullBudgetForFeaturesAndLabel),
        LOCAL,
        "exact",
        short.by_enumeration,
    ),
    Fault(
        "label response for two classes used for more",
        faulty_lpgnn(reports.BinaryLabelProbability),
        LOCAL,
        "exact",
        short.by_enumeration,
    ),
    Fault(
        "full budget on each of two features, undeclared",
        faulty_lpgnn(reports.UndeclaredFullBudgetPerFeature),
        LOCAL,
        "reports",
        short.undivided_budget,
    ),
    Fault("either of two reports", faulty_lpgnn(reports.EitherOfTwoReports), LOCAL, "reports", short.undivided_budget),
    Fault("feature range taken from private values", faulty_lpgnn(reports.PrivateFeatureRange), LOCAL, "differential", INFINITE),
    Fault(
        "each direction of an edge randomised, charged once",
        calibrated(lambda f: EdgeRand(mode="paper", nodes=f.nodes), DIRECTED_EDGE),
        EDGE,
        "entries",
        short.constant(2.0),
    ),
    Fault("dropped edges stay as stored zeros", calibrated(lambda f: reports.StoredZeros(), EDGE), EDGE, "entries", INFINITE),
    Fault(
        "margin sensitivity 1 in place of 2",
        calibrated(lambda f: reports.MarginSensitivityOne(queries=4), VOTES),
        VOTES,
        "exact",
        short.by_enumeration,
    ),
    Fault(
        "noise for probabilities added to their logarithms",
        with_noise_of(privgnn(), NODE, reports.NoiseOnLogProbabilities),
        NODE,
        "differential",
        INFINITE,
    ),
    Fault(
        "sampling charged but not done",
        with_noise_of(privgnn(), NODE, reports.NoSampling),
        NODE,
        "differential",
        against_true_ledger(lambda m: unsampled(m.ledger)),
    ),
    Fault(
        "half of the queries not charged",
        calibrated(privgnn(reports.HalfTheQueriesCharged), NODE),
        NODE,
        "differential",
        against_true_ledger(lambda m: PrivGnn(**vars(m)).ledger),
    ),
    Fault(
        "queries selected without noise",
        with_noise_of(privgnn(), NODE, reports.ScreensBeforeNoise),
        NODE,
        "differential",
        INFINITE,
    ),
    Fault(
        "ten times the delta",
        calibrated(gap, dataclasses.replace(EDGE, delta=10 * EDGE.delta)),
        EDGE,
        "account",
        short.against_honest_noise(gap, EDGE),
    ),
    Fault(
        "epsilon to base ten",
        calibrated(lambda f: reports.EpsilonToBaseTen(), EDGE),
        EDGE,
        "account",
        short.against_honest_noise(gap, EDGE),
    ),
    Fault(
        "calibration stops above the claim",
        calibrated(gap, dataclasses.replace(SMALL_EPSILON, epsilon=SMALL_EPSILON.epsilon + 1e-3)),
        SMALL_EPSILON,
        "account",
        short.against_honest_noise(gap, SMALL_EPSILON),
    ),
    Fault(
        "small divergences counted as 0",
        calibrated(lambda f: reports.SmallDivergencesDropped(**dpsgd_fields(f)), NODE),
        NODE,
        "account",
        short.against_honest_noise(mlp, NODE),
    ),
    Fault(
        "sampling multiplies epsilon",
        calibrated(privgnn(reports.LinearAmplification, single=True), NODE),
        NODE,
        "account",
        short.against_honest_noise(privgnn(single=True), NODE),
    ),
    Fault("no noise in one run of a million", faulty_gap(sums.NoNoiseOnceInAMillion), EDGE, "game", undetectable=True),
)
