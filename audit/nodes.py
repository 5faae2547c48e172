"""Nodes as secrets: stars around nodes that send as much as they may, and the same run again without a node."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.charged import charged
from ..accounting.claim import Unit
from ..accounting.curves import curve, gaussian, scaled
from ..accounting.factorised import assumptions, factorised
from ..accounting.gaussian import mu_of_claim
from ..accounting.lower import Bound, lower
from ..accounting.one_run import canaries
from ..models.graph import Mask, Worlds
from .canaries import cap_breaker, hub, stars, strange_rows
from .case import Case, Outcome, keeping, offered
from .doors import External
from .record import Diverged, Noisy, recorded
from .repetition import leaves, moved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Model
    from ..models.graph import Graph
    from .key import Key
    from .store import Store

SUMS = ("aggregates", "inputs")
STARS = 50  # in one run; no two of them move the same row
SENDERS = 5  # nodes of a cap breaker, for each that the cap allows
NOTHING = "this model tells nothing of its noise"
ROUNDING = 1e-4  # relative; float32 gradients and sums


def refuses(case: Case) -> str | None:
    """The game and the residuals need released sums, noise on them, and a number of others that a node may send to."""
    if not set(SUMS) <= set(offered(case.model)):
        return f"{case.model.name} does not release 'aggregates'"
    if not getattr(case.model, "max_degree", 0):
        return f"{case.model.name} does not say to how many others a node may send"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else None


def play_stars(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """Runs in which the centre of every star has a coin; its leaves' rows are noise without it.

    In hop k the centre adds one and the same row to all its leaves. From the second hop on that row depends on the centre's
    own noisy sum, which need not leave: it is used for its direction only, so that the studentised score is
    exactly normal and what it shows is no more than the leaves' rows are charged for.
    """
    started = time.perf_counter()
    played = [s for run in range(rounds) if (s := shine(case, graph, key.fold("game", run), store.device, STARS))]
    if not played:
        return Outcome("game", (), {}, NOTHING, time.perf_counter() - started, SUMS)
    scores, bits = np.stack([p.scores for p in played]), np.stack([p.bits for p in played])
    common: dict[str, Any] = {"alpha": alpha, "attack": "star-ratio", "audit": "game", "seed": key.fold("coin").seed}
    shaped, apart = canaries(scores, bits, case.claim, gaussian(mu_of_claim(case.claim)), **common)
    found = (shaped, lower(scores, bits, case.claim, shape="any", **common))
    strength = float(np.linalg.norm(played[0].moves))
    reach = (
        f"{rounds} runs of {STARS} nodes with {played[0].moves.shape[0]} rows to move, by {strength:.3g} noise sds in all; "
        f"independence: {apart.reason}"
    )
    return Outcome("game", found, {}, reach, time.perf_counter() - started, SUMS)


def weigh_star(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """How far one node moves the means of the rows of others, times what the residuals of one run prove about the noise."""
    started = time.perf_counter()
    played = shine(case, graph, key.fold("game"), store.device, 1)
    if played is None:
        return Outcome("residual", (), {}, NOTHING, time.perf_counter() - started, SUMS)
    bound = factorised(played.residuals, played.moves, case.claim, alpha)
    p_values = ", ".join(f"{name} p={p:.2g}" for name, p in assumptions(played.residuals).items())
    reach = f"{played.residuals.size} residuals of one run; {p_values}"
    return Outcome("residual", (bound,), {}, reach, time.perf_counter() - started, SUMS)


@dataclasses.dataclass(frozen=True, eq=False)
class Shone:
    """scores, bits: (stars,). moves: (rows, hops, dim) of the first star, residuals: (1, hops, nodes, dim), in noise sds."""

    scores: NDArray[np.float64]
    bits: NDArray[np.bool_]
    moves: NDArray[np.float64]
    residuals: NDArray[np.float64]


def shine(case: Case, graph: Graph, key: Key, device: str, count: int) -> Shone | None:
    """One run with coins, and the means that it would have had with all centres along the same history; None if it tells none."""
    model: Any = keeping(case.model, SUMS)
    wider, centres, around = stars(graph, count, model.max_degree)
    bits = key.fold("bits").generator().random(count) < 0.5
    seeds = np.array([key.fold("run").seed], dtype=np.uint64)

    def world(present: NDArray[np.bool_]) -> Worlds:
        return Worlds(wider, seeds, np.arange(wider.nodes), nodes=Mask(centres, present[None]))

    _, run = recorded(model, world(bits), device)
    if not run.releases:
        return None
    _, every = recorded(model, world(np.ones_like(bits)), device, run.releases)
    sums = [i for i, told in enumerate(run.releases) if told.shapes[0][1:-1] == (wider.nodes,)]
    noisy, residuals = (np.stack([part(run.releases[i]) for i in sums]) for part in (of_noisy, of_residuals))
    means = np.stack([of_clean(every.releases[i]) for i in sums]) / run.releases[sums[0]].scale
    rows = (
        around if model.mode == "sound" else np.concatenate([around, centres[:, None]], axis=1)
    )  # as published its own leaves too
    d, y = means[:, rows], noisy[:, rows]  # (hops, stars, rows, dim)
    size = np.sqrt(np.square(d).sum((0, 2, 3)))
    scores = (y * d).sum((0, 2, 3)) / size
    return Shone(scores, bits, d[:, 0].transpose(1, 0, 2), residuals[None])


def of_noisy(told: Noisy) -> NDArray[np.float64]:
    return told.first(told.noisy)[0] / told.scale


def of_clean(told: Noisy) -> NDArray[np.float64]:
    return told.first(told.clean)[0]


def of_residuals(told: Noisy) -> NDArray[np.float64]:
    return told.first(told.residuals)[0]


def refuses_replay(case: Case) -> str | None:
    """It needs a training in this process, and a ledger that charges for what a node moves."""
    model: Any = case.model
    if np.isinf(case.claim.epsilon):
        return "nothing is claimed"
    if type(model.ledger).__name__ in ("NoOpDpEvent", "NonPrivateDpEvent"):
        return "the ledger charges for nothing that a node could move"
    if model.name == "dpar" and model.mode == "paper":
        return "its node sample has a fixed size: when a node leaves, another takes its place"
    return "a program of its own cannot be listened to" if isinstance(model, External) else None


def replay_nodes(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """A run on the whole graph, and the same run, noise and all, without each node of a catalogue.

    Every noisy value is made what it was, so that what changes before noise is added is computed and not estimated, and
    compared with what the ledger's noise is for. Rows that stay with their node are left out.
    """
    started = time.perf_counter()
    wider, listed = catalogue(case, graph)
    model = keeping(case.model, offered(case.model))
    whole = Worlds.of(wider, np.array([key.fold("frozen").seed], dtype=np.uint64))
    release, before = recorded(model, whole, store.device)
    ledger, worst, told = charged(case.model.ledger), 0.0, "no node moves anything" if before.releases else NOTHING
    for name, node in listed.items():
        worlds = dataclasses.replace(whole, nodes=Mask(np.array([node]), np.zeros((1, 1), dtype=bool)))
        try:
            _, after = recorded(model, worlds, store.device, before.releases)
        except Diverged as where:
            worst, told = np.inf, f"without the node '{name}' something else is run, from '{where}' on"
            break
        hidden = None if leaves(release, node) else node
        for one, other in zip(before.releases, after.releases, strict=True):
            by = moved(one, other, ledger, hidden, wider.nodes)
            if by > worst:
                rows = rows_moved(one, other, hidden, wider.nodes)
                worst, told = by, f"the node '{name}' moves {rows}'{one.purpose}' by {by:.4g} times what its noise is for"
    epsilon = worth(case, worst)
    refuted = epsilon > case.claim.epsilon
    bound = Bound(
        epsilon=epsilon if refuted else 0.0,  # that the noise is as large as stated is for other audits to say
        alpha=0.0,
        shape="exact",
        method="replay",
        trials=(len(listed) + 1, 0),
        refuted=refuted,
        p_value=None,
        notices=np.inf,
        reach=np.inf,
        attack="replay",
        audit="replay",
    )
    return Outcome("replay", (bound,), {}, f"{len(listed)} nodes: {told}", time.perf_counter() - started, model.releases)


def worth(case: Case, factor: float) -> float:
    """The epsilon of the ledger where everything moves `factor` times further than its noise is for."""
    if factor <= 1 + ROUNDING:
        return 0.0
    return float("inf") if np.isinf(factor) else curve(scaled(case.model.ledger, factor)).epsilon(case.claim.delta)


def catalogue(case: Case, graph: Graph) -> tuple[Graph, dict[str, int]]:
    """Nodes worth removing: a hub, a lonely one, the last one, odd rows, a twin, and one that breaks a cut of degrees."""
    trained = np.flatnonzero(graph.train)
    listed = {
        "hub": int(trained[graph.degree[trained].argmax()]),
        "lonely": int(trained[graph.degree[trained].argmin()]),
        "last": int(trained[-1]),
    }
    wider, strange = strange_rows(graph)
    cap = getattr(case.model, "max_degree", 0)
    if cap and case.model.mode == "paper":
        wider, receivers = cap_breaker(wider, cap, SENDERS * cap)
        listed["cap breaker"] = int(receivers[0])
    return wider, listed | {name: strange[name] for name in ("zero", "huge", "twin")}


def rows_moved(before: Noisy, after: Noisy, hidden: int | None, nodes: int) -> str:
    """How many rows of sums change, in words; nothing where there are no rows of nodes."""
    if before.shapes[0][1:-1] != (nodes,):
        return ""
    changed = np.flatnonzero((before.clean != after.clean).reshape(nodes, -1).any(1))
    return f"{np.setdiff1d(changed, [] if hidden is None else [hidden]).size} rows of "


def refuses_rows(case: Case) -> str | None:
    model: Any = case.model
    if model.name != "dpar" or not model.sources:
        return f"{model.name} releases no PageRank rows"
    if case.claim.unit is not Unit.NODE:
        return f"the audit of PageRank rows is about nodes; this claim is about {case.claim.unit}"
    if model.mechanism != "gaussian":
        return "picks by Gumbel noise are not rows with Gaussian noise on them"
    if model.mode == "paper" or model.node_rate < 1:
        return "its node sample is secret: a node that is not drawn moves nothing"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else None


def weigh_rows(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """How far a hub moves all noisy PageRank rows of one draw, times what the residuals prove about the noise.

    There are no edges but the hub's: others would keep the walks from it, and the adversary chooses the graph.
    """
    started = time.perf_counter()
    wider, canary = hub(dataclasses.replace(graph, edges=graph.edges[:, :0]))
    moves, residuals = drawn_rows(case.model, wider, canary, key.fold("run"), store.device)
    bound = factorised(residuals[None, None], moves[:, None], case.claim, alpha, audit="rows")
    strength, p_values = np.linalg.norm(moves), assumptions(residuals[None, None])
    told = ", ".join(f"{name} p={p:.2g}" for name, p in p_values.items())
    reach = f"{len(moves)} rows, which a hub moves by {strength:.3g} noise sds in all; {residuals.size} residuals, {told}"
    return Outcome("rows", (bound,), {}, reach, time.perf_counter() - started, ("rows",))


def drawn_rows(
    recipe: Model, graph: Graph, canary: NDArray[np.int64], key: Key, device: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far one node moves every noisy row of one draw, and the noise without it: (rows, nodes) each, in noise sds.

    Rows are drawn before any training, of which one epoch is enough.
    """
    model: Model = dataclasses.replace(recipe, epochs=1, keep=("rows",))  # type: ignore[type-var]
    seeds = np.array([key.seed], dtype=np.uint64)
    worlds = [Worlds(graph, seeds, canary, nodes=Mask(canary, np.array([[bit]]))) for bit in (False, True)]
    without, with_it = (recorded(model, w, device)[1].releases[0] for w in worlds)
    shape = without.shapes[0][1:]
    return ((with_it.clean - without.clean) / without.scale).reshape(shape), without.residuals.reshape(shape)
