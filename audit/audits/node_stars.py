"""Audits of claims about nodes, on released sums and on PageRank rows.

For sums, the canaries are centres of stars with as many leaves as the degree bound allows. For PageRank rows, the canary is a
hub.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.gaussian import mu_of_claim
from ...accounting.lower.one_run import canaries, steinke
from ...accounting.lower.residuals import factorised
from ...accounting.upper.tradeoff import gaussian
from ...models.base import Model
from ...models.capabilities import SUMS, BoundedDegree, NoisyRows, NoisySums
from ...models.graph.graph import Graph, Mask, Worlds
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, keeping
from ..games.canaries import hub, stars
from ..instruments.reach import UNREPORTED, assumed, limit_in_words, weaker
from ..instruments.reported_run import recorded
from ..key import Key

STARS = 50  # stars in one run of the game; no two of them move the same row


def refuses(case: Case) -> str | None:
    """The game and the residual audit need released sums, noise on them, and a public degree bound."""
    return case.lacks(NoisySums) or case.lacks(BoundedDegree)


def play_stars(setting: Setting) -> Outcome:
    """Plays runs in which a coin decides for the centre of every star whether it is present. Without the centre, the rows of its
    leaves are only noise.

    In every hop the centre adds one row to the sum of each of its leaves. From the second hop on, this row depends on the
    centre's own noisy sum, which the model need not release. The audit uses only the direction of the row. Therefore the
    standardised score is exactly normal, and contains no more information than the ledger charges for the leaves' rows.
    """
    case = setting.case
    keys = [setting.key.fold("game", run) for run in range(setting.rounds)]
    played = [s for key in keys if (s := run_stars(case, setting.graph, key, setting.store.device, STARS))]
    if not played:
        return Outcome("game", (), {}, UNREPORTED, SUMS)
    scores, bits = np.stack([p.scores for p in played]), np.stack([p.bits for p in played])
    common: dict[str, Any] = {"alpha": setting.alpha, "seed": setting.key.fold("coin").seed}
    shaped, apart = canaries(scores, bits, case.claim, gaussian(mu_of_claim(case.claim)), **common)
    strength = float(np.linalg.norm(played[0].moves))
    free = weaker(steinke(scores, bits, case.claim, **common), case.claim, strength)
    found = (weaker(shaped, case.claim, strength), free)
    reach = (
        f"{several(setting.rounds, 'run')} of {STARS} canary nodes, each of which moves {played[0].moves.shape[0]} rows "
        f"by {strength:.3g} standard deviations of the noise in all; "
        f"test of independence: {apart.reason}{limit_in_words(free, case.claim)}"
    )
    return Outcome("game", found, {}, reach, SUMS, attack="star-ratio")


def weigh_star(setting: Setting) -> Outcome:
    """Bounds epsilon by a ratio: the move of the means of other nodes' rows by one node, over an upper bound on the noise.

    The residuals of one run prove the upper bound on the noise.
    """
    played = run_stars(setting.case, setting.graph, setting.key.fold("game"), setting.store.device, 1)
    if played is None:
        return Outcome("residual", (), {}, UNREPORTED, SUMS)
    bound = factorised(played.residuals, played.moves, setting.case.claim, setting.alpha)
    reach = f"{played.residuals.size} residuals of one run; {assumed(played.residuals)}"
    return Outcome("residual", (bound,), {}, reach, SUMS, attack="replay")


@dataclasses.dataclass(frozen=True, eq=False)
class StarRun:
    """The result of one run.

    scores, bits: (stars,). moves: (rows, hops, dim), how far the first star's centre moves the rows of this star, in noise sds.
    residuals: (1, hops, nodes, dim), in noise sds.
    """

    scores: NDArray[np.float64]
    bits: NDArray[np.bool_]
    moves: NDArray[np.float64]
    residuals: NDArray[np.float64]


def run_stars(case: Case, graph: Graph, key: Key, device: str, count: int) -> StarRun | None:
    """Records one run with coins, and repeats it with all centres present, along the released history of the first run. The means
    of the repetition are the moves by the centres.

    Returns None if the model reports no noise.
    """
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
    sums = [i for i, release in enumerate(run.releases) if release.shapes[0][1:-1] == (wider.nodes,)]
    releases = [run.releases[i] for i in sums]
    noisy = np.stack([t.first(t.noisy)[0] / t.scale for t in releases])
    residuals = np.stack([t.first(t.residuals)[0] for t in releases])
    means = np.stack([every.releases[i].first(every.releases[i].clean)[0] for i in sums]) / releases[0].scale
    own = [centres[:, None]] if model.mode != "sound" else []  # in mode "paper" the centre's own row is released too
    rows = np.concatenate([around, *own], axis=1)
    d, y = means[:, rows], noisy[:, rows]  # (hops, stars, rows, dim)
    size = np.sqrt(np.square(d).sum((0, 2, 3)))
    scores = (y * d).sum((0, 2, 3)) / size
    return StarRun(scores, bits, d[:, 0].transpose(1, 0, 2), residuals[None])


def refuses_rows(case: Case) -> str | None:
    """The audit needs PageRank rows that are released with Gaussian noise."""
    return case.lacks(NoisyRows)


def weigh_rows(setting: Setting) -> Outcome:
    """Bounds epsilon by a ratio: the move of all noisy PageRank rows of one draw by a hub, over an upper bound on the noise.

    The residuals prove the upper bound on the noise. The adversary chooses the graph, which has only the hub's edges: other edges
    would lead random walks away from the hub.
    """
    wider, canary = hub(dataclasses.replace(setting.graph, edges=setting.graph.edges[:, :0]))
    moves, residuals = drawn_rows(setting.case.model, wider, canary, setting.key.fold("run"), setting.store.device)
    bound = factorised(residuals[None, None], moves[:, None], setting.case.claim, setting.alpha)
    strength, conditions = np.linalg.norm(moves), assumed(residuals[None, None])
    moved = f"{len(moves)} rows, which a hub moves by {strength:.3g} standard deviations of the noise in all"
    reach = f"{moved}; {residuals.size} residuals, {conditions}"
    return Outcome("rows", (bound,), {}, reach, ("rows",), attack="replay")


def drawn_rows(
    recipe: Model, graph: Graph, canary: NDArray[np.int64], key: Key, device: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far the node `canary` moves each noisy row of one draw, and the noise in the run without this node: (rows, nodes) each,
    in noise sds.

    The model draws rows before it trains, so the audit trains for one epoch.
    """
    model: Model = dataclasses.replace(recipe, epochs=1, keep=("rows",))  # type: ignore[type-var]
    seeds = np.array([key.seed], dtype=np.uint64)
    worlds = [Worlds(graph, seeds, canary, nodes=Mask(canary, np.array([[bit]]))) for bit in (False, True)]
    without, with_it = (recorded(model, w, device)[1].releases[0] for w in worlds)
    shape = without.shapes[0][1:]
    return ((with_it.clean - without.clean) / without.scale).reshape(shape), without.residuals.reshape(shape)
