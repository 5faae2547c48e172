"""Two parties that train one model. A holds the graph and the features, B the labels. A channel is all that they share.

Party B sends requests and party A answers them, so A's whole loop is `while a.answer(channel): pass`. The channel's whitelist
lists what B may request and what either party may send. A charges its budget for an answer before it computes the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from .channel import EMPTY, BudgetSpent, Channel, ask
from .learner import Learner
from .networks import Sender, decode, step
from .recipe import VesperRecipe

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(eq=False)
class Odometer:
    """Counts the answers that A has given, and refuses those that the ledger does not cover.

    recipe: says which requests cost privacy, how many answers to each the ledger covers, and what one answer costs.
    """

    recipe: VesperRecipe
    taken: Counter[str] = field(default_factory=Counter)

    def charge(self, kind: str) -> None:
        """Charges one answer before it is computed. Raises BudgetSpent if the ledger covers no further answer."""
        if self.taken[kind] >= self.recipe.answers.get(kind, math.inf):
            raise BudgetSpent(f"{kind} was answered {self.taken[kind]} times; the ledger holds no more.")
        self.taken[kind] += 1

    @property
    def spent(self) -> DpEvent:
        """The ledger of all answers that were given so far."""
        from ...accounting.events.mechanisms import composed, repeated

        return composed(*(repeated(event, self.taken[kind]) for kind, (event, _) in self.recipe.prices.items()))


@dataclass(eq=False)
class PartyA:
    """The party that holds the graph, the features, the noise and the budget. It sees neither labels nor losses. hello: a digest
    that must be the same for both parties.
    """

    hello: bytes
    sender: Sender
    odometer: Odometer

    def answer(self, channel: Channel) -> bool:
        """Answers one request. Returns False after STOP, else True. Raises ValueError for a message that B may not send."""
        kind, payload = channel.receive()
        if kind == "STOP":
            return False
        if kind == "HELLO":
            if payload.tobytes() != self.hello:
                raise ValueError("the two parties were started with different recipes or node sets; start both from one.")
            channel.send("HELLO", payload)
            return True
        try:
            self.odometer.charge(kind)
        except BudgetSpent:
            channel.send("REFUSED", EMPTY)
            return True
        if kind == "REFRESH":
            self.sender.refresh()
            channel.send("DONE", EMPTY)
        elif kind == "LAYER0":
            channel.send("FWD", self.sender.layer0(payload.astype(np.int64, copy=False)))
        elif kind in ("BATCH", "EVAL_REQ"):
            rows = self.sender.rows(payload.astype(np.int64, copy=False), kind == "BATCH")
            channel.send("FWD" if kind == "BATCH" else "EVAL", rows)
        elif kind == "BWD":
            if not np.isfinite(payload).all():
                raise ValueError(
                    "party B sent a gradient with NaN or infinity; weights computed from it would show which nodes have "
                    "neighbours."
                )
            self.sender.learn(payload.astype(np.float32, copy=False))
            channel.send("DONE", EMPTY)
        else:
            raise ValueError(f"party A was sent {kind}, which is not a request.")
        return True


@dataclass(eq=False)
class PartyB:
    """The party that holds the labels and the node ids, trains the decoder, and asks A for rows. It sees neither edges nor
    features.

    labels: (nodes,) int64. weight: (K, nodes) float32, 1 if a run trains on the node, else 0. decoder: "concat" or "gru".
    start(kind, slots, dim): a network with its initial parameters.
    """

    hello: bytes
    labels: NDArray[np.int64]
    weight: NDArray[np.float32]
    decoder: str
    start: Callable[[str, int, int], Learner]
    device: str = "cpu"
    network: Learner | None = None  # the decoder
    _last: tuple[NDArray[np.int64], torch.Tensor, torch.Tensor] | None = None

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """The ids of the nodes on which some run trains."""
        return np.flatnonzero(self.weight.any(axis=0))

    def greet(self, channel: Channel) -> None:
        """Checks that both parties run the same recipe on the same number of nodes."""
        ask(channel, "HELLO", np.frombuffer(self.hello, dtype=np.uint8), "HELLO")

    def learn(self, nodes: NDArray[np.int64], rows: NDArray[np.float32], back: bool = True) -> NDArray[np.float32]:
        """One step of the decoder on these rows, (K, slots, dim, rows). Returns the gradient with respect to them if `back`, else
        an empty array.
        """
        if self.network is None:
            self.network = self.start(self.decoder, rows.shape[1], rows.shape[2])
        return self._step(self.decoder, self.network, nodes, rows, back)

    def _step(
        self, kind: str, network: Learner, nodes: NDArray[np.int64], rows: NDArray[np.float32], back: bool = True
    ) -> NDArray[np.float32]:
        received = torch.from_numpy(rows).to(self.device)
        pulls = step(kind, network, received, *self._known(nodes), back)
        return rows[:0] if pulls is None else pulls.cpu().numpy()

    def _known(self, nodes: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """The labels of these nodes, and each node's share of a run's loss, (K, rows). The result is cached, because most
        requests are for the same nodes.
        """
        if self._last is None or self._last[0] is not nodes:
            weight = np.ascontiguousarray(self.weight[:, nodes])
            share = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1)
            known, shares = (torch.from_numpy(a).to(self.device) for a in (self.labels[nodes], share))
            self._last = (nodes, known, shares)
        return self._last[1:]

    def teach(self, channel: Channel, nodes: NDArray[np.int64]) -> None:
        """One step of both parties on a batch: B sends ids, receives rows and sends their gradient."""
        ask(channel, "BWD", self.learn(nodes, ask(channel, "BATCH", nodes, "FWD")), "DONE")

    def train_encoder(self, channel: Channel, steps: int) -> None:
        """Trains A's encoder on layer 0, which reads no edges, through a temporary linear head."""
        head: Learner | None = None
        for _ in range(steps):
            rows = ask(channel, "LAYER0", self.nodes, "FWD")
            head = head or self.start("linear", rows.shape[1], rows.shape[2])
            ask(channel, "BWD", self._step("linear", head, self.nodes, rows), "DONE")

    def train_once(self, channel: Channel, steps: int) -> None:
        """s1: requests one noisy pass, then trains the decoder on its result."""
        ask(channel, "REFRESH", EMPTY, "DONE")
        rows = ask(channel, "EVAL_REQ", self.nodes, "EVAL")
        for _ in range(steps):
            self.learn(self.nodes, rows, back=False)

    def train_refreshed(self, channel: Channel, steps: Iterable[int], watch: NDArray[np.int64]) -> None:
        """s2, s3: for each number in `steps`, requests a noisy pass and the watched rows, then takes this number of steps with
        both parties.
        """
        for count in steps:
            ask(channel, "REFRESH", EMPTY, "DONE")
            ask(channel, "EVAL_REQ", watch, "EVAL")
            for _ in range(count):
                self.teach(channel, self.nodes)

    def train_batches(self, channel: Channel, batches: Iterable[NDArray[np.int64]], teach: bool) -> None:
        """Trains as published: every batch has its own noisy pass. teach: whether A learns from each batch too."""
        for nodes in batches:
            if teach:
                self.teach(channel, nodes)
            else:
                self.learn(nodes, ask(channel, "BATCH", nodes, "FWD"), back=False)

    def posteriors(self, channel: Channel, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """(K, rows, classes) float32: logarithms of the class probabilities of these nodes. Raises ValueError before any
        training.
        """
        if self.network is None:
            raise ValueError("party B has no decoder yet; train it first.")
        received = torch.from_numpy(ask(channel, "EVAL_REQ", nodes, "EVAL")).to(self.device)
        with torch.no_grad():
            logits = decode(self.decoder, self.network.weights, received)
            return torch.log_softmax(logits, 1).transpose(1, 2).contiguous().cpu().numpy()
