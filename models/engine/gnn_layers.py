"""The plain graph layers of the literature for K runs at once: GCN, GraphSAGE, GAT and GIN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..sparse.block_diagonal import Blocks, Operator, linear
from ..sparse.normalised_sums import Whole

HEADS = (8, 1)  # attention heads of a GAT layer that is not the last, and of the last one

Values = dict[str, Tensor]  # each (runs, …)
Start = Callable[[np.random.Generator, int, int, bool], dict[str, "NDArray[np.float64]"]]
Forward = Callable[[Values, Operator | Tensor, "Blocks | Whole"], Tensor]


@dataclass(frozen=True)
class Kind:
    """One kind of graph layer. start(random, inputs, outputs, last): the initial parameters of one run. forward(values, x,
    blocks): the layer's output, (K, size, outputs), where x is the features or (K, size, inputs).
    """

    start: Start
    forward: Forward


def glorot(random: np.random.Generator, inputs: int, outputs: int) -> NDArray[np.float64]:
    """(inputs, outputs) initial weights: uniform in ±√(6 / (inputs + outputs)) (Glorot and Bengio 2010)."""
    bound = np.sqrt(6 / (inputs + outputs))
    return random.uniform(-bound, bound, (inputs, outputs))


def as_torch(random: np.random.Generator, inputs: int, outputs: int) -> NDArray[np.float64]:
    """The initial weights of torch.nn.Linear: uniform in ±1/√inputs."""
    bound = 1 / np.sqrt(inputs)
    return random.uniform(-bound, bound, (inputs, outputs))


def stacked(runs: list[dict[str, NDArray[np.float64]]], device: str) -> Values:
    """The parameters of all runs as tensors with gradients, (K, …) float32 each."""
    together = {n: np.stack([run[n] for run in runs]).astype(np.float32) for n in runs[0]}
    return {n: torch.from_numpy(v).to(device).requires_grad_() for n, v in together.items()}


def gcn_start(random: np.random.Generator, inputs: int, outputs: int, last: bool) -> dict[str, NDArray[np.float64]]:
    return {"weight": glorot(random, inputs, outputs), "bias": np.zeros((1, outputs))}


def gcn(values: Values, x: Operator | Tensor, blocks: Blocks | Whole) -> Tensor:
    """Kipf and Welling 2017: D^-1/2 (A + I) D^-1/2 X W + b."""
    return (blocks.symmetric @ linear(x, values["weight"])).add_(values["bias"])


def sage_start(random: np.random.Generator, inputs: int, outputs: int, last: bool) -> dict[str, NDArray[np.float64]]:
    bias = as_torch(random, inputs, outputs)[:1]
    return {"neighbours": as_torch(random, inputs, outputs), "own": as_torch(random, inputs, outputs), "bias": bias}


@dataclass(frozen=True, eq=False)
class WithMean:
    """Inputs of a GraphSAGE layer that training does not change. rows: (K, size, 2 inputs), the mean over the arcs into each
    node, then the node's own row.
    """

    rows: Tensor

    @staticmethod
    def of(x: Tensor, blocks: Blocks | Whole) -> WithMean:
        return WithMean(torch.cat([blocks.mean @ x, x], dim=2))


def sage(values: Values, x: Operator | Tensor | WithMean, blocks: Blocks | Whole) -> Tensor:
    """Hamilton et al. 2017 with the mean aggregator: mean(X) W_n + X W_o + b."""
    if isinstance(x, WithMean):
        return torch.bmm(x.rows, torch.cat([values["neighbours"], values["own"]], dim=1)).add_(values["bias"])
    both = linear(x, torch.cat([values["neighbours"], values["own"]], dim=2))
    neighbours, own = both.chunk(2, dim=2)
    return (blocks.mean @ neighbours).add_(own).add_(values["bias"])


def gin_start(random: np.random.Generator, inputs: int, outputs: int, last: bool) -> dict[str, NDArray[np.float64]]:
    inner = {"weight": as_torch(random, inputs, outputs), "bias": as_torch(random, inputs, outputs)[:1]}
    return inner | {"outer": as_torch(random, outputs, outputs), "outer_bias": as_torch(random, outputs, outputs)[:1]}


def gin(values: Values, x: Operator | Tensor, blocks: Blocks | Whole) -> Tensor:
    """Xu et al. 2019 with epsilon = 0: a two-layer perceptron of X + A X. The first weight is applied before the sum, which gives
    the same result.
    """
    inner = linear(x, values["weight"])
    inner = torch.relu((blocks.total @ inner).add_(inner).add_(values["bias"]))
    return torch.bmm(inner, values["outer"]) + values["outer_bias"]


def gat_start(
    random: np.random.Generator, inputs: int, outputs: int, last: bool, heads: tuple[int, int] = HEADS
) -> dict[str, NDArray[np.float64]]:
    """Initial parameters. The heads of the last layer have `outputs` units each and are averaged; the heads of any other layer
    share `outputs` units equally. Raises ValueError if they cannot.
    """
    count = heads[last]
    if not last and outputs % count:
        raise ValueError(f"hidden={outputs}: must be a multiple of {count}, the attention heads of a GAT layer.")
    units = outputs if last else outputs // count
    to, fro = (glorot(random, count, units) for _ in range(2))
    return {"weight": glorot(random, inputs, count * units), "to": to, "from": fro, "bias": np.zeros((1, outputs))}


def gat(values: Values, x: Operator | Tensor, blocks: Blocks | Whole) -> Tensor:
    """Veličković et al. 2018: for every head, a softmax over the arcs into each node and its self loop. The outputs of the heads
    are concatenated, or averaged if the bias has the width of one head.
    """
    runs, heads, units = values["to"].shape
    rows = linear(x, values["weight"]).view(runs, blocks.size, heads, units)
    to, fro = ((rows * values[side][:, None]).sum(3) for side in ("to", "from"))
    every = blocks.attend(rows, to, fro).view(runs, blocks.size, heads, units)
    averaged = values["bias"].shape[2] == units
    return (every.mean(2) if averaged else every.reshape(runs, blocks.size, heads * units)) + values["bias"]


KINDS = {"gcn": Kind(gcn_start, gcn), "sage": Kind(sage_start, sage), "gin": Kind(gin_start, gin), "gat": Kind(gat_start, gat)}
