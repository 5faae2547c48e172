"""The audits `game` and `residual` on released sums, for claims about edges."""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri

from ...accounting.claim import Unit
from ...accounting.lower.one_run import POWER, canaries, steinke
from ...accounting.lower.residuals import ROUNDING, factorised
from ...accounting.upper.tradeoff import curve
from ...attacks.base import Challenge
from ...attacks.canary.gaussian_ratio import LikelihoodRatio, noise_std
from ...models.capabilities import SUMS, NoisySums
from ...models.graph.graph import Graph
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, keeping
from ..games.game import Game, Seen, matching
from ..instruments.reach import assumed, limit_in_words, promised, weaker
from ..key import Key
from . import node_stars

CANARIES = 1000  # largest number of canary edges in one run; no two of them move the same row
MORE = 4  # largest number of decoys for each canary; more would add little
# share of the game's alpha for the bound on the size of the noise; it may be small, because there are many residuals
NOISE_SHARE = 0.1
EXACT = "Gaussian likelihood ratio"  # the method of a bound that uses the limit of the noise
# number of canaries in the audit `residual`, which uses their largest move, and the residuals of all rows that none changes
FEW = 20


def refuses(case: Case) -> str | None:
    """The audit needs released sums, and noise on them."""
    if case.claim.unit is Unit.NODE:
        return node_stars.refuses(case)
    return case.lacks(NoisySums)


def play_sums(setting: Setting) -> Outcome:
    """Plays the log-likelihood-ratio game on released aggregates, with many disjoint canary edges in every run.

    Given the released history, canaries that move different rows are independent trials, so the exact Gaussian test of the
    ledger's shape applies. This test takes the size of the noise from the directions that no canary moves. If a check rejects
    independence, the one-run bound of Mahloujifar et al. (2024), which needs no independence, replaces the test. Decoys (pairs
    that no edge joins) are additional trials of world 0 and cost no run. A second test counts correct guesses of the coins and
    assumes no shape of the trade-off curve (Steinke et al. 2023); it needs neither independent canaries nor decoys.
    """
    case, key, alpha = setting.case, setting.key, setting.alpha
    game = canary_game(case, setting.graph, key, CANARIES)
    challenge, attack = game.challenge, LikelihoodRatio()
    unjoined = strangers(challenge, key.fold("decoys"))
    asked = dataclasses.replace(challenge, items=unjoined)
    parts = setting.store.parts(keeping(case.model, SUMS), game, setting.rounds, SUMS)
    read = [look(attack, seen, challenge, asked) for seen in parts]
    scores, decoys, bits, shifts = (np.concatenate(part) for part in zip(*(arrays for arrays, _ in read), strict=True))
    squares, freedom = (sum(part) for part in zip(*(noise for _, noise in read), strict=True))
    common: dict[str, Any] = {"alpha": alpha, "seed": key.fold("coin").seed}
    sd = sd_at_most(squares, freedom, NOISE_SHARE * alpha)
    left = common | {"alpha": (1 - NOISE_SHARE) * alpha}
    shaped, apart = canaries(scores, bits, case.claim, curve(case.model.ledger), sd=sd, decoys=decoys, **left)
    shaped = dataclasses.replace(shaped, alpha=alpha)
    if shaped.method == EXACT:  # the other tests do not use the sd
        shaped = dataclasses.replace(shaped, notices=shaped.notices * overstated(freedom, NOISE_SHARE * alpha))
    shaped = weaker(shaped, case.claim, float(shifts.mean()))
    free = weaker(steinke(scores, bits, case.claim, **common), case.claim, float(shifts.mean()))
    found = (shaped, free)
    both = 0 < np.count_nonzero(bits) < bits.size
    curves = {"tradeoff": tradeoff(scores, bits, case), "histograms": histograms(scores, bits)} if both else {}
    reach = (
        f"{several(setting.rounds, 'round')} of {len(challenge)} canary edges and {len(unjoined)} pairs without an edge; "
        f"test of independence: {apart.reason}{limit_in_words(free, case.claim)}"
    )
    return Outcome("game", found, curves, reach, SUMS, attack=attack.name)


def look(
    attack: LikelihoodRatio, seen: Seen, challenge: Challenge, asked: Challenge
) -> tuple[tuple[NDArray[Any], ...], tuple[float, int]]:
    """Scores the canaries `challenge` and the decoys `asked` in some rounds.

    Returns four arrays and the noise. The arrays are the scores of the canaries (runs, c), the scores of the decoys (runs, d),
    the bits (runs, c), and the shifts of the canaries' scores by their edges (runs, c). The noise is the sum of squares in the
    directions that no canary moves, in units of the stated sd, and its degrees of freedom.
    """
    release = seen.release
    scores, decoys, shifts = attack.score(release, challenge), attack.score(release, asked), attack.shift(release, challenge)
    return (scores, decoys, seen.bits, shifts), attack.across(release, challenge)


def strangers(challenge: Challenge, key: Key) -> NDArray[np.int64]:
    """Decoys: (d, 2) int64, disjoint pairs of nodes that no edge joins and that are no ends of canaries."""
    known = challenge.known
    free = key.generator().permutation(np.setdiff1d(np.arange(known.nodes), challenge.items))
    ends = np.sort(free[: len(free) // 2 * 2].reshape(-1, 2), axis=1)
    pairs, joined = ends @ [known.nodes, 1], np.zeros(len(ends), dtype=bool)
    for block in known.edge_blocks():
        joined |= np.isin(pairs, np.sort(block, axis=0).T @ [known.nodes, 1])
    return ends[~joined][: MORE * len(challenge)]


def sd_at_most(squares: float, freedom: int, alpha: float) -> float:
    """An upper bound on the sd of normal noise that holds with probability 1 - alpha, from its sum of squares in `freedom`
    dimensions.

    Without noise, the sum of squares consists of rounding errors and may be negative. So the bound is never below ROUNDING.
    """
    return max(ROUNDING, math.sqrt(max(squares, 0.0) / (2 * float(gammaincinv(freedom / 2, alpha)))))


def overstated(freedom: int, alpha: float) -> float:
    """In one of ten audits, `sd_at_most` exceeds the true sd by more than this factor, which is at least 1.

    The test of the scores divides every shift by that limit. Noise must be smaller by this further factor, so that the test still
    has the power that it has if the sd is known: in nine of ten audits, two independent errors add up to less than their 90 %
    quantiles.
    """
    return max(1.0, math.sqrt(float(gammaincinv(freedom / 2, POWER) / gammaincinv(freedom / 2, alpha))))


def weigh_noise(setting: Setting) -> Outcome:
    """Bounds epsilon by a ratio: the largest move of the means by one canary edge in one run, over an upper bound on the noise.

    The residuals of the run prove the upper bound on the noise.
    """
    case = setting.case
    game, attack = canary_game(case, setting.graph, setting.key, FEW), LikelihoodRatio()
    seen = setting.store.fit(keeping(case.model, SUMS), game, 1, SUMS)
    worst = int(attack.shift(seen.release, seen.challenge)[0].argmax())
    ends = seen.challenge.items[worst]
    senders = ends[:1] if case.claim.unit is Unit.DIRECTED_EDGE else ends
    moves = seen.release["inputs"][0][:, senders].transpose(1, 0, 2) / noise_std(seen.release)
    residuals = attack.residuals(seen.release, seen.challenge)
    bound = factorised(residuals, moves, case.claim, setting.alpha)
    reach = f"{residuals.size} residuals of one run; {assumed(residuals)}"
    return Outcome("residual", (bound,), {"residuals": quantiles(residuals)}, reach, SUMS, attack="replay")


def canary_game(case: Case, graph: Graph, key: Key, limit: int) -> Game:
    """The game whose units are the edges of a random matching, at most `limit` of them."""
    union = case.counted(graph)
    return Game(union, "edge", matching(union, limit, key.fold("canaries")), key.fold("game"))


def tradeoff(scores: NDArray[np.float64], bits: NDArray[np.bool_], case: Case) -> dict[str, Any]:
    """For a plot: (false-positive, false-negative) rates of 201 thresholds, and of the curves of the ledger and of the claim."""
    ins, outs = np.sort(scores[bits]), np.sort(scores[~bits])
    cuts = np.quantile(scores, np.linspace(0, 1, 201))
    false_positive = 1 - np.searchsorted(outs, cuts) / len(outs)
    false_negative = np.searchsorted(ins, cuts) / len(ins)
    grid = np.concatenate([np.geomspace(1e-5, 0.1, 40), np.linspace(0.11, 0.999, 60)])
    ledger = curve(case.model.ledger)
    claimed = promised(case.claim, ledger)
    return {
        "observed": [false_positive, false_negative],
        "ledger": [grid, ledger.beta(grid)],
        "claimed": [grid, claimed.beta(grid)],
    }


def quantiles(residuals: NDArray[np.float64]) -> dict[str, Any]:
    """For a plot: 161 quantiles of the residuals and of N(0, 1), the distribution of residuals if the noise is as stated."""
    edge = -float(ndtri(0.5 / residuals.size))
    expected = np.linspace(-edge, edge, 161)
    return {"expected": expected, "observed": np.quantile(residuals, ndtr(expected)), "count": residuals.size}


def histograms(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> dict[str, Any]:
    """For a plot: histograms of the scores in both worlds, over 60 common bins."""
    edges = np.histogram_bin_edges(scores, bins=60)
    return {
        "without the edge": [edges, np.histogram(scores[~bits], edges)[0]],
        "with the edge": [edges, np.histogram(scores[bits], edges)[0]],
    }
