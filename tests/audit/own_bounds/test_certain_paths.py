"""Arrays that depend on a secret although every noisy value of the run is the same: when this proves an infinite epsilon."""

import dataclasses
import math
import re

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.certain_paths import equal
from gnnaudit.audit.recorded.playing import Cell, Play
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
EPSILON, BITS = 6.0, 8


def dense(graph):
    return graph.x.toarray() if hasattr(graph.x, "toarray") else np.asarray(graph.x)


def flipped(graph, rng):
    """Eight bits of each node by randomised response, with EPSILON nats for all of them."""
    chance = 1 / (1 + math.exp(EPSILON / BITS))
    bits = dense(graph)[:, :BITS] > 0.5
    return bits ^ (rng.random(bits.shape) < chance)


def averages(values, groups, count):
    return np.array([values[groups == c].mean(0) if (groups == c).any() else np.zeros(values.shape[1]) for c in range(count)])


def true_labels(graph, rng):
    """The class means of the reported bits, by the true labels: a function of the release's bits and of secrets."""
    bits = flipped(graph, rng)
    return {"bits": bits.astype(np.int8), "means": averages(bits.astype(float), graph.y, graph.classes)}


def bits_not_released(graph, rng):
    return {"means": true_labels(graph, rng)["means"]}


def bits_released_in_part(graph, rng):
    found = true_labels(graph, rng)
    return found | {"bits": found["bits"][:, 1:]}


def public_groups(graph, rng):
    """An honest function of the reported bits."""
    bits = flipped(graph, rng)
    groups = np.arange(graph.nodes) % graph.classes
    return {"bits": bits.astype(np.int8), "means": averages(bits.astype(float), groups, graph.classes)}


def exact_mean(graph, rng):
    """The bits, and the mean of the last feature without noise."""
    return {"bits": flipped(graph, rng).astype(np.int8), "means": dense(graph)[:, -1:].mean(0)}


def rarely_flipped(graph, rng):
    """The bits, and whether node 3 has its last feature, which a coin of probability .02 turns round; coins in an `if`."""
    one = dense(graph)[3, -1] > 0.5
    if rng.random() < 0.02:
        one = not one
    return {"bits": flipped(graph, rng).astype(np.int8), "means": np.array([float(one)])}


def hidden_noise(graph, rng):
    """The bits, and all last features, of which coins that index the array turn a few round."""
    last = dense(graph)[:, -1] > 0.5
    coins = rng.random(graph.nodes) < 0.02
    last[coins] = ~last[coins]
    return {"bits": flipped(graph, rng).astype(np.int8), "means": last.astype(float)}


def share_beside_a_count(graph, rng):
    """A noisy count of the edges, which is large, and the exact share of edges within a class, which is small, in one array."""
    send, receive = graph.arcs
    same = float((graph.y[send] == graph.y[receive]).sum() / max(len(send), 1))
    return {"statistics": np.array([1e4 + len(send) + rng.normal(0.0, 2.0), same])}


def noisy_counts(graph, rng):
    """How many neighbours of each class each node has, with noise of scale 2."""
    send, receive = graph.arcs
    counts = np.zeros((graph.nodes, graph.classes))
    np.add.at(counts, (receive, graph.y[send]), 1.0)
    return counts, rng.normal(0.0, 2.0, counts.shape)


def rows_without_noise(rows):
    def release(graph, rng):
        counts, noise = noisy_counts(graph, rng)
        noise[rows] = 0.0
        return {"table": np.tanh((counts + noise) / 50)}

    return release


def hubs_without_noise(graph, rng):
    """The rows of nodes with more neighbours than any node of GRAPH has have no noise."""
    counts, noise = noisy_counts(graph, rng)
    noise[np.bincount(graph.arcs[0], minlength=graph.nodes) > np.bincount(GRAPH.arcs[0]).max()] = 0.0
    return {"table": np.tanh((counts + noise) / 50)}


def rows_with_rare_noise(graph, rng):
    """A fifth of the rows has no noise but a coin of probability .02, in an `if`, that adds 1 to all of them."""
    counts, noise = noisy_counts(graph, rng)
    noise[::5] = 0.0
    found = np.tanh((counts + noise) / 50)
    if rng.random() < 0.02:
        found[::5] += 1
    return {"table": found}


def best_epoch(graph, rng, true=True):
    """Steps on reported bits and labels; kept is the step that agrees with most of the true labels of the validation nodes."""
    bits = flipped(graph, rng)
    told = np.where(rng.random(graph.nodes) < 0.5, rng.integers(graph.classes, size=graph.nodes), graph.y)
    inputs, targets = bits.astype(float), np.eye(graph.classes)[told]
    weights, best, kept = np.zeros((BITS, graph.classes)), -1.0, None
    for _ in range(12):
        weights = weights + 0.5 / graph.nodes * inputs.T @ (targets - inputs @ weights)
        right = (inputs @ weights).argmax(1) == (graph.y if true else told)
        score = right[graph.val].mean() if graph.val.any() else 0.0
        if score > best:
            best, kept = score, weights
    return {"bits": bits.astype(np.int8), "labels": told, "scores": inputs @ kept}


def best_epoch_by_reports(graph, rng):
    """An honest function of the reports."""
    return best_epoch(graph, rng, true=False)


def outcome(release, tmp_path, unit=Unit.FEATURES, key="paths", epsilon=EPSILON):
    def train(graph, seed):
        return release(graph, np.random.default_rng(seed))

    arrays = tuple(train(GRAPH, 0))
    claim = Claim(epsilon, 0.0 if unit is Unit.FEATURES else 1e-5, unit)
    case = Case(Looped(train, unit=claim.unit, releases=arrays), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key(key), 2, 1e-4))


@pytest.mark.parametrize("key", ["a", *nightly(*"bcdefgh")])
@pytest.mark.parametrize("release", [best_epoch, best_epoch_by_reports])
def test_a_step_that_private_labels_choose_is_refuted_though_few_secrets_change_the_choice(release, key, tmp_path):
    labels = math.log((0.5 + 0.5 / GRAPH.classes) / (0.5 / GRAPH.classes))
    found = outcome(release, tmp_path, key=key, epsilon=EPSILON + labels)
    assert any(b.refuted and math.isinf(b.epsilon) for b in found.bounds) is (release is best_epoch)


@pytest.mark.parametrize("release", [true_labels, *nightly(exact_mean)])
def test_a_function_of_secrets_and_of_released_reports_is_refuted_without_limit(release, tmp_path):
    (bound,) = [b for b in outcome(release, tmp_path).bounds if b.refuted]
    assert bound.epsilon == math.inf
    assert "means" in bound.method


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("release", nightly(bits_not_released, bits_released_in_part))
def test_a_mean_that_is_zero_for_an_empty_class_is_refuted_without_limit(release, tmp_path):
    """If all nodes but one are equal, the class of this one is empty or not, and only a mean over a node can differ from 0."""
    (bound,) = [b for b in outcome(release, tmp_path).bounds if b.refuted]
    assert bound.epsilon == math.inf
    assert "in one of the two worlds nothing random changes them" in bound.method


@pytest.mark.parametrize("release", [public_groups, *nightly(hidden_noise, rarely_flipped)])
def test_arrays_that_other_noise_may_cover_are_not_refuted(release, tmp_path):
    assert not any(b.refuted for b in outcome(release, tmp_path).bounds)


FIFTH, ONE = rows_without_noise(slice(None, None, 5)), rows_without_noise([GRAPH.edges[0, 200]])


@pytest.mark.parametrize("release", [FIFTH, *nightly(ONE, hubs_without_noise)])
def test_rows_without_noise_beside_rows_with_noise_are_refuted_without_limit(release, tmp_path):
    (bound,) = [b for b in outcome(release, tmp_path, Unit.UNDIRECTED_EDGE).bounds if b.refuted]
    assert bound.epsilon == math.inf
    assert "no draw changes them" in bound.method
    assert re.search(r"the first result that differs comes from test_certain_paths\.py, line \d+", bound.method)


def test_a_small_number_without_noise_is_refuted_beside_large_numbers(tmp_path):
    (bound,) = [b for b in outcome(share_beside_a_count, tmp_path, Unit.UNDIRECTED_EDGE).bounds if b.refuted]
    assert bound.epsilon == math.inf
    assert "1 entry of 'statistics'" in bound.method


@pytest.mark.parametrize("release", [rows_without_noise([]), *nightly(rows_with_rare_noise)])
def test_rows_that_noise_covers_in_some_runs_are_not_refuted_without_limit(release, tmp_path):
    assert not any(math.isinf(b.epsilon) for b in outcome(release, tmp_path, Unit.UNDIRECTED_EDGE).bounds)


@pytest.mark.parametrize(("kind", "shown"), [(np.float32, True), (np.float64, True), (np.int64, False)])
def test_a_release_of_whole_numbers_does_not_show_the_noisy_values_that_they_were_cut_from(kind, shown):
    noisy, cell = np.array([1.25, 7.5]), Cell("counts")
    assert equal(noisy, Play({cell: noisy.astype(kind).astype(float)}, [], kinds={cell: np.dtype(kind)}), cell) == shown


SIGMA, BEYOND = 4.0, 6.0  # P(|noise| > 6 sigma) = 2e-9


def count_and_flag(graph, seed):
    """The number of edges with noise, and whether the noise is beyond 6 sigma. The flag costs a delta of 2e-9."""
    exact = graph.edges.shape[1]
    noisy = exact + SIGMA * np.random.default_rng(seed).standard_normal(1)
    return {"count": noisy, "flag": (np.abs(noisy - exact) > BEYOND * SIGMA).astype(float)}


def count_and_noise_of_two_sizes(graph, seed):
    """The number of edges with noise, and noise that is ten times as large if the first noise is beyond 6 sigma."""
    rng, exact = np.random.default_rng(seed), graph.edges.shape[1]
    noisy = exact + SIGMA * rng.standard_normal(1)
    size = np.where(np.abs(noisy - exact) > BEYOND * SIGMA, 10.0, 1.0)
    return {"count": noisy, "flag": np.zeros(5) + size * rng.standard_normal(5)}


def count_and_rarely_more(graph, seed):
    """The number of edges with noise, and noise on a number that is 0 unless the first noise is beyond 6 sigma."""
    rng, exact = np.random.default_rng(seed), graph.edges.shape[1]
    noisy = exact + SIGMA * rng.standard_normal(1)
    rarely = 100.0 * (2000 - exact) * (np.abs(noisy - exact) > BEYOND * SIGMA)
    return {"count": noisy, "flag": rarely + rng.standard_normal(1)}


def many_edges(graph, seed):
    """The number of edges with noise, and whether the exact number is above 200: false of the claim at every epsilon."""
    exact = graph.edges.shape[1]
    return {"count": exact + SIGMA * np.random.default_rng(seed).standard_normal(1), "flag": np.array([float(exact > 200)])}


@pytest.mark.parametrize("seed", [0, *nightly(1, 2)])
@pytest.mark.parametrize(
    ("train", "delta", "refuted"),
    [
        (count_and_flag, 1e-5, False),
        (count_and_flag, 0.0, True),  # a Gaussian claim of delta = 0 is false without the flag too
        (count_and_noise_of_two_sizes, 1e-5, False),
        (count_and_rarely_more, 1e-5, False),
        (many_edges, 1e-5, True),
    ],
)
def test_what_hardly_any_noise_does_in_any_graph_refutes_no_claim_with_a_larger_delta(train, delta, refuted, seed, tmp_path):
    """Without 24 edges, a noisy number of all edges lies 6 sigma from the exact one, which no run on that graph would show."""
    model = Looped(train, releases=("count", "flag"), events=dp.GaussianDpEvent(SIGMA), unit=Unit.UNDIRECTED_EDGE)
    case = Case(model, Claim(1.2, delta, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rare", seed), 3, 1e-4))
    assert any(b.refuted for b in found.bounds) == refuted


def test_what_a_secret_moves_in_rare_runs_only_is_not_said_to_be_tested(tmp_path):
    model = Looped(count_and_rarely_more, releases=("count", "flag"), events=dp.GaussianDpEvent(SIGMA), unit=Unit.UNDIRECTED_EDGE)
    case = Case(model, Claim(1.2, 1e-5, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rare", 0), 3, 1e-4))
    assert set(found.covers or ()) == {"count"}


def by_size(graph, rng):
    """Honest: each class gets noise of its own, and the exact sizes decide which class gets it first."""
    sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
    counts = np.zeros(graph.classes)
    for c in np.argsort(-sizes, kind="stable"):
        counts[c] = sizes[c] + rng.laplace(0, 1.0)
    return {"counts": counts}


def by_size_and_the_order(graph, rng):
    sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
    return by_size(graph, rng) | {"order": np.argsort(-sizes, kind="stable").astype(float)}


def in_exact_order(graph, rng):
    """Honest: sorted sizes with independent noise. The array is the noisy value itself where the sizes are sorted already."""
    sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
    noisy = sizes + rng.laplace(0, 2.0, sizes.shape)
    return {"counts": noisy[np.argsort(-sizes, kind="stable")]}


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(
    ("train", "refuted"),
    [(by_size, False), (in_exact_order, False), (by_size_and_the_order, True)],
    ids=lambda c: getattr(c, "__name__", ""),
)
def test_noisy_values_in_an_exact_order_are_no_path_past_the_noise(train, refuted, tmp_path):
    """In another world other noisy values stand at these places, so the array does not show which noisy value is whose."""
    every = np.ones(GRAPH.nodes, dtype=bool)
    parts = {"train": every, "val": ~every, "test": ~every}
    graph = dataclasses.replace(GRAPH, y=np.arange(GRAPH.nodes) % GRAPH.classes, **parts)  # all classes have the same size
    model = Looped(lambda g, seed: train(g, np.random.default_rng(seed)), unit=Unit.NODE, events=dp.LaplaceDpEvent(1.0))
    model = dataclasses.replace(model, releases=("counts", "order") if refuted else ("counts",))
    case = Case(model, Claim(1.001, 0.0, Unit.NODE, exposes=model.releases))
    found = AUDITS["differential"].run(Setting(case, graph, Store(tmp_path), Key("order"), 2, 1e-4))
    assert any(b.refuted for b in found.bounds) is refuted
