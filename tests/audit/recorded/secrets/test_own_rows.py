"""Claims about nodes do not count the absent node's own rows, unless others are served from them, or they tell the node's label
or whether it was trained on. Truths are closed forms of the Gaussian mechanism: a node with d neighbours moves d rows of a sum of
unit rows by 1 each.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.own_rows import own_places, private
from gnnaudit.audit.storage.store import Store

from ....nightly import nightly
from ..votes import released

GRAPH, DELTA, STD = load("campus:n=120:degree=6"), 1e-5, 8.0
NEIGHBOURS = int(GRAPH.degree[GRAPH.train].max())


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def rows(graph):
    return unit(np.asarray(graph.x, dtype=float)[:, : graph.classes] + 0.1) * graph.train[:, None]


def noise(seed, *shape, std=STD):
    return std * np.random.default_rng(seed).standard_normal(shape)


def read_out(values, graph):
    return released(np.tanh(values / 8))


def sums(graph, seed):
    return read_out(graph.adjacency() @ rows(graph) + noise(seed, graph.nodes, graph.classes), graph)


def node_by_node(graph, seed):
    heads = (graph.adjacency() @ rows(graph)).reshape(graph.nodes * 3, 2)
    return read_out((heads + noise(seed, *heads.shape)).reshape(graph.nodes, 6), graph)


def block_by_block(graph, seed):
    heads = np.concatenate(np.split(graph.adjacency() @ rows(graph), 3, axis=1))
    return read_out(np.concatenate(np.split(heads + noise(seed, *heads.shape), 3), axis=1), graph)


def columns(graph, seed):
    clean = (graph.adjacency() @ rows(graph)).T
    return read_out((clean + noise(seed, *clean.shape)).T, graph)


def two_hops(graph, seed):
    """Each of two sums moves by the root of the number of neighbours: the second sum reads the noisy row of the node."""
    first = graph.adjacency() @ rows(graph) + noise(seed, graph.nodes, graph.classes)
    second = graph.adjacency() @ unit(first) + noise(seed + 1, graph.nodes, graph.classes)
    return read_out(np.tanh(first / 8) + np.tanh(second / 8), graph)


def own_key(graph, seed):
    """Each node is served from its own noisy features alone, which whoever asks about the node gives: nobody learns anything."""
    own = unit(np.asarray(graph.x, dtype=float)[:, : graph.classes] + 0.1)
    return read_out(np.tanh(own + noise(seed, graph.nodes, graph.classes, std=0.5)), graph)


def own_label(graph, seed):
    """Each node is served from its own noisy label."""
    return read_out(np.tanh(np.eye(graph.classes)[graph.y] + noise(seed, graph.nodes, graph.classes, std=0.5)), graph)


def own_training(graph, seed):
    """Each node is served from a noisy bit that says whether it was trained on."""
    return read_out(np.tanh(graph.train[:, None] + noise(seed, graph.nodes, graph.classes, std=0.5)), graph)


def key_of_the_next(graph, seed):
    """Each node is served from the noisy row of the next node, which moves by 1."""
    keys = rows(graph) + noise(seed, graph.nodes, graph.classes, std=0.5)
    return read_out(np.tanh(keys[(np.arange(graph.nodes) + 1) % graph.nodes]), graph)


def matrix(graph, seed):
    """The noisy adjacency matrix: the node moves one entry in the row of each neighbour."""
    noisy = graph.adjacency().toarray() + noise(seed, graph.nodes, graph.nodes)
    return released(np.zeros((graph.nodes, graph.classes))) | {"matrix": noisy}


def audited(train, epsilon, folder):
    releases = ("posteriors", "matrix") if train is matrix else ("posteriors",)
    model = Looped(train, unit=Unit.NODE, releases=releases, max_degree=int(GRAPH.degree.max()))
    case = Case(model, Claim(epsilon, DELTA, Unit.NODE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("own"), 3, 1e-9))


TRUTHS = {
    sums: NEIGHBOURS**0.5 / STD,
    node_by_node: NEIGHBOURS**0.5 / STD,
    block_by_block: NEIGHBOURS**0.5 / STD,
    columns: NEIGHBOURS**0.5 / STD,
    two_hops: (2 * NEIGHBOURS) ** 0.5 / STD,
    key_of_the_next: 1 / 0.5,
    matrix: GRAPH.degree.max() ** 0.5 / STD,
}


@pytest.mark.parametrize("train", nightly(key_of_the_next, node_by_node, block_by_block, columns, two_hops, matrix, among=TRUTHS))
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_what_a_node_changes_for_others_has_the_epsilon_of_its_closed_form(train, factor, tmp_path):
    bounds = audited(train, factor * float(epsilon_of(TRUTHS[train], DELTA)), tmp_path).bounds
    assert any(b.refuted for b in bounds) == (factor < 1)
    assert min(b.notices for b in bounds) < 1.1


def test_what_a_node_is_told_about_itself_is_not_counted(tmp_path):
    outcome = audited(own_key, 0.1, tmp_path)
    assert max(b.epsilon for b in outcome.bounds) == 0
    assert not any(b.refuted for b in outcome.bounds)


@pytest.mark.parametrize(("train", "distance"), [(own_label, 2**0.5), *nightly((own_training, GRAPH.classes**0.5))])
def test_what_a_node_is_told_about_its_label_and_its_training_counts_by_half(train, distance, tmp_path):
    """The label changes in two steps, of which one moves the value by half of the distance or more."""
    truth = float(epsilon_of(distance / 2 / 0.5, DELTA))
    outcome = audited(train, 0.9 * truth, tmp_path)
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(truth, rel=1e-3)
    assert any(b.refuted for b in outcome.bounds)
    assert not any(b.refuted for b in audited(train, 1.1 * truth, tmp_path).bounds)


def test_rows_of_a_node_are_found_along_each_axis_and_in_both_layouts():
    hidden = np.array([2])
    found = [(p.axis, p.at.tolist(), p.exact) for p in own_places((3, 5, 6), 3, hidden)]
    assert found == [(0, [2], True), (2, [4, 5], False), (2, [2, 5], False)]
    assert list(own_places((4, 7), 3, hidden)) == []


def test_places_that_are_read_for_others_are_left_out_until_the_rest_is_read_alone():
    """A chain: place 2 is read for others, place 1 for place 2, place 0 for place 1."""
    reads = {0: {1}, 1: {2}, 2: {"others"}, 3: set()}
    (place,) = own_places((3,), 3, np.array([0]))

    def alone(changed, own):
        known = {i for i, _ in own}
        return all(reads[i] <= known for i, _ in changed)

    assert [i for i, _ in private([(i, place) for i in reads], alone)] == [3]
    assert private([(2, place)], alone) == []
