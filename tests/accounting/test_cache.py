"""Changed, damaged or planted files in the cache of accounting change no result and raise no error."""

from __future__ import annotations

import json
import logging
import os
from itertools import pairwise
from pathlib import Path

import pytest

from gnnaudit.accounting import cache, events
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper import accountants
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.models.gap.gap import Gap

from ..nightly import nightly

CLAIM = Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE)
LEDGER = events.dp_sgd(1.0, 0.01, 100)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "accounting"
    monkeypatch.setenv("GNNAUDIT_CACHE", str(where))
    again()
    yield where
    again()


def again() -> None:
    """As in a new process: only the files on disk are remembered."""
    accountants.COMPUTED.clear()
    cache._usable.cache_clear()
    cache._say.cache_clear()


def forged(path: Path, change: object) -> None:
    """The file with another value and a correct checksum, as an attacker who knows the format would write it."""
    name = path.stem
    path.write_text(json.dumps({"sum": cache._sum(name, change), "value": change}))


def values(folder: Path) -> dict[Path, object]:
    return {path: json.loads(path.read_text())["value"] for path in folder.glob("*.json")}


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 3.0])
def test_a_changed_noise_is_not_believed(folder: Path, factor: float, caplog: pytest.LogCaptureFixture) -> None:
    honest = calibrate(Gap(), CLAIM).sigma
    for path, value in values(folder).items():
        if isinstance(value, float):
            forged(path, value * factor)
    again()
    assert calibrate(Gap(), CLAIM).sigma == honest
    assert "does not pass its check" in caplog.text


@pytest.mark.parametrize("changed", [0.001, *nightly(100.0)])
def test_a_changed_upper_bound_decides_nothing(folder: Path, changed: float) -> None:
    claim = Claim(2.0, 1e-5)
    honest = tightest(upper(LEDGER, claim, stored=False))
    for path, value in values(folder).items():
        forged(path, {**value, "epsilon": changed, "unsupported": None})
    again()
    found = tightest(upper(LEDGER, claim, stored=False))
    assert (found.accountant, found.epsilon) == (honest.accountant, honest.epsilon)


def test_one_bit_changed_anywhere_is_not_believed(folder: Path) -> None:
    value = {"epsilon": 1.25, "name": "rdp", "rows": [1, 2.5, None]}
    assert cache.remembered(lambda: value, "key", holds=bool) == value
    (path,) = folder.glob("*.json")
    content = path.read_bytes()
    for at in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            assert cache.remembered(lambda: value, "key", holds=bool) == value, (at, bit)


@pytest.mark.parametrize("content", [b"", b"null", b"{", b"[1]", b'{"sum": null, "value": null}', b"\x00" * 80, b"[" * 100_000])
def test_damage_is_said_and_computed_again(folder: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    honest = calibrate(Gap(), CLAIM).sigma
    for path in folder.glob("*.json"):
        path.write_bytes(content)
    again()
    assert calibrate(Gap(), CLAIM).sigma == honest
    assert "ignored and computed again" in caplog.text


def test_null_with_a_right_checksum_is_no_result(folder: Path) -> None:
    honest = calibrate(Gap(), CLAIM).sigma
    for path in folder.glob("*.json"):
        forged(path, None)
    again()
    assert calibrate(Gap(), CLAIM).sigma == honest


def test_a_file_does_not_pass_for_another(folder: Path) -> None:
    upper(LEDGER, 1e-5)
    honest = values(folder)
    files = sorted(honest, key=lambda path: honest[path]["accountant"])
    for one, other in pairwise(files):
        one.write_bytes(other.read_bytes())
    again()
    assert {row.accountant: row.epsilon for row in upper(LEDGER, 1e-5)} == {
        v["accountant"]: v["epsilon"] for v in honest.values()
    }


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes here")
@pytest.mark.parametrize("planted", ["writable", "link", "file writable", "file link"])
def test_what_others_can_write_is_not_read(folder: Path, tmp_path: Path, planted: str, caplog: pytest.LogCaptureFixture) -> None:
    honest = calibrate(Gap(), CLAIM).sigma
    for path, value in values(folder).items():
        forged(path, value)
        if planted == "file writable":
            path.chmod(0o666)
        if planted == "file link":
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / path.name)
    if planted == "writable":
        folder.chmod(0o777)
    if planted == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    again()
    with caplog.at_level(logging.WARNING):
        assert calibrate(Gap(), CLAIM).sigma == honest
    assert "symbolic link" in caplog.text.lower() or "by others" in caplog.text
