"""A release that undoes some changes of a noisy value costs what it shows: log-probabilities show differences within a row, and
rows of length one show directions. The truth is the Gaussian mechanism on differences, the density of differences of Laplace
numbers, or the density of the angle of a normal vector (the projected normal distribution).
"""

from collections import Counter
from types import SimpleNamespace

import dp_accounting as dp
import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import brentq, minimize
from scipy.stats import norm

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.mechanisms.undone import without_common
from gnnaudit.audit.own_bounds.adversary.directions import cones
from gnnaudit.audit.own_bounds.within_run import from_mechanisms
from gnnaudit.audit.recorded.laws import composed

from ...nightly import nightly

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-6


def bound(train, epsilon, delta=DELTA, events=None):
    case = Case(Looped(train, releases=("scores",), events=events), Claim(epsilon, delta))
    return from_mechanisms(case, Recorded(case, GRAPH, Key("undone")).inside)


def log_probabilities(kinds, noise):
    """Noisy counts of neighbours of each kind, as log-probabilities."""

    def train(graph, seed):
        counts = graph.adjacency() @ np.eye(kinds)[graph.y % kinds]
        scores = counts + noise(np.random.default_rng(seed), counts.shape)
        return {"scores": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}

    return train


@pytest.mark.parametrize("kinds", [2, *nightly(3, 6)])
def test_log_probabilities_cost_what_differences_within_rows_cost(kinds):
    """An edge moves one of the numbers of two rows by 1; 1 - 1/kinds of the square is left beside the mean of the row."""
    true = float(epsilon_of((2 * (1 - 1 / kinds)) ** 0.5 / 4, DELTA))
    train = log_probabilities(kinds, lambda random, shape: 4 * random.standard_normal(shape))
    above, below = (bound(train, share * true) for share in (1.001, 0.99))
    assert not above.refuted
    assert true < above.reach < 1.2 * true
    assert below.refuted
    assert below.epsilon == pytest.approx(true, rel=1e-3)
    assert below.epsilon <= true
    assert "which the release undoes" in below.method


def test_a_ledger_that_charges_for_noisy_logits_is_held_to_them():
    whole = float(epsilon_of(2**0.5 / 4, DELTA))
    train = log_probabilities(2, lambda random, shape: 4 * random.standard_normal(shape))
    assert bound(train, 0.99 * whole, events=dp.GaussianDpEvent(4 / 2**0.5)).refuted


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_of_a_table_without_its_row_and_column_means_the_smallest_move_is_left(law):
    """Brute force: the smallest size over many common changes of rows and columns, and one that is known to be best."""
    random = np.random.default_rng(0)
    by, scale = random.integers(-2, 3, (3, 4)).astype(float), random.uniform(0.5, 2, (3, 4))
    left = without_common(SimpleNamespace(law=law, scale=scale), by, (-1, -2))

    def size(move):
        return np.linalg.norm(move) if law == "normal" else np.abs(move).sum()

    best = minimize(lambda c: size(by - (c[:3, None] + c[3:]) / scale), np.zeros(7), method="Powell", options={"xtol": 1e-9})
    assert size(left) <= best.fun + 1e-6
    rest = (by - left) * scale  # a common change of rows plus one of columns
    assert np.allclose(rest - rest.mean(0) - rest.mean(1, keepdims=True) + rest.mean(), 0, atol=1e-7)


def of_differences(shift):
    """The largest log-likelihood ratio of the difference of two Laplace numbers that moves by `shift`: its density is
    (1 + |y|) exp(-|y|) / 4.
    """
    far = np.linspace(-1e6, 1e6, 2_000_001)
    logs = np.log1p(np.abs(far)) - np.abs(far), np.log1p(np.abs(far - shift)) - np.abs(far - shift)
    return float(np.abs(logs[0] - logs[1]).max())


def test_log_probabilities_of_laplace_noise_hide_nothing_at_delta_0():
    """Of two Laplace numbers, far differences tell as much about a move of one of them as the numbers do."""
    true = 2 * of_differences(1.0) / 1.0
    assert true == pytest.approx(2.0, rel=1e-3)
    train = log_probabilities(2, lambda random, shape: random.laplace(size=shape))
    assert not bound(train, 1.001 * 2, delta=0.0).refuted
    assert bound(train, 0.99 * true, delta=0.0).refuted


ANGLES = np.linspace(-np.pi, np.pi, 40_001)


def angle(mean):
    """The density of the angle of a normal vector with this mean, in the plane, at ANGLES."""
    along = np.cos(ANGLES) * mean[0] + np.sin(ANGLES) * mean[1]
    return np.exp(-np.square(mean).sum() / 2) * (1 + along * norm.cdf(along) / norm.pdf(along)) / (2 * np.pi)


def of_angles(mean, move, delta):
    """The epsilon of the angle of a normal vector whose mean moves by `move`, by numerical integration."""
    pair = angle(mean), angle(np.add(mean, move))

    def excess(epsilon, one, two):
        return trapezoid(np.maximum(one - np.exp(epsilon) * two, 0.0), ANGLES) - delta

    return max(brentq(excess, 0, 30, args=order, xtol=1e-4) for order in (pair, pair[::-1]))


MEANS = [((6.0, 0.0), (0.0, 1.0)), ((3.0, 1.0), (0.5, 1.0)), ((1.0, 0.0), (-0.7, 0.7)), ((0.0, 0.0), (1.0, 0.0))]


def of_cones(means, moves, delta):
    return composed(Counter(cones(means, moves, delta)), delta)


@pytest.mark.parametrize(("mean", "move"), MEANS)
def test_cones_prove_almost_all_and_no_more_than_the_angle_shows(mean, move):
    found, true = of_cones(np.array([mean]), np.array([move]), 1e-4), of_angles(mean, move, 1e-4)
    assert 0.97 * true < found < true


def test_cones_prove_almost_all_that_a_vector_of_many_numbers_shows():
    """One vector, and two whose moves together are as long."""
    mean, move, whole = np.zeros(400), np.full(400, 1 / 20), float(epsilon_of(1.0, DELTA))
    mean[:200] = 0.7
    for means, moves in ((mean[None], move[None]), (np.stack([mean, mean]), np.stack([move, move]) / 2**0.5)):
        assert 0.93 * whole < of_cones(means, moves, DELTA) < whole


def lacking(graph):
    """-1 for each node that is the first end of fewer edges than in GRAPH."""
    return np.where(np.bincount(graph.edges[0], minlength=graph.nodes) < FIRST, -1.0, 0.0)


def of_length_one(graph, seed):
    """Rows around (6, 0); the absence of edges moves that of a first end by (0, -1). Only their directions are released."""
    rows = np.stack([np.full(graph.nodes, 6.0), lacking(graph)], 1) + np.random.default_rng(seed).standard_normal(
        (graph.nodes, 2)
    )
    return {"scores": rows / np.linalg.norm(rows, axis=1, keepdims=True)}


FIRST = np.bincount(GRAPH.edges[0], minlength=GRAPH.nodes)  # public: what the first ends of all edges add up to


def test_rows_of_length_one_cost_what_their_directions_show():
    true = of_angles((6.0, 0.0), (0.0, -1.0), 1e-4)
    assert not bound(of_length_one, 1.001 * true, 1e-4).refuted
    found = bound(of_length_one, 0.95 * true, 1e-4)
    assert found.refuted
    assert 0.95 * true < found.epsilon <= true
    assert found.method.endswith("the release shows directions alone")


ONE = ((6.0, 0.0), (0.0, -1.0))  # a mean and its move, of which the angle is shown


def twice(graph, seed):
    """Rows around (6, 0), then rows around 6 times their directions. The absence of edges moves both by 1, across the mean."""
    random, moved = np.random.default_rng(seed), lacking(graph)[:, None]
    one = np.array([6.0, 0.0]) + moved * [0.0, 1.0] + random.standard_normal((graph.nodes, 2))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    other = 6 * one + moved * one[:, ::-1] * [-1, 1] + random.standard_normal(one.shape)
    return {"scores": np.hstack([one, other / np.linalg.norm(other, axis=1, keepdims=True)])}


def beside_a_count(graph, seed):
    """The direction of a row around (6, 0), and a noisy number."""
    random, moved = np.random.default_rng(seed), lacking(graph)
    one = np.array([6.0, 0.0]) + moved[:, None] * [0.0, 1.0] + random.standard_normal((graph.nodes, 2))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    return {"scores": np.column_stack([one, moved + random.standard_normal(graph.nodes)])}


def of_both(other, delta):
    """The exact epsilon of the angle of ONE and of a second pair of distributions on a grid."""
    pairs = [np.outer(one, another) for one, another in zip(ANGLE, other, strict=True)]
    return brentq(lambda e: max(np.maximum(a - np.exp(e) * b, 0.0).sum() for a, b in (pairs, pairs[::-1])) - delta, 0, 30)


ANGLE = [density[::40] / density[::40].sum() for density in (angle(ONE[0]), angle(np.add(*ONE)))]
GRID = np.linspace(-9.0, 10.0, 1_000)
COUNT = [norm.pdf(GRID - mean) * (GRID[1] - GRID[0]) for mean in (0.0, 1.0)]


@pytest.mark.parametrize(("train", "other"), [(twice, ANGLE), (beside_a_count, COUNT)], ids=["twice", "count"])
def test_two_values_that_depend_on_each_other_cost_what_their_directions_show_together(train, other):
    true, whole = of_both(other, 1e-4), float(epsilon_of(2**0.5, 1e-4))
    assert true < 0.999 * whole
    assert not bound(train, 1.001 * true, 1e-4).refuted
    found = bound(train, 0.95 * true, 1e-4)
    assert found.refuted
    assert 0.95 * true < found.epsilon <= true


def test_a_claim_that_directions_may_keep_is_not_refuted_and_the_verdict_names_them():
    whole = float(epsilon_of(1.0, 1e-4))
    found = bound(of_length_one, 0.999 * whole, 1e-4)
    assert not found.refuted
    assert any("no more than directions" in why and "known to cost" in why for why in found.failed)
    assert bound(of_length_one, 0.99 * whole, 1e-4, dp.GaussianDpEvent(1.0)).refuted


def test_standardised_rows_are_not_charged_for_what_standardisation_undoes():
    """Of two noisy numbers a row of which the mean is 0 and the standard deviation 1 shows only which one is larger."""

    def train(graph, seed):
        counts = graph.adjacency() @ np.eye(2)[graph.y % 2]
        rows = counts + 4 * np.random.default_rng(seed).standard_normal(counts.shape)
        return {"scores": (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)}

    found = bound(train, 0.9 * float(epsilon_of(1 / 4, DELTA)))
    assert not found.refuted
    assert found.failed


PERIOD = 6.0


def remainder(std):
    """How many edges begin at each node, with noise, as a remainder."""

    def train(graph, seed):
        noisy = np.bincount(graph.edges[0], minlength=graph.nodes) + std * np.random.default_rng(seed).standard_normal(
            graph.nodes
        )
        return {"scores": np.mod(noisy, PERIOD)}

    return train


def of_remainder(shift, std, delta):
    """The epsilon of a normal number modulo PERIOD that moves by `shift`, by numerical integration."""
    numbers = np.linspace(0, PERIOD, 20_001)
    one, other = (sum(norm.pdf(numbers - mean + k * PERIOD, scale=std) for k in range(-20, 21)) for mean in (0.0, shift))
    return brentq(lambda e: trapezoid(np.maximum(one - np.exp(e) * other, 0.0), numbers) - delta, 0, 30)


@pytest.mark.parametrize("std", [2.0, 0.95])
def test_a_remainder_is_not_charged_for_the_noisy_number(std):
    """The period is three standard deviations, or six: then the far numbers on both sides look alike."""
    true, whole = of_remainder(1.0, std, 1e-6), float(epsilon_of(1 / std, 1e-6))
    assert true < 0.9 * whole
    found = bound(remainder(std), 0.95 * whole, 1e-6)
    assert not found.refuted
    assert any("give the same release" in why for why in found.failed)
    assert bound(remainder(std), 0.95 * whole, 1e-6, dp.GaussianDpEvent(std)).refuted


def test_an_absolute_value_costs_as_much_as_the_number_where_the_number_is_large():
    def train(graph, seed):
        counts = 40 + np.bincount(graph.edges[0], minlength=graph.nodes)
        noisy = counts + 2 * np.random.default_rng(seed).standard_normal(graph.nodes)
        return {"scores": np.abs(noisy)}

    assert bound(train, 0.95 * float(epsilon_of(1 / 2, 1e-4)), 1e-4).refuted


@pytest.mark.parametrize("lossy", [np.multiply, np.hypot])
def test_a_function_of_two_noisy_values_is_not_charged_for_both(lossy):
    def train(graph, seed):
        random, counts = np.random.default_rng(seed), graph.adjacency() @ np.eye(graph.classes)[graph.y]
        return {"scores": lossy(*(counts + 4 * random.standard_normal(counts.shape) for _ in range(2)))}

    assert not bound(train, 0.97 * float(epsilon_of(2 / 4, DELTA))).refuted


def over_groups(size, std):
    """Sums over groups of nodes in a row of how many neighbours of each class are outside the group."""

    def train(graph, seed):
        ends = graph.arcs[:, graph.arcs[0] // size != graph.arcs[1] // size]
        counts = np.zeros((graph.nodes, graph.classes))
        np.add.at(counts, (ends[1], graph.y[ends[0]]), 1.0)
        noisy = counts + std * np.random.default_rng(seed).standard_normal(counts.shape)
        return {"scores": noisy.reshape(-1, size, graph.classes).sum(1).ravel()}

    return train


@pytest.mark.parametrize("size", [3, *nightly(2, 6)])
def test_sums_over_groups_hide_a_part_of_both_rows_that_an_edge_moves(size):
    true = float(epsilon_of((2 / size) ** 0.5 / 0.7, DELTA))
    found = bound(over_groups(size, 0.7), 1.02 * true)
    assert not found.refuted
    assert found.epsilon <= true


def test_a_share_of_the_sum_shows_a_line_and_no_direction():
    """The factor -1 changes nothing either. Two counts of at most 1, so that their noisy sum may be negative."""

    def train(graph, seed):
        counts = np.minimum(graph.adjacency() @ np.eye(2)[graph.y % 2], 1.0)
        rows = counts + 0.9 * np.random.default_rng(seed).standard_normal(counts.shape)
        return {"scores": rows / rows.sum(1, keepdims=True)}

    found = bound(train, 0.8 * float(epsilon_of(2**0.5 / 0.9, DELTA)))
    assert not found.refuted
    assert any("cost of directions is not known" in why for why in found.failed)


@pytest.mark.parametrize(
    "one_number", [lambda rows: np.tanh(rows) @ [1, 0.5], lambda rows: np.maximum(rows, 0) @ [1, 0.5]], ids=["tanh", "relu"]
)
def test_one_number_of_two_noisy_ones_is_not_charged_for_both(one_number):
    def train(graph, seed):
        counts = np.minimum(graph.adjacency() @ np.eye(2)[graph.y % 2], 1.0)
        return {"scores": one_number(counts + 0.7 * np.random.default_rng(seed).standard_normal(counts.shape))}

    assert not bound(train, 0.9 * float(epsilon_of(2**0.5 / 0.7, DELTA))).refuted
