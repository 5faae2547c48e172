"""A replacement for an accelerator: torch's device "meta", which computes shapes and no numbers.

A training there fails if a tensor stays on the CPU, or is read as CPU memory. It does not test an accelerator's results, speed or
memory. Graph networks without privacy are left out: their fused Adam does not know this device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx.experimental._config
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gnnaudit.accounting.claim import Unit
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.data.loading import load
from gnnaudit.models.dpar import list_dpsgd
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.sparse import block_diagonal
from gnnaudit.models.vesper.vesper import Vesper

from ...nightly import nightly

MODELS = {
    "gap": Gap(epochs=2, sigma=1.0, keep=("posteriors", "aggregates", "inputs")),
    "gap of nodes": Gap(unit=Unit.NODE, train_nodes=225, batch=16, epochs=1, sigma=1.0, max_degree=300),
    "progap": ProGap(depth=1, epochs=2, sigma=1.0),
    "mlp": Mlp(epochs=2),
    "edgerand": EdgeRand(epochs=2, sigma=1.0),
    "s1": Vesper(variant="s1", epochs=2),
    "s2": Vesper(variant="s2", epochs=2, refreshes=2),
    "s3": Vesper(variant="s3", epochs=2, n_train=200),
    "lpgnn": Lpgnn(epochs=2, feature_budget=1.0, label_budget=1.0),
    "dpar": Dpar(epochs=10),
}
FIVE = Mask(np.arange(5), np.array([[True] * 5, [False] * 5]))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("campus:n=300")


MOVES = ("aten.copy_", "aten._to_copy", "aten.index", "aten.index_put")  # may read CPU memory on a real accelerator too


class OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of two devices, as an accelerator does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor) and a.dim()]
        if len({a.device.type for a in tensors}) > 1 and not str(func).startswith(MOVES):
            raise RuntimeError(f"{func} on tensors of two devices")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The device; copies from it are zeros, every condition is true, and sparse products only check shapes."""
    back, asked = torch.Tensor.cpu, torch.Tensor.__bool__

    def multiply(matrix: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        assert matrix.device == rows.device
        return rows.new_empty((len(rows), matrix.shape[0] // len(rows), rows.shape[2]))

    def cpu(a: torch.Tensor) -> torch.Tensor:
        return torch.zeros(a.shape, dtype=a.dtype) if a.is_meta else back(a)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda a: True if a.is_meta else asked(a))
    for module in (block_diagonal, list_dpsgd):
        monkeypatch.setattr(module, "multiply", multiply)
    with OneDevice(), torch.fx.experimental._config.patch(meta_nonzero_assume_all_nonzero=True):  # type: ignore[attr-defined]
        yield "meta"


def test_devices_do_not_mix(elsewhere: str) -> None:
    for act in (torch.add, torch.mul, torch.mm):
        with pytest.raises(RuntimeError):
            act(torch.zeros(2, 2, device=elsewhere), torch.zeros(2, 2))


@pytest.mark.parametrize("masked", ["edges", *nightly("", "nodes", "labels")])
@pytest.mark.parametrize("name", MODELS)
def test_all_of_a_training_happens_on_the_device(elsewhere: str, graph: Graph, name: str, masked: str) -> None:
    worlds, model = Worlds.of(graph, [1, 2], np.arange(20)), MODELS[name]
    if masked:
        part: Any = FIVE if masked == "edges" else Mask(np.flatnonzero(graph.train)[:5], FIVE.present)
        worlds = dataclasses.replace(worlds, **{masked: part})
    there = model.fit(worlds, elsewhere)  # type: ignore[attr-defined]
    assert set(there.arrays) == set(model.releases)  # type: ignore[attr-defined]
    assert all(a.shape[0] == 2 for a in there.arrays.values())
