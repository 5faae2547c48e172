"""A node with the largest float32 features: all results stay finite, so no NaN reveals its neighbours."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit.models.baselines.dpgnn import DpGnn
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.engine.features import LARGEST, Shared, limited
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.graph.memory_mapped import read, write
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.vesper.vesper import Vesper

TRAINED: dict[str, Any] = {"sigma": 1.0, "hidden": 4, "epochs": 3}
NODE: dict[str, Any] = {**TRAINED, "unit": "node", "train_nodes": 20, "batch": 5}
SUMS = ("posteriors", "aggregates")
MODELS = {
    "gap": Gap(keep=SUMS, **TRAINED),
    "gap node": Gap(keep=SUMS, max_degree=12, **NODE),
    "progap": ProGap(depth=2, keep=SUMS, **TRAINED),
    "progap node": ProGap(depth=2, keep=SUMS, max_degree=12, **NODE),
    "mlp node": Mlp(**NODE),
    "dpgnn": DpGnn(max_degree=12, **NODE),
    "vesper": Vesper(sigma=1.0, hidden=4, epochs=3, keep=SUMS),
    "dpar": Dpar(sigma=1.0, sources=6, epochs=3, hidden=4, keep=("posteriors", "gradients")),
}


def huge(graph: Graph, sparse: bool) -> Graph:
    """The same graph, where one training node has the largest features there are, of either sign."""
    x = graph.x.copy()
    x[np.flatnonzero(graph.train)[3]] = np.finfo(np.float32).max * np.where(np.arange(graph.dim) % 2, 1, -1)
    return dataclasses.replace(graph, x=sp.csr_array(x) if sparse else x)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_all_that_is_released_is_finite(name: str, sparse: bool, fast: bool, graph: Graph) -> None:
    worlds = Worlds.of(huge(graph, sparse), [1])
    token = compiled.UNUSED.set(not fast)
    released = MODELS[name].fit(worlds)
    compiled.UNUSED.reset(token)
    for array, values in released.arrays.items():
        assert np.isfinite(values).all(), array


def test_teachers_answer_with_numbers(graph: Graph) -> None:
    worlds = Worlds.of(huge(graph, sparse=False), [1])
    taught = PrivGnn(queries=5, rate=1.0, neighbours=0, epochs=3, hidden=8).teachers(worlds)
    assert np.isfinite(taught.answers).all()


def test_features_are_cut_at_the_limit_in_memory_and_in_a_file(graph: Graph, tmp_path: Path) -> None:
    rows = np.arange(graph.nodes)
    expected = np.clip(huge(graph, sparse=False).x, -LARGEST, LARGEST)
    for own in (huge(graph, sparse=False), huge(graph, sparse=True), write(huge(graph, sparse=False), tmp_path / "mapped")):
        np.testing.assert_array_equal(Shared(own.x, rows).dense.numpy(), expected)
    mapped = Shared(read(tmp_path / "mapped").x, rows)
    np.testing.assert_array_equal(np.concatenate([part.numpy() for _, part in mapped.blocks()]), expected)
    assert limited(graph.x) is graph.x
