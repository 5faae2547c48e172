"""A graph in mapped files: the same numbers, the same training, and no copy of it in memory."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnaudit.models.data.loading import load
from gnnaudit.models.engine import features
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph import memory_mapped
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.random import streams
from gnnaudit.models.vesper.vesper import Vesper


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped") / "graph"
    memory_mapped.write(load("campus:n=400:directed=no"), folder)
    return folder


def test_a_mapped_graph_is_the_graph_that_was_written(folder: Path) -> None:
    graph, there = load("campus:n=400:directed=no"), load(str(folder))
    assert there.digest == graph.digest
    assert isinstance(there.x, np.memmap)
    assert not there.x.flags.writeable
    np.testing.assert_array_equal(there.incoming.senders, graph.incoming.senders)
    assert (there.name, there.nodes, there.classes) == (graph.name, graph.nodes, graph.classes)


def test_sparse_features_and_arcs_come_back_too(tmp_path: Path) -> None:
    graph = load("campus:n=400:directed=yes")
    graph = dataclasses.replace(graph, x=sp.csr_array(graph.x))
    there = memory_mapped.write(graph, tmp_path / "graph")
    assert there.digest == graph.digest
    assert there.directed


@pytest.mark.parametrize(
    "model",
    [
        ProGap(depth=2, epochs=3, sigma=1.0),
        Gap(hops=2, epochs=3, sigma=1.0),
        Vesper(variant="s1", epochs=3),
        Vesper(variant="s2", epochs=3, refreshes=2),
        Lpgnn(epochs=3, feature_budget=1.0, label_budget=1.0),
    ],
    ids=["progap", "gap", "s1", "s2", "lpgnn"],
)
def test_training_on_mapped_files_is_training_in_memory(model, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features read in blocks of 16 rows change nothing but the order in which gradients are added up."""
    monkeypatch.setattr(features, "BLOCK", 16 * 64)
    here, there = (
        model.fit(Worlds.of(graph, [1, 2])) for graph in (load("campus:n=400:directed=no"), memory_mapped.read(folder))
    )
    for name in here.arrays:
        np.testing.assert_allclose(here[name], there[name], rtol=1e-3, atol=1e-3)


def test_noise_has_the_same_bits_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for block in (1, 7, 1 << 20):
        monkeypatch.setattr(streams, "BLOCK", block)
        rows = torch.zeros(2, 5, 3)
        streams.add_normal(rows, [8, 9], 2.0, "somewhere")
        drawn.append(rows.numpy())
    np.testing.assert_array_equal(drawn[0], drawn[2])
    np.testing.assert_array_equal(drawn[1], drawn[2])
    np.testing.assert_allclose(drawn[0], 2 * streams.normal(np.array([8, 9]), (5, 3), "somewhere"), rtol=1e-6)


def test_a_mapped_graph_travels_as_the_name_of_its_folder_until_it_is_changed(folder: Path) -> None:
    graph = memory_mapped.read(folder)
    sent = pickle.dumps(graph)
    assert len(sent) < 1000
    assert pickle.loads(sent).digest == graph.digest
    assert len(pickle.dumps(graph.as_directed())) > graph.edges.nbytes


@pytest.mark.parametrize("name", [name for name in memory_mapped.TYPES if name != "x.data"])
def test_files_that_are_damaged_or_cut_off_are_refused_in_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    file = copy / f"{name}.npy"
    content = file.read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), content[: len(content) // 2], b""):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="Make it again") as said:
            load(str(copy))
        assert "\n" not in str(said.value)


def test_a_folder_that_exists_or_a_graph_that_breaks_its_promise_is_not_written(folder: Path, tmp_path: Path) -> None:
    graph = load("campus:n=400")
    with pytest.raises(ValueError, match="exists already"):
        memory_mapped.write(graph, folder)
    for edges in (graph.edges[::-1], graph.edges[:, ::-1], graph.edges + 1):
        with pytest.raises(ValueError, match="edges"):
            memory_mapped.write(dataclasses.replace(graph, edges=edges), tmp_path / "new")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="takes no options"):
        load(f"{folder}:split=50/25/25")
