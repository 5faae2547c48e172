"""Whether a user's model can be trained on a crafted graph, which may be much larger than the audited one."""

import dataclasses
import time
from functools import partial

import numpy as np

from ...models.capabilities import RunsElsewhere
from ...models.graph.graph import Graph, Worlds
from ...reports.rounding import several
from ..case import Setting
from ..own.model_file import is_built_in
from ..progress import clock
from ..storage.resident import taken

PART = 4  # the model is trained on a part of 1 / PART of the nodes, and on one of 1 / PART^2


def check_cost(setting: Setting, graph: Graph) -> None:
    """Raises ValueError if one training of a user's model on `graph` may need more than the allowed memory, with what `--memory`
    should be, or if all trainings may take longer than `setting.patience`, in seconds.

    Memory and time of a model that reads all edges, or a dense adjacency matrix, are a + b nodes^2 on random parts of the nodes.
    Trainings on two parts give a and b. A model that grows more slowly needs less on all nodes. The model trains on the smaller
    part twice, and the cheaper training counts: the first one of a process may load libraries.
    """
    if is_built_in(setting.case.model):
        return
    small, large = (random_part(graph, graph.nodes // few) for few in (PART**2, PART))
    first, again, more = cost(setting, small), cost(setting, small), cost(setting, large)
    less = min(first[0], again[0]), min(first[1], again[1])
    seconds, needed = (a + max(0, b - a) * (PART**2 + 1) for a, b in zip(less, more, strict=True))
    if needed > setting.store.memory:
        parts = f"{more[1] >> 20}MiB on a part of {large.nodes} nodes, and {less[1] >> 20}MiB on one of {small.nodes}"
        raise ValueError(
            f"memory={setting.store.memory >> 20}MiB: one training on the crafted graph of {graph.nodes} nodes may need "
            f"{int(needed) >> 20}MiB, as one needs {parts}. Use --memory {int(needed) >> 20}MiB."
        )
    if setting.rounds * seconds > setting.patience:
        long = f"may take {clock(setting.rounds * seconds)}, as one takes {more[0]:.2g} s on a part of {large.nodes}"
        way = "to run it all the same, write --audits blackbox or --minutes N"
        raise ValueError(f"{several(setting.rounds, 'training')} on the crafted graph of {graph.nodes} nodes {long}; {way}")


def cost(setting: Setting, graph: Graph) -> tuple[float, int]:
    """The seconds, and the bytes of memory, of one training on a graph with nothing removed; 0 bytes if the system does not say
    how much memory a process holds.
    """
    model, worlds, started = setting.case.model, Worlds.of(graph, setting.key.fold("size").seeds(0, 1)), time.monotonic()
    if isinstance(model, RunsElsewhere):
        held: int | None = model.held(worlds)
    else:
        held = taken(partial(model.fit, worlds, setting.store.device))
    return time.monotonic() - started, held or 0


def random_part(graph: Graph, few: int) -> Graph:
    """The graph of `few` random nodes and of the edges between them. Their number falls as that of pairs of nodes does."""
    kept = np.sort(np.random.default_rng(few).choice(graph.nodes, few, replace=False))
    place = np.full(graph.nodes, -1, dtype=np.int64)
    place[kept] = np.arange(few)
    ends = place[graph.edges]
    rows = {name: getattr(graph, name)[kept] for name in ("x", "y", "train", "val", "test")}
    return dataclasses.replace(graph, edges=ends[:, (ends >= 0).all(0)], **rows)
