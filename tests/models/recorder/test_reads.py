"""Files that a training reads beside its input."""

import os
import shutil
import sqlite3
import sys
import time

import numpy as np
import pytest

from gnnaudit.models.recorder.reads import MOST, Reads, watched

HOUR = 3600.0


@pytest.fixture
def later():
    """A training of an audit that began an hour ago; it begins in an hour, so that all files of the test are older."""
    return Reads(since=time.time() - HOUR, begun=time.time() + HOUR)


def made(path):
    path.write_text("data")
    return path


def test_a_file_that_was_written_since_the_audit_began_is_stale(later, tmp_path):
    path = made(tmp_path / "cache.txt")
    with watched(later):
        path.read_text()
        path.read_bytes()
    assert (later.stale, later.older) == ([str(path.resolve())], [])


def test_a_file_that_was_written_before_the_audit_began_is_older(tmp_path):
    path = made(tmp_path / "table.npy")
    np.save(path, np.zeros(3))
    reads = Reads(since=time.time() + HOUR, begun=time.time() + 2 * HOUR)
    with watched(reads):
        np.load(path)
        np.load(path, mmap_mode="r")
    assert (reads.stale, reads.older) == ([], [str(path.resolve())])


def test_a_database_is_a_file_too(later, tmp_path):
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as database:
        database.execute("create table rows (x)")
    with watched(later):
        sqlite3.connect(path).close()
    assert later.stale == [str(path.resolve())]


def test_what_the_training_has_written_itself_is_not_noted(tmp_path):
    reads = Reads(since=time.time() - HOUR, begun=time.time() + HOUR)
    with watched(reads):
        (tmp_path / "best.txt").write_text("weights")
        (tmp_path / "best.txt").read_text()
    assert not reads.stale + reads.older


def test_a_copy_that_keeps_the_time_of_its_original_is_not_noted(tmp_path):
    """A program copies its input, whose file is older than the training."""
    original = made(tmp_path / "graph.npz")
    os.utime(original, (1.0, 1.0))
    time.sleep(0.02)
    reads = Reads(since=time.time() - HOUR, apart=(str(tmp_path.resolve() / "apart"),))
    time.sleep(0.02)
    shutil.copy2(original, tmp_path / "copy.npz")
    with watched(reads):
        (tmp_path / "copy.npz").read_text()
    assert not reads.stale + reads.older


def test_a_line_that_was_appended_does_not_make_a_file_the_training_s_own(later, tmp_path):
    path = made(tmp_path / "results.csv")
    with watched(later):
        with path.open("a") as file:
            file.write("more")
        path.read_text()
    assert later.stale == [str(path.resolve())]


def test_code_packages_the_input_and_missing_files_are_not_noted(later, tmp_path):
    (tmp_path / "input").mkdir()
    some = [tmp_path / "module.py", tmp_path / "input" / "graph.npz", tmp_path / "__pycache__" / "a.txt"]
    some[2].parent.mkdir()
    for path in some:
        made(path)
    later.apart = (str((tmp_path / "input").resolve()),)
    with watched(later):
        for path in (*some, np.__file__, os.path.join(sys.base_prefix, "lib"), tmp_path / "missing"):
            try:
                open(path).close()
            except OSError:
                continue
        os.listdir(tmp_path)
    assert not later.stale + later.older


def test_reads_outside_of_a_training_are_not_noted(later, tmp_path):
    path = made(tmp_path / "x.txt")
    with watched(later):
        pass
    path.read_text()
    assert not later.stale + later.older


def test_no_more_files_are_noted_than_are_read_in_one_sentence(later, tmp_path):
    for number in range(MOST + 5):
        made(tmp_path / f"{number}.txt")
    with watched(later):
        for number in range(MOST + 5):
            (tmp_path / f"{number}.txt").read_text()
    assert len(later.stale) == MOST
