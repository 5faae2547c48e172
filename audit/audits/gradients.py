"""The game on gradient canaries: it reads the noisy gradient sums of DP-SGD, in entries that only one planted node changes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.events.mechanisms import dp_sgd
from ...accounting.lower.one_run import canaries
from ...accounting.upper.tradeoff import curve
from ...models.base import Model
from ...models.capabilities import ClippedGradients
from ...models.graph.graph import Graph, Mask, Worlds
from ...reports.rounding import several
from ..case import Case, Outcome, Setting
from ..games.canaries import own_features
from ..instruments.reach import family, weaker
from ..instruments.reported_run import Join, Noisy, recorded
from ..key import Key

PLANTED = 200  # canaries in one run; each is the only node with an entry in its own column of the first layer
DECOYS = 400  # planted nodes that no run includes; they are additional trials of world 0
SIZE = 10.0  # size of a canary's own feature: large enough for its gradient to be clipped, small enough not to be learned at once


def refuses(case: Case) -> str | None:
    """The audit needs DP-SGD on full batches or secret Poisson samples."""
    return case.lacks(ClippedGradients)


def play_gradients(setting: Setting) -> Outcome:
    """Plays runs in which a coin decides for each canary node whether it is present. Scores are log-likelihood ratios over all
    steps.

    The adversary knows all earlier releases, and so the gradient that a canary would add to the next sum. The adversary does not
    know which batches contain the canary. A batch contains it with the public probability q, so the score of a step is
    ln(1 - q + q e^z), where z is the Gaussian log-ratio. The attack reads only the canary's own column, and the smallest
    detectable violation is that of this attack.
    """
    case = setting.case
    wider, items = own_features(setting.graph, PLANTED + DECOYS, SIZE)
    played = [play(case, wider, items, setting.key.fold("game", run), setting.store.device) for run in range(setting.rounds)]
    every, bits = np.stack([p.scores for p in played]), np.stack([p.bits for p in played])
    strength, steps = math.sqrt(np.mean([np.square(p.moves).sum(0).mean() for p in played])), len(played[0].moves)
    ledger, rate = curve(case.model.ledger), chance(case.model)
    normal = rate == 1 and ledger.mu is not None
    shown = family(dp_sgd(math.sqrt(steps) / strength, rate, steps)) if strength else None
    more: dict[str, Any] = {"family": family(case.model.ledger), "shown": shown, "decoys": every[:, PLANTED:], "normal": normal}
    seed = setting.key.fold("coin").seed
    bound, apart = canaries(every[:, :PLANTED], bits, case.claim, ledger, setting.alpha, seed=seed, **more)
    share = float(np.mean([p.moves.mean() for p in played])) * played[0].noise
    reach = (
        f"{several(setting.rounds, 'run')} of {PLANTED} canary nodes, and {DECOYS} that are never present; in the tested entries "
        f"a canary moves by {share:.0%} of the clipping norm; test of independence: {apart.reason}"
    )
    bound = weaker(bound, case.claim, strength) if normal else bound
    return Outcome("gradients", (bound,), {}, reach, ("gradients",), attack="gradient-canary")


@dataclass(frozen=True, eq=False)
class Played:
    """The result of one run, with `planted` nodes: first the canaries, then the decoys.

    scores: (planted,). bits: (canaries,). moves: (steps, planted), how far each planted node would move its own column in each
    step, in noise sds. noise: the sd of the noise, in clipping norms.
    """

    scores: NDArray[np.float64]
    bits: NDArray[np.bool_]
    moves: NDArray[np.float64]
    noise: float


def play(case: Case, wider: Graph, items: NDArray[np.int64], key: Key, device: str) -> Played:
    """Plays one run. On full batches the scores are standardised: they are normal with standard deviation 1, and the canary only
    shifts their mean.
    """
    model = case.model
    assert isinstance(model, ClippedGradients)
    bits = key.fold("bits").generator().random(PLANTED) < 0.5
    there = np.pad(bits, (0, items.size - PLANTED))
    seeds = np.array([key.fold("run").seed], dtype=np.uint64)

    def world(present: NDArray[np.bool_]) -> Worlds:
        return Worlds(wider, seeds, items, nodes=Mask(items, present[None]))

    _, run = recorded(model, world(there), device)
    _, everyone = recorded(model, world(np.ones_like(there)), device, run.releases, joining(wider, items))
    columns = wider.dim - items.size + np.arange(items.size)
    places = of_features(run.releases, wider.dim, columns, there)
    products, moves, noise = [], [], math.nan
    for seen, with_all in zip(run.releases, everyone.releases, strict=True):
        if (place := places.get(seen.shapes[0])) is None:
            continue
        y, d = (place.part(seen.first(part)) for part in (seen.noisy, with_all.clean))
        products.append((y * d).sum(0) / seen.scale**2)  # without the canary, this entry contains only noise
        moves.append(np.linalg.norm(d, axis=0) / seen.scale)
        noise = seen.scale / model.clip
    if not products:
        shapes = " and ".join(str(shape) for shape in dict.fromkeys(seen.shapes[0] for seen in run.releases))
        way = f"report the gradient of a layer that reads the {wider.dim} features first, as an array (1, units, features)"
        raise ValueError(f"no reported gradient has an axis of the features in their order: their shapes are {shapes}; {way}")
    product, size, rate = np.stack(products), np.stack(moves), chance(model)
    if rate == 1:
        scores = product.sum(0) / np.linalg.norm(size, axis=0)
    else:
        scores = np.logaddexp(np.log1p(-rate), np.log(rate) + product - size**2 / 2).sum(0)
    return Played(scores, bits, size, noise)


def chance(model: Model) -> float:
    """The public probability that a node joins a batch; 1 on full batches."""
    assert isinstance(model, ClippedGradients)
    assert model.inclusion_chance is not None
    return model.inclusion_chance


def joining(graph: Graph, items: NDArray[np.int64]) -> Join:
    """A `Join` that forces all planted nodes into every batch that is drawn from all training nodes of the graph."""
    places = np.searchsorted(np.flatnonzero(graph.train), items)
    count = int(graph.train.sum())
    return lambda purpose, candidates: places if candidates == count else None


@dataclass(frozen=True)
class Place:
    """Where the gradient of a layer has the planted features: along `axis` of (rows, columns), at the positions `at`. The layer
    may have further inputs, such as a column of ones.
    """

    axis: int
    at: NDArray[np.int64]

    def part(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """(units, planted): the part of a gradient (1, rows, columns) that belongs to the planted features."""
        part = np.take(gradient[0], self.at, self.axis)
        return part if self.axis else part.T


def of_features(
    releases: Sequence[Noisy], dim: int, columns: NDArray[np.int64], there: NDArray[np.bool_]
) -> dict[tuple[int, ...], Place]:
    """The shapes of the gradients that have an axis with all features in order, each with the place of the planted ones.

    In a run, only features of present nodes have a gradient. dim: the number of features. columns: of the planted ones. there:
    which of them are present.
    """
    moved: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for seen in releases:
        if len(seen.shapes[0]) == 3:
            moved[seen.shapes[0]] = moved.get(seen.shapes[0], np.zeros(seen.shapes[0])) + np.abs(seen.first(seen.clean))
    found: dict[tuple[int, ...], Place] = {}
    for shape, size in moved.items():
        tried = (Place(k, columns + before) for k in (1, 0) for before in range(shape[1 + k] - dim + 1))
        for place in tried:
            part = place.part(size)
            if part[:, there].any() and not part[:, ~there].any():
                found.setdefault(shape, place)
    return found
