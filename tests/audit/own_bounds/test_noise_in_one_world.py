"""A noisy network that answers on the exact graph: noise moves all answers, and never tells two nodes with equal inputs apart."""

import math

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.copies import copies
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.graph.graph import Worlds

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
UNITS = [Unit.UNDIRECTED_EDGE, Unit.DIRECTED_EDGE, Unit.NODE]


def sums(graph, rows, rng=None, std=4.0):
    total = graph.adjacency() @ np.asarray(graph.x, dtype=np.float64)[:, :rows]
    return total if rng is None else total + rng.normal(0, std, total.shape)


def log_softmax(z):
    return z - np.logaddexp.reduce(z, axis=1, keepdims=True)


def network(seen, answered, graph, seed):
    """The answers on `answered` of a network with one hidden layer that learns from `seen`."""
    torch.manual_seed(seed)
    seen, answered = (torch.from_numpy(z).float() for z in (seen, answered))
    net = torch.nn.Sequential(torch.nn.Linear(seen.shape[1], 6), torch.nn.Tanh(), torch.nn.Linear(6, graph.classes))
    optimizer, train = torch.optim.Adam(net.parameters(), lr=0.02), torch.from_numpy(graph.train)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(seen)[train], torch.from_numpy(graph.y)[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return {"posteriors": torch.log_softmax(net(answered), 1).numpy()}


def answered_on_the_exact_graph(graph, seed):
    """Noise at training only."""
    rng = np.random.default_rng(seed)
    return network(sums(graph, 8, rng), sums(graph, 8), graph, seed)


def steps_on_the_exact_graph(graph, seed):
    """DP-SGD without samples, whose network then answers on the exact graph."""
    rng, z, weights = np.random.default_rng(seed), sums(graph, 8), np.zeros((8, graph.classes))
    own, y = np.asarray(graph.x, dtype=np.float64)[:, :8], np.eye(graph.classes)[graph.y]
    for _ in range(2):
        error = (np.exp(log_softmax(own @ weights)) - y)[graph.train]
        gradient = np.einsum("nd,nc->ndc", own[graph.train], error)
        gradient /= np.maximum(1, np.linalg.norm(gradient, axis=(1, 2), keepdims=True))
        weights = weights - 0.1 * (gradient.sum(0) + rng.normal(0, 2.0, weights.shape))
    return {"posteriors": log_softmax(np.tanh(z @ weights) @ np.ones((graph.classes, graph.classes)) + np.tanh(z @ weights))}


def answered_on_the_noisy_graph(graph, seed):
    noisy = sums(graph, 8, np.random.default_rng(seed))
    return network(noisy, noisy, graph, seed)


def one_noise_for_all_rows_and_one_for_each(graph, seed):
    """An honest release of which the recorder loses some noise: it is taken out of its array before it is added."""
    rng, exact = np.random.default_rng(seed), sums(graph, 8)
    lost = np.array([[float(number) for number in row] for row in rng.normal(0, 4.0, exact.shape)])
    return network(exact + lost, exact + lost, graph, seed)


def outcome(train, unit, tmp_path):
    graph = GRAPH.as_directed() if unit is Unit.DIRECTED_EDGE else GRAPH
    case = Case(Looped(train, unit=unit), Claim(8.0, 1e-5, unit))
    return AUDITS["differential"].run(Setting(case, graph, Store(tmp_path), Key("rows"), 2, 1e-4))


@pytest.mark.parametrize("unit", UNITS[:1] + nightly(*UNITS[1:]))
def test_a_network_that_learns_with_noise_and_answers_on_the_exact_graph_is_refuted(unit, tmp_path):
    (bound,) = [b for b in outcome(answered_on_the_exact_graph, unit, tmp_path).bounds if b.refuted]
    assert bound.epsilon == math.inf
    assert "equal whatever is drawn" in bound.method


def test_noisy_steps_whose_network_answers_on_the_exact_graph_are_refuted(tmp_path):
    (bound,) = [b for b in outcome(steps_on_the_exact_graph, Unit.NODE, tmp_path).bounds if b.refuted]
    assert bound.epsilon == math.inf


@pytest.mark.parametrize("train", [one_noise_for_all_rows_and_one_for_each, *nightly(answered_on_the_noisy_graph)])
def test_noise_of_each_row_refutes_nothing(train, tmp_path):
    assert not any(b.refuted for b in outcome(train, Unit.UNDIRECTED_EDGE, tmp_path).bounds)


def most_frequent(graph, seed, rows):
    """The label with the largest noisy count of neighbours, as the exponential mechanism gives it; `rows` rows of noise."""
    counts = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    noisy = counts + np.random.default_rng(seed).gumbel(0, 1.0, (rows, graph.classes))
    return {"posteriors": log_softmax(4.0 * np.eye(graph.classes)[noisy.argmax(1)])}


@pytest.mark.parametrize("delta", [0.0, *nightly(1e-5)])
@pytest.mark.parametrize("common", [True, False])
def test_one_row_of_noise_for_all_rows_tells_no_two_equal_nodes_apart(common, delta, tmp_path):
    def train(graph, seed):
        return most_frequent(graph, seed, 1 if common else graph.nodes)

    case = Case(Looped(train), Claim(2.0, delta, Unit.UNDIRECTED_EDGE))  # an edge moves two counts by 1, at scale 1
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rows"), 2, 1e-4))
    assert any(b.refuted and math.isinf(b.epsilon) for b in found.bounds) is common


@pytest.mark.parametrize("unit", [*UNITS, Unit.FEATURES])
def test_copies_are_alike_in_one_of_two_neighbouring_graphs(unit):
    graph = GRAPH.as_directed() if unit is Unit.DIRECTED_EDGE else GRAPH
    found = copies(Worlds.of(graph, np.zeros(1, dtype=np.uint64)), unit, Key("copies"))
    worlds = [found.absent.base.worlds, found.absent.worlds]
    alike, apart = worlds if found.alike else worlds[::-1]
    for world, same in ((alike, True), (apart, False)):
        g = world.graph
        near = [set(g.arcs[0][g.arcs[1] == node]) for node in (found.node, found.copy)]
        rows = [np.append(np.asarray(g.x)[node], g.y[node]) for node in (found.node, found.copy)]
        assert (near[0] == near[1] and np.array_equal(*rows)) == same
        assert g.directed or (g.edges[0] < g.edges[1]).all()
    assert sum(a.graph.arc_count for a in worlds[:1]) >= worlds[1].graph.arc_count


PAIRS = np.stack(np.triu_indices(GRAPH.nodes, 1), 1)
RESET = 17


def with_random_pairs_reset(graph, seed):
    """Each of 17 random pairs of nodes gets a fair random bit, and the number of edges gets noise. The bit of a pair then has the
    probability 1 - p / 2 with the edge and p / 2 without it, with p = 17 / pairs. That all 17 bits differ has the chance 2^-17.
    """
    rng, matrix = np.random.default_rng(seed), graph.adjacency().toarray()
    u, v = PAIRS[rng.choice(len(PAIRS), RESET, replace=False)].T
    matrix[u, v] = rng.integers(0, 2, RESET)
    return {"adjacency": np.triu(matrix), "edges": np.array([graph.edges.shape[1] + rng.laplace(0, 1.0)])}


@pytest.mark.parametrize("key", ["6", "8", *nightly("9", "10", "14", "19", "24", "35")])
def test_rare_random_bits_of_other_pairs_do_not_show_that_two_rows_never_differ(key, tmp_path):
    share = RESET / len(PAIRS) / 2
    truth = math.log((1 - share) / share) + 1.0
    case = Case(Looped(with_random_pairs_reset, releases=("adjacency", "edges")), Claim(truth + 0.5, 1e-5, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key(key), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)


def on_stored_entries(graph, rng):
    """Noise on the entries of the sparse matrix that are not 0."""
    matrix = graph.adjacency().tocsr()
    matrix.data = matrix.data + rng.normal(0, 2.0, matrix.data.shape)
    return matrix.toarray()


def on_all_entries(graph, rng):
    return graph.adjacency().toarray() + rng.normal(0, 2.0, (graph.nodes, graph.nodes))


def on_stored_entries_of_public_pairs(graph, rng):
    """The stored entries are those of all pairs within eight groups of nodes, whether they have an edge or not."""
    group = np.arange(graph.nodes) % 8
    u, v = np.nonzero(group[:, None] == group)
    return np.asarray(graph.adjacency()[u, v]).ravel() + rng.normal(0, 2.0, u.size)


def flipped_one_by_one(graph, rng):
    """Randomised response of probability 1e-3 that draws a number for each edge, and then one for each other pair."""
    bits = graph.adjacency().toarray()[tuple(PAIRS.T)] > 0
    kept, added = rng.random(bits.sum()) >= 1e-3, rng.random((~bits).sum()) < 1e-3
    out = bits.copy()
    out[bits], out[~bits] = kept, added
    return out.astype(np.float64)


@pytest.mark.parametrize(
    ("noisy", "faulty"),
    [
        (on_stored_entries, True),
        (on_all_entries, False),
        (on_stored_entries_of_public_pairs, False),
        (flipped_one_by_one, False),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_noise_on_stored_entries_alone_is_refuted(noisy, faulty, tmp_path):
    """An entry is exactly 0 without the edge. The run without it draws fewer numbers, so no draw of the two runs is the same."""

    def train(graph, seed):
        return {"matrix": noisy(graph, np.random.default_rng(seed))}

    case = Case(Looped(train, releases=("matrix",)), Claim(8.0, 1e-5, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("stored"), 2, 1e-4))
    assert any(b.refuted and math.isinf(b.epsilon) for b in found.bounds) is faulty


def test_a_model_that_refuses_the_small_graph_ends_no_audit(tmp_path):
    """It draws a number for each edge, so that the audit tries the rule for worlds that share no draws."""

    def train(graph, seed):
        if np.any(graph.degree == 0) and graph.nodes != GRAPH.nodes:
            raise ZeroDivisionError("a node has no neighbour")
        edges = graph.edges.shape[1]
        return {"edges": np.array([edges + np.random.default_rng(seed).normal(0, 4.0, edges).sum()])}

    case = Case(Looped(train, releases=("edges",)), Claim(8.0, 1e-5, Unit.UNDIRECTED_EDGE))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("refused"), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)


def of_statistic(statistic, unit, tmp_path):
    """The outcome for a function that releases one number."""

    def train(graph, seed):
        return {"statistic": np.array([statistic(graph, np.random.default_rng(seed))])}

    case = Case(Looped(train, releases=("statistic",), unit=unit), Claim(8.0, 1e-5, unit))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("statistic"), 2, 1e-4))


def largest_features(graph, rng):
    """No node of the graph changes the number, because several nodes have the largest feature of each column."""
    return np.asarray(graph.x)[graph.train].max(0).sum()


def largest_features_after_unused_draws(graph, rng):
    rng.normal(0, 1.0, 5)
    return largest_features(graph, rng)


def largest_features_in_other_noise(graph, rng):
    """The noise is the middle one of three normal numbers, which the recorder does not follow."""
    return largest_features(graph, rng) + 40.0 * np.median(rng.normal(0, 1.0, 3))


def many_neighbours(graph, rng):
    return float(graph.degree.max() > 40)


def no_small_class(graph, rng):
    return float(np.bincount(graph.y[graph.train], minlength=graph.classes).min() >= 3)


def many_noisy_neighbours(graph, rng):
    """A comparison of a noisy number. Where the largest degree is far from 40, each run gives the same bit."""
    return float(graph.degree.max() + np.median(rng.laplace(0, 1.0, 3)) > 40)


def nodes(graph, rng):
    return float(graph.nodes)


@pytest.mark.parametrize(
    ("statistic", "unit", "faulty"),
    [
        (largest_features, Unit.NODE, True),
        (largest_features, Unit.FEATURES, True),
        (largest_features, Unit.UNDIRECTED_EDGE, False),
        (largest_features_after_unused_draws, Unit.NODE, True),
        (largest_features_in_other_noise, Unit.NODE, False),
        (many_neighbours, Unit.UNDIRECTED_EDGE, True),
        (no_small_class, Unit.NODE, True),
        (many_noisy_neighbours, Unit.UNDIRECTED_EDGE, False),
        (nodes, Unit.UNDIRECTED_EDGE, False),
    ],
    ids=lambda case: getattr(case, "__name__", str(case)),
)
def test_an_exact_statistic_that_no_secret_of_the_graph_changes_is_refuted_on_other_graphs(statistic, unit, faulty, tmp_path):
    found = of_statistic(statistic, unit, tmp_path)
    assert any(b.refuted and math.isinf(b.epsilon) for b in found.bounds) is faulty


def largest_features_in_little_noise(graph, rng):
    return largest_features(graph, rng) + 1e-3 * rng.random()


def a_public_number_in_little_noise(graph, rng):
    return graph.nodes + 1e-3 * rng.random()


@pytest.mark.parametrize(
    ("statistic", "unit", "covered"),
    [
        (largest_features_in_little_noise, Unit.NODE, False),
        (largest_features_in_little_noise, Unit.UNDIRECTED_EDGE, True),
        (a_public_number_in_little_noise, Unit.UNDIRECTED_EDGE, True),
    ],
    ids=lambda case: getattr(case, "__name__", str(case)),
)
def test_a_number_that_a_secret_changes_on_another_graph_is_judged_only_if_its_noise_is_known(statistic, unit, covered, tmp_path):
    """The noise is uniform, which the recorder does not follow here."""
    found = of_statistic(statistic, unit, tmp_path)
    assert bool(found.covers) is covered
    assert not any(b.refuted for b in found.bounds)


VALUES = np.arange(-20, 21)
CHANCES = np.exp(-np.square(VALUES) / 18.0) / np.exp(-np.square(VALUES) / 18.0).sum()


@pytest.mark.usefixtures("thorough")
def test_functions_of_released_noisy_counts_are_judged_although_a_secret_changes_them_with_the_same_draws(tmp_path):
    """The recorder follows the noise, a discrete normal one, in the released counts alone."""

    def train(graph, seed):
        counts = (graph.adjacency() @ np.eye(graph.classes)[graph.y]).astype(int)
        noisy = counts + np.random.default_rng(seed).choice(VALUES, size=counts.shape, p=CHANCES)
        return {"counts": noisy.astype(float), "posteriors": log_softmax(0.2 * noisy)}

    model = Looped(train, releases=("counts", "posteriors"), events=dp.GaussianDpEvent(3.0 / 2**0.5))
    case = Case(model, Claim(8.0, 1e-5, Unit.UNDIRECTED_EDGE, exposes=model.releases))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("functions"), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)
    assert found.covers.keys() == {"counts", "posteriors"}
