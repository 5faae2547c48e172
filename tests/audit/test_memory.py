"""Runs on graphs that are larger than the allowed memory, under a limit that the operating system enforces."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import CHUNK_BYTES, Store
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph import memory_mapped
from gnnaudit.models.graph.graph import Graph

BULK = 64 << 20  # bytes, of features or of edges
HELD = 48 << 20  # bytes that a process may hold beyond what the libraries take

UNDER_A_LIMIT = """
import re, resource, sys, tempfile
from pathlib import Path
import numpy as np, torch
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.claim import Claim
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.graph.memory_mapped import read
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.vesper.vesper import Vesper

torch.set_num_threads(1)
graph, held, small = read(sys.argv[1]), int(sys.argv[2]), load("campus:n=300")
claim = Claim(1.0, 1e-6)
models = [
    calibrate(ProGap(depth=2, epochs=2), claim),
    calibrate(Gap(epochs=2), claim),
    Vesper(variant="s1", epochs=2),
    Vesper(variant="s2", epochs=2, refreshes=2),
    *(Lpgnn(epochs=2, feature_budget=1.0, label_budget=1.0, backbone=name) for name in ("sage", "gcn")),
]

def everything(graph, folder):
    for model in models:
        assert Store(Path(folder), memory=held).chunk(model, graph)  # what --memory would say
        posteriors = model.fit(Worlds.of(graph, [1], np.arange(50)))["posteriors"]
        assert posteriors.shape == (1, 50, graph.classes) and np.isfinite(posteriors).all()
        print(model.name, "trained", flush=True)
    for name in ("replay", "residual", "game"):
        AUDITS[name].run(Setting(Case(models[1], claim), graph, Store(Path(folder)), Key("memory"), 2, 0.01))
        print(name, "looked", flush=True)

with tempfile.TemporaryDirectory() as folder:
    everything(small, folder)  # what is imported late is imported now
    taken = int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (taken + held, taken + held))
    for array in (graph.x, graph.edges):
        try:
            np.array(array)
        except MemoryError:
            print("no room for a copy", flush=True)
    everything(graph, folder)
"""


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,000 nodes with 16 features and 2,100 arcs each, which in memory would take 12 bytes for every arc and more."""
    random, nodes, edges = np.random.default_rng(3), 4000, BULK // 16
    ends = np.triu(random.random((nodes, nodes), dtype=np.float32) < 2.02 * edges / nodes**2, 1).nonzero()
    part, x = random.random(nodes), random.random((nodes, 16), dtype=np.float32)
    y, masks = random.integers(0, 3, nodes), (part < 0.7, (part >= 0.7) & (part < 0.8), part >= 0.8)
    folder = tmp_path_factory.mktemp("memory") / "dense"
    memory_mapped.write(Graph(x, y, np.stack(ends), *masks, name="dense"), folder)
    return folder


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 nodes with 8192 features each."""
    random, nodes = np.random.default_rng(3), 2000
    ends = random.integers(0, nodes, (2, 10_000))
    number = np.unique(ends.min(0)[ends[0] != ends[1]] * nodes + ends.max(0)[ends[0] != ends[1]])
    part = random.random(nodes)
    x = random.random((nodes, BULK // (4 * nodes)), dtype=np.float32)
    edges = np.stack(np.divmod(number, nodes))
    graph = Graph(x, random.integers(0, 3, nodes), edges, part < 0.7, (part >= 0.7) & (part < 0.8), part >= 0.8, name="wide")
    folder = tmp_path_factory.mktemp("memory") / "wide"
    memory_mapped.write(graph, folder)
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on a process's own memory is Linux's")
@pytest.mark.parametrize("bulk", ["wide", "dense"])
@pytest.mark.nightly
def test_four_systems_train_and_are_audited_on_a_graph_that_does_not_fit_into_memory(
    bulk: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(bulk)
    words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(UNDER_A_LIMIT), str(folder), str(HELD)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("no room for a copy") == 1
    assert done.stdout.count("trained") == 12
    assert done.stdout.count("looked") == 6


def test_a_run_that_the_memory_does_not_allow_is_refused_before_it_starts(tmp_path: Path) -> None:
    graph, model = load("campus:n=2000"), ProGap()
    game = Game(graph, "edge", np.zeros(0, dtype=np.int64), Key("memory"))
    with pytest.raises(ValueError, match=r"one run of progap on campus:n=2000 needs about 9MiB\. Use --memory 9MiB") as said:
        Store(tmp_path, memory=4 << 20).fit(model, game, 2)
    assert "\n" not in str(said.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("runs", [1, 3])
def test_a_chunk_is_what_fits_into_memory_and_caches(runs: int) -> None:
    class Sized:
        name = "sized"

        def footprint(self, graph: Graph) -> int:
            return CHUNK_BYTES // runs

    assert Store(Path()).chunk(Sized(), load("campus:n=300")) == runs  # type: ignore[arg-type]
