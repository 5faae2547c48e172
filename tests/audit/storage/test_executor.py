"""Executors: all compute the same parts, the graph is sent once, and a lost worker costs only time."""

import errno
import importlib.util
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage import executor as executor_module
from gnnaudit.audit.storage import store as store_module
from gnnaudit.audit.storage.executor import helpers, in_batches, processes, ray_cluster, with_graph, without_graph
from gnnaudit.audit.storage.store import Store, fit
from gnnaudit.models.base import Release
from gnnaudit.models.random.streams import normal


@dataclass(frozen=True)
class Sums:
    """Releases noisy degrees. The process that first finds the file `fuse` removes it and kills itself with SIGKILL."""

    fuse: str = ""
    stubborn: str = ""  # a process other than this one, by id, always dies
    largest: int = 1 << 30  # runs that fit in memory together
    name: str = "sums"
    releases: tuple[str, ...] = ("degrees",)

    def footprint(self, graph):
        return store_module.CHUNK_BYTES // 4

    def fit(self, worlds, device="cpu"):
        if self.fuse and Path(self.fuse).exists():
            Path(self.fuse).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.stubborn and os.getpid() != int(self.stubborn):
            os.kill(os.getpid(), signal.SIGKILL)
        if len(worlds) > self.largest:
            np.empty(1 << 59, dtype=np.int8)  # raises the error that NumPy raises
        present = worlds.edge_present()
        degree = np.stack([np.bincount(worlds.graph.edges[:, p].ravel(), minlength=worlds.graph.nodes) for p in present])
        return Release({"degrees": degree[:, worlds.watch] + normal(worlds.seeds, worlds.watch.shape, "d")}, worlds.watch)


def test_helpers_work_elsewhere_and_need_two_jobs():
    with helpers(2) as workers:
        assert workers.submit(os.getpid).result() != os.getpid()
    with helpers(1) as workers:
        assert workers is None


@pytest.fixture
def game(graph):
    return Game(graph, "edge", np.arange(20, dtype=np.int64), Key("executor"))


def played(root, model, game, execute=store_module.in_process, runs=40):
    return Store(root, execute=execute).fit(model, game, runs).release["degrees"]


def test_a_killed_worker_process_costs_nothing(tmp_path, game):
    fuse = tmp_path / "fuse"
    fuse.touch()
    with processes(2) as execute:
        there = played(tmp_path / "a", Sums(fuse=str(fuse)), game, execute)
        again = played(tmp_path / "b", Sums(), game, execute)  # the workers were replaced
    assert not fuse.exists()
    np.testing.assert_array_equal(there, played(tmp_path / "c", Sums(), game))
    np.testing.assert_array_equal(again, there)


@dataclass(frozen=True)
class Unequal(Sums):
    """Fails in the chunk that begins with one seed. All others take 100 seconds."""

    failing: int = 0

    def fit(self, worlds, device="cpu"):
        if int(worlds.seeds[0]) == self.failing:
            raise ValueError("this training fails")
        time.sleep(100)
        return super().fit(worlds, device)


def test_after_a_failed_training_nobody_waits_for_those_that_follow(tmp_path, game):
    begin = time.monotonic()
    with processes(2) as execute:
        with pytest.raises(ValueError, match="this training fails"):
            played(tmp_path / "a", Unequal(failing=int(game.rounds(12).worlds.seeds[0])), game, execute, runs=12)
        there = played(tmp_path / "b", Sums(), game, execute, runs=12)  # the workers were replaced
    assert time.monotonic() - begin < 60
    np.testing.assert_array_equal(there, played(tmp_path / "c", Sums(), game, runs=12))


def test_where_every_worker_dies_the_parent_computes(tmp_path, game):
    with processes(2) as execute:
        there = played(tmp_path / "a", Sums(stubborn=str(os.getpid())), game, execute, runs=12)
    np.testing.assert_array_equal(there, played(tmp_path / "b", Sums(), game, runs=12))


def test_without_room_for_their_locks_this_process_computes_alone_and_says_so(tmp_path, game, monkeypatch, caplog):
    """As with a full /dev/shm, where every lock of every worker takes a file."""

    def full(*_: object) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("_multiprocessing.SemLock", full)
    monkeypatch.setattr("multiprocessing.synchronize._multiprocessing.SemLock", full)
    with processes(2) as execute:
        there = played(tmp_path / "a", Sums(), game, execute, runs=12)
    np.testing.assert_array_equal(there, played(tmp_path / "b", Sums(), game, runs=12))
    assert "No space left on device" in caplog.text
    assert "/dev/shm" in caplog.text


def test_a_task_travels_without_its_graph(game):
    worlds = game.rounds(4).worlds
    task = (Sums(), worlds, "part.npz", "cpu", ("degrees",))
    assert len(pickle.dumps(without_graph([task]))) < len(pickle.dumps([task])) - worlds.graph.x.nbytes
    assert with_graph(worlds.graph, without_graph([task]))[0][1].graph is worlds.graph


@pytest.mark.parametrize("cost", [1e-4, 0.1, 2.0])
def test_tiny_tasks_are_batched_and_long_ones_are_not(cost):
    """Ten thousand tasks of 0.1 ms go out in batches of about half a second, never more than the window ahead."""
    sent, done, ahead = [], [], []

    def submit(batch):
        sent.append(len(batch))
        ahead.append(len(sent) - len(done))
        return len(sent)

    def collect(batch, handle):
        done.append(handle)
        return cost * len(batch)

    paths = list(in_batches(((None, None, f"{i:06d}", "cpu") for i in range(10_000)), 2, submit, collect))
    assert [p.name for p in paths] == [f"{i:06d}" for i in range(10_000)]
    assert done == sorted(done)
    assert max(ahead) <= 2 * executor_module.AHEAD
    assert max(sent) * cost <= max(cost, executor_module.BATCH_SECONDS)
    assert len(sent) <= 2 * 10_000 * cost / executor_module.BATCH_SECONDS + 60 or cost >= executor_module.BATCH_SECONDS


def test_a_chunk_that_does_not_fit_in_memory_is_halved_until_it_does(game):
    worlds = game.rounds(7).worlds
    np.testing.assert_array_equal(fit(Sums(largest=2), worlds)["degrees"], fit(Sums(), worlds)["degrees"])


def test_a_single_run_that_does_not_fit_is_said_in_one_line(game):
    with pytest.raises(MemoryError, match="not enough memory for a single run") as fault:
        fit(Sums(largest=0), game.rounds(3).worlds)
    assert "\n" not in str(fault.value)


def test_torch_out_of_memory_is_out_of_memory_and_other_faults_are_not():
    import torch

    with pytest.raises(RuntimeError) as fault:
        torch.empty(1 << 60)
    assert store_module.out_of_memory(fault.value)
    assert not store_module.out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_workers_do_not_outlive_a_parent_that_is_killed(tmp_path):
    code = """
    import os, time
    from gnnaudit.audit.storage.executor import start_worker
    from concurrent.futures import ProcessPoolExecutor
    import multiprocessing
    def main():
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(60)
    if __name__ == "__main__":
        main()
    """
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(code))
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(worker)


def alive(process):
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_worker_is_left_when_the_context_ends_in_a_fault(tmp_path, game):
    def stopped():
        with processes(2) as execute:
            played(tmp_path, Sums(), game, execute)
            assert multiprocessing.active_children()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import msgpack_of_no_index", "ray is installed but cannot be imported .*msgpack_of_no_index"),
        (None, "ray is not installed"),
    ],
)
def test_what_ray_lacks_is_not_called_ray(tmp_path, monkeypatch, body, said):
    if body:
        (tmp_path / "ray.py").write_text(body)
        monkeypatch.syspath_prepend(tmp_path)
    elif importlib.util.find_spec("ray"):
        pytest.skip("ray is installed here")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with pytest.raises(ValueError, match=said), ray_cluster("local", 1):
        pass


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_nightly_tests_are_run_with_ray_and_say_what_they_skip():
    root = Path(__file__).parents[3]
    commands = subprocess.run(["make", "-n", "nightly"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert re.search(r"pip install .*\[dev,ray\]'\n.*pytest -m nightly -rs\n", commands)


@pytest.mark.nightly  # a Ray cluster takes seconds to start
def test_ray_makes_the_same_parts_and_survives_killed_workers(tmp_path, game):
    pytest.importorskip("ray", reason="ray is an extra")
    fuse = tmp_path / "fuse"
    fuse.touch()
    here = played(tmp_path / "here", Sums(), game)
    with ray_cluster("local", 2) as execute:
        np.testing.assert_array_equal(played(tmp_path / "a", Sums(), game, execute), here)
        np.testing.assert_array_equal(played(tmp_path / "b", Sums(fuse=str(fuse)), game, execute), here)
        stubborn = Sums(stubborn=str(os.getpid()))
        np.testing.assert_array_equal(played(tmp_path / "c", stubborn, game, execute, runs=4), here[:4])
    assert not fuse.exists()


@pytest.mark.nightly
def test_what_a_lost_cluster_leaves_is_computed_here(tmp_path, game, caplog):
    """Ray ends the process that talks to it when its head or this node's daemon dies; here that process is killed."""
    pytest.importorskip("ray", reason="ray is an extra")
    here = played(tmp_path / "here", Sums(), game)
    with ray_cluster("local", 1) as execute:
        parts = Store(tmp_path / "there", execute=execute).parts(Sums(), game, 12)
        first = next(parts)
        (talking,) = multiprocessing.active_children()
        talking.kill()
        there = np.concatenate([part.release["degrees"] for part in (first, *parts)])
    np.testing.assert_array_equal(there, here[:12])
    assert not multiprocessing.active_children()


@pytest.mark.nightly
def test_ray_says_in_one_line_that_no_cluster_answers():
    pytest.importorskip("ray", reason="ray is an extra")
    with pytest.raises(ValueError, match=r"ray=127\.0\.0\.1:1: cannot be reached") as fault, ray_cluster("127.0.0.1:1", 1):
        pass
    assert "\n" not in str(fault.value)


@pytest.mark.nightly
def test_a_run_on_ray_has_the_results_of_a_run_here(tmp_path):
    pytest.importorskip("ray", reason="ray is an extra")
    words = ["run", "--data", "campus:n=300", "--models", "gap", "--epsilon", "2", "--attacks", "lira", "--audits", "game"]
    words += ["--rounds", "4", "--repeats", "4", "--seed", "ray", "--mlflow", "none"]
    found = []
    for where in (["--jobs", "1", "--out", "here"], ["--jobs", "2", "--ray", "local", "--out", "there"]):
        command = [sys.executable, "-m", "gnnaudit.audit.cli.main", *words, *where]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode in (0, 3), done.stderr  # 3: few rounds are too weak
        rows = json.loads((tmp_path / where[-1] / "results.json").read_text())["rows"]
        found.append([{k: v for k, v in row.items() if k != "seconds"} for row in rows])
    assert found[0] == found[1]
