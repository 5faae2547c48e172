"""Experiments on PrivGNN (Olatunji, Funke and Khosla, TMLR 2023): the cost of noisy labels, and the released code."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting import closed_forms as mechanisms
from ....accounting.claim import Claim, Unit
from ....accounting.closed_forms import channel_epsilon
from ....models.graph.graph import Graph, Mask, Worlds
from ....models.privgnn import published as printed
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, along, bars, computed, confirmed
from ..finding import with_experiments

RATE, QUERIES, DELTA = 0.3, 1000, 1e-4


def argmax_probabilities(answers: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The probability that each answer is the largest after Laplace noise of this scale, by SciPy's quadrature. (c,) -> (c,)."""
    from scipy.integrate import quad

    def chance(j: int) -> float:
        others = [float(a) for a in np.delete(answers, j)]

        def density(t: float) -> float:
            below = math.exp(-abs(t - answers[j]) / scale) / (2 * scale)
            for a in others:
                tail = math.exp(-abs(t - a) / scale) / 2
                below *= tail if t < a else 1 - tail
            return below

        cuts = np.unique(np.concatenate([[answers.min() - 40 * scale, answers.max() + 40 * scale], answers]))
        return float(sum(quad(density, a, b, epsabs=1e-13, epsrel=1e-10)[0] for a, b in pairwise(cuts)))

    chances = np.array([chance(j) for j in range(answers.size)])
    return chances / chances.sum()


def argmax(scale: float) -> Certificate:
    """Computes the epsilon of one label of ten classes, from a teacher that is certain of one class or of another."""
    table = [argmax_probabilities(row, scale) for row in np.eye(10)[:2]]  # all pairs of corners cost the same
    libraries = {
        "closed form": mechanisms.noisy_argmax_epsilon(10, scale),
        "scipy quadrature, enumerated": channel_epsilon(table),
    }
    classes = np.array([2, 3, 4, 5, 7, 10, 15, 20, 30, 41])
    cost = along(classes, lambda c: mechanisms.noisy_argmax_epsilon(c, scale))
    summary = f"Ten classes, Laplace noise of scale {scale:.4g}: the worst two posteriors are two corners of the simplex."
    figure = Figure("classes", "epsilon of one label", {"exact": cost}, level=1.0)
    return confirmed(Claim(1.0, 0.0, Unit.NODE, exposes=("votes",)), libraries, summary, figure)


def two_classes(scale: float) -> tuple[float, float]:
    """The probabilities of the first class, with and without a node that decides the teacher's answer whenever it is sampled."""
    low = 1 - mechanisms.argmax_top_probability(2, scale)
    return (1 - RATE) * low + RATE * (1 - low), low


def table_delta(delta: float) -> Certificate:
    """Computes the epsilon at `delta` of 1,000 labels of two classes (data set Credit), lambda = 0.4: sampled coin flips."""
    claim = Claim(printed.privgnn_epsilon(0.4, RATE, QUERIES, 10 * DELTA), delta, Unit.NODE, exposes=("votes",))
    libraries = exact.coin_flips(*two_classes(1 / 0.4), QUERIES, delta)
    summary = f"1,000 labels of two classes, each from a fresh sample; exact at delta = {delta:g}."
    deltas = np.geomspace(1e-5, 1e-2, 13)
    costs = along(deltas, lambda d: exact.coin_flips_closed(*two_classes(1 / 0.4), QUERIES, d))
    figure = Figure("delta", "epsilon", {"1,000 labels": costs}, level=claim.epsilon, log="x")
    return confirmed(claim, libraries, summary, figure)


def theorem_7(repaired: bool) -> Certificate:
    """Computes the epsilon of 1,000 scalar Laplace queries of sensitivity 1, which the proof assumes, on fresh samples.

    repaired: the claim is the repaired theorem. Otherwise the claim is the printed theorem. lambda = 0.4.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    from ....accounting.upper.rdp import laplace_pair

    theorem = printed.privgnn_theorem_7_repaired if repaired else printed.privgnn_theorem_7
    claim = Claim(theorem(0.4, RATE, QUERIES, DELTA), DELTA, Unit.NODE)
    found = pld.from_laplace_mechanism(2.5, value_discretization_interval=1e-4, sampling_prob=RATE, **exact.ROUNDED_DOWN)
    pair = laplace_pair(2.5, 4000)
    upper, lower = np.array(pair.upper), np.array(pair.lower)
    mixed = (1 - RATE) * lower + RATE * upper
    loss = np.log(mixed / lower)
    libraries = {
        exact.LIBRARY: float(found.self_compose(QUERIES).get_epsilon_for_delta(DELTA)),
        exact.PRV: max(exact.convolved(loss, mixed, QUERIES, DELTA), exact.convolved(-loss, lower, QUERIES, DELTA)),
    }
    summary = "1,000 sampled Laplace queries, lambda = 0.4, sampling rate 0.3, delta = 1e-4: composed by two libraries."
    strengths = np.array([0.1, 0.2, 0.4, 0.8, 1.0])
    series = {
        "theorem 7": along(strengths, lambda s: printed.privgnn_theorem_7(s, RATE, QUERIES, DELTA)),
        "theorem 8, exact orders": along(strengths, lambda s: printed.privgnn_epsilon(s, RATE, QUERIES, DELTA)),
    }
    return confirmed(claim, libraries, summary, Figure("lambda", "epsilon", series, log="y"))


def single_sample(accounted: bool) -> Certificate:
    """Computes the epsilon of 1,000 labels of two classes from one sample and one teacher, lambda = 1.

    accounted: the claim is a proved upper bound for labels from one sample. Otherwise the claim is the printed epsilon.
    """
    from ....accounting.events.mechanisms import noisy_argmax, on_sampled_nodes
    from ....accounting.upper.tradeoff import curve

    each = mechanisms.noisy_argmax_epsilon(2, 1.0)
    proved = mechanisms.amplified(mechanisms.composed_pure_epsilon(each, QUERIES, DELTA / RATE), RATE) * (1 + 1e-6)
    claim = Claim(
        proved if accounted else printed.privgnn_epsilon(1.0, RATE, QUERIES, DELTA), DELTA, Unit.NODE, exposes=("votes",)
    )
    ledger = on_sampled_nodes(RATE, noisy_argmax(2, 1.0, 1.0, QUERIES))
    libraries = {exact.CLOSED: one_sample(each, QUERIES), "dp_accounting": curve(ledger, interval=1e-3).epsilon(DELTA)}
    summary = "1,000 labels from one teacher: if the node was sampled, it influences all of them."
    counts = np.array([10, 30, 100, 300, 1000])
    stated = along(counts, lambda n: printed.privgnn_epsilon(1.0, RATE, n, DELTA))
    series = {"printed": stated, "exact": along(counts, lambda n: one_sample(each, n))}
    return confirmed(claim, libraries, summary, Figure("labels", "epsilon", series, log="xy"))


def one_sample(each: float, labels: int) -> float:
    """The epsilon of labels of pure epsilon `each`, from one teacher on one sample: composed first, amplified last."""
    return exact.amplified(lambda e: mechanisms.composed_pure_delta(each, labels, e), RATE, DELTA)


def worlds(key: Key, world: int) -> Worlds:
    """One world of a graph of 30 private and 40 public nodes, with private node 0 if `world` is 1.

    Every query has the features of node 0. The three private nodes with the most similar features have the other label.
    """
    rng, nodes = key.fold("graph").generator(), 70
    x = rng.standard_normal((nodes, 6)).astype(np.float32)
    y = rng.integers(2, size=nodes)
    train = np.arange(nodes) < 30
    val = (np.arange(nodes) >= 30) & (np.arange(nodes) < 50)
    x[val] = x[0]
    near = np.argsort(((x[1:30] - x[0]) ** 2).sum(1))[:3] + 1
    y[near], y[0] = 0, 1
    edges = np.unique(np.sort(rng.integers(30, nodes, (80, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]].T.copy()
    graph = Graph(x, y, edges, train, val, ~train & ~val, classes=2)
    return Worlds(graph, key.seeds(0, 1), np.arange(nodes), nodes=Mask(np.array([0]), np.array([[bool(world)]])))


def recipe(**fields: Any) -> Any:
    from ....models.privgnn.privgnn import PrivGnn

    return PrivGnn(
        mode="paper", queries=10, neighbours=3, rate=1.0, hidden=8, epochs=60, student_epochs=20, dropout=0.0, **fields
    )


def log_probabilities(key: Key, as_coded: bool) -> Certificate:
    """Computes epsilon from the answers of trained teachers with and without a private node; lambda = 1, no sampling.

    as_coded: whether noise is added to log-probabilities, as in the code, and not to probabilities.
    """
    model = recipe(sigma=1.0, as_coded=as_coded)
    both = [model.teachers(worlds(key, world)).answers[0].astype(float) for world in (0, 1)]
    answers = both if as_coded else [np.exp(b) for b in both]
    costs = [channel_epsilon([argmax_probabilities(a, 1.0), argmax_probabilities(b, 1.0)]) for a, b in zip(*answers, strict=True)]
    worst = int(np.argmax(costs))
    swing = float(np.abs((answers[1] - answers[0])[worst]).sum())
    what = "log-probabilities" if as_coded else "probabilities"
    summary = f"The node moves the teacher's {what} by {swing:.2f} in L1 at the worst of ten queries; the claim allows 1."
    figure = bars("epsilon of one label", {str(i): cost for i, cost in enumerate(costs)}, "queries", level=1.0)
    return computed(Claim(1.0, 0.0, Unit.NODE, exposes=("votes",)), max(costs), summary, figure, "enumeration")


def optimiser(key: Key, as_coded: bool) -> Certificate:
    """Compares the students of two private sets at equal seeds and equal noisy labels. They must be equal.

    as_coded: one optimiser, which is never reset, trains the teachers and the student, as in the code.
    """
    model = recipe(sigma=1e7, as_coded=as_coded)  # the noise alone decides the labels, so they do not depend on the private set
    releases = [model.fit(worlds(key, world)) for world in (0, 1)]
    same = bool((releases[0]["votes"] == releases[1]["votes"]).all())
    apart = float(np.abs(releases[0]["posteriors"] - releases[1]["posteriors"]).max())
    summary = f"Labels equal: {'yes' if same else 'no'}. The student's log-probabilities differ by {apart:.2g}."
    figure = bars("difference of log-probabilities", {"two private sets": apart}, "student")
    epsilon = math.inf if same and apart > 1e-5 else 0.0
    return computed(Claim(1.0, DELTA, Unit.NODE), epsilon, summary, figure, "replay")


def fixed_size(key: Key) -> Certificate:
    """Compares the upper bounds on epsilon for samples of fixed size and for Poisson samples."""
    strengths = np.array([0.1, 0.2, 0.4, 0.8, 1.0])
    poisson = along(strengths, lambda s: printed.privgnn_epsilon(s, RATE, QUERIES, DELTA))
    fixed = along(strengths, lambda s: printed.fixed_size_epsilon(s, RATE, QUERIES, DELTA))
    bounds = f"{fixed[1][-1]:.0f}, and that for Poisson samples {poisson[1][-1]:.0f}"
    summary = f"At lambda = 1 the bound for samples of fixed size is {bounds}."
    series = {"Poisson samples": poisson, "fixed size, replaced node": fixed}
    return computed(Claim(81.23, DELTA, Unit.NODE), 0.0, summary, Figure("lambda", "bound on epsilon", series, log="y"), "bounds")


def pate_reset(key: Key) -> Certificate:
    """States the accuracy that the code implies for a trained teacher and for a teacher that was reset. Nothing is run."""
    accuracy = {"teachers as trained": ((".",), np.array([0.99])), "teachers as queried": ((".",), np.array([1 / 3]))}
    summary = "From reading the code: training the next teacher resets the stored one, which then answers at chance."
    return computed(
        Claim(1.0, DELTA, Unit.NODE), 0.0, summary, Figure("", "accuracy implied by the code", accuracy, "bars"), "reading"
    )


PRIVGNN = with_experiments(
    "privgnn.toml",
    {
        "privgnn-noisy-argmax": (lambda key: argmax(1.0), lambda key: argmax(1.2)),
        "privgnn-delta": (lambda key: table_delta(DELTA), lambda key: table_delta(10 * DELTA)),
        "privgnn-theorem-7": (lambda key: theorem_7(False), lambda key: theorem_7(True)),
        "privgnn-single-gnn": (lambda key: single_sample(False), lambda key: single_sample(True)),
        "privgnn-log-probabilities": (lambda key: log_probabilities(key, True), lambda key: log_probabilities(key, False)),
        "privgnn-shared-optimiser": (lambda key: optimiser(key, True), lambda key: optimiser(key, False)),
        "privgnn-fixed-size-sample": (fixed_size, None),
        "privgnn-pate-baseline": (pate_reset, None),
    },
)
