"""The gradient canary: noisy gradient sums of DP-SGD, looked at where one planted node alone moves them."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.claim import Unit
from ..accounting.curves import curve, scaled
from ..accounting.one_run import canaries
from ..models.graph import Mask, Worlds
from .canaries import own_features
from .case import Case, Outcome
from .reach import weaker
from .record import Join, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from ..accounting.curves import Curve
    from ..models.graph import Graph
    from .key import Key
    from .store import Store

PLANTED = 200  # canaries in one run; each has a column of the first layer to itself
SIZE = 10.0  # of a canary's own feature: large enough for its gradient to be clipped, small enough not to be learned at once


def refuses(case: Case) -> str | None:
    """It needs a model whose DP-SGD is claimed to protect nodes, on batches that are either whole or secret and independent."""
    model: Any = case.model
    if not hasattr(model, "clip"):
        return f"{model.name} clips no gradients"
    if case.claim.unit is not Unit.NODE:
        return f"gradient canaries are nodes; this claim is about {case.claim.unit}"
    if model.name == "dpar" and (model.mode == "paper" or model.node_rate < 1):
        return "when a node leaves this DPAR's sample another takes its place; no gradient is one node's own"
    if model.name not in ("dpar", "mlp", "gap", "progap"):
        return f"{model.name} draws batches of a fixed size; a node that joins one drives another out"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else None


def play_gradients(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """Runs in which planted nodes have coins; scores are log-likelihood ratios of all steps, the canary's own batches unknown.

    Everything that was released up to a step is known to the adversary, and so is what the canary would add to the next
    one; that it was drawn at all has the public chance q, so a step counts ln(1 - q + q e^z), z the Gaussian ratio.
    """
    started = time.perf_counter()
    wider, items = own_features(graph, PLANTED, SIZE)
    played = [play(case, wider, items, key.fold("game", run), store.device) for run in range(rounds)]
    scores, bits = (np.stack([p[i] for p in played]) for i in (0, 1))
    share, strength = (float(np.mean([p[i] for p in played])) for i in (2, 3))
    ledger = curve(case.model.ledger)
    common: dict[str, Any] = {"attack": "gradient-canary", "audit": "gradients", "seed": key.fold("coin").seed}
    bound, apart = canaries(scores, bits, case.claim, ledger, alpha, family=family(case.model.ledger), **common)
    reach = (
        f"{rounds} runs of {PLANTED} canary nodes, which move {share:.0%} of the clipping norm where they are looked at; "
        f"independence: {apart.reason}"
    )
    bound = weaker(bound, case.claim, strength if chance(case.model) == 1 else 0.0)  # no one number says it of secret batches
    return Outcome("gradients", (bound,), {}, reach, time.perf_counter() - started, ("gradients",))


def play(
    case: Case, wider: Graph, items: NDArray[np.int64], key: Key, device: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float, float]:
    """Scores and bits (canaries,) of one run; what a canary moves in its own column on average, as a share of the clipping norm.

    Last, how far it moves all steps together where it joins them all, in noise sds.
    """
    model: Any = case.model
    bits = key.fold("bits").generator().random(items.size) < 0.5
    seeds = np.array([key.fold("run").seed], dtype=np.uint64)

    def world(present: NDArray[np.bool_]) -> Worlds:
        return Worlds(wider, seeds, items, nodes=Mask(items, present[None]))

    _, run = recorded(model, world(bits), device)
    _, everyone = recorded(model, world(np.ones_like(bits)), device, run.releases, joining(wider, items))
    columns = wider.dim - items.size + np.arange(items.size)
    rate, squares, shares = chance(model), np.zeros(items.size), []
    scores = np.zeros(items.size)
    for seen, with_all in zip(run.releases, everyone.releases, strict=True):
        y, d = (own_columns(seen.first(part), wider.dim, columns) for part in (seen.noisy, with_all.clean))
        if y is None or d is None:
            continue
        z = (y * d - d**2 / 2).sum(0) / seen.scale**2  # without the canary nothing but noise is there
        scores += z if rate == 1 else np.logaddexp(np.log1p(-rate), np.log(rate) + z)
        shares.append(float(np.linalg.norm(d, axis=0).mean()) / model.clip)
        squares += np.square(d).sum(0) / seen.scale**2
    return scores, bits, float(np.mean(shares)), float(np.sqrt(squares).mean())


def chance(model: Any) -> float:
    """How likely a node joins a batch."""
    return float(model.rate if model.name == "dpar" else model.batch / model.train_nodes)


def joining(graph: Graph, items: NDArray[np.int64]) -> Join:
    """Makes the canaries join every batch: their places among the training nodes, of which all are there."""
    places = np.searchsorted(np.flatnonzero(graph.train), items)
    count = int(graph.train.sum())
    return lambda purpose, candidates: places if candidates == count else None


def own_columns(gradient: NDArray[np.float64], dim: int, columns: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """(units, columns): what a first layer's gradient, (1, …), holds for some features; None where no layer reads features."""
    first = gradient[0]
    if first.ndim != 2 or dim not in first.shape:
        return None
    return first[:, columns] if first.shape[1] == dim else first[columns].T


def family(ledger: DpEvent) -> Callable[[float], Curve]:
    """The curve of the ledger with all noise divided by a factor; each is computed once."""

    @cache
    def member(kappa: float) -> Curve:
        return curve(scaled(ledger, kappa))

    return member
