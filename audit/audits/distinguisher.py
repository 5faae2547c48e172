"""Tells two worlds apart by all that a model releases: a classifier, trained on some rounds, guesses the worlds of other rounds.

It needs no recorder and no knowledge of the mechanism, so it tests models of which the recorder cannot follow the noise. This is
the attack of StatDP (Ding et al. 2018) and DP-Sniper (Bichsel et al. 2021).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...accounting.lower.bounds import from_rounds, unknown
from ...attacks.two_worlds import learned
from ...models.capabilities import RunsElsewhere, effort
from ...models.fitted import fitted
from ...models.graph.graph import Graph, Worlds
from ...reports.rounding import down, several, up
from ..case import Case, Outcome, Setting, offered
from ..key import Key
from ..mechanisms.overview.gate import a_strangers
from ..recorded.playing import Cell, cells, left_in
from ..recorded.secrets.among_equals import among_equals
from ..recorded.secrets.worlds import Absence, public_bound, small, without_any, without_one

Floats = NDArray[np.float64]

SECONDS, LONGEST = 20.0, 60.0  # time limit without --minutes: as long as the audits before it took, within these limits
SECRETS, PAIRS = 8, 16  # edges or nodes of each graph that are compared, each in so many pairs of trainings with one seed
TRIED, PILOT, TEST = 4, 1024, 2048  # secrets with pilot rounds, pilot rounds of each, and rounds that count
FEWEST = 64  # rounds that count; fewer prove almost nothing
NEEDED = 2 * FEWEST + SECRETS * PAIRS  # trainings
NUMBERS = 4096  # released numbers that the classifiers read
OTHERS = "some graph of unusual or of equal nodes"
CAPPED = 10.0  # a move of more standard deviations counts as so many


@dataclass(frozen=True, eq=False)
class Pair:
    """Two worlds that differ in one secret. first: a release of the whole world, whose shapes all releases should have.

    places: of the numbers that the secret moves although the noise stays the same, the farthest first, in the vector of all
    released numbers. moves: their mean moves. size: the moves in standard deviations, all together.
    """

    whole: Worlds
    absent: Absence
    first: dict[Cell, Floats]
    places: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    moves: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    size: float = 0.0

    def vector(self, release: dict[Cell, Floats]) -> Floats:
        """All released numbers, with the number of entries of each array, of its distinct entries, and their sum. At the end the
        entries of all arrays again, each array in ascending order.

        An array that has another shape than in the first release counts by its number of entries alone. Own rows of absent nodes
        are left out.
        """
        parts: list[Floats] = [np.array([float(len(release))])]
        ordered: list[Floats] = []
        for cell, first in self.first.items():
            given = release.get(cell, np.zeros(0)).astype(np.float64)
            shaped = given if given.shape == first.shape else np.zeros(first.shape)
            kept = left_in(shaped, self.whole.graph.nodes, self.absent.hidden).ravel()
            ordered.append(np.sort(kept))
            distinct = 1 + np.count_nonzero(np.diff(ordered[-1]))
            parts += [kept, np.array([given.size, distinct, kept.sum()], dtype=np.float64)]
        return np.nan_to_num(np.concatenate([*parts, *ordered]))

    def compared(self, base: Sequence[dict[Cell, Floats]], other: Sequence[dict[Cell, Floats]]) -> Pair:
        """The pair with what releases with the secret (`base`) and without it show, if both have the same noise. Of the ordered
        entries only those count that no noise moves: the others say little that the entries themselves do not say.
        """
        one, two = (np.array([self.vector(release) for release in releases]) for releases in (base, other))
        far, sd = np.abs(one - two).mean(axis=0), one.std(axis=0)
        weight = np.minimum(np.divide(far, sd, out=np.full_like(far, CAPPED), where=sd > 0), CAPPED) * (far > 0)
        entries = (weight.size - 1 - 3 * len(self.first)) // 2  # each is in the vector twice, the second time in order
        again = slice(weight.size - entries, None)
        weight[again][sd[again] > 0] = 0.0
        places = np.argsort(-weight, kind="stable")[: min(NUMBERS, np.count_nonzero(weight))]
        moves = (one - two).mean(axis=0)[places]
        return dataclasses.replace(self, places=places, moves=moves, size=float(np.linalg.norm(weight)))


def refuses(case: Case) -> str | None:
    """The audit needs a user's own model. The audits of each mechanism are sharper on the systems of this package."""
    if isinstance(case.model, RunsElsewhere) or a_strangers(case.model):
        return None
    return f"other audits test each mechanism of {case.model.name}, and detect smaller violations"


def seldom_decides(case: Case) -> str | None:
    """Why a plan that names neither the audit nor a time limit leaves it out, or None."""
    if effort(case.model).thorough:
        return None
    return "it needs hundreds of trainings, which take long; to run it all the same, write --audits distinguisher or --minutes N"


def distinguish(setting: Setting) -> Outcome:
    """Trains the model with and without one secret, and guesses from each release whether the secret was there.

    Of several secrets, the audit takes the one of which pilot rounds let expect the largest bound. The pilot rounds also train
    the classifier and choose the threshold; then other rounds count. Their bound holds for every mechanism and every classifier.
    Nobody knows whether the classifier is the best one, so the bound has no smallest detectable violation.

    Raises ValueError if too few trainings fit into the time, and if no secret that was tried changes the release.
    """
    case, key, began = setting.case, setting.key, time.monotonic()
    seconds = min(max(SECONDS, setting.spent), LONGEST) if setting.minutes is None else 60 * setting.minutes
    budget = seconds * (1 + setting.repeats)
    union = case.counted(setting.graph)
    pairs = list(_pairs(case, union, key.fold("graph"), budget))
    others = [_pairs(case, small(union, public_bound(case.model, union)), key.fold("small"), budget)]
    equals = enumerate(among_equals(union, case.claim.unit, case.model))
    others += [_among_equals(case, *each, key.fold("equals", number), budget) for number, each in equals]
    refused = ""
    for more in others:
        try:
            pairs += more
        except ValueError as fault:  # a user's model may refuse other graphs
            refused = refused or f"; not tried on {OTHERS}: {fault}"
    pairs = sorted((pair for pair in pairs if pair.size), key=lambda pair: -pair.size)[:TRIED]
    if not pairs:
        raise ValueError(f"no secret that was tried changes the release if the noise stays the same{refused}")
    each = _seconds(case, pairs[0])
    seconds_left = budget - (time.monotonic() - began)
    left = seconds_left / each
    tried = pairs[: max(1, int(left / (4 * FEWEST)))]
    pilot, test = _rounded(left / 2 / len(tried), PILOT), _rounded(left / 2, TEST * (1 + setting.repeats))
    if min(pilot, test) < FEWEST:
        raise ValueError(_too_slow(2 * FEWEST, each, max(0.0, seconds_left), budget))
    seed = key.fold("classifier").seed
    guessers = []
    for number, pair in enumerate(tried):
        x, bits = _rounds(case, pair, key.fold("pilot", number), pilot)
        guessers.append(learned(x, bits, pair.moves, case.claim.delta, setting.alpha, seed))
    best = max(range(len(tried)), key=lambda i: guessers[i].worth)
    x, bits = _rounds(case, tried[best], key.fold("test"), test)
    bound = from_rounds(guessers[best].score(x), bits, case.claim, alpha=setting.alpha, rule=guessers[best].rule)
    name = tried[best].whole.graph.name
    secret = tried[best].absent.secret if name == union.name else f"{tried[best].absent.secret}, on a {name}"
    text = f"{several(test, 'round')} with and without one secret ({secret}), after {pilot} that trained a classifier{refused}"
    return Outcome("distinguisher", (unknown(bound),), {}, text, offered(case.model), attack="classifier")


def _too_slow(count: int, each: float, left: float, budget: float) -> str:
    """Why the audit needs more time. each: seconds of one training, of which `count` are needed. left: seconds of the `budget`.
    Rounding keeps the time that is needed above the time that is left.
    """
    needed = f"{count} more trainings of {each:.3g} s each take {up(count * each, 3)} s"
    return f"{needed}, and {down(left, 3)} s of {budget:.3g} s are left; give more time with --minutes"


def _pairs(case: Case, graph: Graph, key: Key, budget: float) -> Iterator[Pair]:
    """Yields pairs of worlds, with what PAIRS trainings in each of them show. If none of the usual secrets changes the release, a
    search by halving looks for one that does. Raises ValueError if one training takes so long that the audit would not end within
    `budget` seconds.
    """
    seeds = key.seeds(0, PAIRS)
    whole = Worlds.of(graph, seeds[:1])
    base = _trained(case, whole, seeds, budget)
    listed = without_one(whole, case.claim.unit, key.fold("secrets"), np.zeros(0, dtype=np.int64), SECRETS)
    found = [_pair(case, whole, base, absent, seeds) for absent in listed if not absent.half]
    yield from found
    if not any(one.size for one in found):
        for absent in without_any(whole, case.claim.unit, key.fold("all")):
            some = absent.fewer is not None and not absent.half
            single = absent.single(lambda part: _pair(case, whole, base, part, seeds).size > 0) if some else None
            if single is not None:
                yield _pair(case, whole, base, single, seeds)


def _among_equals(case: Case, graph: Graph, without: Callable[[Worlds], Absence], key: Key, budget: float) -> Iterator[Pair]:
    """Yields the pair of worlds of a graph of `among_equals`. Raises as `_pairs`."""
    seeds = key.seeds(0, PAIRS)
    whole = Worlds.of(graph, seeds[:1])
    yield _pair(case, whole, _trained(case, whole, seeds, budget), without(whole), seeds)


def _trained(case: Case, whole: Worlds, seeds: NDArray[np.uint64], budget: float) -> list[dict[Cell, Floats]]:
    """The releases of trainings with these seeds. Raises ValueError as `_pairs`."""
    began = time.monotonic()
    base = [_released(case, whole, seeds[0])]
    each = time.monotonic() - began
    if each * NEEDED > budget:
        raise ValueError(_too_slow(NEEDED, each, budget, budget))
    return base + [_released(case, whole, seed) for seed in seeds[1:]]


def _pair(case: Case, whole: Worlds, base: list[dict[Cell, Floats]], absent: Absence, seeds: NDArray[np.uint64]) -> Pair:
    """The pair of a world and one that lacks a secret. base: the releases of the first world with these seeds, which count unless
    `absent` is compared with another world.
    """
    start = absent.base.worlds if absent.base is not None else whole
    before = base if start is whole else [_released(case, start, seed) for seed in seeds]
    return Pair(start, absent, before[0]).compared(before, [_released(case, absent.worlds, seed) for seed in seeds])


def _seconds(case: Case, pair: Pair) -> float:
    """How long one training takes, with what the audit does with its release."""
    began = time.monotonic()
    _rounds(case, pair, Key("time"), PAIRS)
    return (time.monotonic() - began) / PAIRS


def _rounded(rounds: float, most: int) -> int:
    """The largest power of two, at most `most`, so that small differences in speed do not change the audit; 0 for less than 1."""
    return min(most, 1 << int(math.log2(rounds))) if rounds >= 1 else 0


def _rounds(case: Case, pair: Pair, key: Key, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The released numbers of rounds, (rounds, numbers), and the fair coins that decided whether the secret was there."""
    bits = key.fold("bits").generator().random(count) < 0.5
    rows = []
    for bit, seed in zip(bits, key.seeds(0, count), strict=True):
        rows.append(pair.vector(_released(case, pair.whole if bit else pair.absent.worlds, seed))[pair.places])
    return np.array(rows), bits


def _released(case: Case, worlds: Worlds, seed: np.uint64) -> dict[Cell, Floats]:
    return cells(fitted(case.model, dataclasses.replace(worlds, seeds=np.array([seed], dtype=np.uint64))))
