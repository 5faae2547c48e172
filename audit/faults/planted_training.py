"""The planted faults of trainings by DP-SGD. Each has occurred in real code."""

from functools import partial

from ...accounting import events
from ...models.gap.gap import Gap
from . import in_batches as batches
from . import in_training as training
from . import shortfall as short
from .fault import NODE, dpar, dpar_many_lists, faulty, gap_one_hop, mlp, mlp_large_clip, mlp_uneven_batches
from .shortfall import INFINITE, against_true_ledger, constant, of_model

in_mlp, in_uneven_batches, in_large_clip = (partial(faulty, recipe, NODE) for recipe in (mlp, mlp_uneven_batches, mlp_large_clip))
in_gap_one_hop, in_dpar, in_dpar_lists = (partial(faulty, recipe, NODE) for recipe in (gap_one_hop, dpar, dpar_many_lists))
of_partition = against_true_ledger(lambda m: events.dp_sgd_fixed(m.sigma, m.epochs))
of_gap = against_true_ledger(lambda m: Gap(**vars(m)).ledger)

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
