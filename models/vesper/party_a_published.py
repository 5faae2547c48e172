"""Party A of published VESPER and of its baseline: a noisy pass over sampled neighbourhoods for every batch.

In variant "pmp", B learns more than the noisy rows that the paper's accounting covers. Every weight of A is trained by gradients
that passed through the private adjacency without noise. So in later messages, even rows far from the secret edge depend on it.
In variant "gap-resampled", the encoder is trained without edges, and A has no other weights.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..random.hashed_sampling import few
from .aggregators import normalise, spectral_scale
from .learner import pull_through
from .networks import Sender
from .party_a_sound import Perturb


@dataclass(eq=False)
class Perturbed(Sender):
    """A's network for one run.

    rule: what a layer does after the sum. "pmp" (Algorithm 1, and Algorithm 2 for gcn-truncated): it multiplies by the weight,
    adds noise, applies ReLU and scales rows to length 1. "gap-resampled": it adds noise and scales rows to length 1.

    adjacency: (nodes, nodes) scipy CSR of the run's graph. learner: the encoder's weight and bias; for "pmp" then one (1, width,
    width) weight for each layer, and for gcn-truncated one more for each layer, for nodes of low degree. vectors: the running
    singular vector of each of these weights. fan_out: how many neighbours of a node are sampled. key: the secret seed by which
    neighbours are sampled, once in each batch for all layers.
    """

    rule: str
    adjacency: Any
    layers: int
    vectors: list[Tensor]
    aggregator: str
    floor: int
    fan_out: int
    key: int
    perturb: Perturb
    passes: int = 0
    degree: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.degree = np.diff(self.adjacency.indptr)

    def refresh(self) -> None:
        raise ValueError("this party draws new noise for every batch and has nothing to refresh; ask for a BATCH.")

    def rows(self, nodes: NDArray[np.int64], learn: bool) -> NDArray[np.float32]:
        """(1, layers, width, rows) float32: every layer's rows of these nodes, from one noisy pass over their subgraphs."""
        learn &= self.rule != "gap-resampled"  # the ledger of gap-resampled holds only if no gradient passes through edges
        with torch.set_grad_enabled(learn):
            sent = torch.stack([rows.T for rows in self._forward(nodes, learn)])[None]
        self._pull = pull_through(sent, self.learner.weights) if learn else None
        return sent.detach().cpu().numpy()

    def _forward(self, roots: NDArray[np.int64], learn: bool) -> list[Tensor]:
        needed, arcs = self._neighbourhood(np.unique(roots))
        rows = self.encode(self.learner.weights[:2], needed[0])[0].T
        outputs = []
        for layer in range(self.layers):
            linear = self._layer(layer, needed[layer], needed[layer + 1], arcs[layer], rows, learn)
            linear = self.perturb(("forward", self.passes, layer), linear.T[None])[0].T
            rows = normalise(linear if self.rule == "gap-resampled" else torch.relu(linear))
            outputs.append(rows[np.searchsorted(needed[layer + 1], roots)])
        self.passes += 1
        return outputs

    def _neighbourhood(self, roots: NDArray[np.int64]) -> tuple[list[NDArray[np.int64]], list[tuple[NDArray[np.int64], ...]]]:
        """The nodes whose rows are needed after 0, 1, … layers, and for each layer the sampled arcs, as senders and receivers."""
        needed, new = [roots], roots
        arcs: list[tuple[NDArray[np.int64], ...]] = []
        send = receive = np.empty(0, dtype=np.int64)
        for _ in range(self.layers):
            more = few(self.adjacency, new, self.fan_out, (self.key, self.passes))
            send, receive = np.concatenate([send, more[0]]), np.concatenate([receive, more[1]])
            arcs.insert(0, (send, receive))
            needed.insert(0, np.union1d(needed[0], send))
            new = np.setdiff1d(needed[0], needed[1], assume_unique=True)
        return needed, arcs

    def _layer(
        self,
        layer: int,
        given: NDArray[np.int64],
        wanted: NDArray[np.int64],
        arcs: tuple[NDArray[np.int64], ...],
        rows: Tensor,
        learn: bool,
    ) -> Tensor:
        """The rows of `wanted` before noise, from the rows of `given`: W times the sum of the node's own row and the rows of its
        sampled neighbours, with the weights of the aggregator.
        """
        send, receive = arcs
        own = rows[np.searchsorted(given, wanted)]
        messages = rows[np.searchsorted(given, send)]
        if self.aggregator == "gin":
            inside = own
        else:
            degree = np.maximum(self.degree, self.floor) if self.aggregator == "gcn-floor" else self.degree
            coefficient = torch.from_numpy((degree + 1.0) ** -0.5).float()
            messages = messages * (coefficient[send] * coefficient[receive])[:, None]
            inside = own * coefficient[wanted, None] ** 2
        at = torch.from_numpy(np.searchsorted(wanted, receive))
        linear = inside.index_add(0, at, messages)
        if self.rule == "gap-resampled":
            return linear
        linear = linear @ self._normed(layer, learn).T
        if self.aggregator == "gcn-truncated":
            low = torch.from_numpy(self.degree[wanted] < self.floor)[:, None]
            free = self._normed(self.layers + layer, learn)
            linear = torch.where(low, own @ free.T, linear)
        return linear

    def _normed(self, at: int, learn: bool) -> Tensor:
        scaled, vector = spectral_scale(self.learner.weights[2 + at][0], self.vectors[at])
        if learn:  # torch's spectral_norm, too, updates its vector only in training
            self.vectors[at] = vector
        return scaled
