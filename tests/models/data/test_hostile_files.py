"""Malicious files of data sets run no code, take no more memory than allowed, and are refused in one line."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from gnnaudit.models.data.loading import load

from ...nightly import nightly

SMALL = 32 << 20  # bytes of memory that are allowed here


class Runs:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def header(shape: tuple[int, ...], kind: str) -> bytes:
    """The first bytes of a .npy file that promises an array of this shape."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def bomb_npz(path: Path) -> None:
    """A quarter of a megabyte that unpacks to 256 MiB of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("y", "edge_index"):
            buffer = io.BytesIO()
            np.save(buffer, np.zeros((2, 4), dtype=np.int64))
            archive.writestr(f"{name}.npy", buffer.getvalue())
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(header((1 << 13, 1 << 13), "<f4"))
            for _ in range(16):
                member.write(bytes(1 << 24))


def promised_npz(path: Path) -> None:
    """A header that promises a petabyte."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "y", "edge_index"):
            archive.writestr(f"{name}.npy", header((1 << 47,), "<i8") + b"12345678")


def bomb_mat(path: Path) -> None:
    packed = zlib.compress(bytes(256 << 20))
    path.write_bytes(b"MATLAB".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed)


def bomb_pt(path: Path) -> None:
    """A tensor of a billion equal numbers, of which four bytes are stored."""
    wide = torch.zeros(1).expand(1 << 15, 1 << 15)
    torch.save({"x": wide, "y": torch.zeros(4, dtype=torch.long), "edge_index": torch.zeros(2, 4, dtype=torch.long)}, path)


def bomb_parquet(path: Path) -> None:
    path.mkdir()
    (path / "edges.csv").write_text("a,b\n0,1\n")
    pd.DataFrame({"label": np.zeros(1 << 23, dtype=np.int64), "f": np.zeros(1 << 23)}).to_parquet(path / "nodes.parquet")


def wide_csv(path: Path) -> None:
    path.mkdir()
    (path / "nodes.csv").write_text("label,f\n0,1\n1,2\n")
    (path / "edges.csv").write_text("a,b\n" + "0,1\n" * (1 << 22))


BOMBS: dict[str, Callable[[Path], None]] = {
    "b.npz": bomb_npz,
    "b.mat": bomb_mat,
    "b.pt": bomb_pt,
    "parquet": bomb_parquet,
    "csv": wide_csv,
}


@pytest.mark.parametrize("name", nightly("b.mat", among=BOMBS))
def test_what_unpacks_to_more_than_the_memory_is_refused(name: str, tmp_path: Path) -> None:
    BOMBS[name](tmp_path / name)
    with pytest.raises(ValueError, match="--memory") as said:
        load(str(tmp_path / name), memory=SMALL)
    assert str(tmp_path / name) in str(said.value)
    assert "\n" not in str(said.value)


def test_a_header_that_promises_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    promised_npz(tmp_path / "p.npz")
    with pytest.raises(ValueError, match=r"p\.npz"):
        load(str(tmp_path / "p.npz"), memory=SMALL)


@pytest.mark.parametrize("file", ["nodes.csv", "edges.csv"])
def test_a_table_with_nul_characters_is_refused(file: str, tmp_path: Path) -> None:
    """pandas reads on behind a NUL, and takes 1\\x002 for 1."""
    (tmp_path / "nodes.csv").write_bytes(b"label,f\n0,1\n1,2\n0,3\n1,4\n")
    (tmp_path / "edges.csv").write_bytes(b"a,b\n0,1\n1,2\n2,3\n")
    path = tmp_path / file
    path.write_bytes(path.read_bytes().replace(b"2\n", b"2\x002\n", 1))
    with pytest.raises(ValueError, match=r"NUL character at byte \d+"):
        load(str(tmp_path))


@pytest.mark.parametrize("kind", ["npz", "pt", "planetoid", "pyg"])
def test_pickles_run_nothing(kind: str, tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / f"mine.{kind}"
    name = str(path)
    if kind == "npz":
        np.savez(path, x=np.array([Runs(mark)], dtype=object), y=np.zeros(1), edge_index=np.zeros((2, 1)))
    elif kind == "pt":
        torch.save({"x": Runs(mark)}, path)
    else:
        name = "cora" if kind == "planetoid" else "pyg:Planetoid:Cora"
        raw = tmp_path / "planetoid" if kind == "planetoid" else tmp_path / "pyg" / "Planetoid" / "Cora" / "raw"
        raw.mkdir(parents=True)
        for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
            (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(Runs(mark)))
    with pytest.raises(ValueError, match=r"mine|ind\.cora|--trust"):
        load(name, data_dir=tmp_path)
    assert not mark.exists()


def test_pyg_would_have_run_them(tmp_path: Path) -> None:
    """The effect of `--trust`, and the refusal without it."""
    raw = tmp_path / "pyg" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(ValueError, match="pyg:Planetoid:Cora"):
        load("pyg:Planetoid:Cora", data_dir=tmp_path, trust=True)
    assert (tmp_path / "ran").exists()
