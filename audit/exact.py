"""Finite channels: epsilon by enumeration of what a user can send. Nothing is sampled."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..accounting.channel import channel_epsilon
from ..accounting.lower import Bound
from .case import Case, Outcome, offered

if TYPE_CHECKING:
    from ..models.graph import Graph
    from .key import Key
    from .store import Store


def refuses(case: Case) -> str | None:
    """It needs a model that says of which finite channels its releases are made."""
    channels = getattr(case.model, "channels", None)
    if channels is None:
        return f"{case.model.name} is not made of finite channels"
    return None if channels(2, 2) else f"this {case.model.name} sends something in the clear, or continuous noise"


def enumerate_channels(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """The worst pair of inputs of every channel, times its copies: independent draws of one person's values add up."""
    started = time.perf_counter()
    channels = case.model.channels(graph.dim, graph.classes)  # type: ignore[attr-defined]
    parts = [copies * channel_epsilon(matrix) for matrix, copies in channels]
    epsilon = float(sum(parts)) * (1 - 1e-9)  # rounding of the probabilities themselves
    bound = Bound(
        epsilon=epsilon,
        alpha=0.0,
        shape="exact",
        method="enumeration",
        trials=(0, 0),
        refuted=epsilon > case.claim.epsilon,
        p_value=None,
        notices=1.0,
        reach=case.claim.epsilon,
        attack="enumeration",
        audit="exact",
    )
    told = " + ".join(f"{part:.4g}" for part in parts)
    sent = tuple(name for name in offered(case.model) if name != "posteriors")
    return Outcome("exact", (bound,), {}, f"channels of {told} nats", time.perf_counter() - started, sent)
