"""Large archives: their arcs are read from a temporary file in blocks, equal to what NumPy reads."""

import subprocess
import sys
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest

from gnnaudit.models.data import spooled

PEAK = """
import sys
from pathlib import Path
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.memory_mapped import write

def peak():  # of this program; ru_maxrss begins at that of the program that started it
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

load("campus:n=300")
before = peak()
write(load(sys.argv[1]), sys.argv[2])
print((peak() - before) / sum(file.stat().st_size for file in Path(sys.argv[2]).iterdir()))
"""


def arcs(nodes, edges):
    ends = np.random.default_rng(0).integers(0, nodes, (2, edges))
    return np.concatenate([ends, ends[::-1]], axis=1)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", ">i4", "uint64", "float64"])
def test_a_spooled_array_is_what_numpy_reads(tmp_path, monkeypatch, save, dtype):
    monkeypatch.setattr(spooled, "CHUNK", 1000)
    monkeypatch.setattr(spooled, "BLOCK", 300)
    save(tmp_path / "graph.npz", edge_index=arcs(200, 501).astype(dtype))
    with zipfile.ZipFile(tmp_path / "graph.npz") as archive:
        found = spooled.spooled(archive, "edge_index")
    expected = np.load(tmp_path / "graph.npz")["edge_index"]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.concatenate(list(spooled.blocks(found)), axis=1), expected)
    np.testing.assert_array_equal(found, expected)  # also after its pages were dropped


@pytest.mark.parametrize("array", [np.asfortranarray(arcs(9, 5)), np.empty((2, 0)), np.array([[None], [1]])])
def test_what_cannot_be_spooled_is_left_to_numpy(tmp_path, array):
    np.savez(tmp_path / "graph.npz", edge_index=array)
    with zipfile.ZipFile(tmp_path / "graph.npz") as archive:
        assert spooled.spooled(archive, "edge_index") is None


def test_without_room_for_a_temporary_file_the_array_is_left_to_numpy(tmp_path, monkeypatch):
    monkeypatch.setattr(spooled.tempfile, "TemporaryFile", Mock(side_effect=OSError(28, "No space left on device")))
    np.savez(tmp_path / "graph.npz", edge_index=arcs(9, 5))
    with zipfile.ZipFile(tmp_path / "graph.npz") as archive:
        assert spooled.spooled(archive, "edge_index") is None


def test_a_member_that_ends_early_is_an_error(tmp_path):
    np.save(tmp_path / "edge_index.npy", arcs(9, 50))
    with zipfile.ZipFile(tmp_path / "graph.npz", "w") as archive:
        archive.writestr("edge_index.npy", (tmp_path / "edge_index.npy").read_bytes()[:-8])
    with zipfile.ZipFile(tmp_path / "graph.npz") as archive, pytest.raises(ValueError, match="reshape"):
        spooled.spooled(archive, "edge_index")


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_mapping_an_archive_takes_little_more_memory_than_its_files(tmp_path):
    """The arcs alone are 1.3 times the files; read whole, they made the growth 2.2 times the files."""
    nodes = 30_000
    draw = np.random.default_rng(1)
    x, y = draw.random((nodes, 64), dtype=np.float32), draw.integers(0, 3, nodes)
    np.savez(tmp_path / "graph.npz", x=x, y=y, edge_index=arcs(nodes, 4_000_000))
    command = [sys.executable, "-c", PEAK, str(tmp_path / "graph.npz"), str(tmp_path / "mapped")]
    growth = float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout)
    assert 1 < growth < 1.5  # the mapped files themselves are at least read
