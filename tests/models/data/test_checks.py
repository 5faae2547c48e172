"""Every file becomes a checked graph, or one line that says what is wrong."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gnnaudit.models.data.checks import Raw, check, connected, distinct, features, frequent, labelled, numbered, simple
from gnnaudit.models.data.known_sets import FORMATS, Name
from gnnaudit.models.data.loading import prepare


def raw(**changes) -> Raw:
    """A path of six nodes in two classes."""
    fields = {
        "x": np.arange(12.0).reshape(6, 2),
        "y": np.array([0, 1, 0, 1, 0, 1]),
        "edges": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]),
    }
    return Raw(**fields | changes)


def asked(**options: str) -> Name:
    return Name("given", FORMATS[".npz"], (), {"split": "34/33/33"} | options)


def bad_x(value: float) -> np.ndarray:
    x = np.ones((6, 2))
    x[3, 1] = value
    return x


MASK = np.array([True, True, False, False, False, False])

REFUSED = {
    "nan": ({"x": bad_x(np.nan)}, r"x\[3, 1\] is not a finite"),
    "infinity": ({"x": bad_x(np.inf)}, r"x\[3, 1\] is not a finite"),
    "beyond float32": ({"x": bad_x(1e300)}, r"x\[3, 1\] is not a finite"),
    "sparse nan": ({"x": sp.csr_array(bad_x(np.nan))}, r"x\[3, 1\] is not a finite"),
    "words": ({"x": np.full((6, 2), "a")}, "One-hot encode"),
    "complex": ({"x": np.ones((6, 2), complex)}, "must be real numbers"),
    "flat x": ({"x": np.ones(6)}, r"x has shape \(6,\)"),
    "no columns": ({"x": np.ones((6, 0))}, "at least one feature"),
    "short x": ({"x": np.ones((5, 2))}, "x has 5 rows, y has 6"),
    "id too large": ({"edges": np.array([[0, 1], [1, 6]])}, r"node id 6 .* 0 … 5"),
    "id negative": ({"edges": np.array([[0, -1], [1, 2]])}, r"node id -1 .* 0 … 5"),
    "id not whole": ({"edges": np.array([[0, 1], [1, 2.5]])}, "edges holds 2.5"),
    "id nan": ({"edges": np.array([[0, 1], [1, np.nan]])}, "edges holds nan"),
    "id huge": ({"edges": np.array([[0, 1], [1, 2**64 - 1]], dtype=np.uint64)}, "must fit 64-bit"),
    "edges transposed": ({"edges": np.array([[0, 1], [1, 2], [2, 3]])}, "Transpose"),
    "one-hot labels": ({"y": np.eye(6, dtype=int)}, "argmax"),
    "no nodes": ({"x": np.ones((0, 2)), "y": np.zeros(0, int), "edges": np.zeros((2, 0), int)}, "0 nodes"),
    "no edges": ({"edges": np.zeros((2, 0), int)}, "no edges"),
    "self-loops only": ({"edges": np.array([[1, 2], [1, 2]])}, "no edges"),
    "one class": ({"y": np.full(6, 3)}, "all nodes are of class 3"),
    "no labels": ({"y": np.full(6, -1)}, "none of the 6 nodes has a label"),
    "masks overlap": ({"masks": (MASK, MASK, ~MASK)}, "train_mask and val_mask share 2 nodes"),
    "mask short": ({"masks": (MASK[:5], ~MASK, ~MASK)}, r"train_mask is bool of shape \(5,\)"),
    "nothing to train on": ({"masks": (~MASK & MASK, MASK, ~MASK)}, "train_mask holds none of the 6 nodes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_name_the_value_and_the_bound(case):
    changes, said = REFUSED[case]
    options = {"split": "public"} if "masks" in changes else {}
    with pytest.raises(ValueError, match=said) as error:
        prepare(raw(**changes), asked(**options))
    assert "\n" not in str(error.value)


def test_self_loops_and_repeats_are_removed_and_said():
    edges = np.array([[0, 0, 0, 2, 2, 3], [0, 1, 1, 1, 2, 4]])
    fixed = simple(check(raw(edges=edges)), directed=False)
    assert fixed.edges.tolist() == [[0, 1, 3], [1, 2, 4]]
    assert fixed.notes == ("2 self-loops were removed.", "1 repeated edges were removed.")


def test_an_edge_listed_in_both_directions_counts_once_and_needs_no_word():
    one = np.array([[0, 1, 3], [1, 2, 4]])
    both = simple(check(raw(edges=np.concatenate([one, one[::-1]], axis=1))), directed=False)
    assert both.edges.tolist() == one.tolist()
    assert both.notes == ()
    mixed = simple(check(raw(edges=np.concatenate([one, one[::-1, :1]], axis=1))), directed=False)
    assert mixed.edges.tolist() == one.tolist()
    assert mixed.notes == ("1 edges are listed in both directions and 2 in one; each counts once.",)


def test_arcs_taken_as_edges_are_counted_out_loud():
    fixed = simple(check(raw(edges=np.array([[1, 0, 2], [0, 1, 1]]), directed=True)), directed=False)
    assert fixed.edges.tolist() == [[0, 1], [1, 2]]
    assert fixed.notes == ("1 of 3 arcs come without their reverse; each counts as an undirected edge.",)


def test_a_directed_graph_keeps_its_arcs():
    fixed = simple(check(raw(edges=np.array([[1, 0, 2, 2], [0, 1, 1, 1]]), directed=True)), directed=True)
    assert fixed.edges.tolist() == [[0, 1, 2], [1, 0, 1]]
    assert fixed.directed


def test_nodes_without_a_label_go_with_their_edges():
    fixed = labelled(check(raw(y=np.array([0, 1, -1, 1, 0, 1]))))
    assert fixed.y.tolist() == [0, 1, 1, 0, 1]
    assert fixed.edges.tolist() == [[0, 2, 3], [1, 3, 4]]
    assert fixed.x[:, 0].tolist() == [0, 2, 6, 8, 10]
    assert fixed.notes == ("1 nodes without a label were dropped with their edges.",)


def test_label_gaps_are_closed_in_order_and_said():
    fixed = numbered(check(raw(y=np.array([7, 2, 7, 2, 9, 2]))))
    assert fixed.y.tolist() == [1, 0, 1, 0, 2, 0]
    assert fixed.notes == ("Labels 2, 7, 9 are numbered 0 … 2.",)


def test_rare_classes_are_dropped_and_a_filter_that_leaves_nothing_is_refused():
    fixed = frequent(check(raw(y=np.array([0, 1, 0, 1, 0, 2]))), 2)
    assert fixed.y.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ValueError, match="min_class=4: no class has this many nodes; the largest has 3"):
        frequent(check(raw()), 4)


def test_only_the_published_preparation_drops_nodes_without_an_edge():
    lone = raw(edges=np.array([[0, 1, 2], [1, 2, 3]]))
    kept, facts = prepare(lone, asked())
    assert kept.nodes == 6
    assert facts.notes[0].startswith("2 nodes have no edge and are kept")
    dropped, facts = prepare(lone, asked(prep="paper"))
    assert dropped.nodes == 4
    assert "depends on private edges" in facts.notes[0]
    assert connected(check(raw())).nodes == 6


def test_a_class_that_is_not_trained_on_is_named():
    train, test = np.array([1, 0, 1, 0, 0, 0], bool), np.array([0, 0, 0, 1, 1, 1], bool)
    facts = prepare(raw(masks=(train, ~train & ~test, test)), asked(split="public"))[1]
    assert facts.notes == ("No node of class 1 is trained on.",)


def test_masks_that_are_not_used_are_not_judged():
    assert prepare(raw(masks=(MASK, MASK, MASK)), asked())[0].nodes == 6


def test_few_set_features_become_a_csr_array_and_many_stay_dense():
    few = np.eye(40)
    assert sp.issparse(features(few))
    assert features(few).dtype == np.float32
    assert np.array_equal(features(few).toarray(), few)
    assert isinstance(features(sp.csr_array(np.ones((3, 3)))), np.ndarray)
    assert isinstance(features(np.eye(4)), np.ndarray)


def test_one_content_has_one_digest_however_it_was_stored():
    x = np.eye(40)[np.arange(40) % 20]
    g = prepare(raw(x=x, y=np.arange(40) % 2), asked())[0]
    long = sp.coo_array(x)
    long.coords = tuple(c.astype(np.int64)[::-1] for c in long.coords)
    assert prepare(raw(x=long, y=np.arange(40) % 2), asked())[0].digest == g.digest


numbers = hnp.from_dtype(np.dtype(np.float64)) | st.floats(-3, 3)
raws = st.integers(0, 9).flatmap(
    lambda n: st.builds(
        Raw,
        x=hnp.arrays(st.sampled_from([np.float64, np.float32, np.int64, bool]), (n, 2))
        | hnp.arrays(np.float64, (n, 2), elements=st.floats(-9, 9)),
        y=hnp.arrays(np.int64, (n,), elements=st.integers(-1, 4)),
        edges=hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 30)), elements=st.integers(0, max(n - 1, 0)))
        | hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(0, 5))),
        masks=st.none() | st.tuples(*[hnp.arrays(bool, (n,))] * 3),
        directed=st.booleans(),
    )
)


@settings(max_examples=150, deadline=None)
@given(raws, st.booleans(), st.sampled_from(["public", "34/33/33", "80/10/10"]), st.booleans(), st.integers(0, 4))
def test_any_content_gives_a_sound_graph_or_one_line(content, directed, split, paper, least):
    options = {
        "directed": "yes" if directed else "no",
        "split": split,
        "prep": "paper" if paper else "kept",
        "min_class": str(least),
    }
    try:
        g, facts = prepare(content, asked(**options))
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
    assert "\n" not in refused
    if refused:
        return
    u, v = g.edges
    assert g.x.dtype == np.float32
    assert g.x.shape[0] == g.nodes == g.train.size == g.val.size == g.test.size
    assert np.isfinite(g.x.toarray() if sp.issparse(g.x) else g.x).all()
    assert (u != v).all()
    assert directed or (u < v).all()
    assert len({*zip(u.tolist(), v.tolist(), strict=True)}) == u.size > 0
    assert g.edges.min() >= 0
    assert g.edges.max() < g.nodes
    assert (np.bincount(g.y, minlength=g.classes) > 0).all()
    assert not ((g.train & g.val) | (g.train & g.test) | (g.val & g.test)).any()
    assert g.train.any()
    assert g.test.any()
    assert all(note.endswith(".") for note in facts.notes)


@settings(max_examples=200, deadline=None)
@given(hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(-5, 5)))
def test_distinct_agrees_with_numpy(values):
    assert distinct(values.copy()).tolist() == np.unique(values).tolist()


def test_distinct_finds_repeats_across_the_ends_of_its_blocks(monkeypatch):
    monkeypatch.setattr("gnnaudit.models.data.checks.BLOCK", 3)
    values = np.array([5, 1, 1, 1, 1, 2, 5, 5, 7, 0, 7, 7, 7, 7])
    assert distinct(values.copy()).tolist() == [0, 1, 2, 5, 7]


@settings(max_examples=100, deadline=None)
@given(raws.filter(lambda r: r.nodes > 0))
def test_the_induced_subgraph_has_the_edges_of_brute_force(content):
    try:
        content = check(content)
    except ValueError:
        return
    keep = np.arange(content.nodes) % 2 == 0
    left = dataclasses.replace(content, masks=None).subset(keep)
    wanted = [(u // 2, v // 2) for u, v in content.edges.T.tolist() if u % 2 == 0 and v % 2 == 0]
    assert left.edges.T.tolist() == [list(e) for e in wanted]
    assert np.array_equal(left.y, content.y[::2])


def test_edges_are_made_simple_in_less_than_their_memory():
    ends = np.random.default_rng(0).integers(0, 5000, (2, 4_000_000))
    raw = Raw(np.ones((5000, 2)), np.arange(5000) % 3, np.concatenate([ends, ends[::-1]], axis=1))
    tracemalloc.start()
    simple(check(raw), directed=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < raw.edges.nbytes  # half for the sorted edges, a quarter for the result
