"""The audit `differential` for a user's model: tests the claim by the random numbers that the recorder found.

The audit computes, without samples, how far one secret moves the means along one recorded history, in units of the noise. The
recorder knows the numbers, the distribution and the scale of this noise. A statistical test checks whether the numbers follow
the distribution.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

import dp_accounting as dp
from scipy.optimize import brentq

from ...accounting.checks.conditions import LEVEL, Condition, most_telling, proved
from ...accounting.claim import Claim
from ...accounting.events.tree import gaussian_mu, parts
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...accounting.lower.bounds import Bound, resting, unknown
from ...reports.rounding import multiple
from ..case import Case, Outcome, Setting, offered
from ..instruments.reach import worth
from ..mechanisms.absence import history
from ..mechanisms.draws.cut_off import picks
from ..mechanisms.draws.parents import seeded
from ..mechanisms.draws.switches import other_sizes, switched
from ..mechanisms.inside import Inside
from ..mechanisms.overview.recorded_runs import recorded
from ..mechanisms.reading import also_noised
from ..recorded.examination import Examination, Move
from ..recorded.laws import LARGEST, LAWS, SLACK, cost_of
from ..recorded.other_numbers import HARD, MORE, withstands
from ..recorded.paths import NO_SEED
from ..recorded.secrets.worlds import UNUSUAL
from ..recorded.study import History, Study

NAME = "differential"
PATHS = "one release distinguishes two neighbouring graphs that have no release in common"
LAW = "tests that the recorded numbers follow the law that was requested (Kolmogorov, chi-squared), Bonferroni over draws"
MOVES = "noise of a known law, whose trade-off curve is known, on means that are a known distance apart"
REPEATED = proved("a run repeats", "the same draws gave the same release with another seed, so all that it drew was recorded")
UNCOVERED = (
    REPEATED,
    Condition(
        "no draw changes these entries",
        "checked",
        f"all other draws were replaced {HARD + MORE} times, by new draws, the ends of their range, and numbers far outside it",
    ),
    proved("all other noisy values are the same", "the recorded noise was changed so that they are the same"),
)
SEEDED = (
    REPEATED,
    Condition("no seed changes the release", "checked", "three seeds with the secret, and two without it, gave the same numbers"),
)
NAMED = 3  # largest number of lines that a sentence names
NEARLY = 1e-2  # relative: a move that is smaller by less counts as equal
NEAR = 5e-4  # how near the search for the smallest detectable factor comes, as a power of 2
NOT_FOLLOWED = ("choice", "geometric", "poisson")  # laws of noise that the recorder does not follow to the data
EVERYWHERE = "by one factor on every graph"  # how noise is too small where only the small graph of unusual nodes shows it
ANYWHERE = "anywhere on the two tested graphs"  # the given graph and the small one
OPEN_PATH = (
    "a path past the noise that is open on one of the two tested graphs, to"  # a kind of violation, before the names of arrays
)
RECORDED = "all randomness was recorded, and the noise is what the ledger charges"
COVERED = "the release is a function of recorded noise, of values covered by it, and of public data"
STEADY = "no draw of few numbers switches the noise"
UNTOLD = "no number that the release shows, or that takes few values, is the seed of the noise"

ALONE = Condition(
    "no other draw adds to the noise", "checked", "all other draws were replaced, and the noisy values did not change"
)
MEASURED = Condition(
    "noise that entries have in common is normal, and known",
    "checked",
    "each of its numbers was changed, their moves add up, and all other draws were replaced without a change of the noisy values",
)


def from_release(setting: Setting, past: Mapping[str, str] | None = None, bare: Mapping[str, str] | None = None) -> Outcome:
    """The bounds from the examination of the model.

    If a secret certainly changes the release past the noise, the bound is infinite. Otherwise one bound comes from the largest
    move by one secret. Another states the p-value of the test of the noise's distribution, if there was such a test.

    past: array -> why the run may hold a path past the noise. If the examination states nothing about the array,
    this reason replaces the examination's own. An array that a secret certainly changes past the noise within the run gets no
    verdict either (see `shown_past`). bare: array -> why nothing is stated about it if it shows no recorded noise.
    """
    case, found = setting.case, recorded(setting).examination
    doubts = {array: (past or {}).get(array, text) for array, text in found.doubts.items()}
    if not found.fault and "" not in doubts:
        doubts = {**shown_past(setting), **doubts}
    if found.fault:
        certain = exact(math.inf, found.fault, PATHS, SEEDED if NO_SEED in found.fault else UNCOVERED)
        return Outcome(NAME, (certain,), {}, found.fault, offered(case.model))
    doubts |= {array: why for array, why in (bare or {}).items() if array not in {*doubts, *found.noisy}}
    if not found.laws and not found.doubts and (why := uncounted(setting, found)):
        doubts |= {array: why for array in offered(case.model) if array not in doubts}
    if reason := mismatch(case, found):
        doubts.setdefault("", next(iter((past or {}).values()), reason))
    if other := next((text for array, text in doubts.items() if array and array not in offered(case.model)), ""):
        doubts.setdefault("", other)
    p_value = law_p_value(found)
    if p_value is not None and p_value < LEVEL:
        doubts.setdefault("", f"the noise does not follow the requested law (p = {p_value:.2g}, level {LEVEL:.2g})")
    bounds = [moved(case, found, doubts, next(iter((past or {}).values()), ""))]
    if p_value is not None:
        held = Bound(0.0, LEVEL, "ledger", "law of the noise", (1, 1), False, p_value, math.inf, math.inf, "recorded draws", NAME)
        bounds.append(resting(held, LAW, REPEATED))
    if bounds[0].refuted and (why := varying(history(found.study, 0), case.claim)):
        doubts.setdefault("", why)
        bounds[0] = moved(case, found, doubts, "")
    judged = "" not in doubts and set(offered(case.model)) - doubts.keys()
    if judged and not bounds[0].refuted and (failed := known_noise(found.study, case.claim)):
        doubts[""] = failed.detail
        bounds[0] = dataclasses.replace(bounds[0], epsilon=0.0, conditions=(*bounds[0].conditions, failed))
    where = EVERYWHERE if not moved_on_the_graph(case, found) else "by one factor" if len(found.noisy) > 1 else ANYWHERE
    kinds = {True: f"noise too small {where} in", False: OPEN_PATH}
    covers = {a: kinds[a in found.noisy] for a in offered(case.model) if a not in doubts and "" not in doubts}
    rest = [doubts[array] for array in offered(case.model) if array in doubts]
    if "" in doubts:
        bounds = [unknown(b) for b in bounds]
    elif rest and covers:  # the verdict names this reason where no other audit tests these arrays
        bounds.append(exact(0.0, "arrays of which nothing is known", MOVES, uncovered(found.study, rest)))
    silent = [
        (f"this audit cannot judge '{array}': " if array else "nothing is stated: ") + text for array, text in doubts.items()
    ]
    summary = "; ".join(filter(None, [*silent, found.summary]))
    return Outcome(NAME, tuple(bounds), {}, summary, offered(case.model), covers=covers)


def varying(first: History, claim: Claim) -> str:
    """Why the noise of a release may have another law or size than in the first run, although a release does not show what
    decides it; "" if no draw decides it.
    """
    return picks(first, claim) or other_sizes(first)


@lru_cache(maxsize=8)
def known_noise(made: Study, claim: Claim) -> Condition | None:
    """The condition that fails if a draw may switch the noise off, or tells the noise; None if neither is found."""
    if why := switched(made, claim):
        return Condition(STEADY, "failed", why)
    return Condition(UNTOLD, "failed", why) if (why := seeded(made)) else None


def shown_past(setting: Setting) -> dict[str, str]:
    """Array -> the path past the noise by which a secret changes it although every noisy value within the run is the same, bit
    for bit. Arrays that show noise which the recorder follows only in the release are left out.
    """
    within = recorded(setting).inside
    if not isinstance(within, Inside) or not within.past:
        return {}
    excused = also_noised(within.run)
    return {array: text for array, text in within.past.items() if array not in excused}


def uncounted(setting: Setting, found: Examination) -> str:
    """Why a released array may depend on a secret although no tried secret changes it; "" if the run adds no noise that could
    hide a change to a value that depends on secrets. Noise may leave a comparison or a rounded number as it was.
    """
    made, within = found.study, recorded(setting).inside
    if isinstance(within, str) and within:
        return within
    read = []
    if isinstance(within, Inside):
        read = [m.line for i, m in enumerate(within.mechanisms) if i not in within.idle | within.steady]
    lines = [*read, *(made.base.draws[at].line for at in made.free if made.base.draws[at].law in NOT_FOLLOWED)]
    return f"the noise of {lines[0]} may hide nothing of a secret that happens to change nothing here" if lines else ""


def mismatch(case: Case, found: Examination) -> str:
    """Why the recorded noise contradicts the ledger, or why its trade-off curve is not known.

    "" if the noise agrees with the ledger, if the ledger is unknown but the curve is known, and if no noise was located.
    """
    ledger, laws = case.model.ledger, found.laws
    if not laws:
        return ""
    lines = ", ".join(sorted({s.block.line for s in found.study.sources}))
    unknown = f"the tool does not compute the cost of {', '.join(sorted(laws))} noise as the run uses it ({lines})"
    if isinstance(ledger, dp.UnsupportedDpEvent):
        return unknown if cost_of(found) is None else ""
    kinds = [name for name, law in LAWS.items() if law.pays(ledger)]
    if not kinds:
        kind = next(type(event).__name__.removesuffix("DpEvent") for event, _ in parts(ledger))
        return f"the ledger charges for {kind}, a mechanism that the recorder cannot recognise from its draws"
    if laws <= set(kinds):
        return unknown if cost_of(found) is None else ""
    charges = " or ".join(LAWS[name].charged for name in kinds)
    return f"the ledger charges for {charges} noise, and the run draws {', '.join(sorted(laws))} noise ({lines})"


def moved(case: Case, found: Examination, doubts: dict[str, str], within: str = "") -> Bound:
    """The bound from the largest move by one secret, in units of the recorded noise.

    The move proves an epsilon, and what would have been noticed, only if no other draw adds to that noise. If another draw may
    add to it, the function enters a doubt about all arrays into `doubts`. within: what the run itself shows of these draws, or
    "".
    """
    claim, costs = case.claim, cost_of(found)
    worst = max(found.moves, key=lambda move: (size_of(case, found, move), not move.half), default=Move("no secret"))
    epsilon, notices, reach = 0.0, math.inf, math.inf
    if costs is not None:
        epsilon = costs(worst, 1.0, claim.delta)
        if found.laws == {"normal"}:
            notices = noticed(gaussian_mu(case.model.ledger) or mu_of_claim(claim), worst.euclidean)
        else:
            notices = smallest_factor(lambda factor: costs(worst, factor, claim.delta), claim.epsilon)
        reach = reached(case, notices, worst.half, found.laws)
    elif not found.laws and not doubts:
        notices, reach = 1.0, claim.epsilon
    refuted = epsilon > claim.epsilon
    method = in_words(found, worst)
    shared = found.common.places if found.common is not None else ()
    alone = "" not in doubts and epsilon > 0 and withstands(found.study, shared)
    if epsilon > 0 and not alone:
        doubts.setdefault("", within or f"{method}, and other draws may add to it")
    refuted = refuted and alone
    bound = exact(epsilon if alone else 0.0, method, MOVES, conditions(found, doubts, alone))
    bound = dataclasses.replace(bound, refuted=refuted, notices=notices, reach=reach, trials=(len(found.moves), 0))
    return resting(bound, MOVES)


def size_of(case: Case, found: Examination, move: Move) -> float:
    """What moves are compared by: their cost (nats), or their Euclidean norm if all noise is normal or its curve is not known."""
    costs = cost_of(found)
    by = move.euclidean if costs is None or found.laws == {"normal"} else costs(move, 1.0, case.claim.delta)
    return float(f"{by:.6g}")


def moved_on_the_graph(case: Case, found: Examination) -> bool:
    """Whether a secret of the graph itself moves the means about as far as any, so that the small graph is not needed."""
    sizes = [(UNUSUAL in move.secret, size_of(case, found, move)) for move in found.moves]
    most = max((size for _, size in sizes), default=0.0)
    return any(size >= (1 - NEARLY) * most for unusual, size in sizes if not unusual) or not most


def in_words(found: Examination, worst: Move) -> str:
    """How far the worst secret moves the means of released values, or why no secret moves them."""
    sources = found.study.sources
    if size := worst.euclidean or sum(worst.entries):
        moved = zip(sources, worst.each, strict=True) if len(sources) == len(worst.each) else ()
        lines = list(dict.fromkeys(source.block.line for source, by in moved if by))
        more = f" and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
        drawn = f" (drawn at {'; '.join(lines[:NAMED])}{more})" if lines else ""
        return f"{worst.secret} moves the values before noise by {multiple(size, 'the scale of the recorded noise')}{drawn}"
    if not sources:
        return "no released value is a sum of data and recorded noise"
    known = found.moves and not any(worst.each)
    return (
        "no secret that was tried moves the values before noise"
        if known
        else "it is not known how far a secret moves the values before noise"
    )


def uncovered(made: Study, doubts: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions of a bound on arrays with these doubts, of which one fails. If the study itself has a doubt, it does not
    show that a run repeats.
    """
    failed = Condition(COVERED, "failed", most_telling(doubts))
    return (failed,) if made.doubt else (REPEATED, failed)


def conditions(found: Examination, doubts: Mapping[str, str], alone: bool) -> tuple[Condition, ...]:
    """The conditions of the bound from `moved`, for the arrays without a doubt. If no such array is left, one condition fails.

    alone: whether no other draw adds to the noise.
    """
    if "" in doubts:
        return (Condition(RECORDED, "failed", doubts[""]),)
    known = [array for array in dict.fromkeys(c.array for c in found.study.base.cells) if array not in doubts]
    if not known:
        return uncovered(found.study, doubts.values())
    noisy = [array for array in known if array in found.noisy]
    stand = [
        REPEATED,
        proved(f"no secret changes {' or '.join(known)} past its noise", "secrets were removed together and one by one"),
    ]
    if noisy:
        arrays = " and ".join(noisy)
        stand += [
            proved(
                f"{arrays}: a mean plus recorded numbers",
                "each number was changed, and the entry that it is added to moved in proportion",
            ),
            proved(
                "each number is in one release, and each seed draws new numbers",
                "the numbers were compared with one another and with those of another seed",
            ),
            proved("the move of the mean is exact", "it was computed along the released history"),
        ]
    return (*stand, MEASURED if found.common is not None else ALONE) if alone else tuple(stand)


def exact(epsilon: float, method: str, theorem: str, conditions: tuple[Condition, ...]) -> Bound:
    """A bound that was computed without sampling. It is marked as a refutation only if epsilon is infinite."""
    infinite = math.inf, math.inf
    bound = Bound(epsilon, 0.0, "exact", method, (1, 1), math.isinf(epsilon), None, *infinite, "recorded draws", NAME)
    return dataclasses.replace(bound, theorem=theorem, conditions=conditions)


def noticed(most: float, moved: float) -> float:
    """The smallest detectable violation, as the factor by which the noise is too small: `most` / `moved`, at least 1, and a
    little larger to cover rounding. Infinity if nothing moved.

    most: the largest move, in noise sds, that the ledger or the claim allows. moved: the largest move that the audit found.
    """
    return max(1.0, most / (moved * (1 - SLACK))) * (1 + SLACK) if moved > 0 else math.inf


def reached(case: Case, notices: float, half: bool, laws: Collection[str]) -> float:
    """The epsilon of a release whose noise is too small by the factor `notices`. If only half of a move is known, by twice this
    factor: one of two steps may make the whole move. laws: of the noise.
    """
    most = notices * (1 + half)
    if set(laws) != {"normal"}:
        return worth(case.model.ledger, case.claim, most)
    return float(epsilon_of(most * mu_of_claim(case.claim), case.claim.delta)) if math.isfinite(most) else math.inf


def smallest_factor(cost: Callable[[float], float], most: float) -> float:
    """The smallest factor of at least 1 whose cost exceeds `most`, rounded up by at most one part in a thousand. It is infinite
    if there is none up to LARGEST. cost: the epsilon (nats) of noise that is too small by a factor; it does not fall with it.
    """
    if cost(1.0) > most:
        return 1.0
    doublings = 1
    while (at_end := cost(2.0**doublings)) <= most:
        doublings += 1
        if 2.0**doublings > LARGEST:
            return math.inf
    highest = min(at_end, LARGEST * max(most, 1.0))  # an interpolation needs finite numbers

    def excess(power: float) -> float:
        return min(cost(2.0**power), highest) - most

    return float(2.0 ** (brentq(excess, doublings - 1, doublings, xtol=NEAR) + NEAR))


def law_p_value(found: Examination) -> float | None:
    """The p-value of "the numbers follow the requested law", Bonferroni over all sources of noise; None if no law is known."""
    known = [(source, LAWS[source.block.law]) for source in found.study.sources if source.block.law in LAWS]
    p_values = [law.p_value(source, found) for source, law in known]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None
