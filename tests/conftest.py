"""Graphs that many tests share, and the folder of real data sets if there is one."""

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: small products on busy cores take minutes otherwise
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

os.environ.setdefault("NUMBA_CACHE_DIR", str(user_cache_path("gnnaudit", appauthor=False)))  # tests with a cache of their own too
import numpy as np
import pytest
from hypothesis import settings

from gnnaudit.audit.storage.garbage import collect_rarely
from gnnaudit.models import recorder
from gnnaudit.models.graph.graph import Graph

collect_rarely()

# No deadline, because the machine may be busy; fixed examples, so that a commit passes or fails everywhere alike. `make nightly`
# searches for new ones.
settings.register_profile("gnnaudit", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("gnnaudit")


NIGHTLY = Path(__file__).with_name("nightly.txt")  # names of tests that take long, while quicker ones say much the same
GONE = pytest.StashKey[set[str]]()  # lines of NIGHTLY without a test


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of nightly.txt as nightly, and keeps the lines that name no test of a collected file."""
    listed = set(NIGHTLY.read_text().splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.nightly)
    alone = any("::" in argument for argument in config.args)  # then the files are not collected as a whole
    whole = set() if alone else {item.nodeid.partition("::")[0] for item in items}
    config.stash[GONE] = {line for line in listed if line.partition("::")[0] in whole} - {item.nodeid for item in items}


def pytest_collection_finish():
    """Takes the loaded modules out of what is done again and again: Python would look for garbage among half a million objects,
    and the recorder would search each file of tests for random functions before each training, as if it were a user's module.
    Files of tests that import a random function stay among those that it searches.
    """
    gc.collect()
    gc.freeze()
    with recorder.recording():
        recorder.SETTLED.update(n for n, known in recorder.WATCHED.items() if n.startswith("tests.") and not known.found)
    recorder.LOADED.clear()


def small_graph(nodes: int = 40, edges: int = 90, dim: int = 6, classes: int = 3, seed: int = 0) -> Graph:
    """A random undirected graph with dense features, every class present, half of the nodes for training."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(u, v) for u in range(nodes) for v in range(u + 1, nodes)], dtype=np.int64)
    chosen = np.sort(rng.choice(len(pairs), edges, replace=False))
    y = np.arange(nodes, dtype=np.int64) % classes
    x = (rng.standard_normal((nodes, dim)) + np.eye(classes, dim)[y]).astype(np.float32)
    part = rng.permutation(nodes)
    train, val, test = (np.zeros(nodes, dtype=bool) for _ in range(3))
    train[part[: nodes // 2]] = val[part[nodes // 2 : 3 * nodes // 4]] = test[part[3 * nodes // 4 :]] = True
    return Graph(x, y, pairs[chosen].T.copy(), train, val, test)


@pytest.fixture
def graph() -> Graph:
    return small_graph()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Real graphs: the folder named by GNNAUDIT_DATA, or shared/data beside the checkout; the test is skipped without."""
    folder = Path(os.environ.get("GNNAUDIT_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real graphs at hand: {folder} is absent; set GNNAUDIT_DATA")
    return folder


@pytest.fixture
def as_another() -> Callable[[Path, str], None]:
    """Changes a file of one's own into one as another user of this machine could have made it."""

    def change(path: Path, how: str) -> None:
        if how == "writable":
            path.chmod(0o666)
        elif how == "link":
            path.rename(path.with_name("elsewhere"))
            path.symlink_to("elsewhere")
        elif os.getuid() == 0:
            os.chown(path, 65534, 65534)
        else:
            pytest.skip("only root can make a file of another user")

    return change
