"""Seconds and memory of ProGAP at edge level on graphs of growing size, and how near its aggregation comes to the memory's speed.

    python benchmarks/scale.py [--nodes 10000,100000] [--epochs 100] [--memory 1GiB]

Each graph has a process of its own, so that the peak is its own. CPU seconds of one thread; the graph is made first and not
counted. An aggregation has to read, for every arc, its sender's row, and for every node its index and its own sum; a row that
is still in cache is read all the same, so bytes moved are 4 * units * (arcs + nodes) + 8 * arcs (index and value).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np


def copy_rate(megabytes: int = 256) -> float:
    """Bytes a second that one thread reads and writes in a plain copy, at best."""
    a = np.ones(megabytes << 17)
    b = np.empty_like(a)
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        np.copyto(b, a)
        best = min(best, time.thread_time() - start)
    return 2 * a.nbytes / best


def one(nodes: int, epochs: int, memory: int) -> None:
    """Prints a row of the table: one run of ProGAP through the store, whose memory bound decides how many go into a chunk."""
    import torch

    from gnnaudit.audit.game import Game
    from gnnaudit.audit.key import Key
    from gnnaudit.audit.store import Store
    from gnnaudit.models.datasets import load
    from gnnaudit.models.progap import ProGap
    from gnnaudit.models.spmm import Aggregation

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    start = time.thread_time()
    graph = load(f"campus:n={nodes}")
    made, before = time.thread_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plain, took = Aggregation.__call__, []

    def timed(self: Aggregation, x: torch.Tensor) -> torch.Tensor:
        begin = time.thread_time()
        result = plain(self, x)
        took.append(time.thread_time() - begin)
        return result

    Aggregation.__call__ = timed  # type: ignore[method-assign]
    model = ProGap(depth=2, epochs=epochs).with_noise(5.97)
    game = Game(graph, "edge", np.zeros(0, dtype=np.int64), Key("scale"), watch=np.flatnonzero(graph.test)[:1000])
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), memory=memory)
        start = time.thread_time()
        store.fit(model, game, 1)
        seconds = time.thread_time() - start
        chunk = store.chunk(model, game)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    arcs, units = graph.arcs.shape[1], model.hidden
    rate = (4 * units * (arcs + nodes) + 8 * arcs) * len(took) / sum(took)
    copied = copy_rate()
    each = 1e6 * seconds / (nodes + arcs)
    print(
        f"| {nodes:,} | {arcs:,} | {made:.1f} | {seconds:.1f} | {each:.1f} | {chunk} | {before >> 10} | "
        f"{peak >> 10} | {100 * sum(took) / seconds:.1f} % | {rate / 1e9:.1f} of {copied / 1e9:.1f} GB/s |",
        flush=True,
    )


def main() -> None:
    from gnnaudit.audit.plan import size

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10000,100000")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(int(asked.nodes), asked.epochs, size(asked.memory))
        return
    print("| nodes | arcs | graph, s | fit, CPU s | µs each | runs a chunk | MiB before | MiB peak | aggregating | rate |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for nodes in asked.nodes.split(","):
        words = ["--one", "--nodes", nodes, "--epochs", str(asked.epochs), "--memory", asked.memory]
        subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()
