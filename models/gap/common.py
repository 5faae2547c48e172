"""What GAP, ProGAP and their baselines have in common: whom they protect, how much noise that takes, which rows leave."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from ...accounting.claim import Unit
from ..graph.neighbour_lists import degrees
from ..random import streams, witness

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from ..engine.network import Network, Rows, Weights
    from ..graph.graph import Graph, Worlds

MODES = ("paper", "sound")
ARRAYS = ("posteriors", "aggregates", "inputs")  # what GAP and ProGAP can release


class Private(Protocol):
    """The fields that GAP, ProGAP and DP-MLP share."""

    @property
    def name(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def sigma(self) -> float: ...
    @property
    def max_degree(self) -> int: ...
    @property
    def train_nodes(self) -> int: ...
    @property
    def batch(self) -> int: ...


def checked_unit(name: str, mode: str, unit: Unit | str | None) -> Unit:
    """The unit that a recipe protects; None stands for the edge of its mode. Raises ValueError where there is no such recipe."""
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: must be 'paper' (as published) or 'sound' (as proved).")
    unit = Unit(unit) if unit else Unit.DIRECTED_EDGE if mode == "paper" else Unit.UNDIRECTED_EDGE
    if unit is Unit.FEATURES:
        raise ValueError(f"{name} protects edges or nodes, not a node's own features. Use unit = 'undirected-edge' or 'node'.")
    if mode == "paper" and unit is Unit.UNDIRECTED_EDGE:
        raise ValueError(f"{name} as published counts directed edges. Use unit = 'directed-edge', or mode = 'sound'.")
    return unit


def check_batch(model: Private) -> None:
    """Raises ValueError when a recipe at node level does not say how often a node is drawn."""
    if model.unit is Unit.NODE and not 0 < model.batch <= model.train_nodes:
        raise ValueError(
            f"train_nodes={model.train_nodes}: {model.name} at node level draws batches of about {model.batch} out of a public "
            f"number of training nodes, so it must be at least that. Set train_nodes, or a smaller batch."
        )


def check_direction(name: str, unit: Unit, graph: Graph) -> None:
    """Raises ValueError when undirected edges are to be protected where there are none."""
    if unit is Unit.UNDIRECTED_EDGE and graph.directed:
        raise ValueError(f"{name} counts undirected edges, and {graph.name} is directed. Use unit = 'directed-edge'.")


def check_graph(model: Private, graph: Graph) -> None:
    """Raises ValueError for a graph that the recipe's ledger does not speak of."""
    check_direction(model.name, model.unit, graph)
    if model.unit is Unit.NODE and model.mode == "sound" and model.max_degree:
        sent = int(degrees(graph.edges[::-1], graph.nodes, graph.directed).max())
        if sent > model.max_degree:
            raise ValueError(
                f"max_degree={model.max_degree}: a node of {graph.name} has degree {sent}. In mode 'sound' the bound is a public "
                f"promise, as no way to cut degrees is stable when a node leaves. Use max_degree = {sent} or more."
            )


def sensitivity(unit: Unit, max_degree: int) -> float:
    """L2 sensitivity of one hop over rows of length 1 at most.

    A directed edge moves one row by 1 (GAP, Lemma 1), an undirected edge two rows. A node that sends to at most max_degree
    others moves that many rows of others (GAP, Lemma 2); its own row is not counted and must not leave.
    """
    return math.sqrt({Unit.DIRECTED_EDGE: 1, Unit.UNDIRECTED_EDGE: 2}.get(unit, max_degree))


def perturb(sums: Tensor, seeds: NDArray[np.uint64], std: float, hop: int) -> Tensor:
    """Adds Gaussian noise to every entry, in place. sums: (runs, nodes, dim). hop: from 1 on, names the stream."""
    if std:
        witness.clean("aggregate", sums)
        streams.add_normal(sums, seeds, std, "aggregate", hop)
        witness.released("aggregate", sums, scale=std)
    return sums


def seen(model: Private, worlds: Worlds) -> NDArray[np.bool_]:
    """(w,) bool: which watched rows leave.

    A node's own prediction is not private towards itself. So at node level, in mode 'sound', only nodes of the public validation
    and test sets are answered, and only training nodes are protected.
    """
    if model.unit is not Unit.NODE or model.mode == "paper":
        return np.ones(worlds.watch.size, dtype=bool)
    return (worlds.graph.val | worlds.graph.test)[worlds.watch]


def taken_as_public(model: Private, epochs_are_chosen: bool = True) -> tuple[str, ...]:
    """What the ledger does not protect, one plain sentence each."""
    common = ("The set of nodes, the split and the number of classes are public.",)
    if model.unit is not Unit.NODE:
        return (
            *common,
            "Features and labels are public: everything that sees no edge costs nothing.",
            *(("The best epoch is chosen by labels, which are public, on noisy sums that are paid for.",) * epochs_are_chosen),
        )
    if model.mode == "paper":
        return (
            *common,
            "The number of training nodes is public.",
            "The best epoch is chosen by the labels of the validation nodes, and nothing is paid for that.",
            "Degrees are cut at random, which is not stable when a node leaves; the ledger takes it to be.",
            "A node's own prediction is released, and the ledger does not cover it.",
        )
    return (
        *common,
        "The number of training nodes is public.",
        "It is publicly promised that no node has more than max_degree neighbours; other graphs are refused.",
        "A training node comes or goes with all its edges. Its own prediction is withheld; only validation and test nodes "
        "are answered, and they are not protected.",
        "The last epoch is kept: nothing is chosen by private labels.",
    )


def check_kept(name: str, keep: tuple[str, ...], hops: int) -> None:
    """Raises ValueError for an array that the model cannot release."""
    if not hops and set(keep) != {"posteriors"}:
        raise ValueError(f"{name} without hops has no sums to release. Use at least one hop, or the model mlp.")
    if not keep or set(keep) - set(ARRAYS):
        raise ValueError(f"keep={keep}: {name} releases one or more of 'posteriors', 'aggregates' and 'inputs'.")


def log_probabilities(network: Network, weights: Weights, rows: Rows) -> NDArray[np.float32]:
    """(runs, nodes, classes) natural logarithms."""
    logits, _ = network.forward(weights.numbers, rows.inputs)
    return torch.log_softmax(logits, 1).transpose(1, 2).contiguous().cpu().numpy()


def watched_hops(hops: list[Tensor], watch: NDArray[np.int64]) -> NDArray[np.float32]:
    """hops: (runs, nodes, dim) each -> (runs, hops, w, dim)."""
    rows = torch.from_numpy(watch).to(hops[0].device)
    return torch.stack([hop.index_select(1, rows) for hop in hops], 1).cpu().numpy()


def withhold(model: Private, worlds: Worlds, arrays: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Replaces the rows that stay with their nodes by what anyone could have guessed: uniform posteriors, zero sums."""
    hidden = ~seen(model, worlds)
    for name, array in arrays.items():
        array[..., hidden, :] = -math.log(worlds.graph.classes) if name == "posteriors" else 0.0
    return arrays
