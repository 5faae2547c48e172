"""The audit `differential` for a user's model: tests its claim by the random numbers that the tool records ("hears").

The result is exact: the audit computes a move along one recorded history, in units of noise whose numbers, distribution and scale
it recorded.
"""

from __future__ import annotations

import dataclasses
import math

import dp_accounting as dp
from scipy import stats

from ...accounting.checks.conditions import Condition, proved
from ...accounting.events.tree import gaussian_mu, parts
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...accounting.lower.bounds import Bound, resting
from ...accounting.upper.tradeoff import curve
from ..case import Case, Outcome, Setting, offered
from ..heard.examination import Examination, Move
from ..heard.gate import examined
from ..heard.study import withstands

NAME = "differential"
SLACK = 2e-4  # relative: rounding error of a move in float32
GRID = 1e-2  # relative: grid error of the accountant for noise other than Gaussian
PATHS = "one release distinguishes two neighbouring graphs that have no release in common"
LAW = "Kolmogorov's distance between the recorded numbers and the law that was requested, Bonferroni over draws"
MOVES = "noise of a known law on means that are a known distance apart (Dong, Roth and Su 2022)"
REPEATED = proved("a run repeats", "the same draws gave the same release with another seed, so all randomness was recorded")
UNCOVERED = (
    REPEATED,
    Condition(
        "no draw changes these entries", "checked", "all other draws were replaced: by redraws, by their ends, by far moves"
    ),
    proved("all other noisy values are the same", "their noise was moved until they were"),
)
HEARD = (
    REPEATED,
    proved("the release is a mean plus recorded numbers", "each number was changed, and its entry moved in proportion"),
    proved("each number is in one release, and drawn anew", "compared with one another and with another seed"),
    proved("the move of the mean is exact", "computed along the released history"),
)
ALONE = Condition("no other draw adds to the noise", "checked", "all other draws were replaced, and noisy values stayed")
MOST = 64  # largest number of moved entries whose Laplace curves are composed


def listen(setting: Setting) -> Outcome:
    """The results of the examination as bounds: certificates, the largest move by one secret, the distribution of the noise."""
    case, alpha = setting.case, setting.alpha
    found = examined(case, case.counted(setting.graph), setting.key)
    doubts = dict(found.doubts)
    if found.faults:
        certain = exact(math.inf, found.faults[0], PATHS, UNCOVERED)
        return Outcome(NAME, (certain,), {}, found.faults[0], offered(case.model))
    if reason := mismatch(case, found):
        doubts.setdefault("", reason)
    bound = moved(case, found, doubts)
    bounds = [bound]
    p_value = law_p_value(found)
    if p_value is not None:
        held = Bound(0.0, alpha, "ledger", "law of the noise", (1, 1), False, p_value, math.inf, math.inf, "listening", NAME)
        bounds.append(resting(held, LAW, REPEATED))
        if p_value < alpha:
            doubts.setdefault("", f"the noise does not follow the requested law (p={p_value:.2g})")
    covers = () if "" in doubts else tuple(a for a in offered(case.model) if a not in doubts)
    if "" in doubts:
        bounds = [dataclasses.replace(b, notices=math.inf, reach=math.inf) for b in bounds]
    silent = [(f"nothing is said of '{array}': " if array else "nothing is said: ") + text for array, text in doubts.items()]
    told = "; ".join([*silent, found.told])
    return Outcome(NAME, tuple(bounds), {}, told, offered(case.model), covers=looked_for(found, covers))


def looked_for(found: Examination, arrays: tuple[str, ...]) -> dict[str, str]:
    """For each array the kind of violation that the audit would have detected."""
    noisy = found.noisy
    return {a: "noise too small anywhere in" if a in noisy else "a path past the noise to" for a in arrays}


def mismatch(case: Case, found: Examination) -> str | None:
    """The reason why the recorded noise contradicts the distribution in the ledger; None if it does not, or if there is no
    ledger.
    """
    ledger, laws = case.model.ledger, found.laws
    if not laws or isinstance(ledger, dp.UnsupportedDpEvent):
        return None
    if gaussian_mu(ledger) is not None:
        charged = "normal"
    elif all(isinstance(event, dp.LaplaceDpEvent) for event, _ in parts(ledger)):
        charged = "laplace"
    else:
        kind = next(type(event).__name__.removesuffix("DpEvent") for event, _ in parts(ledger))
        return f"the ledger charges {kind}, which a single draw of noise does not show"
    if laws == {charged}:
        return None
    lines = ", ".join(sorted({s.block.line for s in found.study.sources if s.block.law != charged}))
    return f"the ledger charges {charged} noise, and noise of the law '{', '.join(sorted(laws - {charged}))}' is drawn ({lines})"


def moved(case: Case, found: Examination, doubts: dict[str, str]) -> Bound:
    """The largest move by one secret, in units of the recorded noise. It refutes the claim if no other draw adds to that
    noise.
    """
    claim, worst = case.claim, max(found.moves, key=lambda m: m.size, default=Move("no secret"))
    epsilon, notices, reach = 0.0, math.inf, math.inf
    if found.laws == {"normal"}:
        epsilon = float(epsilon_of(worst.euclidean * (1 - SLACK), claim.delta))
        notices = noticed(gaussian_mu(case.model.ledger) or mu_of_claim(claim), worst.euclidean)
        reach = float(epsilon_of(notices * mu_of_claim(claim), claim.delta)) if math.isfinite(notices) else math.inf
    elif found.laws == {"laplace"}:
        epsilon = laplace_epsilon(worst.entries, claim.delta)
        notices = noticed(_laplace_total(case) or claim.epsilon, sum(worst.entries))
        reach = claim.epsilon * notices
    elif not found.laws and not found.doubts:
        notices, reach = 1.0, claim.epsilon
    refuted = epsilon > claim.epsilon
    method = f"{worst.secret} moves the means by {worst.euclidean or sum(worst.entries):.4g} times the recorded noise"
    refuted = refuted and "" not in doubts
    if refuted and not withstands(found.study):
        doubts.setdefault("", f"{method}, and other draws may add to it")
        refuted = False
    bound = exact(epsilon if refuted else 0.0, method, MOVES, (*HEARD, ALONE) if refuted else HEARD)
    return dataclasses.replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(found.moves), 0))


def exact(epsilon: float, method: str, theorem: str, conditions: tuple[Condition, ...]) -> Bound:
    """A bound that was computed without sampling."""
    infinite = math.inf, math.inf
    bound = Bound(epsilon, 0.0, "exact", method, (1, 1), math.isinf(epsilon), None, *infinite, "listening", NAME)
    return dataclasses.replace(bound, theorem=theorem, conditions=conditions)


def noticed(most: float, moved: float) -> float:
    """The smallest detectable factor by which all noise is too small: the ledger's mu over the largest move that was found."""
    return max(1.0, most / (moved * (1 - SLACK))) * (1 + SLACK) if moved > 0 else math.inf


def laplace_epsilon(entries: tuple[float, ...], delta: float) -> float:
    """The epsilon of Laplace noise of scale 1 on entries that move by so much; 0 if there are too many to compose."""
    if not entries or len(entries) > MOST:
        return 0.0
    composed = dp.ComposedDpEvent([dp.LaplaceDpEvent(1 / e) for e in entries])
    return float(curve(composed).epsilon(delta)) * (1 - GRID)


def _laplace_total(case: Case) -> float:
    if isinstance(case.model.ledger, dp.UnsupportedDpEvent):
        return 0.0
    return sum(count / event.noise_multiplier for event, count in parts(case.model.ledger))


def law_p_value(found: Examination) -> float | None:
    """The p-value of "the numbers follow the distribution that was requested": Kolmogorov-Smirnov, Bonferroni over sources. None
    without any.
    """
    p_values = []
    for source in found.study.sources:
        law = {"normal": "norm", "laplace": "laplace"}.get(source.block.law)
        if law is not None:
            p_values.append(float(stats.kstest(source.numbers(found.study.base.draws).ravel(), law).pvalue))
    return min(1.0, len(p_values) * min(p_values)) if p_values else None
