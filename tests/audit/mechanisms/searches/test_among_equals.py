"""Statistics of the whole graph that reach a noisy value: where all nodes but one are equal, a secret moves what all add.
The truth is counted by hand: with the node, all other rows point one way, and without it they are 0.
"""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.among_equals import BOOK, CYCLE, EQUALS, JOINED, PATH, among_equals
from gnnaudit.audit.recorded.secrets.chains import REGULAR, WINDMILL
from gnnaudit.audit.recorded.secrets.worlds import LEAVES
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.graph.graph import Graph, Worlds

from ....nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH, SIGMA, DELTA = load("campus:n=120:degree=6"), 3.0, 1e-5
TRAINED = int(GRAPH.train.sum())


def of_length_one(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-3)


def as_they_are(x, y):
    return x


def standardised(x, y):
    return (x - x.mean(0)) / (x.std(0) + 1e-9)


def of_range(x, y):
    return (x - x.min(0)) / (x.max(0) - x.min(0) + 1e-9)


def whitened(x, y):
    values, vectors = np.linalg.eigh(np.cov(x.T) + 1e-9 * np.eye(x.shape[1]))
    return (x - x.mean(0)) @ vectors / np.sqrt(np.maximum(values, 1e-9))


def by_constants(x, y):
    return (x - 0.5) / 0.1


def by_own_mean(x, y):
    return x - x.mean(1, keepdims=True)


def summed(change, unit=Unit.NODE, most=1.0):
    """The sum of the training nodes' rows, changed and clipped to length 1, with Gaussian noise. most: how far the ledger says
    that a node moves it.
    """

    def train(graph, seed):
        x, y = np.asarray(graph.x, dtype=np.float64)[graph.train], graph.y[graph.train]
        total = of_length_one(change(x, y)).sum(0)
        noise = most * SIGMA * (2 if unit is Unit.FEATURES else 1) * np.random.default_rng(seed).standard_normal(total.shape)
        return {"total": total + noise}

    return Looped(train, releases=("total",), events=dp.GaussianDpEvent(SIGMA))


def degrees(largest):
    """Degrees over their largest, with noise for two entries that move by 1 over the largest, which is 1 at least."""

    def train(graph, seed):
        rows = graph.degree / largest(graph)
        return {"total": rows + SIGMA * 2**0.5 * np.random.default_rng(seed).standard_normal(rows.shape)}

    return Looped(train, releases=("total",), events=dp.GaussianDpEvent(SIGMA))


MODEL = summed(as_they_are)
CLAIM = float(epsilon_of(1 / SIGMA, DELTA)) * 1.001


def audited(model, unit, tmp_path, seed=0, epsilon=CLAIM):
    case = Case(model, Claim(epsilon, DELTA, unit, exposes=("total",)))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("equals", seed), 3, 1e-4)).bounds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_standardised_rows_are_refuted_at_the_epsilon_of_all_rows_that_the_odd_one_turns(seed, tmp_path):
    """The odd row is 1 against TRAINED - 1 rows in the other direction; without it, all rows are 0."""
    true = float(epsilon_of((TRAINED - 2) / SIGMA, DELTA))
    bound = max(audited(summed(standardised), Unit.NODE, tmp_path, seed), key=lambda b: b.epsilon)
    assert bound.refuted
    assert 0.99 * true < bound.epsilon <= true
    assert bound.method.endswith(f"on a {EQUALS}")


def symmetric(most):
    """D^-1/2 A D^-1/2 times the labels as one-hot rows, with Gaussian noise for a node that moves it by `most`."""

    def train(graph, seed):
        share = 1 / np.sqrt(np.maximum(graph.degree, 1))[:, None]
        means = share * (graph.adjacency() @ (share * np.eye(graph.classes)[graph.y]))
        return {"total": means + most * SIGMA * np.random.default_rng(seed).standard_normal(means.shape)}

    return Looped(train, releases=("total",), events=dp.GaussianDpEvent(SIGMA))


def moved_by_the_centre(pairs):
    """How far the centre of `pairs` triangles moves the rows of `symmetric`, beside its own. Label i is i modulo the classes, or
    both other nodes of a triangle have one label, whichever moves farther.
    """
    edges = np.kron(np.eye(pairs), [[0, 1], [1, 0]])
    edges = np.block([[np.zeros((1, 1)), np.ones((1, 2 * pairs))], [np.ones((2 * pairs, 1)), edges]])
    share, moved = edges.sum(0) ** -0.5, []
    for y in (np.arange(1 + 2 * pairs), np.append(0, np.arange(2 * pairs) // 2)):
        labels = np.eye(GRAPH.classes)[y % GRAPH.classes]
        moved.append(np.linalg.norm((edges * share * share[:, None] @ labels)[1:] - edges[1:, 1:] @ labels[1:]))
    return float(max(moved))


MOST = moved_by_the_centre(LEAVES // 2)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_symmetric_normalisation_is_refuted_at_the_epsilon_of_the_weights_that_the_centre_holds_down(seed, tmp_path):
    """No node of the given graph moves as much: 2 is enough for all of them."""
    true = float(epsilon_of(MOST / (2 * SIGMA), DELTA))
    bound = max(audited(symmetric(2), Unit.NODE, tmp_path, seed), key=lambda b: b.epsilon)
    assert bound.refuted
    assert 0.99 * true < bound.epsilon <= true
    assert WINDMILL in bound.method
    assert bound.method.endswith(", 2 nodes each beside the centre")


def test_symmetric_normalisation_with_noise_for_all_weights_is_not_refuted(tmp_path):
    bounds = audited(symmetric(1.001 * MOST), Unit.NODE, tmp_path)
    assert not any(b.refuted for b in bounds)
    assert min(b.reach for b in bounds) < 1.02 * CLAIM


@pytest.mark.parametrize(("least", "most"), [(20, 40), (45, 50)])
def test_counts_of_nodes_of_high_degree_are_refuted_at_what_the_centre_of_a_windmill_moves(least, most, tmp_path):
    """A complete graph of `least` + 1 nodes moves as many; the centre of 130 // `least` cliques moves all nodes and itself."""

    def train(graph, seed):
        return {"total": np.array([(graph.degree >= least).sum() + most * np.random.default_rng(seed).laplace()])}

    model = Looped(train, releases=("total",), events=dp.LaplaceDpEvent(1.0))
    case = Case(model, Claim(1.001, 0.0, Unit.NODE, exposes=("total",)))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("windmill"), 3, 1e-4)).bounds
    strongest = max(bounds, key=lambda b: b.epsilon)
    assert strongest.refuted
    assert strongest.epsilon == pytest.approx((LEAVES // least * least + 1) / most, rel=1e-2)


def test_a_claim_that_only_the_odd_one_reaches_has_the_reach_of_its_graph(tmp_path):
    """The noise suffices for TRAINED - 2 rows that turn. On the given graph, a node turns others less."""
    bounds = audited(summed(standardised, most=TRAINED - 2), Unit.NODE, tmp_path)
    assert not any(b.refuted for b in bounds)
    strongest = min(bounds, key=lambda b: b.reach)
    assert 0.99 * CLAIM < strongest.epsilon < CLAIM < strongest.reach < 1.01 * CLAIM
    assert strongest.method.endswith(f"on a {EQUALS}")
    assert "by one factor on every graph" in strongest.covers["total"]
    assert min(b.reach for b in bounds if b is not strongest) > 1.1 * CLAIM


def test_a_claim_that_the_odd_one_exceeds_by_little_is_refuted(tmp_path):
    bounds = audited(summed(standardised, most=0.95 * (TRAINED - 2)), Unit.NODE, tmp_path)
    assert any(b.refuted for b in bounds)


@pytest.mark.parametrize("unit", [Unit.NODE, Unit.FEATURES])
@pytest.mark.parametrize("change", [of_range, *nightly(whitened, standardised)])
def test_rows_that_a_statistic_of_all_rows_scales_are_refuted(change, unit, tmp_path):
    assert any(b.refuted for b in audited(summed(change, unit), unit, tmp_path))


@pytest.mark.parametrize("unit", [Unit.NODE, Unit.FEATURES])
@pytest.mark.parametrize("change", [by_constants, *nightly(as_they_are, by_own_mean)])
def test_rows_scaled_by_public_numbers_or_by_their_own_are_not_refuted(change, unit, tmp_path):
    bounds = audited(summed(change, unit), unit, tmp_path)
    assert not any(b.refuted for b in bounds)
    assert min(b.reach for b in bounds) < (1.2 if unit is Unit.NODE else 2) * CLAIM


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_degrees_over_the_largest_degree_are_refuted_at_the_epsilon_of_all_pairs(seed, tmp_path):
    """Of 131 nodes 130 have degree 1. The edge that joins two pairs makes the largest 2. Then all entries but two halve."""
    true = float(epsilon_of((LEAVES - 2) ** 0.5 / 2 / (SIGMA * 2**0.5), DELTA))
    bounds = audited(degrees(lambda graph: graph.degree.max()), Unit.UNDIRECTED_EDGE, tmp_path, seed)
    bound = max(bounds, key=lambda b: b.epsilon)
    assert bound.refuted
    assert 0.99 * true < bound.epsilon <= true
    assert bound.method.endswith(f"on a {REGULAR}, {LEAVES // 2 + 1} edges")


def test_degrees_over_a_constant_are_not_refuted(tmp_path):
    assert not any(b.refuted for b in audited(degrees(lambda graph: 1.0), Unit.UNDIRECTED_EDGE, tmp_path))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
def test_edges_that_coins_sample_do_not_refute_the_smaller_epsilon_of_a_sample(seed, tmp_path):
    """A node counts an edge that a coin keeps. Where one node alone has edges, the coins of a run may keep all of them."""
    rate, epsilon = 0.9, CLAIM / 1.001

    def train(graph, seed):
        random = np.random.default_rng(seed)
        kept = np.triu(random.random((graph.nodes, graph.nodes)) < rate, 1)[tuple(np.sort(graph.edges, axis=0))]
        total = np.array([float(kept.sum())])
        return {"total": total + SIGMA * random.standard_normal(1)}

    model = Looped(train, releases=("total",), events=dp.GaussianDpEvent(SIGMA))
    amplified = float(np.log1p(rate * np.expm1(epsilon)))
    assert amplified < epsilon
    assert not any(b.refuted for b in audited(model, Unit.UNDIRECTED_EDGE, tmp_path, seed, amplified))


def with_the_largest_features(graph, rng):
    return np.asarray(graph.x, dtype=np.float64)[graph.train].max(0).sum() + 1e-3 * rng.random()


def with_the_number_of_columns(graph, rng):
    return graph.x.shape[1] + 1e-3 * rng.random()


@pytest.mark.parametrize(("number", "covered"), [(with_the_largest_features, False), (with_the_number_of_columns, True)])
def test_an_array_that_only_the_node_that_differs_changes_is_not_judged_beside_a_noisy_total(number, covered, tmp_path):
    """Uniform numbers hide a little of it, so that the path past the noise does not refute the claim."""
    total = summed(as_they_are).train

    def train(graph, seed):
        return {**total(graph, seed), "number": np.array([number(graph, np.random.default_rng(seed + 1))])}

    model = Looped(train, releases=("total", "number"), events=dp.GaussianDpEvent(SIGMA))
    case = Case(model, Claim(float(epsilon_of(1 / SIGMA, DELTA)) * 1.001, DELTA, Unit.NODE, exposes=model.releases))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("beside"), 3, 1e-4))
    assert "total" in found.covers
    assert ("number" in found.covers) is covered


def triangles(graph):
    adjacency = graph.adjacency().toarray().astype(int)
    return int(np.trace(adjacency @ adjacency @ adjacency)) // 6


def largest_part(graph):
    """The number of nodes of the largest connected component."""
    return int(np.bincount(connected_components(graph.adjacency(), directed=False)[1]).max())


def core(graph):
    """The number of nodes that are left after nodes of degree at most 1 are removed as long as there are any."""
    adjacency, before = graph.adjacency().toarray() > 0, -1
    while adjacency.sum() != before:
        before = adjacency.sum()
        kept = adjacency.sum(0) > 1
        adjacency &= kept[:, None] & kept
    return int(adjacency.any(0).sum())


SHOWN = {JOINED: [lambda graph: graph.degree.max()], PATH: [largest_part], CYCLE: [core], BOOK: [triangles]}


@pytest.mark.parametrize("unit", [Unit.NODE, Unit.FEATURES, Unit.UNDIRECTED_EDGE])
def test_the_worlds_differ_in_one_secret_and_without_it_all_nodes_are_equal(unit):
    for graph, without in among_equals(GRAPH, unit, MODEL):
        absent = without(Worlds.of(graph, np.array([1], dtype=np.uint64)))
        left = absent.worlds.graph
        if unit is Unit.UNDIRECTED_EDGE:
            assert graph.edges.shape[1] == left.edges.shape[1] + 1
            shown = [measure(each) for each in (graph, left) for measure in SHOWN[graph.name]]
            assert shown == {JOINED: [2, 1], PATH: [120, 60], CYCLE: [120, 0], BOOK: [118, 0]}[graph.name]
            continue
        assert absent.among.size == 1
        assert len(np.unique(graph.x, axis=0)) == 2
        if unit is Unit.FEATURES:
            assert len(np.unique(left.x, axis=0)) == 1
            assert np.count_nonzero(left.y != graph.y) <= 1
            np.testing.assert_array_equal(left.edges, graph.edges)
        else:
            kept = np.setdiff1d(np.arange(graph.nodes), absent.among)
            assert len(np.unique(graph.x[kept], axis=0)) == 1
            assert not (left.edges == absent.among).any()


def clustering(most):
    """The sum of the local clustering coefficients, with Laplace noise for a claim of 1 about an edge that moves it by `most`."""

    def train(graph, seed):
        degree = graph.degree.astype(float)
        adjacency = graph.adjacency().toarray()
        closed = np.diag(adjacency @ adjacency @ adjacency) / np.maximum(degree * (degree - 1), 1)
        return {"total": np.array([closed.sum() + most * np.random.default_rng(seed).laplace()])}

    return Looped(train, releases=("total",), events=dp.LaplaceDpEvent(1.0))


PAGES = GRAPH.nodes - 2  # each has a coefficient of 1 with the edge and of 0 without, and each end of the edge one of 2 / degree


@pytest.mark.parametrize(("most", "refuted"), [(20.0, True), (PAGES + 2 * 2 / (PAGES + 1), False)])
def test_clustering_coefficients_are_refuted_where_one_edge_closes_all_triangles(most, refuted, tmp_path):
    claim = Claim(1.001, 0.0, Unit.UNDIRECTED_EDGE, exposes=("total",))
    setting = Setting(Case(clustering(most), claim), GRAPH, Store(tmp_path), Key("book"), 3, 1e-4)
    strongest = max(AUDITS["differential"].run(setting).bounds, key=lambda b: b.epsilon)
    assert strongest.refuted is refuted
    assert strongest.epsilon == pytest.approx((PAGES + 2 * 2 / (PAGES + 1)) / most, rel=1e-2)
    assert strongest.method.endswith(f"on a {BOOK}")


class OfFewNeighbours(Looped):
    max_degree = int(GRAPH.degree.max())


@pytest.mark.parametrize("measure", [largest_part, core])
@pytest.mark.parametrize(("most", "refuted"), [(20.0, True), (150.0, False)])
def test_sizes_of_parts_and_cores_are_refuted_where_one_edge_decides_them(measure, most, refuted, tmp_path):
    """Of graphs of almost equal degrees, the last one is a cycle of 130 nodes, which has no core without its last edge. The one
    before the last edge is a path, and its last edge joined paths of 66 and of 64 nodes.
    """

    def train(graph, seed):
        return {"total": np.array([measure(graph) + most * np.random.default_rng(seed).laplace()])}

    model = OfFewNeighbours(train, releases=("total",), events=dp.LaplaceDpEvent(1.0))
    case = Case(model, Claim(1.001, 0.0, Unit.UNDIRECTED_EDGE, exposes=("total",)))
    strongest = max(
        AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("core"), 3, 1e-4)).bounds, key=lambda b: b.epsilon
    )
    assert strongest.refuted is refuted
    assert strongest.epsilon == pytest.approx({largest_part: 64, core: LEAVES}[measure] / most, rel=1e-2)


def median(degrees):
    return np.median(degrees)


def upper_quartile(degrees):
    return np.quantile(degrees, 0.75, method="lower")


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 4))])
@pytest.mark.parametrize(("typical", "of_two"), [(median, 64), *nightly((upper_quartile, 32))])
def test_degrees_over_an_exact_quantile_are_refuted_where_one_edge_changes_it(typical, of_two, seed, tmp_path):
    """So many of 130 nodes have two neighbours, and the others one. One more edge raises the quantile from 1 to 2, so the numbers
    of all nodes but its ends are halved.
    """
    model = degrees(lambda graph: max(typical(graph.degree), 1))
    bound = max(audited(model, Unit.UNDIRECTED_EDGE, tmp_path, seed), key=lambda b: b.epsilon)
    moved = np.sqrt(of_two + (128 - of_two) / 4)
    assert bound.refuted
    assert bound.epsilon == pytest.approx(float(epsilon_of(moved / (SIGMA * 2**0.5), DELTA)), rel=1e-3)
    assert REGULAR in bound.method


def test_degrees_over_a_public_number_are_not_refuted(tmp_path):
    assert not any(b.refuted for b in audited(degrees(lambda graph: 6.0), Unit.UNDIRECTED_EDGE, tmp_path))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 4))])
def test_two_numbers_with_noise_of_one_line_are_told_apart_whatever_order_is_tried(seed, tmp_path):
    """Half of all orders of two numbers leave them where they are. This does not show that the run takes them in any order."""

    def train(graph, seed):
        noise = np.random.default_rng(seed).laplace(size=2)
        return {"total": np.array([graph.edges.shape[1], core(graph)]) + noise * np.array([2, 2 * GRAPH.nodes / 5])}

    case = Case(
        Looped(train, releases=("total",), events=dp.LaplaceDpEvent(1.0)),
        Claim(1.001, 0.0, Unit.UNDIRECTED_EDGE, exposes=("total",)),
    )
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("two", seed), 3, 1e-4)).bounds
    strongest = max(bounds, key=lambda b: b.epsilon)
    assert strongest.refuted
    assert strongest.epsilon == pytest.approx(1 / 2 + LEAVES * 5 / (2 * GRAPH.nodes), rel=1e-2)


def of_nodes(count):
    parts = np.arange(count) % 2 == 0
    return Graph(np.eye(count, dtype=np.float32), np.arange(count) % 2, GRAPH.edges[:, :0], parts, ~parts, parts & ~parts)


class OneNeighbour(Looped):
    max_degree = 1


def test_there_is_no_such_graph_for_few_nodes_for_a_bound_of_one_on_degrees_and_for_equal_rows():
    edge, empty = Unit.UNDIRECTED_EDGE, dataclasses.replace(GRAPH, edges=GRAPH.edges[:, :0])
    assert len(list(among_equals(empty, edge, MODEL))) == 4
    assert not list(among_equals(empty, edge, OneNeighbour(MODEL.train)))
    assert not list(among_equals(of_nodes(7), edge, MODEL))
    assert len(list(among_equals(of_nodes(8), edge, MODEL))) == 4
    assert not list(among_equals(dataclasses.replace(GRAPH, x=np.ones_like(GRAPH.x)), Unit.NODE, MODEL))


def clipped_neighbourhoods(std):
    """Sums by class of each node's row plus those of its neighbours, clipped to length 1. A node is in deg + 1 of them."""

    def train(graph, seed):
        rows = of_length_one(np.asarray(graph.x + graph.adjacency() @ graph.x, dtype=float))
        sums = (np.eye(graph.classes)[graph.y] * graph.train[:, None]).T @ rows
        return {"total": sums + std * np.random.default_rng(seed).standard_normal(sums.shape)}

    return Looped(train, releases=("total",), unit=Unit.NODE)


@pytest.mark.parametrize(("moved", "refuted"), [(25.0, True), (2.0 * LEAVES + 1.0, False)])
def test_a_node_that_turns_the_rows_of_all_its_neighbours_is_refuted_on_a_star(moved, refuted, tmp_path):
    """moved: by how much the noise assumes that a node moves the sums; one with LEAVES neighbours moves them by 2 LEAVES + 1."""
    claim = 1.001 * float(epsilon_of(1.0, DELTA))
    bounds = audited(clipped_neighbourhoods(moved), Unit.NODE, tmp_path, epsilon=claim)
    assert any(bound.refuted for bound in bounds) == refuted
    assert any(EQUALS in bound.method for bound in bounds if bound.refuted) == refuted
