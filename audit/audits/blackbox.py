"""Two audits that read posteriors alone. One tests canary edges in a crafted graph. The other tests a single training,
in which many units have coins.
"""

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...accounting.lower.bounds import Bound, of_share, unknown
from ...accounting.lower.detection.power import coins_detect
from ...accounting.lower.guessed_coins import guessed
from ...accounting.lower.one_run import luck, mahloujifar, steinke
from ...accounting.upper.tradeoff import Curve, curve
from ...attacks.canary.fisher import log_likelihood_ratio
from ...attacks.links.similarity import LinkStealing
from ...attacks.membership.threshold import Confidence
from ...attacks.signals import logs
from ...models.graph.graph import stored_like
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.crafted_graph import STRONG, Crafted, crafted
from ..games.game import Game, Seen, sample
from ..instruments.reach import family, promised
from ..key import Key
from ..own.model_file import is_built_in
from ..progress import clock
from ..recorded.secrets.worlds import public_bound
from .affordable import check_cost

Played = Callable[[int], tuple[NDArray[np.float64], NDArray[np.bool_]]]
Tests = Callable[[NDArray[np.float64], NDArray[np.bool_], float], list[Bound]]

ATTACK = "aligned-canary"
READ = ("posteriors",)  # the released arrays that both audits read
CANARIES = 40  # largest number of canaries in one run; each is in a separate component
COINS = 1000  # largest number of units with a coin in the one-run audit


def ledger_curve(case: Case) -> Curve | None:
    """The trade-off curve of the model's ledger, or None if this curve cannot be computed."""
    try:
        return curve(case.model.ledger)
    except ValueError:
        return None


def seldom_decides(case: Case) -> str | None:
    """Why a plan that names neither the audit nor a time limit leaves it out, or None."""
    if case.claim.unit is not Unit.NODE:
        return None
    seldom = "blackbox seldom decides a claim about nodes in a few trainings"
    return f"{seldom}; to run it all the same, write --audits blackbox or --minutes N"


def aligned_canaries(setting: Setting) -> Outcome:
    """Tests canary edges in a graph that the adversary chooses. The posteriors of a canary's ends give its score. See `tested`
    for the tests.
    """
    made = crafted(CANARIES)
    made = dataclasses.replace(made, graph=stored_like(setting.graph, made.graph))
    if not is_built_in(setting.case.model):
        most, highest = public_bound(setting.case.model, setting.graph), made.graph.degree.max()
        if most is not None and most < highest:
            why = f"nodes of the crafted graph have up to {highest} neighbours, and this model declares max_degree={most}"
            return Outcome("blackbox", (), {}, why, READ)
        check_cost(setting, made.graph)
    game = canary_game(setting.case, made, setting.key.fold("game"))
    return tested(setting, game, lambda seen: canary_scores(seen, made), f"{CANARIES} canary edges in a crafted graph")


def tested(setting: Setting, game: Game, scored: Callable[[Seen], NDArray[np.float64]], what: str) -> Outcome:
    """Plays the game and tests the scores of its canaries.

    Two tests count correct guesses. The test of Steinke et al. (2023) assumes no shape: it bounds the number of correct guesses
    among the most certain ones, for every mechanism and under any dependence. The other test assumes the ledger's trade-off
    curve, and canaries that share nothing but the classifier. Given the trained classifier, they are then independent trials that
    satisfy the curve. If trials have different error rates, the number of errors varies less than a binomial number (Hoeffding
    1956). If correct guesses cluster in some trainings, the second bound is withdrawn. scored: gives the scores of the canaries
    in all runs, (runs, canaries). what: the canaries of one run, in words.
    """

    def played(rounds: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        seen = setting.store.fit(keeping(setting.case.model, READ), game, rounds, READ)
        return scored(seen), seen.bits

    if setting.minutes is not None:
        return until_decided(setting, setting.minutes, played)
    scores, bits = played(setting.rounds)
    found = both_tests(setting)(scores, bits, setting.alpha)
    text = f"{several(setting.rounds, 'round')} of {what}"
    return Outcome("blackbox", tuple(unknown(b) for b in found), {}, text, READ, attack=ATTACK)


def both_tests(setting: Setting) -> Tests:
    """The tests of scores and bits, (rounds, canaries) each, at a level alpha. Their bounds: first without an assumed shape, then
    by the ledger's curve if this curve can be computed.
    """
    case, shaped = setting.case, ledger_curve(setting.case)
    members = family(case.model.ledger) if case.claim.unit is Unit.NODE and shaped is not None and shaped.mu is None else None

    def bounds(scores: NDArray[np.float64], bits: NDArray[np.bool_], alpha: float) -> list[Bound]:
        found = [steinke(scores, bits, case.claim, alpha, seed=setting.key.fold("coin").seed)]
        if shaped is not None:
            found.append(guessed(scores, bits, case.claim, shaped, alpha, family=members))
        return found

    return bounds


def until_decided(setting: Setting, minutes: float, played: Played) -> Outcome:
    """Doubles the rounds until a test suspects the claim, a violation by `setting.notices` would be detected, or time is up.

    Stage j tests all rounds so far with the share 1 / (j (j + 1)) of each level: `setting.alpha` for the bounds, and
    `setting.level` for a suspicion, which a repetition then has to confirm (see `second_look`). A repetition plays on until a
    bound refutes the claim. The shares add up to at most 1 over any number of stages, so both levels hold for every stopping rule
    (a union bound). Each test keeps its largest bound and its smallest p-value. If a check fails at a stage, the test loses both
    of this and all earlier stages.

    The audit estimates the detectable violation from the share of correct guesses. This estimate only decides when to stop, so no
    bound depends on it. It decides nothing in a repetition, nor while more guesses are correct than the claim allows, because
    more rounds may then refute the claim. minutes: the time limit. played: maps a number of rounds to scores and bits, (rounds,
    canaries) each.
    """
    limit, started, rounds, stage = most_right(setting.case), time.monotonic(), setting.rounds, 1
    tests, best = both_tests(setting), list[Bound]()
    while True:
        scores, bits = played(rounds)
        share = 1 / (stage * (stage + 1))
        now = [of_share(b, share, setting.alpha) for b in tests(scores, bits, setting.alpha * share)]
        best = [better(a, b) for a, b in zip(best or now, now, strict=True)]
        right = float(((scores > 0) == bits).mean())
        tested = not now[-1].failed  # a withdrawn test detects nothing
        trainings = rounds if bits.shape[1] > 1 else None
        detects = coins_detect(limit, right, bits.size, setting.level * share, trainings=trainings) if tested else math.inf
        spent = time.monotonic() - started
        far = f"{several(rounds, 'training')}, {right:.1%} of the guesses are right; the claim allows {limit:.1%}"
        what = "no violation" if math.isinf(detects) else f"noise {detects:.3g} times too small"
        could = f"{what} would be detected; the run asks for noise {setting.notices:g} times too small"
        setting.tell(f"audit blackbox: {far}; {could}; {_used(spent, 60 * minutes)}")
        more = int(min(rounds, rounds * (60 * minutes / spent - 1))) if spent > 0 else rounds
        refuted = any(b.refuted for b in best)
        suspected = not setting.repeats and any(b.p_value is not None and b.p_value < setting.level for b in best)
        decided = detects <= setting.notices and right <= limit and not setting.repeats
        if refuted or suspected or decided or more < 1:
            break
        rounds, stage = rounds + more, stage + 1
    why = "refuted" if refuted else "suspected" if suspected else "decided" if decided else "out of time"
    text = f"{far}; {several(stage, 'stage')}, then {why}; estimated: {could}"
    return Outcome("blackbox", tuple(unknown(b) for b in best), {}, text, READ, attack=ATTACK)


def _used(seconds: float, limit: float) -> str:
    """The seconds that are used, and their limit. A stage that has begun is finished, so it may end after the limit."""
    return (
        f"{clock(seconds)} of {clock(limit)} used" if seconds <= limit else f"{clock(seconds)} used; the limit was {clock(limit)}"
    )


def better(one: Bound, other: Bound) -> Bound:
    """The larger of two bounds of one test, with the smaller p-value. If a check of either bound failed: `other`."""
    if one.failed or other.failed:
        return other
    p_value = min((b.p_value for b in (one, other) if b.p_value is not None), default=None)
    return dataclasses.replace(max(one, other, key=lambda b: b.epsilon), p_value=p_value)


def most_right(case: Case) -> float:
    """The largest probability of a correct guess that the claim allows: for a Gaussian mechanism if the ledger is Gaussian, else
    for any mechanism.
    """
    return luck(promised(case.claim, ledger_curve(case)))


def canary_game(case: Case, made: Crafted, key: Key) -> Game:
    """The game with a coin for every canary. The releases hold the rows of the canaries' ends and of the reference ends."""
    union = case.counted(made.graph)
    watch = np.unique(np.concatenate([made.bare.ravel(), made.joined.ravel(), union.edges[:, made.canaries].ravel()]))
    return Game(union, "edge", made.canaries, key, watch=watch)


def canary_scores(seen: Seen, made: Crafted) -> NDArray[np.float64]:
    """(runs, canaries) float64: log-likelihood ratios of the posteriors at the ends of each canary. For directed edges, only the
    receiving end counts.

    In each run, the reference ends alone determine how posteriors become a score, so the score does not use the bits.
    """
    scores = np.zeros(seen.bits.shape)
    for side in (1,) if seen.challenge.known.directed else (0, 1):
        bare, joined, asked = (odds(seen, nodes) for nodes in (made.bare[side], made.joined[side], seen.challenge.items[:, side]))
        scores += [log_likelihood_ratio(*rows, STRONG) for rows in zip(asked, bare, joined, strict=True)]
    return scores


def odds(seen: Seen, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(runs, nodes, classes - 1): log-odds of each class against the first. Unlike probabilities, log-odds do not saturate."""
    log_p = logs(seen.release, nodes)
    return log_p[..., 1:] - log_p[..., :1]


def refuses(case: Case) -> str | None:
    """The audit needs posteriors."""
    return None if "posteriors" in offered(case.model) else f"{case.model.name} does not release 'posteriors'"


def one_run(setting: Setting) -> Outcome:
    """Guesses the coins of up to COINS units from the posteriors of a single training.

    The first bound holds for any mechanism and any dependence. The second assumes the ledger's trade-off curve. Raises ValueError
    if fewer than two units could have a coin.
    """
    case, key = setting.case, setting.key
    node = case.claim.unit is Unit.NODE
    union = case.counted(setting.graph)
    ids = np.flatnonzero(setting.graph.train) if node else np.arange(union.edges.shape[1])
    if len(ids) < 2:
        raise ValueError(f"{union.name} has {len(ids)} units that could have a coin; the audit needs at least two.")
    items = sample(ids, min(COINS, len(ids) // 2), key.fold("items"))
    watch = items if node else np.unique(union.edges[:, items])
    game = Game(union, "node" if node else "edge", items, key.fold("game"), watch=watch)
    seen = setting.store.fit(keeping(case.model, READ), game, 1, READ)
    attack = Confidence() if node else LinkStealing()
    scores = attack.score(seen.release, seen.challenge)[0]
    seed = key.fold("coin").seed
    found = [steinke(scores, seen.bits[0], case.claim, setting.alpha, seed=seed)]
    shaped = ledger_curve(case)
    if shaped is not None:
        found.append(mahloujifar(scores, seen.bits[0], case.claim, shaped, setting.alpha, seed=seed))
    text = f"one run with {len(items)} coins"
    return Outcome("one-run", tuple(unknown(b) for b in found), {}, text, READ, attack=attack.name)
