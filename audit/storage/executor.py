"""Trains chunks of runs in this process, in worker processes, or on a Ray cluster. All three give equal results."""

import functools
import importlib.util
import itertools
import logging
import math
import multiprocessing
import os
import pickle
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.base import Release
from ...models.graph.graph import Graph, Worlds
from .ray_cluster import Cluster, ClusterLost, end_with_parent
from .store import Task, fit, fit_part, in_process
from .temporary import temporary
from .warned import PRINTED, Place, not_again

Execute = Callable[[Iterable[Task]], Iterator[Path]]
BATCH_SECONDS = 0.5  # target duration of a batch of chunks, so that the overhead of small chunks is low
PRELOADED = f"{__package__}.preloaded"  # the module that is imported once for all workers
AHEAD = 3  # largest number of submitted batches for each worker; more would fill the memory, because tasks contain their worlds


def one_thread() -> None:
    """Limits torch to one thread: worker processes scale better than OpenMP threads on a busy machine."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # Ray's shared memory is read-only


def without_graph(tasks: list[Task]) -> list[Task]:
    """The tasks without their graph, because the graph is sent once and not with each task."""
    return [(model, bare(worlds), where, device, kept) for model, worlds, where, device, kept in tasks]


def bare(worlds: Worlds) -> Worlds:
    """The worlds without their graph, made without the checks of `Worlds`. Only `with_graph` may use them."""
    part = copy(worlds)
    object.__setattr__(part, "graph", None)
    return part


def with_graph(graph: Graph, tasks: list[Task]) -> list[Task]:
    """The inverse of `without_graph`."""
    return [(model, replace(worlds, graph=graph), where, device, kept) for model, worlds, where, device, kept in tasks]


def in_batches(
    tasks: Iterable[Task], workers: int, submit: Callable[[list[Task]], Any], collect: Callable[[list[Task], Any], float]
) -> Iterator[Path]:
    """Submits the tasks in batches and yields the paths of their parts in order.

    submit: starts a batch and returns a handle. collect: waits until the parts of the batch are on disk, and returns the seconds
    that it took.
    """
    tasks, size = iter(tasks), 1
    waiting: deque[tuple[list[Task], Any]] = deque()
    while True:
        while len(waiting) < AHEAD * workers and (batch := list(itertools.islice(tasks, size))):
            waiting.append((batch, submit(batch)))
        if not waiting:
            return
        batch, handle = waiting.popleft()
        seconds = collect(batch, handle)
        size = max(1, min(2 * len(batch), int(BATCH_SECONDS * len(batch) / max(seconds, 1e-3))))
        yield from (Path(where) for _, _, where, *_ in batch)


def compute_here(batch: list[Task]) -> float:
    """Computes a batch here, because its worker was lost. Returns infinite seconds, so that the next batches are small."""
    for task in batch:
        fit_part(task)
    return math.inf


def start_worker(printed: Iterable[Place] = ()) -> None:
    """Initialises a worker: torch uses one thread, the worker ends with its parent, and it repeats no warning of its parent."""
    end_with_parent()
    one_thread()
    not_again(printed)


@functools.lru_cache(maxsize=1)
def read_graph(path: str) -> Graph:
    """The graph that `processes` has written for its workers."""
    with open(path, "rb") as f:
        graph: Graph = pickle.load(f)
    return graph


def compute_batch(path: str, batch: list[Task]) -> float:
    """Computes and stores a batch in a worker. path: the file of the graph. Returns the seconds that it took."""
    clock = time.perf_counter()
    for task in with_graph(read_graph(path), batch):
        fit_part(task)
    return time.perf_counter() - clock


@functools.cache
def say_alone(reason: str) -> None:
    """Warns once that there are no workers, with the reason."""
    logging.getLogger(__name__).warning(
        "no worker processes: %s. Their locks need room in /dev/shm. This process computes alone.", reason
    )


def workers_context() -> Any:
    """The way to start workers: forks of a process that has loaded PRELOADED, or, without fork, processes that import torch."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


@contextmanager
def helpers(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Worker processes for other work than training, which start when they get some; None if `jobs` is 1 or none can start."""
    try:
        pool = ProcessPoolExecutor(jobs, mp_context=workers_context(), initializer=end_with_parent) if jobs > 1 else None
    except OSError as fault:
        say_alone(fault.strerror or str(fault))
        pool = None
    try:
        yield pool
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def terminate(pool: ProcessPoolExecutor) -> None:
    """Ends the workers, whatever they do. Parts are renamed into place, so no incomplete part is left."""
    for worker in list((pool._processes or {}).values()):  # Python 3.14 has `terminate_workers`
        worker.terminate()
    pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def processes(jobs: int) -> Iterator[Execute]:
    """An executor with `jobs` worker processes. They start at the first request for several chunks, and end with the context."""
    pool: ProcessPoolExecutor | None = None

    def start() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(jobs, mp_context=workers_context(), initializer=start_worker, initargs=(frozenset(PRINTED),))

    def execute(tasks: Iterable[Task]) -> Iterator[Path]:
        nonlocal pool
        first = list(itertools.islice(tasks := iter(tasks), 2))
        if len(first) < 2:
            yield from in_process(first)
            return
        graph = first[0][1].graph
        path = folder / graph.digest
        if not path.exists():
            path.write_bytes(pickle.dumps(graph))

        def submit(batch: list[Task]) -> Any:
            nonlocal pool
            for _ in range(2):  # the second attempt follows if the workers were killed
                try:
                    pool = pool or start()
                    return pool.submit(compute_batch, str(path), without_graph(batch))
                except BrokenProcessPool:
                    pool = None
                except OSError as fault:  # no room in /dev/shm for the locks of the workers, or no more processes
                    say_alone(fault.strerror or str(fault))
                    break
            return None

        def collect(batch: list[Task], future: Any) -> float:
            try:
                return compute_here(batch) if future is None else float(future.result())
            except BrokenProcessPool:  # a worker was killed, probably for lack of memory
                return compute_here(batch)

        try:
            yield from in_batches(itertools.chain(first, tasks), jobs, submit, collect)
        except Exception:  # one training failed; nobody waits for later ones, which may take long
            if pool is not None:
                terminate(pool)
                pool = None
            raise

    with temporary() as folder:
        try:
            yield execute
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)


def connected(address: str, jobs: int) -> tuple[Cluster, int]:
    """The Ray cluster on `address` and its number of workers. Raises ValueError if Ray is not installed or the cluster cannot be
    reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: F401
    except ImportError as fault:
        way = "Install it from the checkout, `pip install -c requirements.lock '.[ray]'`, or leave --ray out."
        if importlib.util.find_spec("ray") is None:
            raise ValueError(f"--ray: ray is not installed. {way}") from None
        cause = (str(fault) or type(fault).__name__).splitlines()[0].rstrip(".")
        raise ValueError(f"--ray: ray is installed but cannot be imported ({cause}). {way}") from None
    try:
        host, _, port = address.rpartition("/")[2].rpartition(":")
        if port.isdigit():  # Ray itself gives up on an address only after minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        cluster = Cluster.start(address, jobs if address == "local" else None, compute)
        return cluster, cluster.answer()
    except (OSError, OverflowError, RuntimeError, ValueError, EOFError) as fault:
        reason = (str(fault) or type(fault).__name__).splitlines()[0].rstrip(".")
        raise ValueError(f"ray={address}: cannot be reached ({reason}). Start a cluster, or use --ray local.") from None


@contextmanager
def ray_cluster(address: str, jobs: int) -> Iterator[Execute]:
    """An executor that runs chunks as Ray tasks on `address`; "local" starts `jobs` workers on this machine.

    Each node's object store holds the graph once. Releases return through the object store too, so no shared folder is needed.
    The nodes need this package; a model from a user's own file is pickled by value. Raises ValueError if Ray is not installed or
    the cluster cannot be reached.
    """
    cluster, workers = connected(address, jobs)
    import ray

    held: set[str] = set()
    numbers = itertools.count()

    @functools.cache
    def warn_lost() -> None:
        logging.getLogger(__name__).warning("ray: the cluster is lost; the remaining chunks are computed in this process")

    def collect(batch: list[Task], number: int | None) -> float:
        if number is None:
            return compute_here(batch)
        try:
            seconds = cluster.ask("collect", number, [where for _, _, where, *_ in batch])
        except ClusterLost:
            warn_lost()
            return compute_here(batch)
        return compute_here(batch) if seconds is None else float(seconds)

    def execute(tasks: Iterable[Task]) -> Iterator[Path]:
        first = next(tasks := iter(tasks), None)
        if first is None:
            return
        model, graph = first[0], first[1].graph
        if not type(model).__module__.startswith("gnnaudit."):
            ray.cloudpickle.register_pickle_by_value(sys.modules[type(model).__module__])

        def submit(batch: list[Task]) -> int | None:
            try:
                if graph.digest not in held:
                    cluster.ask("hold", graph.digest, graph)
                    held.add(graph.digest)
                number = next(numbers)
                cluster.ask("submit", number, graph.digest, ray.cloudpickle.dumps(without_graph(batch)))
            except ClusterLost:
                warn_lost()
                return None
            return number

        yield from in_batches(itertools.chain([first], tasks), workers, submit, collect)

    try:
        yield execute
    except BaseException:
        cluster.process.terminate()  # the client may still wait for a batch that is no longer needed
        raise
    finally:
        cluster.stop()


def compute(graph: Graph, batch: bytes) -> tuple[list[Release], float]:
    """The body of a Ray task: returns the releases of a pickled batch, and the seconds that it took."""
    one_thread()
    clock = time.perf_counter()
    tasks = with_graph(graph, pickle.loads(batch))
    return [fit(model, worlds, device, kept) for model, worlds, _, device, kept in tasks], time.perf_counter() - clock


@contextmanager
def executor(jobs: int, ray_address: str | None) -> Iterator[Execute]:
    """The executor for the options --jobs and --ray of a plan. Raises ValueError as `ray_cluster`."""
    one_thread()
    if ray_address:
        with ray_cluster(ray_address, jobs) as execute:
            yield execute
    elif jobs > 1:
        with processes(jobs) as execute:
            yield execute
    else:
        yield in_process
