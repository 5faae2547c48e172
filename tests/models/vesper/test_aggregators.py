"""How far one edge moves the rows of a layer: closed forms against explicit graphs, and physical removal against the bound."""

import math

import numpy as np
import pytest
import torch

from gnnaudit.models.vesper.aggregators import Neighbours, aggregate, floor_mean, normalise, own_term, sensitivity, spectral_scale
from gnnaudit.models.vesper.published import gcn_sensitivity, gcn_sensitivity_printed


def step_down(degree):
    return degree**-0.5 - (degree + 1) ** -0.5


def adjacency(edges, nodes):
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    return Neighbours.of(edges, np.ones((1, edges.shape[1]), dtype=bool), nodes)


def moved(aggregator, floor, edges, rows, edge):
    """Frobenius norm by which removing `edge` moves the noise-free rows; rows: (nodes, dim), of norm at most 1."""
    x = torch.as_tensor(rows, dtype=torch.float32).T[None]
    left = [e for e in edges if set(e) != set(edge)]
    assert len(left) == len(edges) - 1
    out = [aggregate(aggregator, floor, adjacency(e, len(rows)), x) + own_term(aggregator, x) for e in (edges, left)]
    return float((out[0] - out[1]).norm())


def double_star(left, right):
    """Nodes 0 and 1, joined, each with this number of leaves."""
    leaves = [(0, 2 + i) for i in range(left)] + [(1, 2 + left + i) for i in range(right)]
    return [(0, 1), *leaves], 2 + left + right


def random_graph(random, nodes, share):
    upper = np.argwhere(np.triu(random.random((nodes, nodes)) < share, 1))
    return [tuple(e) for e in upper]


def random_rows(random, nodes, dim):
    rows = random.standard_normal((nodes, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_constants_are_those_of_the_published_tables():
    printed = {1: 1.6864, 2: 0.8996, 3: 0.6285, 5: 0.3960, 10: 0.2051, 20: 0.1043, 50: 0.0421}
    floored = {1: 0.8567, 2: 0.6109, 3: 0.4744, 5: 0.3278, 10: 0.1849, 20: 0.0988, 50: 0.0412}
    for floor in printed:
        assert gcn_sensitivity_printed(floor) == pytest.approx(printed[floor], abs=6e-5)
        assert gcn_sensitivity(floor) == pytest.approx(floored[floor], abs=6e-5)


def test_one_edge_moves_gin_by_exactly_the_square_root_of_two():
    random = np.random.default_rng(0)
    for _ in range(20):
        edges = random_graph(random, 15, 0.3)
        rows = random_rows(random, 15, 4)
        assert moved("gin", 1, edges, rows, edges[random.integers(len(edges))]) == pytest.approx(math.sqrt(2), rel=1e-5)


@pytest.mark.parametrize("aggregator", ["gcn-floor", "mean-floor"])
@pytest.mark.parametrize("floor", [1, 2, 5, 10])
def test_a_degree_floor_bounds_what_an_edge_moves_on_any_graph(aggregator, floor):
    random, worst = np.random.default_rng(floor), 0.0
    for trial in range(150):
        nodes = int(random.integers(4, 25))
        edges = random_graph(random, nodes, random.random())
        if trial % 3 == 0 or not edges:  # aligned stars around the floor are the worst case
            edges, nodes = double_star(*random.integers(0, floor + 3, 2))
        rows = np.tile(random_rows(random, 1, 3), (nodes, 1)) if trial % 2 else random_rows(random, nodes, 3)
        edge = edges[0] if trial % 3 == 0 else edges[random.integers(len(edges))]
        rows[list(edge)[trial % 2 :]] *= -1
        worst = max(worst, moved(aggregator, floor, edges, rows, edge))
    assert worst <= sensitivity(aggregator, floor) * (1 + 1e-5)
    assert worst >= 0.5 * sensitivity(aggregator, floor)  # the graphs come close to the bound


@pytest.mark.parametrize("floor", [2, 3, 5, 10])
def test_the_floor_bound_without_common_neighbours_is_met_by_ends_one_above_the_floor(floor):
    """An end's own row and its leaves gain weight when the edge goes; the partner, of opposite sign, is lost."""
    edges, nodes = double_star(floor, floor)
    rows = np.ones((nodes, 1))
    rows[1] = rows[2 + floor :] = -1.0
    found = moved("gcn-floor", floor, edges, rows, (0, 1))
    gain = step_down(floor + 1)
    ends = 1 / ((floor + 1) * (floor + 2)) + 1 / (floor + 2) + floor * gain / math.sqrt(floor + 1)
    without_common_neighbours = math.sqrt(2 * ends**2 + 2 * floor * gain**2 / (floor + 1))
    assert found <= gcn_sensitivity(floor)
    assert found == pytest.approx(without_common_neighbours, rel=1e-5)


def test_the_mean_bound_is_met_by_opposite_rows_just_above_the_floor():
    edges, nodes = double_star(4, 4)
    rows = np.full((nodes, 1), -1.0)
    rows[:2] = 1.0
    assert moved("mean-floor", 4, edges, rows, (0, 1)) == pytest.approx(floor_mean(4), rel=1e-5)


def truncated(edges, nodes, floor, rows):
    """One layer of truncated message passing with weight 1 and an edge-free branch of weight -1, in one dimension."""
    both = adjacency(edges, nodes)
    x = torch.as_tensor(rows, dtype=torch.float32).T[None]
    return torch.where(both.degree < floor, -x, aggregate("gcn-truncated", floor, both, x))


@pytest.mark.parametrize(
    ("floor", "printed", "true"), [(2, 0.900, 2.934), (3, 0.629, 3.121), (5, 0.396, 3.519), (10, 0.205, 4.385)]
)
def test_truncated_message_passing_moves_more_than_its_printed_sensitivity(floor, printed, true):
    """Both centres have exactly `floor` neighbours, all leaves: the edge takes both across the gate."""
    edges, nodes = double_star(floor - 1, floor - 1)
    rows = np.ones((nodes, 1))
    gap = float((truncated(edges, nodes, floor, rows) - truncated(edges[1:], nodes, floor, rows)).norm())
    closed = math.sqrt(2) * (1 + 2 / (floor + 1) + (floor - 1) / math.sqrt(2 * (floor + 1)))
    assert sensitivity("gcn-truncated", floor) == pytest.approx(printed, abs=6e-4)
    assert gap == pytest.approx(closed, rel=1e-5)
    assert gap == pytest.approx(true, abs=6e-4)
    assert gap > 3 * sensitivity("gcn-truncated", floor)


@pytest.mark.parametrize("floor", [2, 5, 10])
def test_low_degree_senders_break_the_printed_bound_where_no_gate_opens(floor):
    """The receivers' degrees stay above the gate. Their other neighbours are leaves, which truncation does not exclude as
    senders.
    """
    edges, nodes = double_star(floor, 0)
    rows = np.ones((nodes, 1))
    rows[1] = -1.0
    gap = truncated(edges, nodes, floor, rows) - truncated(edges[1:], nodes, floor, rows)
    m = floor
    closed = 1 / ((m + 1) * (m + 2)) + 1 / math.sqrt(2 * (m + 2)) + m * step_down(m + 1) / math.sqrt(2)
    assert abs(float(gap[0, 0, 0])) == pytest.approx(closed, rel=1e-5)


def test_the_printed_gcn_bound_covers_graphs_that_keep_its_assumption():
    random = np.random.default_rng(3)
    for _ in range(60):
        edges = random_graph(random, 20, 0.5)
        degree = np.bincount(np.ravel(edges), minlength=20)
        floor = int(degree.min()) - 1
        edge = min(edges, key=lambda e: degree[list(e)].sum())
        if floor < 1 or degree[list(edge)].min() - 1 < floor:
            continue
        rows = random_rows(random, 20, 1)
        rows[list(edge)] *= -1
        assert moved("gcn-min-degree", floor, edges, rows, edge) <= gcn_sensitivity_printed(floor)


def test_runs_with_their_own_edges_sum_as_dense_matrices_do():
    random = np.random.default_rng(1)
    edges = np.array(random_graph(random, 12, 0.4)).T
    present = random.random((3, edges.shape[1])) < 0.7
    present[:, ::2] = True
    rows = torch.from_numpy(random.standard_normal((3, 4, 12))).float()
    both = Neighbours.of(edges, present, 12)
    for run in range(3):
        dense = torch.zeros(12, 12)
        u, v = edges[:, present[run]]
        dense[u, v] = dense[v, u] = 1
        assert torch.allclose(both.sum(rows)[run], rows[run] @ dense, atol=1e-5)
        assert torch.equal(both.degree[run, 0], dense.sum(0))


def test_normalised_rows_have_norm_one_and_a_zero_row_stays_zero():
    rows = torch.tensor([[[3.0, 0.0], [4.0, 0.0]]])
    assert torch.equal(normalise(rows), torch.tensor([[[0.6, 0.0], [0.8, 0.0]]]))


def test_one_power_iteration_understates_a_spectral_norm():
    random = torch.Generator().manual_seed(0)
    over = []
    for _ in range(50):
        weight = torch.randn(32, 32, generator=random)
        start = torch.nn.functional.normalize(torch.randn(32, generator=random), dim=0)
        over.append(float(torch.linalg.matrix_norm(spectral_scale(weight, start)[0], 2)))
    assert min(over) > 1
    assert 1.2 < np.median(over) < 1.5  # expected spectral norm of a Gaussian weight after one iteration from a random start
