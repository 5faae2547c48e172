"""Planted privacy faults: real recipes, each broken in one way that really happened somewhere, with what must catch it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting import events
from ...accounting.claim import Claim, Relation, Unit
from ...accounting.events.counts import unsampled
from ...accounting.events.tree import scaled
from ...accounting.lower.finite_channels import channel_epsilon
from ...accounting.upper import rdp
from ...accounting.upper.calibration import calibrate
from ...models.baselines.edgerand import EdgeRand
from ...models.dpar.dpar import Dpar
from ...models.facts import Facts
from ...models.gap.gap import Gap
from ...models.gap.mlp import Mlp
from ...models.gap.progap import ProGap
from ...models.graph.graph import Worlds
from ...models.lpgnn.lpgnn import Lpgnn
from ...models.privgnn.privgnn import PrivGnn
from ...models.vesper.vesper import Vesper
from . import in_reports as local
from . import in_sums as sums
from . import in_training as training

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ...models.graph.graph import Graph

Recipe = Callable[[Facts], Any]  # before its noise is set
Factory = Callable[[Facts], Any]  # with its noise
Kappa = Callable[[Any, "Graph"], float]
EDGE = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
ARC = dataclasses.replace(EDGE, unit=Unit.DIRECTED_EDGE)
SLIGHT = dataclasses.replace(EDGE, epsilon=0.5)
LAX = dataclasses.replace(EDGE, epsilon=16.0)  # kept by a sigma below one
NODE = Claim(4.0, 1e-5, Unit.NODE)
LOCAL = Claim(2.0, 0.0, Unit.FEATURES, Relation.REPLACE)
VOTES = Claim(2.0, 0.0, Unit.NODE)


@dataclass(frozen=True)
class Fault:
    """name: what is wrong. caught_by: an audit, or "account", which holds the ledger against the claim.

    kappa(model, graph): by how much the noise is too small for the claim, computed from what the recipe does; infinite where no
    noise would do; None for honest recipes. undetectable: sampling cannot see it, and the harness says so.
    """

    name: str
    model: Callable[[Facts], Any]
    claim: Claim
    caught_by: str
    kappa: Kappa | None = None
    undetectable: bool = False


def broken(honest: Recipe, claim: Claim, kind: type[Any], **fields: Any) -> Factory:
    """A fault's model with the noise that the honest recipe is calibrated to."""

    def make(facts: Facts) -> Any:
        calibrated = calibrate(honest(facts), claim)
        same = {f.name: getattr(calibrated, f.name) for f in dataclasses.fields(calibrated)}
        return kind(**{**same, **fields})

    return make


def itself(recipe: Recipe, claim: Claim) -> Factory:
    """Calibrated by its own accounting, right or wrong."""
    return lambda facts: calibrate(recipe(facts), claim)


def gap(facts: Facts) -> Any:
    return Gap()


def published(facts: Facts) -> Any:
    return Gap(mode="paper")


def private_training(facts: Facts) -> dict[str, Any]:
    """DP-SGD on every training node, in ten epochs of about five batches; the norm is one that every gradient reaches."""
    return {"unit": Unit.NODE, "train_nodes": facts.train, "batch": facts.train // 5, "epochs": 10, "clip": 0.1}


def mlp(facts: Facts) -> Any:
    return Mlp(**private_training(facts))


def uneven(facts: Facts) -> Any:
    """A batch that does not divide the number of nodes."""
    return Mlp(**{**private_training(facts), "batch": facts.train * 4 // 15})


def for_nodes(facts: Facts) -> Any:
    return Gap(**{**private_training(facts), "max_degree": facts.nodes, "clip": 1.0})


def few_neighbours(facts: Facts) -> Any:
    return dataclasses.replace(for_nodes(facts), max_degree=4)


def one_hop(facts: Facts) -> Any:
    return dataclasses.replace(for_nodes(facts), hops=1)


def dpar(facts: Facts) -> Any:
    return Dpar(train_nodes=facts.train, batch=facts.train // 5, epochs=4)


def many_lists(facts: Facts) -> Any:
    """Every node stands in about eight lists, all of which are trained on in every step."""
    return Dpar(train_nodes=facts.train, epochs=4, sources=facts.train, picks=8, clip=0.01)


def taught(kind: type[Any] = PrivGnn, **fields: Any) -> Recipe:
    return lambda facts: kind(queries=20, classes=facts.classes, epochs=20, student_epochs=20, **fields)


def summing(kind: type[Any], **fields: Any) -> Factory:
    return broken(gap, EDGE, kind, **fields)


def learning(kind: type[Any]) -> Factory:
    return broken(mlp, NODE, kind)


def reporting(kind: type[Any]) -> Factory:
    return broken(lambda facts: Lpgnn(), LOCAL, kind)


def quiet(share: Callable[[float], float], claim: Claim = EDGE) -> Factory:
    """Adds this share of the noise, a function of sigma."""

    def make(facts: Facts) -> Any:
        honest = calibrate(Gap(), claim)
        return dataclasses.replace(sums.Quiet(share=share(honest.sigma)), sigma=honest.sigma)

    return make


def constant(value: float) -> Kappa:
    return lambda model, graph: value


def of_model(value: Callable[[Any], float]) -> Kappa:
    return lambda model, graph: float(value(model))


def by_noise(honest: Recipe, claim: Claim) -> Kappa:
    """What honest accounting would have given, over what there is."""
    return lambda model, graph: float(calibrate(honest(Facts.of(graph)), claim).sigma / model.sigma)


def by_ledger(true: Callable[[Any], DpEvent], claim: Claim = NODE) -> Kappa:
    """The factor at which the declared ledger costs what was really run, both by RDP."""

    def kappa(model: Any, graph: Graph) -> float:
        target, low, high = rdp.epsilon(true(model), claim.delta), 1.0, 64.0
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if rdp.epsilon(scaled(model.ledger, middle), claim.delta) < target else (low, middle)
        return high

    return kappa


def longest_row(model: Any, graph: Graph) -> float:
    """Rows should have length one: the root of the mean of the squared longest rows, over hops."""
    release = dataclasses.replace(model, keep=("aggregates", "inputs")).fit(Worlds.of(graph, [1]))
    return float(np.sqrt((np.square(release["inputs"]).sum(3).max((0, 2))).mean()))


def rows_let_in(model: Any, graph: Graph) -> float:
    """Without one edge, two rows should change: the root of how many do over two, for the worst of a hundred edges."""
    present = np.ones((101, graph.edges.shape[1]), dtype=bool)
    present[np.arange(1, 101), np.linspace(0, present.shape[1] - 1, 100).astype(int)] = False
    kept = np.stack([model.bounded(graph, p) for p in present])
    ends = [set(graph.edges[:, row != kept[0]].ravel().tolist()) for row in kept[1:]]
    return math.sqrt(max(len(e) for e in ends) / 2)


def in_own_row(model: Any, graph: Graph) -> float:
    """A node's own row holds as many rows as it has neighbours, beside the max_degree rows that hold its own."""
    return math.sqrt(1 + float(graph.degree.max()) ** 2 / model.max_degree)


def by_enumeration(model: Any, graph: Graph) -> float:
    spent = sum(copies * channel_epsilon(matrix) for matrix, copies in model.channels(graph.dim, graph.classes))
    return spent / (VOTES if model.unit is Unit.NODE else LOCAL).epsilon


def more_steps(model: Any) -> DpEvent:
    steps = model.epochs * -(-model.train_nodes // model.batch)
    return events.dp_sgd(model.sigma, model.batch / model.train_nodes, steps)


def in_pairs(model: Any) -> DpEvent:
    """Who joins a batch of fixed size displaces another, whose gradient may be the opposite."""
    steps = model.epochs * (model.train_nodes // model.batch)
    return events.dp_sgd(model.sigma / 2, model.batch / model.train_nodes, steps)


def one_draw(model: Any) -> DpEvent:
    """One draw of batches for all epochs: a batch is drawn once, and what is done with it is composed before it is amplified."""
    batches, rate = model.train_nodes // model.batch, model.batch / model.train_nodes
    return events.repeated(events.on_sampled_nodes(rate, events.gaussian_hops(model.sigma, model.epochs)), batches)


def of_degree(model: Any, graph: Graph) -> float:
    """The root of how many more neighbours a training node has than the noise is for."""
    return math.sqrt(float(graph.degree[graph.train].max()) / model.max_degree)


def undivided(model: Any, graph: Graph) -> float:
    """Two features at the whole budget each, and the label, over what is claimed."""
    return (2 * model.feature_budget + model.label_budget) / LOCAL.epsilon


ENDLESS = constant(math.inf)
ROOT_TWO = constant(math.sqrt(2))
ONE_HOP_MORE = of_model(lambda m: (m.hops / (m.hops - 1)) ** 0.5)
QUIETER = of_model(lambda m: 1 / m.share)

FAULTS = (
    Fault("half the noise", summing(sums.Quiet), EDGE, "game", QUIETER),
    Fault("10 % less noise", summing(sums.Quiet, share=0.9), EDGE, "residual", QUIETER),
    Fault("the root of sigma where sigma was meant", quiet(lambda s: s**-0.5), EDGE, "game", QUIETER),
    Fault("the square of sigma where sigma was meant", quiet(lambda s: s, LAX), LAX, "game", QUIETER),
    Fault("a noise multiplier taken for a noise std", quiet(lambda s: 0.5**0.5), EDGE, "residual", QUIETER),
    Fault("an undirected edge counted as one arc, by replay", itself(published, ARC), EDGE, "replay", ROOT_TWO),
    Fault("an undirected edge counted as one arc, by the game", itself(published, ARC), EDGE, "game", ROOT_TWO),
    Fault("rows not brought to length one", summing(sums.Unscaled), EDGE, "replay", longest_row),
    Fault("rows of the first hop not brought to length one", summing(sums.Unscaled, hops_wrong=1), EDGE, "replay", longest_row),
    Fault("rows brought to length one after they were summed", summing(sums.ScalesAfterwards), EDGE, "replay", longest_row),
    Fault("noise of the first hop used again", summing(sums.Reuses), EDGE, "residual", ENDLESS),
    Fault("one row of noise added to every row", summing(sums.Broadcasts), EDGE, "residual", ENDLESS),
    Fault("noise on every other column", summing(sums.HalfColumns), EDGE, "residual", ENDLESS),
    Fault("noise seeded by the private edges", summing(sums.Peeks), EDGE, "replay", ENDLESS),
    Fault("one seed in the code for every run", summing(sums.FixedSeed), EDGE, "differential", ENDLESS),
    Fault("degrees bounded greedily: one edge less lets others in", summing(sums.GreedyBound), EDGE, "replay", rows_let_in),
    Fault("messages of any length", broken(lambda f: Vesper(), EDGE, sums.LongRows), EDGE, "differential", ENDLESS),
    Fault("the protected node's own sums released", broken(for_nodes, NODE, sums.OwnRow), NODE, "differential", in_own_row),
    Fault(
        "a number of neighbours that nobody holds to",
        broken(few_neighbours, NODE, training.UncheckedDegrees),
        NODE,
        "differential",
        of_degree,
    ),
    Fault("one hop fewer in the ledger, by the game", itself(lambda f: sums.Uncounted(), EDGE), EDGE, "game", ONE_HOP_MORE),
    Fault(
        "one hop fewer in the ledger, by counting", itself(lambda f: sums.Uncounted(), EDGE), EDGE, "differential", ONE_HOP_MORE
    ),
    Fault("fresh sums for predictions, not charged", summing(sums.SumsAgain), EDGE, "differential", ROOT_TWO),
    Fault("sums without noise in a log", summing(sums.Logs), EDGE, "differential", ENDLESS),
    Fault("more steps than charged", broken(uneven, NODE, training.ExtraSteps), NODE, "differential", by_ledger(more_steps)),
    Fault("batches of one size, taken for coins", learning(training.FixedSize), NODE, "differential", by_ledger(in_pairs)),
    Fault(
        "shuffled batches, taken for coins",
        learning(training.Shuffles),
        NODE,
        "differential",
        by_ledger(lambda m: events.dp_sgd_fixed(m.sigma, m.epochs)),
    ),
    Fault(
        "the same batches in every epoch", broken(uneven, NODE, training.SameBatches), NODE, "differential", by_ledger(one_draw)
    ),
    Fault("the same noise in every epoch", learning(training.SameNoise), NODE, "differential", ENDLESS),
    Fault("divided by the private size of the batch", learning(training.PrivateSize), NODE, "differential", constant(2.0)),
    Fault("a clipping norm that is ignored", learning(training.Unclipped), NODE, "differential", ENDLESS),
    Fault("a clipping norm that is ignored, by a canary", learning(training.Unclipped), NODE, "gradients", ENDLESS),
    Fault("the mean clipped", learning(training.ClipsTheMean), NODE, "differential", of_model(lambda m: 2 * m.batch - 1)),
    Fault(
        "noise for the mean, on the sum", learning(training.NoiseForTheMean), NODE, "differential", of_model(lambda m: m.batch)
    ),
    Fault("every layer clipped by itself", learning(training.ByLayer), NODE, "differential", of_model(lambda m: m.layers**0.5)),
    Fault("a node in two micro-batches", learning(training.TwoMicroBatches), NODE, "differential", constant(2.0)),
    Fault("features scaled by private means", learning(training.Standardises), NODE, "differential", ENDLESS),
    Fault("the best epoch by private labels, logged", learning(training.ChoosesByPrivateLabels), NODE, "differential", ENDLESS),
    Fault(
        "two modules charged as one",
        broken(one_hop, NODE, training.OneModuleCounted),
        NODE,
        "differential",
        by_ledger(lambda m: Gap(**vars(m)).ledger),
    ),
    Fault(
        "lists not cut to the cap",
        broken(many_lists, NODE, training.Uncapped),
        NODE,
        "differential",
        of_model(lambda m: m.sources / m.cap),
    ),
    Fault(
        "PageRank vectors not clipped",
        broken(dpar, NODE, training.LongVectors),
        NODE,
        "differential",
        of_model(lambda m: 1 / m.source_clip),
    ),
    Fault("the whole budget on each of two features", reporting(local.EveryBit), LOCAL, "exact", by_enumeration),
    Fault("the whole budget on features and on the label", reporting(local.BothWhole), LOCAL, "exact", by_enumeration),
    Fault("label coins for two classes used for more", reporting(local.BinaryLabels), LOCAL, "exact", by_enumeration),
    Fault(
        "the whole budget on each of two features, not declared", reporting(local.ForgetsToDivide), LOCAL, "reports", undivided
    ),
    Fault("the range of features taken from the users", reporting(local.PrivateRange), LOCAL, "differential", ENDLESS),
    Fault(
        "a coin for each direction of an edge, charged once",
        itself(lambda f: EdgeRand(mode="paper", nodes=f.nodes), ARC),
        EDGE,
        "entries",
        constant(2.0),
    ),
    Fault(
        "one vote for what moves a margin by two",
        itself(lambda f: local.OneVote(queries=4), VOTES),
        VOTES,
        "exact",
        by_enumeration,
    ),
    Fault("noise for shares, on their logarithms", broken(taught(), NODE, local.OnLogarithms), NODE, "differential", ENDLESS),
    Fault(
        "nobody sampled, and the sample charged",
        broken(taught(), NODE, local.NobodySampled),
        NODE,
        "differential",
        by_ledger(lambda m: unsampled(m.ledger)),
    ),
    Fault(
        "only half of the queries charged",
        itself(taught(local.HalfCharged), NODE),
        NODE,
        "differential",
        by_ledger(lambda m: PrivGnn(**vars(m)).ledger),
    ),
    Fault("queries screened before the noise", broken(taught(), NODE, local.Screens), NODE, "differential", ENDLESS),
    Fault(
        "ten times the delta", itself(gap, dataclasses.replace(EDGE, delta=10 * EDGE.delta)), EDGE, "account", by_noise(gap, EDGE)
    ),
    Fault("epsilon in powers of ten", itself(lambda f: local.InDigits(), EDGE), EDGE, "account", by_noise(gap, EDGE)),
    Fault(
        "a search that is content with a little too much",
        itself(gap, dataclasses.replace(SLIGHT, epsilon=SLIGHT.epsilon + 1e-3)),
        SLIGHT,
        "account",
        by_noise(gap, SLIGHT),
    ),
    Fault(
        "small divergences taken for none",
        itself(lambda f: local.SmallIsNothing(**private_training(f)), NODE),
        NODE,
        "account",
        by_noise(mlp, NODE),
    ),
    Fault(
        "amplification by multiplying",
        itself(taught(local.AmplifiesTooMuch, single=True), NODE),
        NODE,
        "account",
        by_noise(taught(single=True), NODE),
    ),
    Fault("no noise once in a million runs", summing(sums.Rare), EDGE, "game", undetectable=True),
)
HONEST = (
    Fault("GAP, sound", itself(gap, EDGE), EDGE, "replay"),
    Fault("GAP, sound", itself(gap, EDGE), EDGE, "residual"),
    Fault("GAP, sound", itself(gap, EDGE), EDGE, "game"),
    Fault("GAP, sound", itself(gap, EDGE), EDGE, "differential"),
    Fault("GAP, sound", itself(gap, EDGE), EDGE, "account"),
    Fault("GAP as published, for a directed edge", itself(published, ARC), ARC, "game"),
    Fault("GAP, sound, for a node", itself(for_nodes, NODE), NODE, "differential"),
    Fault("ProGAP, sound", itself(lambda f: ProGap(depth=2), EDGE), EDGE, "differential"),
    Fault("VESPER, sound", itself(lambda f: Vesper(), EDGE), EDGE, "differential"),
    Fault("DP-MLP, sound", itself(mlp, NODE), NODE, "differential"),
    Fault("DP-MLP, sound", itself(mlp, NODE), NODE, "gradients"),
    Fault("DPAR, sound", itself(dpar, NODE), NODE, "differential"),
    Fault("PrivGNN, sound", itself(taught(), NODE), NODE, "differential"),
    Fault("EdgeRand, sound", itself(lambda f: EdgeRand(), EDGE), EDGE, "entries"),
    Fault("PATE, sound", itself(lambda f: local.Votes(queries=4), VOTES), VOTES, "exact"),
    Fault("LPGNN, sound", itself(lambda f: Lpgnn(), LOCAL), LOCAL, "exact"),
    Fault("LPGNN, sound", itself(lambda f: Lpgnn(), LOCAL), LOCAL, "differential"),
)
