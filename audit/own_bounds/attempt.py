"""What a bound from one secret is computed from, and the reasons for which it is 0 or infinite before any cost is computed."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ...reports.rounding import multiple, several
from ..case import Case, offered
from ..mechanisms.absence import Incomparable, history, moves_without
from ..mechanisms.draws.cut_off import picks
from ..mechanisms.draws.lost import lost, mixed
from ..mechanisms.draws.noise_law import DISTRIBUTIONS
from ..mechanisms.inside import Inside
from ..mechanisms.reading import EACH, alike, idle, redrawn, repeated
from ..mechanisms.undone import pays
from ..recorded.laws import NOTHING, cost
from ..recorded.secrets.worlds import Absence
from ..recorded.seeds import SELDOM, often
from ..recorded.study import History, Shifts
from .adversary.granted_values import not_charged
from .adversary.hiding import EQUAL, FIRST_VALUES, Secret, apart, counted, every_secret, free_draws, not_fresh, shown_always
from .adversary.overlapping_noise import overlapping
from .adversary.part_of_release import independent_of, seen_in, unread_by_arrays
from .released_noise import EVERYWHERE, MOVES, OPEN_PATH, REPEATED, exact

NO_PATH = "no path leads past the noise"
APART = "the other arrays are left out of the release"
SCALE = "the scale of the noise"
ASSUMED = "proofs by composition assume this adversary; one who sees less may learn less"
PERHAPS = " (perhaps only as an inconclusive verdict)"
EXACT = proved("the move of each clean value is exact", "the run was repeated with the same noisy values")
FRESH = proved(
    "no noise is used twice",
    "the noise was compared with that of all other mechanisms and seeds; a value that is computed twice counts once",
)
UNHIDDEN = Condition(
    "no other draw hides the move", "checked", "other draws replaced them, and each clean value moved by the same distance"
)
MASKS = Condition(
    "for an adversary who also knows draws that may hide the move, such as masks of dropout",
    "granted",
    "a proof that holds for each mask assumes this adversary; with the masks of several runs the moves cost at most the claim",
)


OF_MAXIMA = ", unless the run uses it only to pick the largest value, by `argmax` over the last axis"


@dataclass(frozen=True)
class Attempt:
    """What a bound from one secret is computed from. moves: how far the secret moves each mechanism, 0 for mechanisms that the
    run does not read. each: the part of these moves that the adversary may be granted. sampled: the positions of draws whose
    samples are accounted for. projections: whether to find out if the release is a function of fewer numbers than the noisy
    values.
    """

    case: Case
    within: Inside
    moves: Shifts
    each: Shifts
    sampled: tuple[int, ...] = ()
    projections: bool = True

    @property
    def first(self) -> History:
        """The run that the others repeat."""
        return self.within.run

    @property
    def worst(self) -> Absence:
        """The world without the secret."""
        assert self.within.worst is not None
        return self.within.worst

    @cached_property
    def shifts(self) -> Shifts:
        """`each`, with mechanisms that are computed twice counted once."""
        return self.within.counted(self.each)

    @cached_property
    def secrets(self) -> list[Secret]:
        """Every secret that was tried, with its moves and the part of them that counts."""
        return every_secret(self.within, self.case.claim.unit, self.each)

    @cached_property
    def whole(self) -> float:
        """What all these moves cost (nats), even if the release shows only part of them."""
        return self.cost(self.shifts)

    def cost(self, shifts: Shifts, factor: float = 1.0) -> float:
        """The epsilon (nats) of these moves at the claim's delta, if all noise is divided by `factor`."""
        return cost(self.first.mechanisms, shifts, self.case.claim.delta, factor)


def granted_to(first: History) -> Condition:
    """The adversary that the bound assumes: who sees the noisy values, and other random numbers if the run uses any."""
    free = [first.play.draws[at] for at in free_draws(first) if at not in seeds_alone(first)]
    weights = all(draw.weights for draw in free)
    kind = "are drawn as initial weights" if weights else "are no noise, such as initial weights"
    sees = "for an adversary who sees the noisy value of each mechanism" + f", and the random numbers that {kind}" * bool(free)
    return Condition(sees, "granted", ASSUMED)


@lru_cache(maxsize=8)
def seeds_alone(first: History) -> frozenset[int]:
    """The positions of single whole numbers that change nothing if all other draws stay the same, as the seed of a generator.
    Nobody needs to know them; whoever does knows the noise.
    """
    draws = first.play.draws
    single = {at for at in free_draws(first) if draws[at].values.size == 1 and draws[at].values.dtype.kind in "iu"}
    if not single or not first.study.effort.thorough:
        return frozenset()
    run = repeated(first, {}, redrawn(first, single))
    return frozenset(single if run is not None and alike(first, run.play) else ())


def nothing_moves(within: Inside) -> Bound:
    """The bound 0 of a run in which no secret moves a mechanism."""
    path, fixed = not_excluded(within), constant_noise(within)
    known = [REPEATED]
    if path:
        known.append(Condition(NO_PATH, "failed", path))
    if fixed:
        known.append(Condition(FRESH.what, "failed", fixed))
    return exact(0.0, next(iter(within.doubts), "no secret that was tried moves a mechanism"), MOVES, tuple(known))


def release_of_noisy_values(attempt: Attempt) -> Bound | None:
    why = attempt.within.entangled or not_charged(attempt.case, attempt.first, attempt.each)
    return fails("each noisy value is a release of data plus noise", why) if why else None


def noise_not_followed(attempt: Attempt) -> Bound | None:
    why = lost(attempt.first, attempt.each)
    return fails(UNHIDDEN.what, why) if why else None


def picked_noise(attempt: Attempt) -> Bound | None:
    why = picks(attempt.first, attempt.case.claim)
    return fails("the noise has the law of its draw", why) if why else None


def stale_noise(attempt: Attempt) -> Bound | None:
    """Infinite if a secret moves a value whose noise another run or mechanism has too; 0 if other draws may hide this move, or if
    only a part of the noise is that of other runs.
    """
    first = attempt.first
    for absent, moves, shifts in attempt.secrets:
        if stale := next(not_fresh(first, attempt.within, moves, shifts), ""):
            if not often_without_noise(attempt, absent, not_fresh):
                return fails(FRESH.what, f"{absent.secret}: {stale}; {SELDOM}")
            shown = shown_always(first, shifts, attempt.sampled)[1]
            if why := shown or lost(first, shifts) or mixed(first, shifts, attempt.sampled):
                both = Condition(FRESH.what, "failed", f"{stale}; but {why}")
                return exact(0.0, why, MOVES, (REPEATED, both, Condition(UNHIDDEN.what, "failed", why)))
            return exact(math.inf, f"{absent.secret}: {stale}", MOVES, (REPEATED, EXACT, granted_to(first)))
    fixed = partly_constant(first, attempt.each)
    return fails(FRESH.what, fixed) if fixed else None


def often_without_noise(
    attempt: Attempt, absent: Absence, finds: Callable[[History, Inside, Shifts, Shifts], Iterator[str]]
) -> bool:
    """Whether `finds` yields a sentence about a secret `often`, and not only in the run that was looked at first."""
    same = [(m.line, m.clean.shape) for m in attempt.first.mechanisms]

    def shown(number: int) -> bool:
        try:
            run = history(attempt.first.study, number)
            if [(m.line, m.clean.shape) for m in run.mechanisms] != same:
                return False
            moves = moves_without(run, absent)
            return any(True for _ in finds(run, attempt.within, moves, counted(run, attempt.within, moves)))
        except Departed:
            return False

    return often(attempt.case.claim.delta, shown)


def noise_used_twice(attempt: Attempt) -> Bound | None:
    """Infinite if the release contains two noisy values with the same noise numbers that a secret moves apart; 0 if mechanisms
    share noise in another way.
    """
    first, within = attempt.first, attempt.within
    for absent, moves, shifts in attempt.secrets:
        if shown := next(overlapping(first, within, moves), ""):
            if why := lost(first, shifts):
                return fails(UNHIDDEN.what, why)
            shown = f"{absent.secret}: {shown}"
            if not often_without_noise(attempt, absent, lambda run, within, moves, _: overlapping(run, within, moves)):
                return fails(FRESH.what, f"{shown}; {SELDOM}")
            return exact(math.inf, shown, MOVES, (REPEATED, EXACT, granted_to(first)))
    if within.shared:
        return fails(FRESH.what, within.shared)
    if wide := next((m for m, by in zip(first.mechanisms, attempt.each, strict=True) if np.any(np.isinf(by))), None):
        shares = f"entries of the value at {wide.line} share a number drawn at {wide.draw.line} and move by different amounts"
        why = f"{shares}; the release may show only a function of both, such as their sum, whose epsilon is not computed"
        return fails(FRESH.what, f"{why}; {FIRST_VALUES}")
    twice = next((why for _, _, shifts in attempt.secrets if (why := apart(within, shifts))), "")
    return fails(FRESH.what, twice) if twice else None


def ruled_out(attempt: Attempt) -> Bound | None:
    """The bound 0 or infinity that stands before any cost is computed; None if the cost decides."""
    checks = release_of_noisy_values, noise_not_followed, picked_noise, stale_noise, noise_used_twice, unknown_law
    return next((bound for check in checks if (bound := check(attempt)) is not None), None)


def unknown_law(attempt: Attempt) -> Bound | None:
    read = (m for i, m in enumerate(attempt.within.mechanisms) if i not in attempt.within.idle)
    strange = next((m for m in read if m.law not in (*DISTRIBUTIONS, REPORT)), None)
    if strange is None:
        return None
    why = f"the tool does not compute the cost of {strange.law} noise, which is added at {strange.line}"
    return fails("the cost of the noise is known", why + OF_MAXIMA * (strange.law == "gumbel"))


def constant_noise(within: Inside) -> str:
    """A sentence about the first mechanism whose noise is the same for two seeds; "" if there is none."""
    made = within.run.study
    constant = [made.base.draws[at] for at in sorted(made.constant)]
    drawn = ((m, draw) for m in within.mechanisms for draw in constant if np.array_equal(m.draw.values, draw.values))
    return next((f"the noise of {draw.where}, added at {m.line}, is the same for two seeds" for m, draw in drawn), "")


def partly_constant(first: History, each: Shifts) -> str:
    """A sentence about the first mechanism that a secret moves and whose noise is a sum of fresh numbers and of numbers that are
    the same for two seeds; "" if there is none. each: the moves. Only the fresh numbers hide the secret.
    """
    constant = {id(first.play.draws[at]) for at in first.study.constant}
    for m, by in zip(first.mechanisms, each, strict=True):
        fixed = [draw for draw in (m.draw, *m.beside) if id(draw) in constant]
        if fixed and len(fixed) < 1 + len(m.beside) and np.abs(by).max(initial=0) > NOTHING:
            drawn = f"a part of the noise added at {m.line}, that of {fixed[0].where}, is the same for two seeds"
            return f"{drawn}, so less noise than its scale says hides the secret; draw all noise from the seed of the run"
    return ""


def not_excluded(within: Inside) -> str:
    """Why a path past the noise is not excluded; "" if all repetitions, without one secret and without many, showed no path."""
    return next(iter(within.past.values()), "") or next(iter(within.doubts), "") or within.apart


def used(within: Inside) -> Shifts:
    """The moves of the worst secret, set to 0 for mechanisms that the run does not read.

    If the run has at most EACH mechanisms, `within` already has these zeros. Otherwise this function tests the mechanisms that
    move: one by one if there are at most EACH of them, else together.
    """
    moved = [i for i, by in enumerate(within.shifts) if np.abs(by).max(initial=0) > NOTHING]
    if len(within.mechanisms) <= EACH:
        return within.shifts
    unused = idle(within.run, [[i] for i in reversed(moved)] if len(moved) <= EACH else [moved])
    return tuple(np.zeros_like(by) if i in unused else by for i, by in enumerate(within.shifts))


def detected(case: Case, within: Inside, elsewhere: bool, refuted: bool) -> dict[str, str]:
    """Released array -> the kind of violation that a bound from the mechanisms of a run would have detected in it. elsewhere:
    whether the run is on another graph than the audited one. refuted: whether noise that is too small refutes the claim;
    otherwise it may only make the verdict inconclusive.

    With fewer released than noisy numbers, the release may show only a part of the noisy values. Unless the ledger charges for
    them all the same, noise that is too small may then make the verdict inconclusive. If the search for the secrets that move a
    value farthest was not finished, the kind of violation says how many secrets were tried.
    """
    run = within.run
    where = f" {EVERYWHERE}" * elsewhere
    uncharged = sum(m.noisy.size for i, m in enumerate(run.mechanisms) if m.law != REPORT and not pays(run, i))
    part = sum(numbers.size for numbers in run.play.cells.values()) < uncharged
    then = PERHAPS if part or not refuted else ""
    kind = f"too little noise on a value within the run{where}{then}, or {OPEN_PATH}"
    if not within.searched:
        kind = f"noise too small for one of the {len(within.moves)} secrets that were removed alone{then}, in"
    return dict.fromkeys(offered(case.model), kind)


def fails(what: str, why: str) -> Bound:
    """The bound 0, because its condition `what` fails."""
    return exact(0.0, why, MOVES, (REPEATED, Condition(what, "failed", why)))


def parts_of_release(attempt: Attempt) -> Iterator[tuple[Inside, Condition]]:
    """What some of the released arrays alone show of the worst secret, and the condition that they do not depend on the other
    mechanisms. Nothing if the moves that are left cost no more than the claim.

    The other mechanisms are first the randomised reports whose moves do not count, then those that some array does not read.
    """
    first, claim = attempt.first, attempt.case.claim
    if attempt.whole <= claim.epsilon:
        return
    pairs = enumerate(zip(first.mechanisms, attempt.each, strict=True))
    hidden = [i for i, (m, by) in pairs if m.law == REPORT and not np.any(by) and i not in attempt.within.idle]
    for some in chain([hidden] if hidden else [], unread_by_arrays(first, attempt.within.idle)):
        dependent, arrays = independent_of(first, some)
        left = tuple(np.zeros_like(by) if i in dependent else by for i, by in enumerate(attempt.shifts))
        if not arrays or attempt.cost(left) <= claim.epsilon:
            continue
        lines = ", ".join(dict.fromkeys(first.mechanisms[i].line for i in some))
        named = " and ".join(f"'{array}'" for array in arrays)
        others = "randomised reports" if all(first.mechanisms[i].law == REPORT for i in some) else "noisy values"
        what = f"{APART}: {named} alone {'does' if len(arrays) == 1 else 'do'} not depend on the {others} at {lines}"
        how = f"other values of these {others}, also with other noise and draws, changed no number of {named}"
        with suppress(Incomparable):
            yield seen_in(arrays, attempt.within, attempt.worst, dependent), Condition(what, "checked", how)


def far(least: str, most: float) -> str:
    """How far mechanisms move, in words. least: "" if all move as far, else the smallest move and "to"."""
    return f"{least}{most:.4g} times {SCALE}" if least else multiple(most, SCALE)


def described(secret: str, run: History, shifts: Shifts) -> str:
    """Says which mechanisms the secret moves and how far, with their lines of code."""
    moved = [(m, by, m.size(by)) for m, by in zip(run.mechanisms, shifts, strict=True) if m.size(by) > NOTHING]
    each_line: dict[tuple[str, str, bool], list[float]] = {}
    for m, moves, by in moved:
        report = m.law == REPORT
        size = m.shown if report else f"scale {scale_of(m, moves)}"
        each_line.setdefault((m.line, size, report), []).append(by)
    parts = []
    for (line, size, report), each in each_line.items():
        least = f"{min(each):.4g} to " if max(each) > min(each) * (1 + EQUAL) else ""
        most = f"{least}{max(each):.4g} nats" if report else far(least, max(each))
        parts.append(f"{several(len(each), 'mechanism')} at {line} ({size}) by {most}")
    if not parts:
        return f"{secret} moves no mechanism that the release depends on"
    shown = [*parts[:3], f"and {len(parts) - 3} more"] if len(parts) > 4 else parts
    return f"{secret} moves {', '.join(shown)}"


def scale_of(mechanism: Mechanism, moves: NDArray[np.float64]) -> str:
    """The scale of the noise on the entries that move, from the smallest to the largest."""
    scales = np.broadcast_to(np.asarray(mechanism.scale, dtype=np.float64), moves.shape)[moves != 0]
    least, most = float(scales.min()), float(scales.max())
    return f"{least:.4g} to {most:.4g}" if most > least * (1 + EQUAL) else f"{most:.4g}"
