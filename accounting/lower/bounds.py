"""From scores and bits to a lower bound on epsilon. This module uses neither graphs nor models."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import gaussian
from ..arguments import check_alpha, check_seed, check_type, is_finite, shown
from ..checks.conditions import Condition, proved
from ..checks.patterns import of_other_rounds
from ..checks.score_law import PLAYED, normal_law, pooled_sd, sd_as_stated
from ..claim import Claim, check_claim
from .detection import power
from .detection.error_rates import (
    BEFOREHAND,
    Rule,
    epsilon_of_rates,
    mu_of_rates,
    pilot_rounds,
    rate_at_most,
    rule_from_pilot,
    smallest_level,
    weighed,
)
from .detection.families import Family
from .random_numbers import generator

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve

Array = NDArray[np.float64]
# the fields that `Bound.row` has under the same name
SAME = ("audit", "attack", "shape", "method", "notices", "reach", "confirmed", "theorem", "against", "withdrawn")
SHAPES = {"any": "any shape", "ledger": "shape of the ledger", "exact": "exact"}


@dataclass(frozen=True)
class Bound:
    """With probability at least 1 - alpha the true epsilon, at the claim's delta, is at least `epsilon`.

    shape: for which mechanisms the bound holds. "any": every mechanism. "ledger": mechanisms whose trade-off curve is that of the
    model's ledger with all noise divided by one factor. "exact": the bound is a computation without samples. notices and reach:
    the smallest violation that this test would have detected with 90 % power under the best attack; notices is the factor by
    which the noise is then too small, and reach is the true epsilon.

    The bound follows from `theorem`, under all `conditions`. against: what a refutation contradicts, either "claim" or "ledger".
    With "ledger" it contradicts only the curve of the ledger: the code is less private than its ledger says. withdrawn: the bound
    before a condition failed, None if none failed; `epsilon` of a withdrawn bound is 0, and `notices` and `reach` are infinite.
    covers: array -> the kind of violation that the test would have detected in it; None if that is not known for each array.
    attack, audit: the names of the attack and the audit, which `Outcome` gives to a bound; the statistics do not use them. claim:
    the claim that was tested, for the bounds of `lower`: `judge` refuses them for another epsilon or delta.
    """

    epsilon: float  # nats
    alpha: float  # the level of this test, its share of the run's alpha
    shape: str  # "any", "ledger" or "exact"
    method: str
    trials: tuple[int, int]  # world 0, world 1
    refuted: bool  # the claim is contradicted at level alpha
    p_value: float | None  # p-value of the hypothesis that the claim holds
    notices: float
    reach: float  # nats
    attack: str = ""
    audit: str = ""
    confirmed: bool | None = None  # whether a repetition with fresh coins refuted too; None if there was no repetition
    theorem: str = ""
    conditions: tuple[Condition, ...] = ()
    against: str = "claim"  # or "ledger"
    withdrawn: float | None = None  # nats
    covers: Mapping[str, str] | None = None
    claim: Claim | None = None

    @property
    def assumed(self) -> tuple[str, ...]:
        """The conditions that are only assumed. A bound with such a condition refutes nothing by itself."""
        return tuple(c.what for c in self.conditions if c.how == "assumed")

    @property
    def granted(self) -> tuple[str, ...]:
        """What the bound lets the adversary see beyond the released arrays, as the usual proof of such a claim does, and what
        whoever made the rounds states about them.
        """
        return tuple(c.what for c in self.conditions if c.how == "granted")

    @property
    def limits(self) -> tuple[str, ...]:
        """Sentences about cases in which no violation was looked for, or for which alone the verdict holds, with the reasons."""
        words = {"not examined": "{} were not examined, because {}", "limited": "this holds only {}: {}"}
        return tuple(words[c.how].format(c.what, c.detail) for c in self.conditions if c.how in words)

    @property
    def failed(self) -> tuple[str, ...]:
        """The conditions that a check rejected, each with the result of the check."""
        return tuple(f"{c.what} ({c.detail})" for c in self.conditions if c.how == "failed")

    def row(self) -> dict[str, Any]:
        """The fields that reports and JSON documents have of a bound, but for its verdict."""
        return {
            **{name: getattr(self, name) for name in SAME},
            "value": self.epsilon,
            "confidence": 1 - self.alpha,
            "rounds": sum(self.trials),
            "conditions": [dataclasses.asdict(condition) for condition in self.conditions],
        }

    def __str__(self) -> str:
        if self.withdrawn is not None:
            return f"withdrawn, was at least {self.withdrawn:.2f}: {'; '.join(self.failed)}"
        return f"at least {self.epsilon:.2f} ({surety(f'{100 * (1 - self.alpha):.6g} %', self.shape, self.assumed)})"


def surety(percent: str, shape: str, assumed: tuple[str, ...]) -> str:
    """The confidence and shape of a bound in words. A bound that needs an assumption is neither "exact" nor "100 %"."""
    known = f"{percent}, {SHAPES.get(shape, shape)}"
    return f"{'computed' if shape == 'exact' else known}, if {' and '.join(assumed)}" if assumed else known


def resting(bound: Bound, theorem: str, *conditions: Condition) -> Bound:
    """The bound with this theorem and these further conditions. It is withdrawn if one of its conditions failed."""
    resting_bound = dataclasses.replace(bound, theorem=theorem, conditions=(*bound.conditions, *conditions))
    if not resting_bound.failed or resting_bound.withdrawn is not None:
        return resting_bound
    return unknown(dataclasses.replace(resting_bound, withdrawn=resting_bound.epsilon, epsilon=0.0, refuted=False, p_value=1.0))


def unknown(bound: Bound) -> Bound:
    """The bound without a smallest detectable violation: `notices` and `reach` are infinite. For bounds whose attack may not be
    optimal, so that its power is unknown.
    """
    return dataclasses.replace(bound, notices=math.inf, reach=math.inf)


def from_rounds(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    *,
    shape: str = "any",
    ledger_curve: Curve | None = None,
    family: Callable[[float], Curve] | None = None,
    alpha: float = 0.05,
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    rule: Rule | None = None,
    likelihood_ratio: bool = False,
    sd: float | None = None,
    sd_is_limit: bool = False,
    rounds: Condition = PLAYED,
    seed: int = 0,
) -> Bound:
    """A lower bound on epsilon from independent rounds of the two-worlds game.

    scores: any shape, float, higher means world 1; infinities allowed. bits: the same shape, True for world 1. Both error rates
    of one threshold get Clopper-Pearson limits, alpha / 2 each. With shape "any", the error region of (epsilon, delta)-DP turns
    these limits into epsilon (Kairouz et al. 2015), and the bound holds for every mechanism. With shape "ledger", the limits are
    compared with `ledger_curve`, the trade-off curve of the ledger (Dong et al. 2022). For a ledger that is not Gaussian, also
    give `family`, which maps a factor to the curve of the ledger with all noise divided by this factor; without it only the
    ledger's own curve is tested. For such a ledger notices and reach are infinite: no power is computed for its curve.

    likelihood_ratio: states that the scores are linear in the noise of an exactly Gaussian ledger, so that they are normal with
    one sd in both worlds. The exact two-sample test then replaces the threshold, unless the scores are infinite or do not vary.
    The bound is withdrawn if a check rejects that the scores are normal. sd: the sd of the scores, if it is known independently
    of them; the bound is withdrawn if they contradict it. sd_is_limit: sd is an upper limit. rounds: the condition that rounds
    are independent, with its status.

    The threshold comes from `rule` (fixed beforehand; it may lie far from all scores, so notices and reach are infinite),
    else from `pilot` (scores and bits of other rounds). With neither it comes from a random quarter of the rounds of each world,
    at most about PILOT_MOST, drawn with `seed`; these rounds do not count for the bound. Raises ValueError for NaN, bits other
    than 0 and 1, unequal shapes, a missing world, and options that do not belong together.
    """
    scores0, scores1 = split(scores, bits)
    check_claim(claim)
    check_alpha(alpha)
    _check_shape(shape, ledger_curve, family, likelihood_ratio, sd)
    _check_threshold(pilot, rule, rounds, seed)
    mu_like = shape == "ledger" and ledger_curve is not None and ledger_curve.mu is not None
    if likelihood_ratio and _has_a_spread(scores0, scores1, sd):
        bound = _likelihood_ratio(scores0, scores1, claim, alpha, sd)
        law = [normal_law(scores0, scores1)]
        law += [sd_as_stated(scores0, scores1, sd, limit=sd_is_limit)] if sd is not None else []
        return resting(bound, "the exact test of two normal samples (noncentral t)", rounds, *law)

    def gain(a: Array, b: Array) -> Array:
        return mu_of_rates(a, b) if shape == "ledger" else epsilon_of_rates(a, b, claim.delta)

    counted, piloted, fixed = _divided(scores0, scores1, pilot, rule, lambda: generator(seed, scores, "pilot"))
    trials, pilots = (len(counted[0]), len(counted[1])), (len(piloted[0]), len(piloted[1]))
    if rule is None:
        rule = rule_from_pilot(*piloted, trials if shape == "any" else weighed(pilots, trials), alpha, gain)
    errors = rule.errors(*counted) if rule else trials  # without a threshold, the bound is 0
    measured = _of_rates(errors, trials, claim, alpha, None if shape == "any" else ledger_curve, family)
    reach = math.inf, math.inf
    if rule is not None and any(pilots) and (shape == "any" or mu_like):
        reach = power.notices_after_pilot(claim, pilots, trials, alpha, "any" if shape == "any" else "gate")
    epsilon, refuted = measured.epsilon, measured.epsilon > claim.epsilon
    # The two error rates also test the claim for every mechanism, at no further cost in alpha.
    against = "claim" if shape == "any" or measured.any_shape > claim.epsilon else "ledger"
    bound = Bound(epsilon, alpha, shape, measured.method, trials, refuted, measured.p_value, *reach, against=against)
    return resting(bound, f"two Clopper-Pearson limits and {measured.theorem}", rounds, fixed)


class _Divided(NamedTuple):
    """The scores of world 0 and of world 1 that count for the bound, those that choose the threshold (none if a rule was given),
    and the condition that the threshold is fixed.
    """

    counted: tuple[Array, Array]
    piloted: tuple[Array, Array]
    fixed: Condition


def _divided(
    scores0: Array,
    scores1: Array,
    pilot: tuple[ArrayLike, ArrayLike] | None,
    rule: Rule | None,
    random: Callable[[], np.random.Generator],
) -> _Divided:
    what, both = "the threshold is fixed", (scores0, scores1)
    if rule is not None:
        return _Divided(both, (scores0[:0], scores1[:0]), proved(what, BEFOREHAND))
    if pilot is None:
        drawn, rest = _split_off(scores0, scores1, random())
        return _Divided(rest, drawn, proved(what, "chosen on rounds that do not count"))
    others = split(*pilot, of="pilot: ")
    return _Divided(both, others, of_other_rounds(np.concatenate(others), np.concatenate(both)))


class _Measured(NamedTuple):
    """What two error rates prove. any_shape: the epsilon that they prove of every mechanism."""

    epsilon: float
    any_shape: float
    p_value: float
    method: str
    theorem: str = "the trade-off curve of the ledger (Dong et al. 2022)"


def _of_rates(
    errors: tuple[int, int],
    trials: tuple[int, int],
    claim: Claim,
    alpha: float,
    curve: Curve | None,
    family: Callable[[float], Curve] | None,
) -> _Measured:
    """What so many errors in so many rounds of each world prove. curve: of the ledger; None for the shape "any"."""

    def rates(level: float) -> tuple[float, float]:
        return float(rate_at_most(errors[0], trials[0], level / 2)), float(rate_at_most(errors[1], trials[1], level / 2))

    def smallest(refutes: Callable[[float], bool]) -> float:
        return 1.0 if math.isinf(claim.epsilon) else smallest_level(refutes)

    def region_says(level: float) -> bool:
        return bool(epsilon_of_rates(*rates(level), claim.delta) > claim.epsilon)

    a, b = rates(alpha)
    any_shape = float(epsilon_of_rates(a, b, claim.delta))
    if curve is None:
        theorem = "the error region of (epsilon, delta) (Kairouz et al. 2015)"
        return _Measured(any_shape, any_shape, smallest(region_says), "Clopper-Pearson", theorem)
    if curve.mu is not None:
        epsilon = float(gaussian.epsilon_of(max(float(mu_of_rates(a, b)), 0.0), claim.delta))
        claimed = gaussian.mu_of_claim(claim)
        p_value = smallest(lambda level: bool(mu_of_rates(*rates(level)) > claimed))
        return _Measured(epsilon, any_shape, p_value, "Gaussian profile gate")
    members = Family(curve, family)
    claimed_curve = members.above(claim)

    def contradicts(member: Curve, level: float) -> bool:
        a, b = rates(level)
        return bool(member.beta(np.array([a]))[0] > b)

    def refutes(level: float) -> bool:
        return (claimed_curve is not None and contradicts(claimed_curve, level)) or region_says(level)

    epsilon = max(members.epsilon(lambda member: contradicts(member, alpha), claim.delta), any_shape)
    return _Measured(epsilon, any_shape, smallest(refutes), "profile gate")


def split(scores: ArrayLike, bits: ArrayLike, *, of: str = "") -> tuple[Array, Array]:
    """The scores of world 0 and of world 1, flat. Raises ValueError, which begins with `of`, for NaN, bits other than 0 and 1,
    unequal shapes, and a missing world.
    """
    s, b = _scores(scores, of), _bits(bits, of)
    if s.shape != b.shape:
        raise ValueError(f"{of}scores have shape {s.shape}, bits {b.shape}: the shapes must be equal.")
    ones = int(b.sum())
    if ones in (0, b.size):
        what = f"all {b.size} bits are {int(ones > 0)}" if b.size else "there are no rounds"
        raise ValueError(f"{of}{what}: rounds of both worlds are needed.")
    return s[~b], s[b]


def _scores(scores: ArrayLike, of: str) -> Array:
    found = _numbers("scores", scores, of).astype(float, copy=False)
    if np.isnan(found).any():
        raise ValueError(
            f"{of}scores hold {int(np.isnan(found).sum())} NaN of {found.size}: each score must be a number; infinities are "
            "allowed."
        )
    return found


def _bits(bits: ArrayLike, of: str) -> NDArray[np.bool_]:
    found = _numbers("bits", bits, of)
    strange = found[(found != 0) & (found != 1)]
    if strange.size:
        way = "For bits that are -1 and 1 give bits > 0." if (strange == -1).all() else "1 means that the unit was in the graph."
        raise ValueError(f"{of}bits hold {strange[0]} ({strange.size} of {found.size}): each must be 0 or 1. {way}")
    return found.astype(bool, copy=False)


def _numbers(name: str, values: ArrayLike, of: str) -> NDArray[Any]:
    """The values as an array. Raises ValueError unless they are real numbers."""
    try:
        found = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as fault:  # rows of unequal length, a tensor on another device
        raise ValueError(f"{of}{name}={shown(values)}: must be an array of numbers ({fault}).") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{of}{name}={shown(values)}: must be real numbers, but have type {found.dtype}. Convert them to float.")
    return found


def _split_off(scores0: Array, scores1: Array, random: np.random.Generator) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Draws as many random rounds of each world as `pilot_rounds` says. Returns the pilot scores of world 0 and of world 1, and
    the other scores of world 0 and of world 1.
    """
    drawn, rest = [], []
    for scores, count in zip((scores0, scores1), pilot_rounds(len(scores0), len(scores1)), strict=True):
        chosen = np.zeros(len(scores), dtype=bool)
        chosen[random.choice(len(scores), count, replace=False)] = True
        drawn.append(scores[chosen])
        rest.append(scores[~chosen])
    return (drawn[0], drawn[1]), (rest[0], rest[1])


def _has_a_spread(scores0: Array, scores1: Array, sd: float | None) -> bool:
    """Whether the scores can be normal samples: more than two, all finite and, unless `sd` is given, not all equal within each
    world.
    """
    finite = bool(np.isfinite(scores0).all() and np.isfinite(scores1).all())
    if not finite or len(scores0) + len(scores1) <= 2:
        return False
    spread = pooled_sd(scores0, scores1)
    return spread < math.inf and (sd is not None or spread > 0)


def _likelihood_ratio(scores0: Array, scores1: Array, claim: Claim, alpha: float, sd: float | None) -> Bound:
    trials = len(scores0), len(scores1)
    difference, spread, known = scores1.mean() - scores0.mean(), sd or pooled_sd(scores0, scores1), sd is not None
    mu = gaussian.mu_lower(difference, spread, *trials, alpha, sd_known=known)
    epsilon = float(gaussian.epsilon_of(mu, claim.delta))
    claimed = gaussian.mu_of_claim(claim)
    p_value = 1.0 if math.isinf(claimed) else gaussian.mu_p_value(difference, spread, *trials, claimed, sd_known=known)
    notices, reach = power.notices(claim, *trials, alpha, "likelihood-ratio, noise known" if known else "likelihood-ratio")
    refuted = epsilon > claim.epsilon
    method = "Gaussian likelihood ratio"
    return Bound(epsilon, alpha, "ledger", method, trials, refuted, p_value, notices, reach, against="ledger")


def _check_shape(shape: str, curve: Curve | None, family: object, likelihood_ratio: bool, sd: float | None) -> None:
    if shape not in ("any", "ledger"):
        raise ValueError(f"shape={shape!r}: must be 'any' or 'ledger'.")
    if shape == "ledger" and curve is None:
        raise ValueError("shape='ledger' needs ledger_curve, the trade-off curve of what was run. Use shape='any' without one.")
    if shape == "ledger" and not hasattr(curve, "mu"):
        raise ValueError(f"ledger_curve={shown(curve)}: must be a curve, such as curve(ledger) or gaussian_curve(claim).")
    if family is not None and not callable(family):
        raise ValueError(f"family={shown(family)}: must be a function from a factor of the noise to a curve.")
    if likelihood_ratio and (shape != "ledger" or curve is None or curve.mu is None):
        raise ValueError("likelihood_ratio=True needs shape='ledger' and a ledger that is exactly Gaussian (ledger_curve.mu).")
    for name, value in (("ledger_curve", curve), ("family", family)):
        if shape == "any" and value is not None:
            raise ValueError(f"{name}={shown(value)}: is not used with shape='any'. Add shape='ledger', or leave {name} out.")
    if sd is not None and not (is_finite(sd) and sd > 0):
        raise ValueError(f"sd={shown(sd)}: must be a finite number above 0, or None to estimate it from the scores.")
    if sd is not None and not likelihood_ratio:
        raise ValueError(f"sd={shown(sd)}: is used with likelihood_ratio=True alone. Add this, or leave sd out.")


def _check_threshold(pilot: object, rule: object, rounds: object, seed: object) -> None:
    if pilot is not None and not (isinstance(pilot, tuple | list) and len(pilot) == 2):
        raise ValueError(f"pilot={shown(pilot)}: must be a pair (scores, bits) of rounds that are not in scores.")
    if rule is not None:
        check_type("rule", rule, Rule, "a Rule(threshold, sign). To choose a threshold from other rounds, give pilot instead.")
    if rule is not None and pilot is not None:
        raise ValueError("pilot and rule: each gives the threshold. Leave one of them out.")
    check_type("rounds", rounds, Condition, "a Condition. Leave it out for rounds that were played independently.")
    check_seed(seed)


def of_share(bound: Bound, share: float, alpha: float) -> Bound:
    """The bound of one test, which spent `share` of alpha, as the bound of all these tests together, at level alpha."""
    return dataclasses.replace(bound, alpha=alpha, p_value=None if bound.p_value is None else min(1.0, bound.p_value / share))


def divide(alpha: float, tests: int) -> float:
    """The level of each of so many tests, so that the probability of any false alarm is at most alpha under any dependence.

    Raises ValueError for alpha outside (0, 1) and for tests < 1.
    """
    check_alpha(alpha)
    if tests < 1:
        raise ValueError(f"tests={tests}: must be at least 1. A plan without tests needs no alpha.")
    return alpha / tests
