"""The seconds and memory of ProGAP at edge level on graphs of growing size, and the speed of its aggregation relative to the
memory's.

    python benchmarks/scale.py [--graphs 10000x24,100000x24,1000000x24,1000000x70] [--epochs 100] [--memory 8GiB]
    python benchmarks/scale.py --aggregation [--graphs 10000x24,100000x24,1000000x24]

NxD is a campus graph of N nodes and D arcs per node. One process generates the graph and writes files. Another process maps the
files and fits one run through the store, so its peak memory is that of the training. Both use one thread. The table gives
anonymous memory (of the program alone) and resident memory (with the cached parts of mapped files).

An aggregation must read, for every arc, the number of the sender and the sender's row, and write a row for every node. So it
moves (4 units + 4) arcs + 4 units nodes bytes; reads from the cache count too. The table also gives two speeds of this machine:
of a plain copy, and of index_select for rows of the same width at random positions. Both count the bytes read and written.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from measured import cpu_seconds

COLUMNS = (
    "nodes", "arcs", "made, s", "files, MiB", "fit, CPU s", "wall s", "µs a node or arc", "anonymous before, peak, MiB",
    "resident peak, MiB", "aggregating", "GB/s: aggregation, copy, gather",
)  # fmt: skip


SUMS = ("nodes", "arcs", "sums, GB/s", "copy", "gather", "of a copy", "of a gather")


def copy_rate(megabytes: int = 256) -> float:
    """The most bytes per second that one thread reads and writes in a plain copy."""
    a = np.ones(megabytes << 17)
    b = np.empty_like(a)
    return 2 * a.nbytes / cpu_seconds(lambda: np.copyto(b, a), 5)


def gather_rate(nodes: int, units: int, rows: int = 1 << 21) -> float:
    """The most bytes per second that one thread reads and writes when it gathers random rows of an array of `nodes` rows."""
    import torch

    x, index = torch.ones(nodes, units), torch.from_numpy(np.random.default_rng(0).integers(0, nodes, rows).astype(np.int32))
    out = torch.empty(rows, units)
    return rows * (8 * units + 4) / cpu_seconds(lambda: torch.index_select(x, 0, index, out=out), 5)


def anonymous() -> int:
    """The anonymous memory of this process now, in KiB."""
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index("RssAnon:") + 1])


def make(nodes: int, degree: int, folder: Path) -> None:
    """Generates a campus graph and writes it to files for mapping. Prints the CPU seconds that the generation took."""
    from gnnaudit.models.data.loading import load
    from gnnaudit.models.graph.memory_mapped import write

    start = time.thread_time()
    graph = load(f"campus:n={nodes}:degree={degree}")
    print(f"{time.thread_time() - start:.1f}")
    write(graph, folder)


def fit(folder: Path, epochs: int, memory: int) -> None:
    """Fits one run, and prints a row of the table without its first columns."""
    import torch

    from gnnaudit.audit.games.game import Game
    from gnnaudit.audit.key import Key
    from gnnaudit.audit.storage.store import Store
    from gnnaudit.models.gap.progap import ProGap
    from gnnaudit.models.graph.memory_mapped import read
    from gnnaudit.models.sparse.neighbour_sums import Aggregation

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    graph, plain, took = read(folder), Aggregation.__call__, []

    def timed(self: Aggregation, x: torch.Tensor) -> torch.Tensor:
        begin = time.thread_time()
        result = plain(self, x)
        took.append(time.thread_time() - begin)
        return result

    Aggregation.__call__ = timed  # type: ignore[method-assign]
    model = ProGap(depth=2, epochs=epochs).with_noise(5.97)
    game = Game(graph, "edge", np.zeros(0, dtype=np.int64), Key("scale"), watch=np.flatnonzero(graph.test)[:1000])
    before, held, done = anonymous(), [0], threading.Event()

    def look() -> None:
        while not done.wait(0.02):
            held[0] = max(held[0], anonymous())

    looking = threading.Thread(target=look)
    looking.start()
    with tempfile.TemporaryDirectory() as parts:
        wall, start = time.perf_counter(), time.thread_time()
        Store(Path(parts), memory=memory).fit(model, game, 1)
        seconds, wall = time.thread_time() - start, time.perf_counter() - wall
    done.set()
    looking.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nodes, arcs, units = graph.nodes, len(graph.incoming.senders), model.hidden
    rate = ((4 * units + 4) * arcs + 4 * units * nodes) / min(took)
    speeds = " ".join(f"{speed / 1e9:.1f}" for speed in (rate, copy_rate(), gather_rate(nodes, units)))
    print(
        f"{seconds:.1f} | {wall:.1f} | {1e6 * seconds / (nodes + arcs):.1f} | {before >> 10} {held[0] >> 10} | {peak >> 10} | "
        f"{100 * sum(took) / seconds:.1f} % | {speeds} |",
        flush=True,
    )


def aggregation(nodes: int, degree: int, units: int = 16) -> str:
    """A row of the table about the sums alone. The variants alternate, because of other load; the best time of each counts."""
    import torch

    from gnnaudit.models.data.loading import load
    from gnnaudit.models.sparse.neighbour_sums import Bags

    torch.set_num_threads(1)
    bags = Bags(load(f"campus:n={nodes}:degree={degree}").incoming)
    arcs, x, out = len(bags.lists.senders), torch.ones(nodes, units), torch.empty(nodes, units)
    moved = (4 * units + 4) * arcs + 4 * units * nodes

    turns = [(moved / cpu_seconds(lambda: bags.add_up(x, out), 5), copy_rate(), gather_rate(nodes, units)) for _ in range(5)]
    sums, copy, gather = (max(rates) / 1e9 for rates in zip(*turns, strict=True))
    rates = f"{sums:.1f} | {copy:.1f} | {gather:.1f}"
    return f"| {nodes:,} | {arcs:,} | {rates} | {100 * sums / copy:.0f} % | {100 * sums / gather:.0f} % |"


def row(nodes: int, degree: int, epochs: int, memory: str) -> str:
    """A row of the table, from two processes: one generates the graph, the other fits a run."""
    from gnnaudit.models.graph.memory_mapped import read

    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "graph"
        words = [sys.executable, __file__, "--epochs", str(epochs), "--memory", memory]
        made = subprocess.run([*words, "--make", f"{nodes}x{degree}", str(folder)], check=True, text=True, capture_output=True)
        fitted = subprocess.run([*words, "--fit", str(folder)], check=True, text=True, capture_output=True)
        size = sum(path.stat().st_size for path in folder.iterdir()) >> 20
        arcs = len(read(folder).incoming.senders)
        return f"| {nodes:,} | {arcs:,} | {made.stdout.strip()} | {size} | {fitted.stdout.strip()}"


def pair(text: str) -> tuple[int, int]:
    nodes, degree = text.split("x")
    return int(nodes), int(degree)


def main() -> None:
    from gnnaudit.audit.planning.plan import size

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="10000x24,100000x24,1000000x24,1000000x70")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--aggregation", action="store_true", help="nothing but neighbour sums, in GB/s")
    asked = parser.parse_args()
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # set before torch is loaded, as audit/cli/main.py does
    if asked.aggregation:
        print(f"| {' | '.join(SUMS)} |\n|" + "---|" * len(SUMS), flush=True)
        for graph in asked.graphs.split(","):
            print(aggregation(*pair(graph)), flush=True)
    elif asked.make:
        make(*pair(asked.make[0]), Path(asked.make[1]))
    elif asked.fit:
        fit(Path(asked.fit), asked.epochs, size(asked.memory))
    else:
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
        for graph in asked.graphs.split(","):
            print(row(*pair(graph), asked.epochs, asked.memory), flush=True)


if __name__ == "__main__":
    main()
