"""Neighbour lists against sorting, and in blocks as small as one edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnaudit.models.graph import neighbour_lists
from gnnaudit.models.graph.neighbour_lists import degrees, incoming


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.booleans(), st.sampled_from([1, 3, 1 << 20]))
def test_every_arc_stands_once_in_the_list_of_its_receiver(pairs: list[tuple[int, int]], directed: bool, block: int) -> None:
    """Self-loops and repeated arcs too: a self-loop of an undirected graph is two arcs."""
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_lists, "BLOCK", block)
        made = incoming(edges, 7, directed)
    arcs = [(v, u) for u, v in pairs] + ([] if directed else pairs)
    found = [sorted(made.senders[made.starts[i] : made.starts[i + 1]]) for i in range(7)]
    assert found == [sorted(u for v, u in arcs if v == i) for i in range(7)]
    assert degrees(edges, 7, directed).tolist() == [len(own) for own in found]


def test_too_many_nodes_for_32_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="2147483648 nodes"):
        incoming(np.empty((2, 0), dtype=np.int64), 2**31, directed=True)
