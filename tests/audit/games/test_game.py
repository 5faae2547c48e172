"""Games: coins, worlds and keys."""

import numpy as np
import pytest
from scipy import stats

from gnnaudit.audit.games.game import Game, matching
from gnnaudit.audit.key import Key


def game(graph, kind="edge", items=None):
    items = np.arange(12, dtype=np.int64) if items is None else items
    return Game(graph, kind, items, Key("test"))


def test_typed_paths_are_never_mistaken_for_one_another():
    keys = [Key("a", "b"), Key("ab"), Key("a").fold("b", 1), Key("a", "b", "1"), Key("a", "b1"), Key("a", 11), Key("a", 1, 1)]
    assert len({k.seed for k in keys}) == len(keys)


def test_a_key_does_not_print_itself():
    assert "secret" not in repr(Key("secret", "word"))


def test_coins_are_fair_and_independent_between_units_and_runs(graph):
    bits = game(graph).rounds(4000).bits
    heads = bits.sum()
    assert stats.binomtest(int(heads), bits.size).pvalue > 1e-6  # fails once in a million honest runs
    correlation = np.corrcoef(bits.T)[np.triu_indices(bits.shape[1], 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(len(bits))  # 66 pairs: fails 3 times in a million


def test_the_noise_of_a_run_does_not_depend_on_its_bits_or_its_batch(graph):
    whole, tail = game(graph).rounds(20), game(graph).rounds(20, start=12)
    np.testing.assert_array_equal(whole.worlds.seeds[12:], tail.worlds.seeds)
    np.testing.assert_array_equal(whole.bits[12:], tail.bits)
    other_units = game(graph, items=np.arange(5, dtype=np.int64)).rounds(20)
    np.testing.assert_array_equal(whole.worlds.seeds, other_units.worlds.seeds)


@pytest.mark.parametrize("kind", ["edge", "node", "label"])
def test_worlds_hold_exactly_the_units_whose_coin_says_so(graph, kind):
    items = np.flatnonzero(graph.train)[:6] if kind == "label" else np.arange(6)
    rounds = game(graph, kind, items).rounds(8)
    for run in range(8):
        world = rounds.worlds.removed(run).graph
        present = {tuple(e) for e in world.edges.T}
        for unit, bit in zip(items, rounds.bits[run], strict=True):
            if kind == "edge":
                assert (tuple(graph.edges[:, unit]) in present) == bit
            elif not bit:
                assert not world.train[unit]
                assert kind == "label" or not (world.edges == unit).any()


def test_the_challenge_does_not_show_the_units(graph):
    challenge = game(graph).challenge
    known = {tuple(e) for e in challenge.known.edges.T}
    assert not known & {tuple(e) for e in challenge.items}
    assert len(known) + len(challenge) == graph.edges.shape[1]


@pytest.mark.parametrize("many", [1, 64, 1 << 20])
def test_a_matching_uses_no_node_twice_and_is_maximal(graph, many, monkeypatch):
    """many: with more edges, the function samples some of them and shuffles only the remaining free ones."""
    monkeypatch.setattr("gnnaudit.audit.games.game.MANY", many)
    monkeypatch.setattr("gnnaudit.audit.games.game.DRAWS", min(many, 64))
    chosen = matching(graph, 10**6, Key("m"))
    ends = graph.edges[:, chosen].ravel()
    assert len(set(ends.tolist())) == ends.size
    free = np.setdiff1d(np.arange(graph.nodes), ends)
    assert not (np.isin(graph.edges[0], free) & np.isin(graph.edges[1], free)).any()


def test_items_out_of_range_are_named(graph):
    with pytest.raises(ValueError, match="items="):
        game(graph, items=np.array([3, 10**6]))
