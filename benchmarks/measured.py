"""Measures that several benchmarks share: CPU seconds, random splits, and accuracy over splits."""

from __future__ import annotations

import dataclasses
import math
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnaudit.models.graph.graph import Graph


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """The CPU seconds of this thread in the fastest of `times` calls."""
    best = math.inf
    for _ in range(times):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def process_seconds(words: Sequence[str], **options: Any) -> tuple[float, float]:
    """The wall and CPU seconds of a process, from its start to its exit. options: those of subprocess.run."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def divided(graph: Graph, seed: int, first: int, second: int) -> Graph:
    """The graph with a random split: `first` nodes for training, those up to `second` for validation, the others for tests."""
    parts = np.split(np.random.default_rng(seed).permutation(graph.nodes), [first, second])
    train, val, test = (np.isin(np.arange(graph.nodes), part) for part in parts)
    return dataclasses.replace(graph, train=train, val=val, test=test)


def accuracies(model: Any, splits: Iterable[Graph], runs: int) -> tuple[NDArray[np.float64], float]:
    """The test accuracies of `runs` trainings on each split, and the CPU seconds of one training."""
    from gnnaudit.models.graph.graph import Worlds

    scores, start = [], time.process_time()
    for graph in splits:
        release = model.fit(Worlds.of(graph, list(range(runs)), np.flatnonzero(graph.test)))
        scores.append((release["posteriors"].argmax(2) == graph.y[graph.test]).mean(axis=1))
    found = np.concatenate(scores)
    return found, (time.process_time() - start) / found.size
