"""Thresholds on exact values: one secret decides what a whole neighbourhood or a whole count adds.
The truth is counted by hand for each model, on the worst pair of graphs that has it.
"""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.searches import crossings
from gnnaudit.audit.recorded.secrets.chains import (
    ALIKE,
    BALANCED,
    CLIQUES,
    COMPLETE,
    PAIRS,
    REGULAR,
    STAR,
    STARS,
    TELLING_PATH,
    TWO_KINDS,
    WINDMILL,
    chains,
)
from gnnaudit.audit.recorded.secrets.worlds import LEAVES, UNUSUAL
from gnnaudit.audit.recorded.study import study
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.graph.graph import Worlds

from ....nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=4")  # no node has more than 15 neighbours
MOST = int(GRAPH.degree.max())
UNITS = [Unit.NODE, Unit.FEATURES, Unit.UNDIRECTED_EDGE]


def edges_among(kept, graph):
    return float((kept[graph.edges[0]] & kept[graph.edges[1]]).sum())


def of_few_neighbours(limit):
    """The number of edges among nodes of at most `limit` neighbours. An edge of two nodes beyond it decides 2 limit."""
    return lambda graph: edges_among(graph.degree <= limit, graph)


def core(limit):
    """The number of edges among nodes of at least `limit` neighbours. An edge of two of them decides 2 limit - 1."""
    return lambda graph: edges_among(graph.degree >= limit, graph)


def all_edges(graph):
    return float(graph.edges.shape[1])


def capped(limit):
    """Each node counts at most `limit` of its edges, so an edge changes the total by at most 2."""
    return lambda graph: float(np.minimum(graph.degree, limit).sum())


def large_classes(limit):
    """Sizes of the classes of training nodes, 0 where they are below `limit`: a node decides `limit`."""

    def counts(graph):
        sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
        return np.where(sizes < limit, 0.0, sizes)

    return counts


def no_small_class(limit):
    """12 if each class has at least `limit` training nodes: a node of the smallest class decides 12."""

    def bit(graph):
        return 12.0 * (np.bincount(graph.y[graph.train], minlength=graph.classes).min() >= limit)

    return bit


def triangles(limit):
    """Triangles among nodes of at most `limit` neighbours. An edge of two nodes beyond it decides limit (limit - 1)."""

    def count(graph):
        kept = np.flatnonzero(graph.degree <= limit)
        joined = graph.adjacency().toarray().astype(float)[np.ix_(kept, kept)]
        return float(((joined @ joined) * joined).sum() / 6)

    return count


def counted(statistic, scale):
    def train(graph, seed):
        exact = np.atleast_1d(statistic(graph))
        return {"counts": exact + np.random.default_rng(seed).laplace(0, scale, exact.shape)}

    return Looped(train, releases=("counts",), events=dp.LaplaceDpEvent(scale))


def audited(model, unit, tmp_path, seed=0, claim=(1.001, 0.0)):
    case = Case(model, Claim(*claim, unit, exposes=model.releases))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("crossing", seed), 3, 1e-4)).bounds
    return max(bounds, key=lambda b: (b.refuted, b.epsilon))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize("limit", [MOST + 5, *nightly(MOST + 25, MOST + 40)])
def test_a_limit_on_degrees_that_the_graph_does_not_reach_is_refuted_at_what_the_limit_decides(limit, seed, tmp_path):
    bound = audited(counted(of_few_neighbours(limit), 1.0), Unit.UNDIRECTED_EDGE, tmp_path, seed)
    assert bound.refuted
    assert 1.998 * limit <= bound.epsilon <= 2 * limit
    assert bound.method.endswith(f"on a {CLIQUES}, {limit + 1} nodes each, with an edge between them")


@pytest.mark.parametrize(
    ("statistic", "scale", "unit", "decided"),
    [
        (large_classes(12), 1.0, Unit.NODE, 12),
        (no_small_class(20), 1.0, Unit.NODE, 12),
        *nightly(
            (large_classes(7), 1.0, Unit.NODE, 7),
            (large_classes(7), 1.0, Unit.FEATURES, 8),  # another class gets the node
            (triangles(MOST + 4), 30.0, Unit.UNDIRECTED_EDGE, (MOST + 4) * (MOST + 3)),
            (core(MOST + 4), 1.0, Unit.UNDIRECTED_EDGE, 2 * (MOST + 4) - 1),
        ),
    ],
)
def test_a_count_on_one_side_of_a_threshold_is_refuted_at_what_a_secret_decides(statistic, scale, unit, decided, tmp_path):
    bound = audited(counted(statistic, scale), unit, tmp_path)
    assert bound.refuted
    assert 0.999 * decided <= bound.epsilon * scale <= 1.001 * decided


@pytest.mark.parametrize(
    ("statistic", "scale", "unit"),
    [
        (triangles(12), 132.0, Unit.UNDIRECTED_EDGE),
        (large_classes(12), 12.0, Unit.NODE),
        (no_small_class(20), 12.0, Unit.NODE),
        *nightly(
            (of_few_neighbours(20), 40.0, Unit.UNDIRECTED_EDGE),
            (capped(5), 2.0, Unit.UNDIRECTED_EDGE),
            (all_edges, 1.0, Unit.UNDIRECTED_EDGE),
            (large_classes(7), 14.0, Unit.FEATURES),
        ),
    ],
)
def test_noise_for_what_a_threshold_decides_is_not_refuted(statistic, scale, unit, tmp_path):
    assert not audited(counted(statistic, scale), unit, tmp_path).refuted


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_a_threshold_on_noisy_degrees_is_not_refuted(seed, tmp_path):
    def train(graph, seed):
        noisy = graph.degree + 3.0 * 2**0.5 * np.random.default_rng(seed).standard_normal(graph.nodes)
        return {"few": np.where(noisy <= 20, noisy, 0.0)}

    model = Looped(train, releases=("few",), events=dp.GaussianDpEvent(3.0))
    claim = float(epsilon_of(1 / 3, 1e-5)) * 1.001, 1e-5
    assert not audited(model, Unit.UNDIRECTED_EDGE, tmp_path, seed, claim).refuted


class Promised(Looped):
    max_degree = MOST


@pytest.mark.parametrize("promised", ["declared", "refused"])
def test_a_limit_beyond_the_promised_degrees_is_not_refuted(promised, tmp_path):
    """Within the promise the limit drops no edge, so the count is that of all edges."""
    train = counted(of_few_neighbours(MOST + 5), 1.0).train

    def strict(graph, seed):
        if graph.degree.max() > MOST:
            raise ValueError("too many neighbours")
        return train(graph, seed)

    model = Promised(train, releases=("counts",)) if promised == "declared" else Looped(strict, releases=("counts",))
    assert not audited(model, Unit.UNDIRECTED_EDGE, tmp_path).refuted


def test_a_limit_within_the_degrees_that_the_model_accepts_is_refuted(tmp_path):
    def strict(graph, seed):
        if graph.degree.max() > MOST:
            raise ValueError("too many neighbours")
        return counted(of_few_neighbours(MOST - 1), 1.0).train(graph, seed)

    assert audited(Looped(strict, releases=("counts",)), Unit.UNDIRECTED_EDGE, tmp_path).refuted


def with_enough(limit, unit, ends=np.less):
    """Noisy sizes of the classes of training nodes, or zeros for fewer training nodes, or edges, than `limit`."""

    def train(graph, seed):
        if ends(graph.edges.shape[1] if unit is Unit.UNDIRECTED_EDGE else graph.train.sum(), limit):
            return {"counts": np.zeros(graph.classes)}
        return counted(large_classes(0), 1.0).train(graph, seed)

    return Looped(train, releases=("counts",), events=dp.LaplaceDpEvent(1.0))


@pytest.mark.parametrize(
    ("limit", "unit", "ends"),
    [
        (40, Unit.NODE, np.less),
        (int(GRAPH.train.sum()), Unit.NODE, np.less),  # the given graph stands at the threshold
        (21 * 20, Unit.UNDIRECTED_EDGE, np.greater),  # more than the given graph has; two groups of 21 have as many
        *nightly((12, Unit.UNDIRECTED_EDGE, np.less), (3, Unit.NODE, np.less)),
    ],
)
def test_an_end_without_noise_that_one_secret_decides_is_refuted_at_infinity(limit, unit, ends, tmp_path):
    bound = audited(with_enough(limit, unit, ends), unit, tmp_path)
    assert bound.refuted
    assert bound.epsilon == np.inf
    assert "decides whether the run draws any random number" in bound.method


@pytest.mark.parametrize(("suppressed", "refuted"), [("exact", True), ("noisy", False), *nightly(("none", False))])
def test_entries_that_an_exact_count_sets_to_0_after_the_noise_are_refuted_at_infinity(suppressed, refuted, tmp_path):
    def train(graph, seed):
        sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
        noisy = sizes + np.random.default_rng(seed).laplace(0, 1, sizes.shape)
        compared = {"exact": sizes, "noisy": noisy, "none": np.full(sizes.shape, np.inf)}[suppressed]
        return {"counts": np.where(compared < 8, 0.0, noisy)}

    bound = audited(Looped(train, releases=("counts",), events=dp.LaplaceDpEvent(1.0)), Unit.NODE, tmp_path)
    assert bound.refuted == refuted
    if refuted:
        assert bound.epsilon == np.inf
        assert "changes 1 entry of 'counts'; in one of the two worlds nothing random changes" in bound.method


@pytest.mark.parametrize(("rule", "refuted"), [("exact", True), ("noisy", False)])
def test_a_class_that_noise_chooses_only_below_an_exact_lead_is_refuted_at_infinity(rule, refuted, tmp_path):
    """A whole number, whose noise is never released: below a lead of 2 it is another one in some runs, and above it in none."""

    def train(graph, seed):
        sizes = np.bincount(graph.y[graph.train], minlength=graph.classes).astype(float)
        noisy = sizes + np.random.default_rng(seed).laplace(0, 2, sizes.shape)
        second, first = np.sort(sizes)[-2:]
        chosen = sizes if rule == "exact" and first - second > 1 else noisy
        return {"counts": np.array([chosen.argmax()])}

    bound = audited(Looped(train, releases=("counts",), events=dp.LaplaceDpEvent(2.0)), Unit.NODE, tmp_path)
    assert bound.refuted == refuted
    assert (bound.epsilon == np.inf) == refuted


@pytest.mark.parametrize("unit", [Unit.NODE, *nightly(Unit.UNDIRECTED_EDGE)])
def test_an_exception_for_graphs_without_edges_or_training_nodes_is_not_refuted(unit, tmp_path):
    assert not audited(with_enough(1, unit), unit, tmp_path).refuted


def test_an_end_that_noisy_counts_decide_is_not_refuted(tmp_path):
    def train(graph, seed):
        random = np.random.default_rng(seed)
        enough = graph.train.sum() + random.laplace(0, 2) >= 40
        counts = counted(large_classes(0), 2.0).train(graph, seed + 1)["counts"]
        return {"counts": counts if enough else np.zeros(graph.classes)}

    model = Looped(train, releases=("counts",), events=dp.LaplaceDpEvent(1.0))
    assert not audited(model, Unit.NODE, tmp_path).refuted


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("most", [None, 9])
def test_the_graphs_of_a_link_differ_by_its_secret_and_have_degrees_within_the_bound(unit, most):
    names = {
        Unit.NODE: [COMPLETE, BALANCED, WINDMILL, ALIKE, TWO_KINDS],
        Unit.FEATURES: [UNUSUAL, BALANCED, TWO_KINDS, TELLING_PATH],
        Unit.UNDIRECTED_EDGE: [UNUSUAL, CLIQUES, STARS, REGULAR, COMPLETE, STAR],
    }
    made = list(chains(GRAPH, unit, most, np.random.default_rng(0)))
    assert [links[-1].graph.name.partition(", ")[0] for links in made] == names[unit]
    for links in made:
        for link in (*links[:3], links[len(links) // 2], links[-1]):
            assert link.graph.degree.max() <= (most or LEAVES + 1)
            without = link.absence(Worlds.of(link.graph, np.array([1], dtype=np.uint64))).worlds.graph
            for part in ("x", "y", "edges", "train"):
                np.testing.assert_array_equal(getattr(without, part), getattr(link.without, part))
            changed = {Unit.FEATURES: (link.graph.x != without.x).any(1), Unit.NODE: link.graph.train != without.train}
            assert np.count_nonzero(changed.get(unit, [])) <= 1
            assert link.graph.edges.shape[1] - without.edges.shape[1] == 1 or unit is not Unit.UNDIRECTED_EDGE


@pytest.mark.parametrize("unit", UNITS)
def test_where_no_node_may_have_a_neighbour_there_is_no_chain(unit):
    assert not list(chains(GRAPH, unit, 0, np.random.default_rng(0)))


def test_the_search_ends_after_its_time(monkeypatch):
    runs = []

    def train(graph, seed):
        runs.append(graph)
        return counted(all_edges, 1.0).train(graph, seed)

    def search():
        begun = len(runs)
        claim = Claim(50.0, 0.0, Unit.NODE)
        like = study(Looped(train, releases=("counts",)), GRAPH, Key("time"))
        found = list(crossings.crossings(like, GRAPH, claim, Key("time")))
        return [graph.edges.shape[1] for graph, *_ in found], len(runs) - begun

    all_runs = search()
    monkeypatch.setattr(crossings, "SECONDS", 0.0)
    few_runs = search()
    assert len(few_runs[0]) == len(all_runs[0]) == 5
    # the first complete graphs have few edges, and the last ones move the count farthest; the links of other chains move it alike
    assert max(few_runs[0][:2]) < min(all_runs[0][:2])
    more = 2 * (PAIRS - 1)  # the complete graphs of two kinds of nodes
    assert few_runs[1] + more + 4 * (LEAVES - 10) < all_runs[1] < few_runs[1] + more + 4 * LEAVES
