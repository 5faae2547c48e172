"""Where the compiled kernel is built and kept: with compilers that refuse flags, and in folders that cannot be written."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gnnaudit.models.kernels import library

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for a compiler is a shell script")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a folder of temporary files of the test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def compiler(folder: Path, body: str) -> list[str]:
    """A script that notes how it is called, then does as `body` says; $out is what it is to write."""
    script = folder / "compiler"
    note = f'echo "$*" >> {folder}/calls; while [ "$1" != -o ]; do shift; done; out=$2'
    script.write_text(f"#!/bin/sh\nall=$*\n{note}\n{body}\n")
    script.chmod(0o755)
    return [str(script)]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc"))), reason="no C compiler on this machine")
@pytest.mark.skipif(os.environ.get(library.SWITCH) == "off", reason="the kernel is switched off")
def test_where_there_is_a_compiler_the_kernel_is_built() -> None:
    """Or the tests that need it would be skipped as they are on a machine without a compiler, and nobody would hear of it."""
    assert library.library() is not None


def test_what_was_built_is_found_again(places: Path) -> None:
    cc = compiler(places, "echo built > $out")
    path = library._built(cc)
    assert path.parent == places / "cache" / "gnnaudit"
    assert library._built(cc) == path
    assert len((places / "calls").read_text().splitlines()) == 1
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing is left aside


def test_a_compiler_that_knows_no_native_processor_is_asked_for_any(places: Path) -> None:
    path = library._built(compiler(places, 'case "$all" in *native*) exit 1;; esac; echo built > $out'))
    assert path.read_text() == "built\n"
    assert ["native" in call for call in (places / "calls").read_text().splitlines()] == [True, False]


def test_a_compiler_that_fails_leaves_nothing_behind_and_its_words_in_the_log(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", " ".join([*compiler(places, "echo half > $out; echo no such thing >&2; exit 1"), "--wrapped"]))
    library.found.cache_clear()
    with caplog.at_level(logging.INFO):
        assert library.found() is None
    library.found.cache_clear()
    assert "no such thing" in caplog.text
    assert (places / "calls").read_text().startswith("--wrapped ")
    assert not list((places / "cache" / "gnnaudit").iterdir())


def test_without_a_cache_that_can_be_written_it_is_kept_among_temporary_files(places: Path) -> None:
    (places / "cache").write_text("a file where a folder should be")
    path = library._built(compiler(places, "echo built > $out"))
    assert path.is_relative_to(places / "temporary")
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_temporary_folder_that_others_can_write_is_not_trusted(places: Path) -> None:
    (places / "cache").write_text("a file where a folder should be")
    cc = compiler(places, "echo built > $out")
    path = library._built(cc)
    path.parent.chmod(0o777)
    with pytest.raises(OSError, match="not this user's alone"):
        library._built(cc)


def test_processes_that_build_at_once_all_find_it_whole(places: Path) -> None:
    cc = compiler(places, "echo first > $out; sleep 0.3; echo second >> $out")
    code = f"from gnnaudit.models.kernels import library; print(library._built({cc}).read_text().split())"
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [run.communicate()[0] for run in runs] == ["['first', 'second']\n"] * 3
