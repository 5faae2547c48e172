"""Files are read as other libraries read them, and nothing in them is ever executed."""

import json
import os
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from gnnaudit.models.data.matlab import matrices
from gnnaudit.models.data.published_files import facebook100, musae_facebook, planetoid
from gnnaudit.models.data.readers import csr, folder, npz, pt
from gnnaudit.models.data.similarity_graphs import alike, german

RNG = np.random.default_rng(0)
X = RNG.random((6, 3)).astype(np.float32)
Y = np.array([0, 1, 0, 1, 0, 1])
EDGES = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
MASKS = {f"{s}_mask": np.arange(6) // 2 == i for i, s in enumerate(("train", "val", "test"))}


class Payload:
    """A malicious pickle: it makes a folder when it is loaded."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def same(raw, masks=True):
    assert np.array_equal(raw.x, X)
    assert np.array_equal(raw.y, Y)
    assert np.array_equal(raw.edges, EDGES)
    assert (raw.masks is not None) == masks
    if masks:
        assert all(np.array_equal(a, b) for a, b in zip(raw.masks, MASKS.values(), strict=True))


def test_npz_with_the_names_of_pyg(tmp_path):
    np.savez(tmp_path / "g.npz", x=X, y=Y, edge_index=EDGES, **MASKS)
    same(npz(tmp_path / "g.npz"))


def test_masks_that_make_no_split_are_named(tmp_path):
    np.savez(tmp_path / "g.npz", x=X, y=Y, edge_index=EDGES, train_mask=MASKS["train_mask"])
    raw = npz(tmp_path / "g.npz")
    same(raw, masks=False)
    assert raw.notes == ("The file has train_mask without test_mask, val_mask, so its split was not taken.",)
    np.savez(tmp_path / "h.npz", x=X, y=Y, edge_index=EDGES, **MASKS | {"val_mask": np.arange(6)})
    with pytest.raises(ValueError, match="val_mask holds 2: must hold true or false for each node"):
        npz(tmp_path / "h.npz")


@pytest.mark.parametrize("style", ["{}_matrix.{}", "{}_{}"])
def test_npz_with_the_parts_of_two_csr_matrices(tmp_path, style):
    adjacency = sp.csr_array((np.ones(5), EDGES), shape=(6, 6))
    parts = {
        style.format(stem, part): getattr(m, part)
        for stem, m in (("adj", adjacency), ("attr", sp.csr_array(X)))
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(tmp_path / "g.npz", labels=Y, metadata=np.array({"a": 1}, dtype=object), **parts)
    raw = npz(tmp_path / "g.npz")
    assert raw.directed
    assert np.array_equal(raw.x.toarray(), X)
    assert np.array_equal(raw.edges, EDGES)


def test_pt_of_a_pyg_data_and_of_a_dict(tmp_path):
    from torch_geometric.data import Data

    tensors = {k: torch.from_numpy(v) for k, v in {"x": X, "y": Y, "edge_index": EDGES, **MASKS}.items()}
    torch.save(Data(**tensors), tmp_path / "data.pt")
    torch.save(tensors, tmp_path / "dict.pt")
    torch.save({**tensors, "y": tensors["y"][:, None], "x": tensors["x"].to_sparse()}, tmp_path / "column.pt")
    for name in ("data.pt", "dict.pt", "column.pt"):
        same(pt(tmp_path / name))


@pytest.mark.parametrize(
    "x",
    [
        torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (10**9, 10**9)),
        torch.from_numpy(X).to(torch.float8_e4m3fn),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
    ids=["too large when dense", "of 8 bits", "nested"],
)
def test_tensors_that_are_no_arrays_end_in_one_line(tmp_path, x):
    torch.save({"x": x, "y": torch.from_numpy(Y), "edge_index": torch.from_numpy(EDGES)}, tmp_path / "g.pt")
    with pytest.raises(ValueError, match="x cannot be read"):
        pt(tmp_path / "g.pt")


def test_lazy_signs_and_half_precision_are_read(tmp_path):
    rest = {"y": torch.from_numpy(Y), "edge_index": torch.from_numpy(EDGES)}
    torch.save({"x": torch._neg_view(torch.from_numpy(-X)), **rest}, tmp_path / "negative.pt")
    torch.save({"x": torch.from_numpy(X).half(), **rest}, tmp_path / "half.pt")
    for name in ("negative.pt", "half.pt"):
        assert np.allclose(pt(tmp_path / name).x, X, rtol=1e-3)


def test_a_graph_survives_the_way_through_pyg(tmp_path, graph):
    torch.save(graph.to_pyg(), tmp_path / "g.pt")
    from gnnaudit.models.data.loading import load

    again = load(str(tmp_path / "g.pt"))
    assert again.digest == graph.digest


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_of_tables_with_words_for_ids_and_labels(tmp_path, kind):
    names = np.array(list("fedcba"))
    nodes = pd.DataFrame({"id": names, "label": np.where(Y == 1, "yes", "no"), "split": np.repeat(["train", "val", "test"], 2)})
    nodes = pd.concat([nodes, pd.DataFrame(X.astype(np.float64), columns=["p", "q", "r"])], axis=1)
    nodes.to_csv(tmp_path / "nodes.csv", index=False) if kind == "csv" else nodes.to_parquet(tmp_path / "nodes.parquet")
    pd.DataFrame({"from": names[EDGES[0]], "to": names[EDGES[1]], "weight": 1.0}).to_csv(tmp_path / "edges.csv", index=False)
    raw = folder(tmp_path)
    same(raw)
    assert raw.notes == ("Labels no, yes are numbered in this order.",)


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ("id,label,p\na,0,1\nb,1,2\n", "u,v\na,c\n", "'c' in column 'v' is not the id of a node"),
        ("id,label,p\na,0,1\na,1,2\n", "u,v\na,a\n", "'a' names more than one node"),
        ("id,p\na,1\nb,2\n", "u,v\na,b\n", "must be called label"),
        ("label,p\n0,red\n1,blue\n", "u,v\n0,1\n", "column 'p' is not numbers"),
        ("label,p,split\n0,1,train\n1,2,dev\n", "u,v\n0,1\n", "split 'dev'"),
        ("label,p\n0,1\n1,2\n", "u\n0\n", "first two must be node ids"),
        ("", "u,v\n0,1\n", "not a table"),
        ("id,label, label\na,0,1\nb,1,2\n", "u,v\na,b\n", "two columns called 'label'"),
        ("id,label,p\n1,0,1\n2,1,2\n", "u,v\n1,2\n,\n", "column 'u' has an empty cell"),
    ],
)
def test_tables_that_make_no_graph_are_refused_in_one_line(tmp_path, nodes, edges, said):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    with pytest.raises(ValueError, match=said) as error:
        folder(tmp_path)
    assert "\n" not in str(error.value)


def planetoid_files(where, name, gap=0, known=8):
    """Four training rows among the known ones, three test rows in a separate order; a gap leaves ids without a row."""
    n = known + 3
    test = np.array([n - 1, n - 3, n - 2 + gap])
    x, y = sp.csr_matrix(RNG.random((n, 4)).round(1)), np.eye(3, dtype=int)[RNG.integers(0, 3, n)]
    friends = {i: [(i + 1) % n, (i + 3) % n, (i + 1) % n, i] for i in range(n)}
    parts = {"x": x[:4], "tx": x[known:], "allx": x[:known], "y": y[:4], "ty": y[known:], "ally": y[:known], "graph": friends}
    for part, value in parts.items():
        (where / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (where / f"ind.{name}.test.index").write_text("".join(f"{i}\n" for i in test))
    return [where / f"ind.{name}.{p}" for p in ("x", "tx", "allx", "ty", "ally", "graph", "test.index")]


def agrees_with_pyg(where, name, paths):
    from torch_geometric.io import read_planetoid_data

    raw = planetoid(*paths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = read_planetoid_data(str(where), name)
    u, v = raw.edges[:, raw.edges[0] != raw.edges[1]]
    arcs = np.unique(np.stack([u, v]), axis=1)
    both = np.unique(theirs.edge_index.numpy(), axis=1)
    assert np.array_equal(raw.x.toarray().astype(np.float32), theirs.x.numpy())
    assert np.array_equal(raw.y, theirs.y.numpy())
    assert np.array_equal(arcs, both)
    assert np.array_equal(raw.masks[0], theirs.train_mask.numpy())
    assert np.array_equal(raw.masks[1], theirs.val_mask.numpy())
    assert np.array_equal(raw.masks[2], theirs.test_mask.numpy())


@pytest.mark.parametrize("gap", [0, 2])
def test_planetoid_files_are_read_as_pyg_reads_them(tmp_path, gap):
    paths = planetoid_files(tmp_path, "citeseer", gap, known=600)
    assert planetoid(*paths).nodes == 603 + bool(gap)
    agrees_with_pyg(tmp_path, "citeseer", paths)


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_the_published_planetoid_files_are_read_as_pyg_reads_them(data_dir, name):
    where = data_dir / "planetoid"
    paths = [where / f"ind.{name}.{p}" for p in ("x", "tx", "allx", "ty", "ally", "graph", "test.index")]
    agrees_with_pyg(where, name, paths)


def facebook_file(path):
    table = RNG.integers(0, 4, (30, 7))
    table[:, 5] = RNG.choice([0, 2005, 2006, 2007], 30)
    upper = sp.csr_matrix(np.triu(RNG.random((30, 30)) < 0.2, 1).astype(float))
    savemat(path, {"A": upper + upper.T, "local_info": table.astype(np.uint16)})
    return table, upper + upper.T


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i2", "u2", "i4", "i8", "f4", "f8"])
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path, compressed, kind):
    full = RNG.integers(0, 100, (5, 3)).astype(kind)
    few = sp.csc_matrix(np.where(RNG.random((6, 4)) < 0.3, RNG.random((6, 4)), 0))
    savemat(tmp_path / "m.mat", {"other": "text", "full": full, "few": few}, do_compression=compressed)
    theirs, ours = loadmat(tmp_path / "m.mat"), matrices(tmp_path / "m.mat", ("full", "few"))
    assert list(ours) == ["full", "few"]
    assert np.array_equal(ours["full"], theirs["full"])
    assert ours["full"].dtype == theirs["full"].dtype
    assert np.array_equal(ours["few"].T.toarray(), theirs["few"].toarray())


def test_facebook100_features_are_the_dummies_of_pandas(tmp_path):
    table, adjacency = facebook_file(tmp_path / "U.mat")
    frame = pd.DataFrame(table[:, :5], columns=list("abcde")).replace({0: None})
    raw = facebook100(tmp_path / "U.mat")
    assert np.array_equal(raw.x, pd.get_dummies(frame, columns=list("abcde")).to_numpy(dtype=np.float32))
    assert np.array_equal(raw.y, np.where(table[:, 5] == 0, -1, table[:, 5]))
    found = sp.csr_matrix((np.ones(raw.edges.shape[1]), raw.edges), shape=(30, 30))
    assert (found != adjacency).nnz == 0
    by_gender = facebook100(tmp_path / "U.mat", target="gender")
    assert np.array_equal(by_gender.y, np.where(table[:, 1] == 0, -1, table[:, 1]))
    with pytest.raises(ValueError, match="target=name: must be one of status"):
        facebook100(tmp_path / "U.mat", target="name")


def test_musae_features_are_counted_once(tmp_path):
    (tmp_path / "e.csv").write_text("id_1,id_2\n0,1\n1,2\n")
    (tmp_path / "f.json").write_text(json.dumps({"0": [3, 1, 3], "2": [0]}))
    (tmp_path / "t.csv").write_text("id,page_type\n0,b\n1,a\n2,b\n")
    raw = musae_facebook(tmp_path / "e.csv", tmp_path / "f.json", tmp_path / "t.csv")
    assert raw.x.toarray().tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert raw.y.tolist() == [1, 0, 1]
    assert raw.edges.tolist() == [[0, 1], [1, 2]]


def test_similar_rows_are_those_of_brute_force():
    x = RNG.integers(0, 4, (60, 3)).astype(float) + RNG.random((60, 1))
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    similar = 1 / (1 + distance)
    np.fill_diagonal(similar, -1)
    wanted = np.argwhere(similar > 0.8 * similar.max(axis=1, keepdims=True))
    found = alike(x, 0.8)
    assert sorted(found.T.tolist()) == wanted.tolist()


def test_the_german_table_gives_the_published_edges(data_dir):
    published = np.loadtxt(data_dir / "nifty" / "german_edges.txt").astype(int)
    found = german(data_dir / "nifty" / "german.csv").edges
    assert sorted(found.T.tolist()) == sorted(published.tolist())


def test_nothing_in_a_file_is_executed(tmp_path):
    mark = tmp_path / "executed"
    evil = pickle.dumps(Payload(mark), protocol=2)
    paths = planetoid_files(tmp_path, "cora")
    for path in paths[:6]:
        honest = path.read_bytes()
        path.write_bytes(evil)
        with pytest.raises(ValueError, match="not admitted"):
            planetoid(*paths)
        path.write_bytes(honest)
    np.savez(tmp_path / "g.npz", x=np.array([Payload(mark)], dtype=object), y=Y, edge_index=EDGES)
    with pytest.raises(ValueError, match="without unpickling"):
        npz(tmp_path / "g.npz")
    torch.save({"x": Payload(mark)}, tmp_path / "g.pt")
    with pytest.raises(ValueError, match=r"safe to load \(it would run posix\.mkdir\)"):
        pt(tmp_path / "g.pt")
    assert not mark.exists()
    pickle.loads(evil)
    assert mark.exists()  # the payload works in an unsafe reader


@pytest.mark.parametrize(
    ("indices", "indptr", "shape"),
    [
        ([0, 9], [0, 1, 2], (2, 2)),
        ([0, -1], [0, 1, 2], (2, 2)),
        ([0, 1], [0, 7, 2], (2, 2)),
        ([], [0, 10**6, 0], (2, 2)),
        ([0, 1], [0, 1, 2], (5, 5)),
        ([0, 1], [0, 1, 2], (2,)),
    ],
)
def test_a_matrix_that_points_outside_itself_is_refused(indices, indptr, shape):
    with pytest.raises(ValueError, match="well-formed"):
        csr(np.ones(len(indices)), np.array(indices), np.array(indptr), shape, "A")


def test_a_matrix_of_a_strange_size_is_refused():
    for shape in ([1.5, np.nan], ["a", "b"]):
        with pytest.raises(ValueError, match="A: shape"):
            csr(np.ones(1), np.array([0]), np.array([0, 1]), np.array(shape), "A")


def damaged(honest: bytes, cuts):
    """The same bytes with some of them replaced, and perhaps the end missing."""
    data = bytearray(honest)
    for at, value in cuts:
        data[at % len(data)] = value
    return bytes(data[: max(1, len(data) - cuts[0][0] % len(data))] if cuts and cuts[0][1] % 3 == 0 else data)


changes = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=20)


def outcome(read, *paths):
    try:
        return read(*paths)
    except ValueError as error:
        return str(error)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    where = tmp_path_factory.mktemp("originals")
    np.savez(where / "g.npz", x=X, y=Y, edge_index=EDGES, **MASKS)
    torch.save({"x": torch.from_numpy(X), "y": torch.from_numpy(Y), "edge_index": torch.from_numpy(EDGES)}, where / "g.pt")
    facebook_file(where / "g.mat")
    return {p.suffix: p.read_bytes() for p in sorted(where.iterdir())}


@pytest.mark.parametrize(("suffix", "read"), [(".npz", npz), (".pt", pt), (".mat", facebook100)])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | changes)
def test_damaged_and_random_files_end_in_one_line(originals, tmp_path, suffix, read, change):
    path = tmp_path / f"g{suffix}"
    path.write_bytes(change if isinstance(change, bytes) else damaged(originals[suffix], change))
    said = outcome(read, path)
    assert not isinstance(said, str) or "\n" not in said


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 6), st.binary(max_size=100) | changes)
def test_damaged_planetoid_files_end_in_one_line(tmp_path, which, change):
    paths = planetoid_files(tmp_path, "cora")
    honest = paths[which].read_bytes()
    paths[which].write_bytes(change if isinstance(change, bytes) else damaged(honest, change))
    said = outcome(planetoid, *paths)
    assert not isinstance(said, str) or "\n" not in said


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60), st.text(alphabet="abc019,.-\n\"' ", max_size=60))
def test_any_text_as_a_table_ends_in_one_line(tmp_path, nodes, edges):
    (tmp_path / "nodes.csv").write_text("id,label,p\n" + nodes, newline="", errors="surrogatepass", encoding="utf-8")
    (tmp_path / "edges.csv").write_text("u,v\n" + edges, newline="")
    said = outcome(folder, tmp_path)
    assert not isinstance(said, str) or "\n" not in said
