"""Keyed draws of edges and neighbours: uniform, determined by the secret and the pair alone, and the effect of a replaced
neighbour.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnaudit.models.random.hashed_sampling import few, ticket
from gnnaudit.models.vesper.channel import ask
from gnnaudit.models.vesper.parties import party_a

from ..vesper.test_protocol import SEEDS, parties
from ..vesper.test_vesper import PAPER, SOUND, small_graph


def test_sampling_takes_every_neighbour_of_a_quiet_node_and_a_fair_choice_of_a_crowded_one():
    star = sp.csr_array((np.ones(12, np.float32), (np.r_[np.zeros(10, int), 11, 11], np.r_[1:11, 1, 2])), shape=(12, 12))
    counts = np.zeros(12)
    for draw in range(2000):
        send, receive = few(star, np.array([0, 11]), 4, (draw,))
        assert (receive == 0).sum() == 4
        assert sorted(send[receive == 11]) == [1, 2]
        counts[send[receive == 0]] += 1
    # Each of ten neighbours is taken with probability 0.4: standard deviation 22 around 800.
    assert abs(counts[1:11] - 800).max() < 115  # fails once in a million honest runs
    np.testing.assert_array_equal(few(star, np.array([0]), 4, (1,)), few(star, np.array([0]), 4, (1,)))


def test_an_edge_at_a_crowded_node_takes_the_place_of_another():
    """With more neighbours than the fan-out a row moves by up to 2, not 1: the reason for half the multiplier."""
    wheel = sp.csr_array((np.ones(6, np.float32), (np.zeros(6, int), np.arange(1, 7))), shape=(7, 7))
    less = sp.csr_array((np.ones(5, np.float32), (np.zeros(5, int), np.arange(1, 6))), shape=(7, 7))
    rows = np.where(np.arange(7) == 6, 1.0, -1.0)
    moved = {
        abs(rows[few(wheel, np.array([0]), 3, (d,))[0]].sum() - rows[few(less, np.array([0]), 3, (d,))[0]].sum())
        for d in range(50)
    }
    assert moved == {0.0, 2.0}


def test_tickets_are_uniform_and_differ_between_secrets():
    first, second = np.arange(20000), np.arange(20000)[::-1].copy()
    drawn = np.sort(ticket(("a", 1), first, second))
    assert abs(drawn - (np.arange(20000) + 0.5) / 20000).max() < 2.7 / math.sqrt(20000)  # Kolmogorov: once in a million
    other = ticket(("a", 2), first, second)
    assert abs(np.corrcoef(ticket(("a", 1), first, second), other)[0, 1]) < 5 / math.sqrt(20000)


def test_a_secretly_sampled_edge_stays_or_goes_whatever_the_other_edges_are():
    graph, model = small_graph(nodes=60, share=0.5), SOUND[3]
    kept = []
    for edges in (graph.edges, graph.edges[:, ::2]):
        a = party_a(model, graph.x, edges, np.ones((1, edges.shape[1]), dtype=bool), SEEDS[0])
        for refresh in range(2):
            matrix = a.sender.neighbours(refresh)
            whole = np.eye(60, dtype=np.float32)[None]
            kept.append(matrix.sum(torch.from_numpy(whole))[0].numpy())
    full, other, half = kept[0], kept[1], kept[2]
    u, v = graph.edges[:, ::2]
    np.testing.assert_array_equal(full[u, v], half[u, v])
    share = full[graph.edges[0], graph.edges[1]].mean()
    assert abs(share - model.edge_sampling) < 5 * math.sqrt(
        0.25 / graph.edges.shape[1]
    )  # fails less than once in a million honest runs
    assert (full != other).any()  # drawn anew at every refresh


def test_a_node_has_one_noisy_row_in_a_batch_however_often_it_is_asked_for():
    _, _, channel = parties(PAPER[0], small_graph())
    rows = ask(channel, "BATCH", np.array([3, 5, 3]), "FWD")
    np.testing.assert_array_equal(rows[..., 0], rows[..., 2])
    again = ask(channel, "BATCH", np.array([3, 5, 3]), "FWD")
    assert (rows != again).any()  # and a different sample in the next refresh


def test_a_rule_for_high_degrees_refuses_a_graph_with_a_low_one():
    model = replace(PAPER[0], aggregator="gcn-min-degree", floor=4)
    with pytest.raises(ValueError, match="use gcn-floor"):
        parties(model, small_graph())
