"""Slices and the label-only attack against loops over nodes."""

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.membership.label_only import NeighbourhoodLabels
from gnnaudit.attacks.membership.threshold import LabelOnly
from gnnaudit.attacks.roc import measure, measure_slices
from gnnaudit.attacks.subgroups import homophily, slices, thirds
from gnnaudit.models.base import Release


def test_homophily_is_the_share_of_neighbours_of_the_same_class(graph):
    adjacency = graph.adjacency().toarray()
    for i in range(graph.nodes):
        near = np.flatnonzero(adjacency[i])
        expected = (graph.y[near] == graph.y[i]).mean() if len(near) else 0.5
        assert homophily(graph)[i] == pytest.approx(expected)


def test_thirds_keep_equal_values_together():
    groups = thirds(np.array([1, 1, 1, 1, 2, 3, 4, 5, 6]))
    assert list(groups) == ["low"] * 4 + ["middle"] * 2 + ["high"] * 3


def test_nodes_and_edges_have_groups_that_roc_can_read(graph):
    rng = np.random.default_rng(0)
    bits = rng.random((5, 80)) < 0.5
    found = slices(Challenge("node", graph, np.arange(80)), graph)
    assert set(found) == {"class", "degree", "homophily"}
    leaks = measure_slices(rng.normal(size=bits.shape), bits, found["class"])
    assert sum(leak.members for leak in leaks.values()) == bits.sum()
    edges = slices(Challenge("edge", graph, graph.edges.T), graph)
    same = edges["classes"] == "same class"
    assert (graph.y[graph.edges[0, same]] == graph.y[graph.edges[1, same]]).all()


def test_the_label_only_attack_counts_what_the_labels_show(noise_release):
    """Right alone but wrong among the neighbours is planted on members only: its odds are those of the counts."""
    release, challenge, bits = noise_release
    full, alone = release["posteriors"].copy(), release["posteriors"].copy()
    own = np.arange(4) == challenge.known.y[:, None]
    alone[bits[:, :, None] & own[None]] += 30
    full[bits[:, :, None] & own[None]] -= 30
    both = Release({"posteriors@full": full, "posteriors@0-hop": alone}, release.watch)
    attack = NeighbourhoodLabels().fit(Pilot(both.part(slice(0, 20)), challenge, bits[:20]))
    target = both.part(slice(20, 40))
    combined = measure(attack.score(target, challenge), bits[20:]).auc
    alone_only = measure(LabelOnly("posteriors@0-hop").score(target, challenge), bits[20:]).auc
    assert combined > alone_only + 0.03
