"""Names load the published graphs, with a reproducible split."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat
from torch_geometric.data import Data

from gnnaudit.models.data import loading
from gnnaudit.models.data.known_sets import DATASETS, parse
from gnnaudit.models.data.loading import describe, load, load_described
from gnnaudit.models.graph.graph import dense


@pytest.fixture
def university(tmp_path):
    """A folder with one small file in the format of Facebook100: years 2004 (5 nodes), 2005 and 2006, some missing."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, 4, (200, 7))
    table[:, 5] = np.repeat([2004, 2005, 2006, 0], [5, 90, 85, 20])
    upper = np.triu(rng.random((200, 200)) < 0.1, 1)
    upper[150, :] = upper[:, 150] = False
    savemat(tmp_path / "Tiny1.mat", {"A": sp.csc_matrix((upper | upper.T).astype(float)), "local_info": table.astype(np.uint16)})
    return tmp_path


def test_the_split_is_drawn_before_rare_classes_are_dropped(university):
    g = load("facebook100:Tiny1", university)
    every = load("facebook100:Tiny1:min_class=0", university)
    assert (every.train.sum(), every.val.sum(), every.test.sum()) == (135, 18, 27)
    kept = every.y > 0
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(g, part), getattr(every, part)[kept])
    assert np.bincount(g.y).tolist() == [90, 85]


def test_classes_under_three_per_cent_of_the_labelled_are_dropped_unless_told_otherwise(university):
    graph, facts = load_described("facebook100:Tiny1", university)
    assert graph.nodes == 175
    assert facts.notes == (
        "20 nodes without a label were dropped with their edges.",
        "1 classes with fewer than 6 nodes were dropped, with their 5 nodes.",
        "1 node has no edge and is kept; prep=paper drops such nodes, as published work does.",
        "Labels 2005, 2006 are numbered 0 … 1.",
    )
    assert load("facebook100:Tiny1:prep=paper", university).nodes == 174


def test_a_path_to_a_matlab_file_is_the_same_graph(university):
    by_name, by_path = load("facebook100:Tiny1", university), load(str(university / "Tiny1.mat"))
    assert by_name.digest == by_path.digest


def test_the_split_depends_on_its_number_and_on_the_node_count_alone():
    one, again, two = load("campus", split=1), load("campus", split=1), load("campus", split=2)
    assert np.array_equal(one.test, again.test)
    assert not np.array_equal(one.test, two.test)
    assert np.array_equal(one.test, load("campus:seed=9", split=1).test)
    assert np.array_equal(one.edges, two.edges)


def test_the_split_holds_the_asked_shares_and_no_node_twice():
    g = load("campus:split=50/25/25")
    assert (g.train.sum(), g.val.sum(), g.test.sum()) == (1000, 500, 500)
    assert (g.train.astype(int) + g.val + g.test == 1).all()


def test_johns_hopkins_is_the_graph_of_the_published_figures(data_dir):
    g = load("facebook100:JohnsHopkins55:min_class=150:prep=paper", data_dir)
    assert (g.nodes, g.edges.shape[1], g.arcs.shape[1], g.dim) == (4414, 162_995, 325_990, 253)
    assert np.bincount(g.y).tolist() == [259, 634, 847, 842, 923, 909]
    assert np.isclose(np.bincount(g.y).max() / g.nodes, 0.2091, atol=1e-4)
    sizes = g.train.sum(), g.val.sum(), g.test.sum()
    assert np.allclose(sizes, (3314, 435, 665), atol=20)  # another draw of the split: 435 has a standard error of 3.4


def test_keeping_the_isolated_adds_eleven_nodes_and_no_edge_at_johns_hopkins(data_dir):
    g = load("facebook100:JohnsHopkins55", data_dir)
    assert (g.nodes, g.edges.shape[1]) == (4425, 162_995)
    assert np.bincount(g.y).tolist() == [262, 635, 849, 843, 926, 910]


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [
        ("cora", 2708, 5278, 1433, 7),
        ("citeseer", 3327, 4552, 3703, 6),
        ("cora_ml", 2995, 8158, 2879, 7),
        ("cora_ml:directed=yes", 2995, 8416, 2879, 7),
        ("musae-facebook", 22_470, 170_823, 4714, 4),
        ("german", 1000, 21_742, 27, 2),
    ],
)
def test_published_graphs_have_their_published_sizes(data_dir, name, nodes, edges, features, classes):
    g = load(name, data_dir)
    assert (g.nodes, g.edges.shape[1], g.dim, g.classes) == (nodes, edges, features, classes)


def test_the_public_split_of_cora_is_140_500_1000(data_dir):
    g = load("cora:split=public", data_dir)
    assert (g.train.sum(), g.val.sum(), g.test.sum()) == (140, 500, 1000)
    assert np.bincount(g.y[g.train]).tolist() == [20] * 7


def test_the_digits_graph_joins_like_with_like():
    g, facts = load_described("digits")
    assert (g.nodes, g.dim, g.classes) == (1797, 64, 10)
    assert describe(g)["homophily"] > 0.9
    assert "the features alone reveal much about the edges" in facts.notes[0]


def test_facts_are_plain_enough_for_json(university):
    told = describe(*load_described("facebook100:Tiny1", university))
    again = json.loads(json.dumps(told))
    assert again["classes"] == [90, 85]
    assert again["isolated"] == 1
    assert list(again["sha256"]) == ["Tiny1.mat"]


def test_homophily_density_and_degrees_are_what_they_say(graph):
    told = describe(graph)
    pairs = [graph.y[u] == graph.y[v] for u, v in graph.edges.T]
    assert told["homophily"] == round(sum(map(int, pairs)) / len(pairs), 4)
    assert told["degree_mean"] == 2 * 90 / 40
    assert told["density"] == 1.0


def test_a_file_that_is_not_the_published_one_is_said(university, monkeypatch):
    monkeypatch.setitem(loading.SHA256, "facebook100/Tiny1.mat", "0" * 64)
    notes = load_described("facebook100:Tiny1", university)[1].notes
    assert notes[-1] == "Tiny1.mat is not the published file: its sha256 differs."


def test_any_set_of_pytorch_geometric_by_class(tmp_path, monkeypatch, graph):
    import torch_geometric.datasets

    class Made(list):
        def __init__(self, root, name):
            assert (root, name) == (str(tmp_path / "pyg" / "Planetoid"), "Cora")
            super().__init__([graph.to_pyg()])

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", Made)
    assert load("pyg:Planetoid:Cora", tmp_path, trust=True).digest == graph.digest


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "no such data set"),
        ("campuss", "Did you mean 'campus'"),
        ("CORA_ML", "Did you mean 'cora_ml'"),
        ("planetoid:Cora", "Did you mean 'cora'"),
        ("campus:n=many", "n=many: must be a whole number"),
        ("campus:m=3", "no option 'm'; there are n, seed, degree, split"),
        ("campus:200", "must be written campus, then options"),
        ("campus:split=90/10", "split=90/10: must be 'public' or three per cent"),
        ("campus:split=nan/50/50", "split=nan/50/50"),
        ("campus:split=public", "the files contain no split"),
        ("campus:directed=maybe", "must be yes or no"),
        ("campus:min_class=9999", "the largest has 500"),
        ("facebook100", "must be written facebook100:UNIVERSITY"),
        ("facebook100:../../etc/passwd", "must be written facebook100:UNIVERSITY"),
        ("facebook100:Tiny1:target=name", "target=name: must be one of status"),
        ("pyg:os", "must name a class of torch_geometric.datasets"),
        ("pyg", "must be written pyg:CLASS"),
        ("nowhere.npz", "no such data set, file or folder"),
        ("a\0b.npz", "no such data set, file or folder"),
        ("x" * 5000, "no such data set, file or folder"),
        ("~nobody-of-that-name/g.npz", "no such data set, file or folder"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_line(university, name, said):
    with pytest.raises(ValueError, match=said) as error:
        load(name, university)
    assert "\n" not in str(error.value)


def test_options_may_follow_a_path_even_one_with_signs_in_it(tmp_path):
    (tmp_path / "a=1:b=2").mkdir()
    (tmp_path / "a=1:b=2" / "nodes.csv").write_text("label,p\n0,1\n1,2\n0,3\n1,4\n")
    (tmp_path / "a=1:b=2" / "edges.csv").write_text("u,v\n0,1\n3,2\n")
    g = load(f"{tmp_path / 'a=1:b=2'}:split=50/25/25:directed=yes")
    assert g.edges.tolist() == [[0, 3], [1, 2]]
    assert g.train.sum() == 2


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "g.pkl").write_text("")
    with pytest.raises(ValueError, match=r"must end in \.npz, \.pt, \.mat"):
        load(str(tmp_path / "g.pkl"))


words = st.sampled_from(
    [*DATASETS, "pyg", "n=3", "seed=-1", "split=", "=", "target=year", "min_class=1e9", "Caltech36", "", "\0"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(words | st.text(max_size=8), max_size=5).map(":".join))
def test_any_text_is_a_name_or_one_line(text):
    try:
        assert parse(text).text == text
        refused = ""
    except ValueError as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1


def test_every_data_set_says_where_it_comes_from():
    for data in DATASETS.values():
        assert all(getattr(data, f.name) for f in dataclasses.fields(data) if f.name in ("about", "source", "licence", "split"))


def test_split_0_of_johnshopkins55_is_the_one_behind_the_published_code(data_dir):
    """Sizes and the majority of the test set as the official ProGAP and GAP code print them: 3314 / 435 / 665, 21.05 %."""
    graph = load("facebook100:JohnsHopkins55:min_class=150:prep=paper", data_dir)
    assert [int(m.sum()) for m in (graph.train, graph.val, graph.test)] == [3314, 435, 665]
    assert np.bincount(graph.y[graph.test]).max() == 140


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "name=None: must be the name of a data set, a path, or a torch_geometric.data.Data."),
        ({"name": 3}, "name=3: must be the name"),
        ({"name": Path("/nope/g.npz")}, "data '/nope/g.npz': no such data set, file or folder."),
        ({"split": -1}, "split=-1: must be a whole number"),
        ({"split": 1.5}, "split=1.5: must be a whole number"),
        ({"memory": "8GiB"}, "memory='8GiB': must be a whole number of bytes"),
        ({"data_dir": 3}, "data_dir=3: must be the path of a folder"),
        ({"trust": "no"}, "trust='no': must be True or False."),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(change, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        load(**({"name": "campus:n=300"} | change))


NPZ = {"x": np.eye(6, dtype=np.float32), "y": np.arange(6) % 3, "edge_index": np.array([[0, 1, 2, 3], [1, 2, 3, 4]])}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"edge_index": NPZ["edge_index"] + 0.5}, "edges holds 0.5"),
        ({"edge_index": NPZ["edge_index"] + 9}, "node id"),
        ({"x": NPZ["x"][:2]}, "x has 2 rows"),
        ({"x": NPZ["x"] * np.nan}, "not a finite"),
        ({"y": NPZ["y"] * 0}, "all nodes are of class 0"),
        ({"y": NPZ["y"] - 9}, "has a label"),
        ({"edge_index": np.zeros((2, 3), dtype=int)}, "no edges"),
        ({"adj_data": np.ones(3)}, "two graphs"),
    ],
)
def test_a_fault_in_a_file_is_told_with_its_name(tmp_path, wrong, said):
    np.savez(tmp_path / "mine.npz", **{**NPZ, **wrong})
    with pytest.raises(ValueError, match=said) as fault:
        load(str(tmp_path / "mine.npz"))
    assert str(fault.value).startswith(str(tmp_path / "mine.npz"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("campus:n=300:n=400", "more than once"),
        ("campus:n=300:seed=-1", "seed=-1: must be a whole number, 0 or more"),
        ("campus:n=1000000000000", "at most"),
    ],
)
def test_an_option_of_a_data_set_is_refused_with_its_value(name, said):
    with pytest.raises(ValueError, match=said) as fault:
        load(name)
    assert "campus" in str(fault.value)


@pytest.mark.parametrize("split", [-1, 10**22])
def test_splits_have_numbers_of_32_bits(split):
    with pytest.raises(ValueError, match=f"split={split}: must be"):
        load("campus:n=300", split=split)


def test_columns_of_one_name_are_refused_as_the_file_names_them(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b\n0,1\n1,2\n")
    (tmp_path / "nodes.csv").write_text("label,f,f\n0,1,2\n1,2,3\n0,3,3\n")
    with pytest.raises(ValueError, match=r"nodes\.csv: has two columns called 'f'"):
        load(str(tmp_path))


def test_a_wrong_cell_among_whole_numbers_is_named_as_it_is(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,label,f\n" + "".join(f"{i},{i % 2},{i}\n" for i in range(6)))
    for cell, named in (("1.5", "'1.5' in column 'source' is not"), ("", "column 'source' has an empty cell")):
        (tmp_path / "edges.csv").write_text(f"source,target\n5,2\n{cell},3\n")
        with pytest.raises(ValueError, match=named):
            load(str(tmp_path))


@pytest.mark.parametrize("masks", [True, False], ids=["with its split", "without a split"])
def test_data_of_pytorch_geometric_in_memory_is_the_graph_of_its_file(tmp_path, graph, masks):
    data = graph.to_pyg()
    if not masks:
        del data.train_mask, data.val_mask, data.test_mask
    torch.save(data, tmp_path / "mine.pt")
    here, from_file = load(data, split=2), load(tmp_path / "mine.pt", split=2)
    assert dataclasses.replace(here, name="").digest == dataclasses.replace(from_file, name="").digest
    for name in ("x", "y", "edges", "train", "val", "test"):
        assert np.array_equal(dense(getattr(here, name)), dense(getattr(from_file, name)))


def test_data_in_memory_that_is_no_graph_is_one_line():
    with pytest.raises(ValueError, match=r"^data.*: has no x, y; a graph needs x, y and edge_index\.$"):
        load(Data(edge_index=torch.zeros((2, 3), dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"name=\[\]: must be the name of a data set, a path, or a torch_geometric\.data\.Data"):
        load([])
    with pytest.raises(ValueError, match=r"split=-1: must be a whole number"):
        load(Data(edge_index=torch.zeros((2, 3), dtype=torch.int64)), split=-1)
