"""How often each lower bound exceeds the true epsilon: our bounds, and the rules of other tools, reimplemented from their
formulas.

    python benchmarks/coverage_table.py --audits 10000 --out docs/coverage.md

Every mechanism is a pair of distributions over a few ordered scores. So its epsilon and its trade-off curve are exact, and an
audit is a multinomial draw. A bound is valid at 95 % if it exceeds the true epsilon in at most 5 % of the audits.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.independence import independence
from gnnaudit.accounting.checks.score_law import normal_law, pooled_sd
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.closed_forms import channel_epsilon
from gnnaudit.accounting.lower.anytime import STAKES, TUNED, mu_reached
from gnnaudit.accounting.lower.detection.error_rates import PILOT_SHARE, choose, epsilon_of_rates, mu_of_rates, rate_at_most
from gnnaudit.accounting.lower.elementary import SHARE, SIDES, Kind, guesses, least_rejected, p_value
from gnnaudit.accounting.lower.guessed_coins import chance_of_so_many, guessed, together
from gnnaudit.accounting.lower.guessing import (
    Charge,
    by_score,
    fewest_tied,
    gaussian_beta,
    groups_against,
    likeliest,
    rates,
    rejects,
    tied_p_value,
    weight_of_correct,
    weighted_p_value,
)
from gnnaudit.accounting.lower.one_run import SPARED, best_guesses
from gnnaudit.accounting.lower.rank_test import best_place, chance_of_so_few
from gnnaudit.accounting.lower.residuals import factorised
from gnnaudit.accounting.upper import tradeoff

Array = NDArray[np.float64]
ALPHA = 0.05
EPSILONS = (0.0, 0.2, 1.0, 4.0, 8.0)
ROUNDS = (50, 500, 5000)
BINS = 65
DRAWN_BITS = (5, 20)  # numbers of bits of a user, where reports and not only their counts are drawn
TOLD = (1e-5, 0.001, 0.01)  # the deltas of rounds that tell
CANARIES = 40  # the number of canaries in a training with several canaries


@dataclass(frozen=True)
class Pair:
    """A mechanism: the law of the score in both worlds, by ascending likelihood ratio, and the delta of the claim."""

    p0: Array
    p1: Array
    delta: float

    @property
    def epsilon(self) -> float:
        """The exact epsilon, plus a millionth for rounding errors of the probabilities."""
        return channel_epsilon(np.stack([self.p0, self.p1]), self.delta) + 1e-6

    def beta(self, alpha: Array) -> Array:
        """The exact trade-off curve of this pair (Neyman and Pearson)."""
        order = np.argsort(-np.log(np.maximum(self.p1, 1e-300)) + np.log(np.maximum(self.p0, 1e-300)), kind="stable")
        a = np.concatenate([[0.0], np.cumsum(self.p0[order])])
        b = np.concatenate([[1.0], 1 - np.cumsum(self.p1[order])])
        return np.interp(alpha, a, b) - 1e-9


def _normalised(p: Array) -> Array:
    return p / p.sum()


def null(epsilon: float) -> Pair:
    return Pair(np.full(BINS, 1 / BINS), np.full(BINS, 1 / BINS), 0.0)


def randomised_response(epsilon: float) -> Pair:
    q = 1 / (1 + math.exp(-epsilon))
    return Pair(np.array([q, 1 - q]), np.array([1 - q, q]), 0.0)


def step(epsilon: float) -> Pair:
    """A mechanism with 64 different scores, whose log-likelihood ratios are all ±epsilon."""
    two = randomised_response(epsilon)
    return Pair(np.repeat(two.p0 / 32, 32), np.repeat(two.p1 / 32, 32), 0.0)


def laplace(epsilon: float) -> Pair:
    edges = (
        np.linspace(-0.5, 1.5, BINS - 1) / max(epsilon, 1e-9)
        if epsilon == 0
        else np.linspace(-1 / epsilon, 1 + 1 / epsilon, BINS - 1)
    )
    edges = np.unique(np.concatenate([edges, [0.0, 1.0]]))

    def cdf(x: Array) -> Array:
        return np.where(x < 0, np.exp(np.minimum(epsilon * x, 0)) / 2, 1 - np.exp(-np.maximum(epsilon * x, 0)) / 2)

    return Pair(*(np.diff(np.concatenate([[0.0], cdf(edges - shift), [1.0]])) for shift in (0.0, 1.0)), 0.0)


def _gaussian_bins(mu: float) -> Array:
    tails = special.ndtri(np.geomspace(1e-5, 0.5, BINS // 2))
    return np.unique(np.concatenate([tails, mu - tails]))


def _gaussian(mu: float, edges: Array) -> Array:
    return np.diff(np.concatenate([[0.0], special.ndtr(edges - mu), [1.0]]))


def gaussian_pair(epsilon: float) -> Pair:
    mu = float(gaussian.mu_of(epsilon, 1e-5))
    edges = _gaussian_bins(mu)
    return Pair(_gaussian(0, edges), _gaussian(mu, edges), 1e-5)


def subsampled_gaussian(epsilon: float, q: float = 0.1) -> Pair:
    def pair(mu: float) -> Pair:
        edges = _gaussian_bins(mu)
        with_it = _gaussian(mu, edges)
        without = _gaussian(0, edges)
        return Pair(without, (1 - q) * without + q * with_it, 1e-5)

    return _calibrated(pair, epsilon, 20.0)


def discrete_gaussian(epsilon: float) -> Pair:
    x = np.arange(-400, 402)

    def pair(mu: float) -> Pair:  # mu = 1 / sigma
        p0, p1 = (_normalised(np.exp(-(((x - s) * mu) ** 2) / 2)) for s in (0, 1))
        keep = np.maximum(p0, p1) > 1e-14
        low = int(np.argmax(keep))
        high = len(keep) - int(np.argmax(keep[::-1]))
        both = [np.concatenate([[p[: low + 1].sum()], p[low + 1 : high - 1], [p[high - 1 :].sum()]]) for p in (p0, p1)]
        return Pair(both[0], both[1], 1e-5)

    return _calibrated(pair, max(epsilon, 0.05), 20.0)


def reveal_all(epsilon: float) -> Pair:
    """With probability delta = 0.01 the output reveals the world; otherwise it is a randomised response."""
    delta, two = 0.01, randomised_response(epsilon)
    p0 = np.concatenate([[delta], (1 - delta) * two.p0, [0.0]])
    return Pair(p0, p0[::-1].copy(), delta)


def _calibrated(pair: Callable[[float], Pair], epsilon: float, high: float) -> Pair:
    low = 1e-3
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if pair(middle).epsilon - 1e-6 <= epsilon else (low, middle)
    return pair(low)


MECHANISMS: dict[str, Callable[[float], Pair]] = {
    "null": null,
    "randomised response": randomised_response,
    "step": step,
    "Laplace": laplace,
    "Gaussian": gaussian_pair,
    "subsampled Gaussian": subsampled_gaussian,
    "discrete Gaussian": discrete_gaussian,
    "reveal-all (delta 0.01)": reveal_all,
}


@dataclass(frozen=True)
class Cell:
    """One entry of the table. alarms: the share of `audits` audits whose bound exceeded the true epsilon, at nominal 5 %."""

    rule: str
    mechanism: str
    epsilon: float
    rounds: int
    alarms: float
    audits: int

    @property
    def valid(self) -> bool:
        return self.alarms <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / self.audits)


def many_runs(pair: Pair, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the rule of `lower`: a quarter of the rounds chooses threshold and direction; the others are counted."""
    pilots = [draw.binomial(n, PILOT_SHARE, audits) for _ in range(2)]
    pilot = [draw.multinomial(k, p) for k, p in zip(pilots, (pair.p0, pair.p1), strict=True)]
    test = [draw.multinomial(n - k, p) for k, p in zip(pilots, (pair.p0, pair.p1), strict=True)]
    sizes = [np.maximum(k, 0)[:, None] for k in pilots]
    left = [n - k for k in sizes]
    fp, fn = _errors(*pilot)
    found = {}
    for rule, gain in (("any shape", lambda a, b: epsilon_of_rates(a, b, pair.delta)), ("profile gate", mu_of_rates)):
        counts = left if rule == "any shape" else [np.minimum(k, n / 2) for k, n in zip(left, sizes, strict=True)]
        best = choose(fp, fn, (sizes[0], sizes[1]), (counts[0], counts[1]), ALPHA, gain)  # type: ignore[arg-type]
        a, b = _upper_ends(*test, best, left)
        alarm = epsilon_of_rates(a, b, pair.delta) > pair.epsilon if rule == "any shape" else b < pair.beta(a)
        found[rule] = float((alarm & (pilots[0] > 0) & (pilots[1] > 0)).mean())
    return found


def _errors(counts0: NDArray[np.int64], counts1: NDArray[np.int64]) -> tuple[Array, Array]:
    """The numbers of both errors at every threshold in both directions. (audits, bins) twice -> (audits, 2 * bins) twice."""
    above0 = counts0.sum(axis=1, keepdims=True) - np.cumsum(counts0, axis=1)
    below1 = np.cumsum(counts1, axis=1)
    total0, total1 = counts0.sum(axis=1, keepdims=True), counts1.sum(axis=1, keepdims=True)
    return np.concatenate([above0, total0 - above0], axis=1) * 1.0, np.concatenate([below1, total1 - below1], axis=1) * 1.0


def _upper_ends(counts0: Array, counts1: Array, best: NDArray[np.intp], left: list[Array]) -> tuple[Array, Array]:
    fp, fn = (np.take_along_axis(e, best[:, None], axis=1) for e in _errors(counts0, counts1))  # type: ignore[arg-type]
    return rate_at_most(fp, left[0], ALPHA / 2)[:, 0], rate_at_most(fn, left[1], ALPHA / 2)[:, 0]


def rank_gate(pair: Pair, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the rank gate. Ties are broken at random, so the best attack is on the exact trade-off curve."""
    place = best_place(pair.beta, n)
    missed = draw.binomial(n, np.clip(pair.beta(draw.beta(place, n - place + 1, audits)), 0, 1))
    levels = {k: chance_of_so_few(k, place, (n, n), pair.beta) for k in np.unique(missed)}
    return {"rank gate": float(np.mean([levels[k] <= ALPHA for k in missed]))}


def guessed_coins(
    chance: float, claim: Claim, curve: tradeoff.Curve, n: int, audits: int, draw: np.random.Generator
) -> dict[str, float]:
    """False alarms of the bound on 2n guessed bits. chance: of a correct guess. curve: the trade-off curve that is tested."""
    right, bits = draw.binomial(2 * n, chance, audits), np.arange(2 * n) % 2 == 1
    scores = {k: np.where((np.arange(2 * n) < k) == bits, 1.0, -1.0) for k in np.unique(right)}
    alarms = {k: guessed(scores[k][:, None], bits[:, None], claim, curve).refuted for k in scores}
    return {"guessed coins": float(np.mean([alarms[k] for k in right]))}


def coins_of_trainings(kind: str, epsilon: float, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the bound on guessed bits, with CANARIES bits in each training. kind: as in `one_run`.

    In this simulation, the randomness that a training's canaries share affects only the number of correct guesses.
    """
    mu, trainings, alarms = float(gaussian.mu_of(epsilon, 1e-5)), 2 * n // CANARIES, 0
    most = float(special.ndtr(mu / 2))
    for _ in range(audits):
        loss = np.abs(mu * (mu / 2 + draw.standard_normal((trainings, 1))))
        chance = 1 / (1 + np.exp(-loss)) if kind == "common-l" else most
        right = draw.random((trainings, CANARIES)) < chance
        alarms += together(right).how != "failed" and chance_of_so_many(right, most) < ALPHA
    return {"guessed coins": alarms / audits}


def likelihood_ratio(mu: float, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the exact bounds for Gaussian scores, from sufficient statistics."""
    difference = mu + draw.standard_normal(audits) * math.sqrt(2 / n)
    sd = np.sqrt(draw.chisquare(2 * n - 2, audits) / (2 * n - 2))
    return {
        "likelihood ratio": float((gaussian.mu_lower(difference, sd, n, n, ALPHA) > mu).mean()),
        "likelihood ratio, sd known": float((gaussian.mu_lower(difference, 1.0, n, n, ALPHA, sd_known=True) > mu).mean()),
    }


def gaussian_stream(mu: float, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the Gaussian e-process at any time up to n."""
    alarms = 0
    for part in _parts(audits, n):
        differences = draw.standard_normal((part, n)) * math.sqrt(2) + mu
        reached = mu_reached(differences, ALPHA, (TUNED - 1) * (mu or 1.0))
        alarms += int((reached.max(axis=1) > mu).sum())
    return {"Gaussian e-process": alarms / audits}


def betting_stream(pair: Pair, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the betting e-process at any time up to n, at the threshold with the pair's largest likelihood ratio."""
    if pair.epsilon > 700:
        return {}
    price, alarms = math.exp(pair.epsilon), 0
    cuts = [(1 - np.cumsum(pair.p0)[k], 1 - np.cumsum(pair.p1)[k]) for k in range(len(pair.p0) - 1)]
    a, b = max(cuts, key=lambda c: float(epsilon_of_rates(c[0], 1 - c[1], pair.delta)))
    for part in _parts(audits, n * 2):
        above0, above1 = draw.random((part, n)) < a, draw.random((part, n)) < b
        kind = above0.view(np.int8) + 2 * above1.view(np.int8)
        wealth, path = np.zeros((part, n)), np.empty((part, n))
        for won, lost in (((0, 0, 1, 1), (0, 1, 0, 1)), ((1, 0, 1, 0), (1, 1, 0, 0))):
            gain = np.array(won) - price * np.array(lost) - pair.delta
            for stake in STAKES:
                np.take(1 + stake / (price + pair.delta) * gain, kind, out=path)
                wealth += np.cumprod(path, axis=1, out=path)
        alarms += int((wealth.max(axis=1) / (2 * len(STAKES)) >= 1 / ALPHA).sum())
    return {"betting e-process": alarms / audits}


def residual_noise(n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the factorised bound on residuals with the declared noise: 2 stages, 5 columns, n / 10 rows."""
    moves = np.full((1, 2, 5), 0.1)
    claim = Claim(float(gaussian.epsilon_of(np.linalg.norm(moves), 1e-5)) * (1 + 1e-9), 1e-5)
    alarms = [factorised(draw.standard_normal((1, 2, n // 10, 5)), moves, claim, ALPHA).refuted for _ in range(audits)]
    return {"factorised": float(np.mean(alarms))}


def channels(kind: str, epsilon: float, n: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the bound on elementary channels: 2n users send two bits and a label; half of the labels
    have two classes.

    The declared budgets are a quarter of epsilon for each bit, and half of epsilon for the label. kind: the true budgets: "as
    declared"; "bits alone", where the label leaks nothing; or "label alone".
    """
    kinds = (Kind(0, 4 * n, 2, epsilon / 4), Kind(0, n, 1, epsilon / 2))
    true = {"as declared": (epsilon / 4, epsilon / 2), "bits alone": (epsilon / 2, 0.0), "label alone": (0.0, epsilon)}[kind]
    counts = [k.weight * draw.binomial(k.guesses, special.expit(e), audits) for k, e in zip(kinds, true, strict=True)]
    return {"elementary channels": float((sum(counts) >= least_rejected(kinds, epsilon, ALPHA)).mean())}


def drawn_reports(
    bits: int, epsilon: float, n: int, audits: int, draw: np.random.Generator, *, one_coin: bool = False
) -> dict[str, float]:
    """False alarms of the three tests of elementary channels, on reports that are drawn: each of 2n users sends `bits` bits by
    randomised response, each of epsilon / bits nats.

    The alarm is that any of the tests of SIDES rejects the exact sum `epsilon` at its share of ALPHA / SHARE. The input of each
    bit is a coin of its own, as the audit plants users. one_coin: all bits of a user have the same input, which the tests do not
    allow.
    """
    random, alarms, least = np.random.default_rng(draw.integers(2**32)), 0, {}
    for _ in range(audits):
        coins = np.broadcast_to(draw.random((2 * n, 1 if one_coin else bits)) < 0.5, (2 * n, bits))
        sent = (coins ^ (draw.random(coins.shape) > special.expit(epsilon / bits))).astype(np.int64)
        rejected = False
        for sides, share in SIDES.items():
            right, count = guesses(coins, sent, random, sides)
            kind = Kind(right, count, bits, epsilon / bits)
            if count and (sides, count) not in least:
                least[sides, count] = stats.binom.isf(share / SHARE * ALPHA, count, special.expit(epsilon / bits))
            rejected |= bool(count) and right > least[sides, count] and p_value([kind], epsilon) < share / SHARE * ALPHA
        alarms += rejected
    return {"elementary channels": alarms / audits}


def one_run(kind: str, epsilon: float, m: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of the one-run bounds with m canaries, at the number of guesses that each bound chooses itself.

    kind: "independent": independent Gaussian canaries. "common-l": Gaussian canaries that share one absolute privacy loss; each
    is exactly mu-GDP given the others, but their errors are correlated. "reveal-all": with probability delta, the output reveals
    all bits at once.
    """
    delta = 1e-5 if kind != "reveal-all" else 0.01
    claim = Claim(epsilon, delta)
    mu = float(gaussian.mu_of(epsilon, delta))
    found = {}
    for rule in ("steinke", "mahloujifar") if kind in ("independent", "common-l") else ("steinke",):
        r = best_guesses(claim, m, ALPHA) if rule == "mahloujifar" else 0
        groups = groups_against(epsilon, delta, m, ALPHA)[0] if rule == "steinke" else ((1, r),)
        if kind == "independent":
            chances = [np.float64(q) for q in rates(groups, m, mu, delta)]
        elif kind == "common-l":
            loss = np.abs(mu * (mu / 2 + draw.standard_normal(audits)))
            chances = [1 / (1 + np.exp(-loss))] * len(groups)
        else:
            shown = draw.random(audits) < delta
            chances = [np.where(shown, 1.0, 1 / (1 + math.exp(-epsilon)))] * len(groups)
        v = sum(weight * draw.binomial(count, q, audits) for (weight, count), q in zip(groups, chances, strict=True))
        kinds = np.unique(v)
        if rule == "steinke":
            alarm = np.array([weighted_p_value(epsilon, Charge(delta, m), groups, int(k)) < ALPHA for k in kinds])
        else:
            alarm = np.array([rejects(gaussian_beta(mu), m, r, int(k), np.array([ALPHA]))[0] for k in kinds])
        name = {"steinke": "Steinke et al. 2023", "mahloujifar": "Mahloujifar et al. 2024"}[rule]
        found[name] = float(np.isin(v, kinds[alarm]).mean())
    return found


def rounds_that_tell(delta: float, epsilon: float, m: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of `steinke` on m independent rounds, each of which tells its bit with probability delta and is otherwise a
    randomised response. The rounds that tell have the most extreme scores.

    "choose the test": if any round tells, and only then, all scores are tied; or they are tied unless a round tells. So the
    mechanism chooses the test. The larger share of the two.
    """
    (groups, charge), q = groups_against(epsilon, delta, m, ALPHA, True), special.expit(epsilon)
    told, alike = draw.binomial(m, delta, audits), m - m % 2
    before = np.cumsum([0] + [n for _, n in groups])
    sure = [np.clip(told - k, 0, n) for k, (_, n) in zip(before, groups, strict=False)]
    by_weight = sum(w * (k + draw.binomial(n - k, q)) for k, (w, n) in zip(sure, groups, strict=True))
    by_count = np.minimum(told, alike) + draw.binomial(alike - np.minimum(told, alike), q)
    change = likeliest(epsilon, ((1, fewest_tied(groups)),))
    changes = max(change, likeliest(epsilon, groups))
    weights = _alarms(by_weight, lambda v: weighted_p_value(epsilon, charge, groups, v, change))
    count = _alarms(by_count, lambda v: tied_p_value(epsilon, charge, alike, v, changes))
    chosen = (np.where(told > 0, weights, count).mean(), np.where(told > 0, count, weights).mean())
    return {"rounds that tell": float(weights.mean()), "rounds that choose the test": float(max(chosen))}


def _alarms(counts: NDArray[np.int64], level: Callable[[int], float]) -> NDArray[np.bool_]:
    kinds = np.unique(counts)
    return np.isin(counts, kinds[[level(int(k)) < ALPHA for k in kinds]])


def checked_canaries(kind: str, epsilon: float, m: int, audits: int, draw: np.random.Generator) -> dict[str, float]:
    """False alarms of two bounds of `canaries` on scores: the bound for independent canaries if the scores pass as independent
    and normal, else the bound that does not need independence.
    """
    mu, spared = float(gaussian.mu_of(epsilon, 1e-5)), SPARED * ALPHA
    guesses = best_guesses(Claim(epsilon, 1e-5), m, spared)
    fallback: dict[int, bool] = {}  # cached, because the same counts occur many times
    alarms = 0
    for i in range(audits):
        bits = draw.random((1, m)) < 0.5
        if kind == "independent":
            scores = mu * draw.standard_normal((1, m)) + mu * mu * (bits - 0.5)
        else:
            loss = abs(mu * (mu / 2 + draw.standard_normal()))
            scores = np.where((draw.random((1, m)) < 1 / (1 + math.exp(-loss))) == bits, loss, -loss)
        outs, ins = scores[~bits], scores[bits]
        if independence(scores, bits).ok and normal_law(outs, ins).how != "failed":
            mu_found = gaussian.mu_lower(ins.mean() - outs.mean(), pooled_sd(outs, ins), len(outs), len(ins), ALPHA - spared)
            alarms += bool(mu_found > mu)
            continue
        v = weight_of_correct(by_score(scores, bits, seed=i), ((1, guesses),))
        if v not in fallback:
            fallback[v] = bool(rejects(gaussian_beta(mu), m, guesses, v, np.array([spared]))[0])
        alarms += fallback[v]
    return {"canaries, independence checked": alarms / audits}


def _parts(audits: int, width: int) -> Iterator[int]:
    size = max(1, 8_000_000 // width)
    yield from (min(size, audits - at) for at in range(0, audits, size))


def ours(audits: int, seed: int = 0, rounds: tuple[int, ...] = ROUNDS, epsilons: tuple[float, ...] = EPSILONS) -> Iterator[Cell]:
    """The false alarms of each of our bounds, on each mechanism for which the bound is meant."""
    for e in epsilons:
        for n in rounds:
            for name, make in MECHANISMS.items():
                if name == "null" and e > 0:
                    continue
                pair = make(e)
                draw = np.random.default_rng([seed, n, round(10 * e), len(name)])
                found = (
                    many_runs(pair, n, audits, draw) | betting_stream(pair, n, audits, draw) | rank_gate(pair, n, audits, draw)
                )
                if not pair.delta:
                    chance, claim = (1 + np.abs(pair.p1 - pair.p0).sum() / 2) / 2, Claim(pair.epsilon, 0.0)
                    found |= guessed_coins(chance, claim, tradeoff.approximate(pair.epsilon), n, audits, draw)
                for rule, alarms in found.items():
                    yield Cell(rule, name, e, n, alarms, audits)
            mu = float(gaussian.mu_of(e, 1e-5))
            draw = np.random.default_rng([seed, n, round(10 * e)])
            found = likelihood_ratio(mu, n, audits, draw) | gaussian_stream(mu, n, audits, draw)
            found |= guessed_coins(float(special.ndtr(mu / 2)), Claim(e, 1e-5), tradeoff.gaussian(mu), n, audits, draw)
            for rule, alarms in found.items():
                yield Cell(rule, "Gaussian", e, n, alarms, audits)
            for kind in ("as declared", "bits alone", "label alone"):
                own = np.random.default_rng([seed, n, round(10 * e), len(kind)])
                for rule, alarms in channels(kind, e, n, audits, own).items():
                    yield Cell(rule, f"reports, {kind}", e, n, alarms, audits)
            for bits in DRAWN_BITS:
                own = np.random.default_rng([seed, n, round(10 * e), bits])
                for rule, alarms in drawn_reports(bits, e, n, audits, own).items():
                    yield Cell(rule, f"reports, {bits} bits drawn", e, n, alarms, audits)
            for kind in ("independent", "common-l", "reveal-all"):
                for rule, alarms in one_run(kind, e, n, audits, draw).items():
                    yield Cell(rule, f"one run, {kind}", e, n, alarms, audits)
            for delta in TOLD:
                own = np.random.default_rng([seed, n, round(10 * e), round(1 / delta)])
                for kind, alarms in rounds_that_tell(delta, e, n, audits, own).items():
                    yield Cell("Steinke et al. 2023", f"{kind} (delta {delta:g})", e, n, alarms, audits)
            if e > 0:
                for kind in ("independent", "common-l"):
                    for rule, alarms in checked_canaries(kind, e, n, audits, draw).items():
                        yield Cell(rule, f"one run, {kind}", e, n, alarms, audits)
                    for rule, alarms in coins_of_trainings(kind, e, n, audits, draw).items():
                        yield Cell(rule, f"{CANARIES} a training, {kind}", e, n, alarms, audits)
    for n in rounds:
        for rule, alarms in residual_noise(n, audits, np.random.default_rng([seed, n])).items():
            yield Cell(rule, "Gaussian residuals", 0.0, n, alarms, audits)


def others(
    audits: int, seed: int = 0, rounds: tuple[int, ...] = (50, 500), epsilons: tuple[float, ...] = EPSILONS
) -> Iterator[Cell]:
    """The false alarms of the rules of other tools, on mechanisms whose epsilon is known."""
    import other_rules

    for e in epsilons:
        for n in rounds:
            draw = np.random.default_rng([seed, n, round(10 * e), 1])
            for name in ("null", "step", "Laplace", "Gaussian"):
                if name == "null" and e > 0:
                    continue
                pair = MECHANISMS[name](e)
                found: dict[str, list[NDArray[np.bool_]]] = {}
                for part in _parts(audits, 8 * n):
                    scores = [_scores(p, (part, n), draw) for p in (pair.p0, pair.p1)]
                    rules = {"best threshold, Clopper-Pearson": other_rules.best_threshold(*scores, pair.epsilon, pair.delta)}
                    if name == "Gaussian":
                        mu = float(gaussian.mu_of(e, 1e-5))
                        rules["best threshold, Gaussian"] = other_rules.best_gaussian_threshold(*scores, mu)
                    for rule, flags in rules.items():
                        found.setdefault(rule, []).append(flags)
                few = min(audits, 1000)
                scores = [_scores(p, (few, n), draw) for p in (pair.p0, pair.p1)]
                found["ROC hull, Bonferroni"] = [other_rules.hull_bonferroni(*scores, pair.epsilon, pair.delta)]
                if name == "Gaussian":
                    found["ROC hull, Gaussian, absolute value"] = [
                        other_rules.hull_gaussian(*scores, float(gaussian.mu_of(e, 1e-5)))
                    ]
                if name in ("null", "step"):
                    bits = draw.random((few, n)) < 0.5
                    scores = [_scores(p, (few, n), draw) for p in (pair.p0, pair.p1)]
                    found["one run, best guess grid"] = [
                        other_rules.best_guess_grid(np.where(bits, scores[1], scores[0]), bits, pair.epsilon)
                    ]
                for rule, parts in found.items():
                    flags = np.concatenate(parts)
                    yield Cell(rule, name, e, n, float(flags.mean()), len(flags))
            if e > 0:
                mu = float(gaussian.mu_of(e, 1e-5))
                loss = np.abs(mu * (mu / 2 + draw.standard_normal(audits)))
                wrong = draw.binomial(n, 1 / (1 + np.exp(loss)))
                yield Cell(
                    "one run, product null", "common-l", e, n, float(other_rules.product_null(wrong, n, mu).mean()), audits
                )


def _scores(p: Array, shape: tuple[int, int], draw: np.random.Generator) -> Array:
    return np.searchsorted(np.cumsum(p)[:-1], draw.random(shape), side="right") + draw.random(shape)


def table(cells: list[Cell]) -> str:
    """A Markdown table, rules and mechanisms by epsilons: false alarms in percent, one figure for each number of rounds."""
    rounds = sorted({c.rounds for c in cells})
    epsilons = sorted({c.epsilon for c in cells})
    lines = [f"| rule | mechanism | {' | '.join(f'ε = {e:g}' for e in epsilons)} |", f"|---|---|{'---|' * len(epsilons)}"]
    by = {(c.rule, c.mechanism, c.epsilon, c.rounds): c for c in cells}
    for rule, mechanism in dict.fromkeys((c.rule, c.mechanism) for c in sorted(cells, key=lambda c: c.rule)):
        row = []
        for e in epsilons:
            found = [by.get((rule, mechanism, e, n)) for n in rounds]
            row.append(
                " / ".join(
                    "–" if c is None else f"{'' if c.valid else '**'}{100 * c.alarms:.1f}{'' if c.valid else '**'}" for c in found
                )
            )
        lines.append(f"| {rule} | {mechanism} | {' | '.join(row)} |")
    return "\n".join(lines)


def _shown(cell: Cell) -> Cell:
    print(cell, file=sys.stderr, flush=True)
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    mine = [_shown(cell) for cell in ours(options.audits)]
    middle = time.perf_counter()
    theirs = [_shown(cell) for cell in others(min(options.audits, 4000))]
    page = Path(__file__).with_name("coverage_page.md").read_text(encoding="utf-8")
    text = page.format(
        audits=options.audits,
        ours=table(mine),
        others=table(theirs),
        worst=max(100 * c.alarms for c in mine),
        cells=len(mine),
        invalid=sum(not c.valid for c in mine),
        few=min(options.audits, 4000),
    )
    if options.out:
        options.out.write_text(text)
    print(text)
    print(f"{middle - started:.0f} s for ours, {time.perf_counter() - middle:.0f} s for the others")


if __name__ == "__main__":
    main()
