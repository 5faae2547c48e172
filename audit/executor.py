"""Who computes the chunks: this process, worker processes, or a Ray cluster. The results are the same."""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from .store import Task, fit_part, in_process

Execute = Callable[[Iterable[Task]], Iterator[Path]]


def one_thread() -> None:
    """Two workers scale exactly; OpenMP threads on a busy machine do not."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")


@contextmanager
def processes(jobs: int) -> Iterator[Execute]:
    """`jobs` workers that live as long as the context; started at the first batch of more than one chunk."""
    pool: ProcessPoolExecutor | None = None

    def execute(tasks: Iterable[Task]) -> Iterator[Path]:
        nonlocal pool
        first = list(itertools.islice(tasks := iter(tasks), 2))
        if len(first) < 2:
            yield from in_process(first)
            return
        if pool is None:
            pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=one_thread)
        # A short queue: tasks carry their worlds, and thousands of them need not be in memory at once.
        waiting = deque((t, pool.submit(fit_part, t)) for t in itertools.chain(first, itertools.islice(tasks, 2 * jobs)))
        while waiting:
            task, future = waiting.popleft()
            try:
                yield future.result()
            except BrokenProcessPool:  # a worker was killed, most likely for memory: its chunks are computed here, one by one
                pool.shutdown(wait=False, cancel_futures=True)
                pool = None
                yield from in_process([task, *(t for t, _ in waiting), *tasks])
                return
            waiting.extend((t, pool.submit(fit_part, t)) for t in itertools.islice(tasks, 1))

    try:
        yield execute
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def ray_cluster(address: str) -> Iterator[Execute]:
    """Chunks as Ray tasks on `address` ("local" starts one here). Workers write parts to a folder that all nodes share."""
    try:
        import ray
    except ImportError:
        raise ValueError("--ray: ray is not installed. Install gnnaudit[ray], or leave --ray out.") from None
    ray.init(address=None if address == "local" else address, log_to_driver=False, configure_logging=False)

    @ray.remote(max_retries=3)
    def remote_part(task: Task) -> Path:
        one_thread()
        return fit_part(task)

    def execute(tasks: Iterable[Task]) -> Iterator[Path]:
        for reference in [remote_part.remote(t) for t in tasks]:
            yield ray.get(reference)

    try:
        yield execute
    finally:
        ray.shutdown()


@contextmanager
def executor(jobs: int, ray_address: str | None) -> Iterator[Execute]:
    """The executor that a plan asks for."""
    one_thread()
    if ray_address:
        with ray_cluster(ray_address) as execute:
            yield execute
    elif jobs > 1:
        with processes(jobs) as execute:
            yield execute
    else:
        yield in_process
