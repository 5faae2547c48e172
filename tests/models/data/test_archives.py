"""Members of an archive that point outside its folder: no reader writes there."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from torch_geometric.data import extract_tar, extract_zip

from gnnaudit.audit.storage import store
from gnnaudit.models.data.loading import load

MEMBERS = ["../escaped.npy", "../../../escaped.npy", "{outside}/escaped.npy", "link/escaped.npy", "fine.npy"]


def pack(path: Path, name: str, outside: Path) -> None:
    """An archive with one array called `name`, behind a symbolic link to the folder outside."""
    content = io.BytesIO()
    np.save(content, np.arange(4))
    if path.suffix == ".gz":
        link, member = tarfile.TarInfo("link"), tarfile.TarInfo(name)
        link.type, link.linkname, member.size = tarfile.SYMTYPE, str(outside), len(content.getvalue())
        with tarfile.open(path, "w:gz") as tar:
            if name.startswith("link"):
                tar.addfile(link)
            tar.addfile(member, io.BytesIO(content.getvalue()))
        return
    with zipfile.ZipFile(path, "w") as archive:
        if name.startswith("link"):
            sign = zipfile.ZipInfo("link")
            sign.create_system, sign.external_attr = 3, 0o120777 << 16
            archive.writestr(sign, str(outside))
        archive.writestr(name, content.getvalue())


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("kind", ["npz", "pt", "zip", "tar.gz"])
def test_nothing_is_written_outside_of_the_folder(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own readers unpack nothing; PyTorch Geometric does, and may only do so in the folder that it was given."""
    outside, folder = tmp_path / "outside", tmp_path / "a" / "b" / "data"
    outside.mkdir()
    folder.mkdir(parents=True)
    path = folder / f"hostile.{kind}"
    pack(path, name.format(outside=outside), outside)

    class Unpacking:
        def __init__(self, root: str) -> None:
            (extract_zip if kind == "zip" else extract_tar)(str(path), root)
            raise RuntimeError("unpacked")

    monkeypatch.setattr("torch_geometric.datasets.Planetoid", Unpacking)
    before = {p for p in tmp_path.rglob("*") if not p.is_relative_to(folder)}
    with pytest.raises(ValueError, match=r"hostile|pyg:Planetoid") as said:
        load(str(path)) if kind in ("npz", "pt") else load("pyg:Planetoid", data_dir=folder, trust=True)
    assert {p for p in tmp_path.rglob("*") if not p.is_relative_to(folder)} == before
    assert "\n" not in str(said.value)
    if name == "fine.npy" and kind in ("zip", "tar.gz"):
        assert list(folder.rglob("fine.npy"))  # it is unpacked, and only there


@pytest.mark.parametrize("name", MEMBERS)
def test_a_stored_part_with_such_members_is_made_again_and_not_unpacked(name: str, tmp_path: Path) -> None:
    outside, path = tmp_path / "outside", tmp_path / "run" / "000000.npz"
    outside.mkdir()
    path.parent.mkdir()
    pack(path, name.format(outside=outside), outside)
    assert store.load(path) is None
    assert [p.name for p in tmp_path.rglob("*.npy")] == []
