"""Runs the client of Ray in a separate process, because Ray kills its client when the cluster is lost."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .store import save

PATIENCE = 30  # seconds to wait for Ray to shut down


class ClusterLost(Exception):
    """The client process of Ray has ended."""


@dataclass(frozen=True)
class Cluster:
    """A handle of the process that runs `serve`. `ask` and `answer` raise the exceptions of that process again; `ask` raises
    ClusterLost if the process has ended, `answer` EOFError.
    """

    process: Any
    pipe: Connection

    @staticmethod
    def start(address: str, cpus: int | None, compute: Any) -> Cluster:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(there, address, cpus, compute), daemon=True)
        process.start()
        there.close()
        return Cluster(process, here)

    def ask(self, *words: Any) -> Any:
        try:
            self.pipe.send(words)
            return self.answer()
        except (EOFError, OSError):
            raise ClusterLost from None

    def answer(self) -> Any:
        fault, value = self.pipe.recv()
        if fault:
            raise pickle.loads(value)
        return value

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(pipe: Connection, address: str, cpus: int | None, compute: Any) -> None:
    """Answers each request with (False, value) or (True, pickled exception). The first answer is the number of workers."""
    end_with_parent()
    import ray

    graphs: dict[str, Any] = {}
    batches: dict[int, Any] = {}

    def hold(digest: str, graph: Any) -> None:
        graphs[digest] = ray.put(graph)

    def submit(number: int, digest: str, batch: bytes) -> None:
        batches[number] = remote.remote(graphs[digest], batch)

    def collect(number: int, paths: list[str]) -> float | None:
        """Stores the releases of a batch. Returns the seconds that it took, or None if Ray gave up on it after its retries."""
        try:
            releases, seconds = ray.get(batches.pop(number))
        except ray.exceptions.RayTaskError as fault:
            raise fault.cause from None
        except ray.exceptions.RayError:
            return None
        for path, release in zip(paths, releases, strict=True):
            save(release, Path(path))
        return float(seconds)

    def begin() -> int:
        ray.init(address=address, num_cpus=cpus, log_to_driver=False, configure_logging=False)
        return int(ray.cluster_resources().get("CPU", 1))

    does: dict[str, Any] = {"hold": hold, "submit": submit, "collect": collect}
    remote = ray.remote(max_retries=3)(compute)
    reply(pipe, begin)
    while True:
        try:
            what, *rest = pipe.recv()
        except EOFError:
            break
        reply(pipe, does[what], *rest)
    ray.shutdown()


def reply(pipe: Connection, act: Callable[..., Any], *words: Any) -> None:
    try:
        pipe.send((False, act(*words)))
    except Exception as fault:  # a user's own model may raise any error
        import ray.cloudpickle

        pipe.send((True, ray.cloudpickle.dumps(fault)))


def end_with_parent() -> None:
    """Makes a child process ignore Ctrl-C, which its parent handles, and end when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
