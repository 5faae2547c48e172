"""The planted faults of trainings by DP-SGD. Each has occurred in real code."""

from __future__ import annotations

from typing import Any

from ...accounting import events
from ...models.gap.gap import Gap
from . import in_batches as batches
from . import in_training as training
from . import shortfall as short
from .fault import (
    NODE,
    Factory,
    Fault,
    dpar,
    dpar_many_lists,
    gap_one_hop,
    mlp,
    mlp_large_clip,
    mlp_uneven_batches,
    with_noise_of,
)
from .shortfall import INFINITE, against_true_ledger, of_model


def faulty_mlp(kind: type[Any]) -> Factory:
    return with_noise_of(mlp, NODE, kind)


IN_TRAINING = (
    Fault(
        "more steps than charged",
        with_noise_of(mlp_uneven_batches, NODE, batches.UnchargedSteps),
        NODE,
        "differential",
        against_true_ledger(short.ledger_with_all_steps),
    ),
    Fault(
        "fixed-size batches charged as Poisson",
        faulty_mlp(batches.FixedSizeBatches),
        NODE,
        "differential",
        against_true_ledger(short.ledger_with_replacement),
    ),
    Fault(
        "shuffled batches charged as Poisson",
        faulty_mlp(batches.ShuffledBatches),
        NODE,
        "differential",
        against_true_ledger(lambda m: events.dp_sgd_fixed(m.sigma, m.epochs)),
    ),
    Fault(
        "same batches in every epoch",
        with_noise_of(mlp_uneven_batches, NODE, batches.SameBatchesEveryEpoch),
        NODE,
        "differential",
        against_true_ledger(short.ledger_with_one_sample),
    ),
    Fault("same noise in every epoch", faulty_mlp(training.SameNoiseEveryEpoch), NODE, "differential", INFINITE),
    Fault(
        "division by the private batch size",
        faulty_mlp(training.DividesByPrivateBatchSize),
        NODE,
        "differential",
        short.constant(2.0),
    ),
    Fault("a clipping norm that is ignored", faulty_mlp(training.NoClipping), NODE, "differential", INFINITE),
    Fault("a clipping norm that is ignored, by a canary", faulty_mlp(training.NoClipping), NODE, "gradients", INFINITE),
    Fault(
        "mean gradient clipped", faulty_mlp(training.ClipsMeanGradient), NODE, "differential", of_model(lambda m: 2 * m.batch - 1)
    ),
    Fault(
        "noise for the mean added to the sum",
        faulty_mlp(training.NoiseScaledForMean),
        NODE,
        "differential",
        of_model(lambda m: m.batch),
    ),
    Fault(
        "noise not scaled by the clipping norm",
        with_noise_of(mlp_large_clip, NODE, training.NoiseNotScaledByClip),
        NODE,
        "differential",
        of_model(lambda m: m.clip),
    ),
    Fault(
        "each layer clipped separately",
        faulty_mlp(training.ClipsEachLayer),
        NODE,
        "differential",
        of_model(lambda m: m.layers**0.5),
    ),
    Fault("node in two micro-batches", faulty_mlp(training.NodeInTwoMicroBatches), NODE, "differential", short.constant(2.0)),
    Fault(
        "features standardised by private nodes", faulty_mlp(training.StandardisesByPrivateNodes), NODE, "differential", INFINITE
    ),
    Fault("epoch selected by private labels", faulty_mlp(training.SelectsEpochByPrivateLabels), NODE, "differential", INFINITE),
    Fault(
        "two modules charged as one",
        with_noise_of(gap_one_hop, NODE, training.OneOfTwoModulesCharged),
        NODE,
        "differential",
        against_true_ledger(lambda m: Gap(**vars(m)).ledger),
    ),
    Fault(
        "neighbour lists not capped",
        with_noise_of(dpar_many_lists, NODE, training.ListsNotCapped),
        NODE,
        "differential",
        of_model(lambda m: m.sources / m.cap),
    ),
    Fault(
        "PageRank vectors not clipped",
        with_noise_of(dpar, NODE, training.PageRankNotClipped),
        NODE,
        "differential",
        of_model(lambda m: 1 / m.source_clip),
    ),
)
