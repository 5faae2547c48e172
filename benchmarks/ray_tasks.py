"""Ray on one machine: the gain from a second worker, the cost of a killed worker, and the cost of ten thousand tiny tasks.

    python benchmarks/ray_tasks.py [--pairs 3] [--tiny 10000]

Times are wall times, because workers run in parallel. Measurements that are compared alternate. The script prints the median of
their ratios and the load of the machine, because on a machine that others use, two workers may not get two cores. It takes less
than four minutes.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from gnnaudit.audit.storage.executor import Execute, in_process, processes, ray_cluster
from gnnaudit.audit.storage.store import Task
from gnnaudit.models.base import Model, Release
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Graph, Worlds

BYTES = 50_000  # to hash them takes about 50 µs


@dataclass(frozen=True)
class Busy:
    """A model that keeps a core busy and uses no memory. fuse: a file; the process that finds it dies."""

    rounds: int
    fuse: str = ""
    log: str = ""
    name: str = "busy"
    releases: tuple[str, ...] = ("word",)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        import hashlib

        if self.log:
            with open(self.log, "a") as f:
                f.write("started\n")
        if self.fuse and Path(self.fuse).exists():
            Path(self.fuse).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        word = bytes(BYTES)
        for _ in range(self.rounds):
            word = hashlib.blake2b(word).digest() + word[64:]
        return Release({"word": np.frombuffer(word[:64], dtype=np.uint8)[None]}, worlds.watch)


def tasks(model: Busy, count: int, graph: Graph, folder: Path) -> Iterator[Task]:
    """Tasks for an executor, which needs no more of a model than `Busy` has."""
    for i in range(count):
        worlds = Worlds(graph, np.array([i], dtype=np.uint64), np.zeros(1, dtype=np.int64))
        yield cast(Model, model), worlds, str(folder / f"{i:06d}.npz"), "cpu", ()


def seconds(execute: Execute, model: Busy, count: int, graph: Graph) -> float:
    """The wall time of `count` tasks with stored results, with workers that are already running."""
    with tempfile.TemporaryDirectory() as folder:
        list(execute(tasks(Busy(1), 4, graph, Path(folder) / "warm")))
        clock = time.perf_counter()
        parts = list(execute(tasks(model, count, graph, Path(folder))))
        took = time.perf_counter() - clock
        assert len(parts) == count
        assert all(path.exists() for path in parts)
    return took


@contextmanager
def alone() -> Iterator[Execute]:
    yield in_process


def compared(one: Callable[[], object], other: Callable[[], object], model: Busy, count: int, graph: Graph, pairs: int) -> str:
    """The ratios of the times of two executors, as text: the median and all values."""
    ratios = []
    for _ in range(pairs):
        times = []
        for start in (one, other):
            with start() as execute:  # type: ignore[attr-defined]
                times.append(seconds(execute, model, count, graph))
        ratios.append(times[0] / times[1])
    return f"{statistics.median(ratios):.2f} ({' '.join(f'{r:.2f}' for r in ratios)}) | {times[0]:.1f} s, {times[1]:.1f} s"


def killed(graph: Graph) -> str:
    """How many of twenty tasks begin twice if one worker is killed during the run, as text."""
    with tempfile.TemporaryDirectory() as folder, ray_cluster("local", 2) as execute:
        fuse, log = Path(folder) / "fuse", Path(folder) / "log"
        fuse.touch()
        model = Busy(200, str(fuse), str(log))
        parts = list(execute(tasks(model, 20, graph, Path(folder) / "parts")))
        return (
            f"{len(log.read_text().splitlines()) - 20} of {len(parts)} tasks begun again, {sum(p.exists() for p in parts)} stored"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tiny", type=int, default=10_000)
    asked = parser.parse_args()
    graph = load("campus:n=300")
    print(f"load at the start {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n", flush=True)
    print("| | ratio (each pair) | last pair |\n|---|---|---|", flush=True)
    long, one, two = Busy(10_000), lambda: ray_cluster("local", 1), lambda: ray_cluster("local", 2)
    print(f"| Ray, one worker : two | {compared(one, two, long, 16, graph, asked.pairs)} |", flush=True)
    pool = compared(alone, lambda: processes(2), long, 16, graph, asked.pairs)
    print(f"| in this process : two processes | {pool} |", flush=True)
    tiny = compared(one, alone, Busy(40), asked.tiny, graph, 1)
    print(f"| {asked.tiny:,} tiny tasks, Ray with one worker : in this process | {tiny} |", flush=True)
    print(f"| killed worker | {killed(graph)} | |\n\nload at the end {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
