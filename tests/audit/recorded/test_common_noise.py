"""Noise that several entries of the release have in common, such as one number for all rows."""

import sys

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
SIGMA, DELTA = 2.0, 1e-5
STD = 2**0.5 * SIGMA


def counts(graph, rows=None):
    """Labels of the neighbours, counted; an edge moves two entries by 1."""
    rows = np.eye(graph.classes)[graph.y] if rows is None else rows
    found, (one, other) = np.zeros((graph.nodes, rows.shape[1])), graph.edges
    np.add.at(found, one, rows[other])
    np.add.at(found, other, rows[one])
    return found


def of_rows(rng, shape, std):
    return std * rng.standard_normal(shape) + 3 * std * rng.standard_normal((1, shape[1]))


def of_halves(rng, shape, std):
    """One number for the first half of the rows, and one for the second half with the opposite sign for every other class."""
    signs = np.where(np.arange(shape[1]) % 2, 1.0, -1.0)
    half = np.repeat([[1.0], [0.0]], shape[0] // 2, axis=0)
    both = rng.standard_normal(2)
    return std * rng.standard_normal(shape) + std * (half * both[0] + (1 - half) * signs * both[1])


def covariance(noise, shape, std, draws=20_000):
    """The covariance of the noise, from its own numbers."""
    rng = np.random.default_rng(0)
    return np.cov(np.array([noise(rng, shape, std).ravel() for _ in range(draws)]).T)


def judged(train, tmp_path, epsilon, releases=("sums",)):
    model = Looped(train, unit=Unit.UNDIRECTED_EDGE, releases=releases, events=dp.GaussianDpEvent(SIGMA))
    case = Case(model, Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("common"), 2, 1e-4))


def trains(noise, std=STD):
    return lambda graph, seed: {"sums": counts(graph) + noise(np.random.default_rng(seed), (graph.nodes, graph.classes), std)}


CLAIMED = float(epsilon_of(1 / SIGMA, DELTA))


@pytest.mark.parametrize("noise", [of_rows, of_halves])
def test_sums_with_common_noise_cost_what_their_covariance_says(noise, tmp_path):
    """The squared mu of an edge is w C^-1 w, w its move and C the covariance of six rows among many, found by simulation."""
    found = judged(trains(noise), tmp_path, CLAIMED)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    shape = (6, 2)
    move = np.zeros(shape)
    move[0, 0] = move[5, 1] = 1
    inverse = np.linalg.inv(covariance(noise, shape, STD))
    least, most = np.sqrt(move.ravel() @ inverse @ move.ravel()), 1 / SIGMA
    assert not bound.refuted
    assert epsilon_of(least, DELTA) * 0.97 < bound.epsilon <= epsilon_of(most, DELTA) * (1 + 1e-6)
    assert bound.reach < 1.02 * CLAIMED
    assert found.covers


def test_common_noise_of_two_rows_costs_its_closed_form(tmp_path):
    """Every row has the same number beside its own: C = s^2 (I + 9 J), so w C^-1 w = (|w|^2 - 9 (sum w)^2 / (1 + 9 n)) / s^2."""
    found = judged(trains(of_rows), tmp_path, CLAIMED)
    n, away = GRAPH.nodes, []
    for one, other in GRAPH.edges.T:
        ends = [[1.0], [1.0]] if GRAPH.y[one] != GRAPH.y[other] else [[1.0, 1.0]]
        away.append(sum(len(w) - 9 * sum(w) ** 2 / (1 + 9 * n) for w in ends) / STD**2)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert bound.epsilon == pytest.approx(float(epsilon_of(np.sqrt(max(away)), DELTA)), rel=1e-3)


def test_too_little_noise_is_refuted_beside_common_noise(tmp_path):
    found = judged(trains(of_rows, STD / 2), tmp_path, CLAIMED)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert bound.refuted
    assert 0.99 * epsilon_of(2 / SIGMA, DELTA) < bound.epsilon <= epsilon_of(2 / SIGMA, DELTA)


SUMS = [
    lambda data, own, same: data + own + same,
    lambda data, own, same: data + same + own,
    lambda data, own, same: data + (own + same),
]


@pytest.mark.parametrize("added", SUMS)
def test_a_total_in_two_rows_with_noise_in_common_costs_what_their_mean_costs(added, tmp_path):
    """The difference of the rows is noise alone. Within the run, both kinds of noise are noise of one sum: with independent
    entries, that sum would cost the square root of two more.
    """

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        total = counts(graph).sum(0)  # an edge moves each count by at most 2
        own, same = rng.standard_normal((2, graph.classes)), rng.standard_normal((1, graph.classes))
        return {"sums": added(np.stack([total, total]), 4 * own, 20 * same)}

    truth = float(epsilon_of(2 / np.sqrt(20**2 + 4**2 / 2), DELTA))
    bound = max(judged(train, tmp_path, truth * 1.01).bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.98 * truth < bound.epsilon <= truth * (1 + 1e-6)


def test_common_noise_that_the_release_shows_hides_nothing(tmp_path):
    def train(graph, seed):
        rng = np.random.default_rng(seed)
        same = 50 * STD * rng.standard_normal((1, graph.classes))
        return {"sums": counts(graph) + same + 0.5 * STD * rng.standard_normal((graph.nodes, graph.classes)), "shown": same}

    found = judged(train, tmp_path, CLAIMED, ("sums", "shown"))
    assert not any("sums" in a and b.reach < np.inf and not b.refuted for a in found.covers for b in found.bounds)


def test_numbers_that_do_not_simply_add_to_the_entries_leave_the_verdict_open(tmp_path):
    def train(graph, seed):
        rng = np.random.default_rng(seed)
        same = np.square(rng.standard_normal((1, graph.classes)))
        return {"sums": counts(graph) + 9 * same + STD * rng.standard_normal((graph.nodes, graph.classes))}

    found = judged(train, tmp_path, CLAIMED / 3)
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


def by_group(size, std):
    """Degrees with own noise, and one number for each group of `size` nodes added afterwards, by an index."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        own, same = std * rng.standard_normal(graph.nodes), 3 * rng.standard_normal(-(-graph.nodes // size))
        return {"sums": graph.degree + own + same[np.arange(graph.nodes) // size]}

    return train


def of_group(size, std):
    """The epsilon of an edge between two groups of n nodes: w C^-1 w = 2 / s^2 - 2 (9 / s^4) / (1 + n 9 / s^2)."""
    each = 9 / std**2
    mu = np.sqrt(2 / std**2 * (1 - each / (1 + size * each)))
    return float(epsilon_of(mu, DELTA))


@pytest.mark.parametrize("size", [20, 5])
def test_numbers_of_groups_that_are_added_after_the_own_noise_are_not_granted(size, tmp_path):
    """Whoever knows the numbers of the groups learns more, so the mechanisms within the run cost more than is claimed."""
    truth = of_group(size, 1.2)
    assert truth < epsilon_of(2**0.5 / 1.2, DELTA) * 0.999
    bound = max(judged(by_group(size, 1.2), tmp_path, truth * 1.0001).bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.999 * truth < bound.epsilon <= truth * 1.0001


@pytest.mark.usefixtures("thorough")
def test_more_numbers_of_groups_than_are_measured_refute_nothing(tmp_path):
    graph = load("campus:n=300:degree=6")
    model = Looped(by_group(3, 1.2), unit=Unit.UNDIRECTED_EDGE, releases=("sums",), events=dp.GaussianDpEvent(SIGMA))
    case = Case(model, Claim(of_group(3, 1.2) * 1.001, DELTA, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, graph, Store(tmp_path), Key("common"), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


def test_too_little_own_noise_beside_numbers_of_groups_is_refuted(tmp_path):
    truth = of_group(20, 0.6)
    bound = max(judged(by_group(20, 0.6), tmp_path, of_group(20, 1.2)).bounds, key=lambda b: b.epsilon)
    assert bound.refuted
    assert bound.epsilon == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("weight", [3.0, -3.0])
def test_a_number_that_is_noise_on_one_entry_beside_others_and_moves_a_table_too_refutes_nothing_true(weight, tmp_path):
    """Nine numbers in two arrays, an edge moves all by 1, and one common number: w C^-1 w by the inverse of the covariance."""
    shared = np.r_[np.full(8, 2.0), weight]
    inverse = np.linalg.inv(np.diag(np.r_[np.full(8, 1.5**2), 0.7**2]) + np.outer(shared, shared))
    truth = float(epsilon_of(np.sqrt(inverse.sum()), DELTA))

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        count, same = float(graph.edges.shape[1]), rng.standard_normal()
        table = np.full(8, count) + 1.5 * rng.standard_normal(8) + 2 * same
        return {"sums": table, "one": np.array([count + 0.7 * rng.standard_normal() + weight * same])}

    assert not any(b.refuted for b in judged(train, tmp_path, truth * 1.001, ("sums", "one")).bounds)


@pytest.mark.parametrize("cut", [lambda z: np.clip(z, -2.5, 2.5), lambda z: np.maximum(z, -4.0), np.abs])
def test_common_numbers_that_are_clipped_are_no_normal_noise(cut, tmp_path):
    """Where the number is clipped, the range of the entries shows the count: the true epsilon is hundreds."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        return {"sums": np.full(50, float(graph.edges.shape[1])) + cut(rng.standard_normal()) + 0.05 * rng.standard_normal(50)}

    assert not judged(train, tmp_path, float(epsilon_of(1.0, DELTA))).covers


@pytest.mark.parametrize("ratio", [20, 70])
def test_a_move_that_common_noise_hides_almost_wholly_refutes_nothing_by_rounding(ratio, tmp_path):
    """A count in 300 entries: w C^-1 w = 300 / (s^2 (1 + 300 ratio^2)), so all but 1e-5 of |w|^2 / s^2 is hidden."""
    own = 0.7 / ratio
    truth = float(epsilon_of(np.sqrt(300 / own**2 / (1 + 300 * ratio**2)), DELTA))

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        return {"sums": np.full(300, float(graph.edges.shape[1])) + 0.7 * rng.standard_normal() + own * rng.standard_normal(300)}

    found = judged(train, tmp_path, truth * 1.0001)
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


def test_a_common_number_of_few_seeds_does_not_make_the_own_noise_of_its_line_known(tmp_path):
    def train(graph, seed):
        few, rng = np.random.default_rng(seed % 50), np.random.default_rng(seed)
        return {
            "sums": counts(graph)
            + 3 * few.standard_normal((1, graph.classes))
            + STD * rng.standard_normal((graph.nodes, graph.classes))
        }

    assert not any(b.refuted for b in judged(train, tmp_path, CLAIMED).bounds)


def by_degree(graph):
    return 1.0 + graph.degree.astype(float)


def at_another_node(graph):
    """The weight of node 5 says whether node 3 has an edge."""
    return np.where(np.arange(graph.nodes) == 5, 5.0 + 2 * (graph.degree[3] > 0), 5.0)


@pytest.mark.parametrize("weight", [by_degree, at_another_node])
@pytest.mark.parametrize("number", [0, 1, *nightly(*range(2, 8))])
def test_common_noise_whose_weight_a_secret_changes_neither_refutes_nor_supports_a_claim(weight, number, tmp_path):
    """Whoever reads the weight from the many entries of this noise learns the secret without other noise. How far one run's
    number moves an entry says nothing about that.
    """

    def train(graph, seed):
        rng, clean = np.random.default_rng(seed), counts(graph)
        return {"sums": clean + STD * rng.standard_normal(clean.shape) + weight(graph)[:, None] * rng.standard_normal()}

    case = Case(Looped(train, releases=("sums",), events=dp.GaussianDpEvent(SIGMA)), Claim(CLAIMED, DELTA, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("weights", number), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


def test_two_common_numbers_that_swap_their_weights_with_a_secret_support_no_claim(tmp_path):
    """The sum of both weights is the same with and without the edge."""

    def train(graph, seed):
        rng, clean = np.random.default_rng(seed), counts(graph)
        pair = np.where(graph.degree[3] > 0, (3.0, 6.0), (6.0, 3.0)) @ rng.standard_normal(2)
        return {"sums": clean + STD * rng.standard_normal(clean.shape) + pair}

    case = Case(Looped(train, releases=("sums",), events=dp.GaussianDpEvent(SIGMA)), Claim(CLAIMED, DELTA, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("swapped"), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


PROGRAM = """
import sys
import numpy as np

worlds, out = sys.argv[1:]
graph, run = np.load(worlds + "/graph.npz"), np.load(worlds + "/worlds.npz")
noise, n, classes = np.random.default_rng(int(run["seeds"][0])), len(graph["y"]), int(graph["classes"])
degrees = np.bincount(graph["edge_index"][1], minlength=n) + 1.2 * noise.standard_normal(n)
more = 3 * noise.standard_normal((-(-n // 3), 1))
np.save(out + "/aggregates.npy", (CHANGED)[None, None])
np.save(out + "/posteriors.npy", np.full((1, n, classes), 1 / classes))
"""
GROUPS = "more[np.arange(n) // 3]"
CHANGED = {
    "added": f"degrees[:, None] + {GROUPS}",
    "bounded": f"np.tanh((degrees[:, None] + {GROUPS}) / 20)",
    "weights": "np.tanh(degrees[:, None] / 50 * more[:9].T)",
    "scaled": f"np.tanh(degrees[:, None] / 50 * {GROUPS})",
}


@pytest.mark.parametrize("way", ["added", "bounded", "weights", *nightly("scaled")])
def test_in_a_program_few_numbers_that_act_as_noise_refute_nothing_and_weights_do_not_matter(way, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("CHANGED", CHANGED[way]))
    graph = load("campus:n=300:degree=6")
    claim = Claim(of_group(3, 1.2) * 1.001, DELTA, Unit.UNDIRECTED_EDGE)
    case = Case(External(f"{sys.executable} {script} {{worlds}} {{out}}"), claim)
    found = AUDITS["differential"].run(Setting(case, graph, Store(tmp_path / "run"), Key("common"), 2, 1e-4))
    assert any(b.refuted for b in found.bounds) == (way in ("weights", "scaled"))
