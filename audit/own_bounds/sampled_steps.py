"""The bound from noisy sums over secret samples, as in DP-SGD: for each step a coin decides whether it reads a node.

The run is repeated with other coins of one node. This shows which coin decides for which step, with which probability a step
reads the node, and how far the node then moves the sum.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ...accounting.checks.conditions import OWN_COIN, Condition
from ...accounting.claim import Unit
from ...accounting.events.counts import charged
from ...accounting.lower.bounds import Bound
from ...accounting.upper.pld import epsilon_at_least
from ...models.recorder import Draw
from ...models.recorder.draws.draw import Departed
from ...reports.rounding import multiple, several
from ..case import Case
from ..instruments.reach import worth
from ..mechanisms.absence import history, kept, moved, sizes_between
from ..mechanisms.draws.noise_law import law_of
from ..mechanisms.inside import Inside, moving
from ..mechanisms.reading import alike, repeated, rerun
from ..recorded.laws import NOTHING, SLACK
from ..recorded.playing import with_numbers
from ..recorded.secrets.one_by_one import farthest_alone
from ..recorded.secrets.worlds import UNUSUAL, Absence, outliers, without_nodes
from ..recorded.study import History, Shifts
from . import within_run
from .adversary.hiding import EQUAL, free_draws, hidden, other_noise
from .attempt import (
    EXACT,
    FRESH,
    MASKS,
    NO_PATH,
    UNHIDDEN,
    Attempt,
    detected,
    far,
    not_excluded,
    ruled_out,
)
from .other_runs import SCALES, STEADY, TAIL, at_telling_value
from .released_noise import REPEATED, exact, known_noise, smallest_factor

THEOREM = (
    "a step that reads a record with probability q, by a coin of its own, and adds normal noise to a sum that the record moves "
    "by m noise sds, is N(0, 1) against (1 - q) N(0, 1) + q N(m, 1); steps compose (Abadi et al. 2016; Koskela et al. 2020)"
)
SEEN = Condition(
    "for an adversary who sees the noisy value of each step and which other records it reads",
    "granted",
    "proofs of amplification by sampling assume this adversary; one who sees less may learn less",
)
UNCHARGED = (
    "the steps cost more than the claim, but the ledger does not charge for sampled steps, so a proof may release only what "
    "comes after them; a ledger of PoissonSampledDpEvent says that its proof releases each step"
)
NODES = 4  # largest number of nodes whose coins are set
CANDIDATES = 6  # largest number of nodes, with other features or labels, of which the smallest move is compared
OTHERS = (1, 2, 3)  # numbers of the runs with other seeds
NEAR = 1e-6  # relative distance from the rate of the ledger at which a coin has to change sides
HALVINGS = 24  # of an interval that contains the rate, if it is not that of the ledger
FINE, WIDE, DEVIATIONS = 5e-5, 50.0, 6.0  # the grid of the losses is FINE nats up to a range of WIDE nats, then in proportion
ROUNDED = 2e-3  # nats that a coarser grid for few steps may cost in all
BITS = (0.0, 1.0)
OF_ALL = "as where a rate or a size is computed from all nodes; take such numbers from a constant"
NEIGHBOURS = (
    "as where rows of a batch sum over neighbours: a node then changes its own row and those of its neighbours, each has its own "
    "coin, and a proof with one coin for each node does not cover them. Let each row read its own node alone, or let the ledger "
    "charge for steps without samples, whose noise covers all of these rows"
)


class NoSamples(Exception):
    """The steps are no sums over samples of which each has its own coins; the message says why."""


@dataclass(frozen=True, eq=False)
class Coins:
    """The coins of one node. draws: for each coin the positions of the draws that have a number for each node, or for each
    training node: several, if they have the same numbers in every run. node: whose number is set.

    inside, outside: the numbers, between the ends of the draw at 0 and 1, with which all steps read the node, or none does.
    """

    draws: tuple[tuple[int, ...], ...]
    node: int
    inside: float = 0.0
    outside: float = 1.0

    def script(self, first: History, units: Sequence[float]) -> list[Draw]:
        """The draws of a run with other coins. units: one for each coin."""
        new = {}
        for at, unit in ((at, unit) for same, unit in zip(self.draws, units, strict=True) for at in same):
            draw = first.play.draws[at]
            new[at] = draw.values.copy()
            low, high = (0.0, 1.0) if draw.among else (draw.lowest, draw.top)
            place = self.node if draw.nodes is None else np.searchsorted(draw.nodes, self.node)
            new[at].reshape(-1)[place] = low + (high - low) * unit
        return with_numbers(first.play.draws, new)


@dataclass(frozen=True, eq=False)
class Steps:
    """How far one node moves each step that reads it. absent: the world without the node. rate: the probability that a step reads
    it. groups: the mechanisms of each step, as positions. always: the mechanisms that read the node whatever its coins. shifts:
    the moves of all mechanisms, if every step reads the node.
    """

    absent: Absence
    coins: Coins
    rate: float
    groups: tuple[tuple[int, ...], ...]
    always: tuple[int, ...]
    shifts: Shifts

    def moves(self, first: History, shifts: Shifts) -> NDArray[np.float64]:
        """The moves in units of the noise: that of all mechanisms `always` together, and that of each step, (1 + steps,)."""
        sizes = first.sizes(shifts)
        return np.array([math.hypot(*(sizes[i] for i in group)) for group in (self.always, *self.groups)])


def from_samples(case: Case, within: Inside) -> Bound | str:
    """The bound from the node, of a few, that moves the steps farthest if they read it. A reason if the run draws coins for nodes
    that are no samples of this kind; "" if it draws none.
    """
    first = within.run
    draws = of_nodes(first)
    if case.claim.unit is not Unit.NODE or not draws:
        return ""
    try:
        if other := next((m for m in first.mechanisms if m.law != "normal"), None):
            raise NoSamples(f"it is computed for normal noise alone, and the noise at {other.line} is {other.law}")
        absent, coins, gone, shifts = farthest_node(first, within, draws, case.claim.delta)
        steps = stepwise(first, absent, coins, gone, shifts, charged(case.model.ledger).rate)
        others = [moves_in(another(first, number), steps) for number in OTHERS]
        differs = any(not np.allclose(moves, others[0], rtol=EQUAL, atol=NOTHING) for moves in others[1:])
        again = replace(within, worst=absent, shifts=shifts)
        attempt = Attempt(case, again, shifts, shifts, tuple(chain.from_iterable(draws)))
        if (bound := ruled_out(attempt)) is not None:
            return bound
        runs = [steps.moves(first, shifts), *others, *(moves_in(run, steps) for run in telling(first, shifts, case.claim.delta))]
        weights = [at for at, draw in enumerate(first.play.draws) if draw.weights]  # other seeds have others: see `runs`
        return concluded(attempt, steps, runs, hidden(again, differs, (*attempt.sampled, *weights)))
    except (NoSamples, Departed) as reason:
        return f"the draws at {first.play.draws[draws[0][0]].line} are no samples of which the cost is known: {reason}"


def from_mechanisms(case: Case, within: Inside) -> Bound:
    """The bound from all mechanisms. If it refutes the claim, the larger of this bound and that from the samples of the run's
    steps, which counts the mechanisms without samples too. If it neither refutes the claim nor has a reach without known masks,
    that from the samples. If their cost is not known, the first bound, with the reason if it has no reach.
    """
    bound = within_run.from_mechanisms(case, within)
    supported = math.isfinite(bound.reach)
    if not bound.refuted and supported and MASKS not in bound.conditions:
        return bound
    sampled = from_samples(case, within) if bound.epsilon < math.inf else ""
    if isinstance(sampled, Bound):
        return bound if bound.refuted and not (sampled.refuted and sampled.epsilon > bound.epsilon) else sampled
    if bound.refuted or supported:
        return bound
    failed = Condition(OWN_COIN, "failed", sampled)
    return replace(bound, conditions=(failed, *bound.conditions)) if sampled else bound


def of_nodes(first: History) -> tuple[tuple[int, ...], ...]:
    """The positions of the draws that have a uniform number, or a coin of one known probability, for each node or training node,
    see `Coins`.
    """
    nodes = first.study.whole.graph.nodes
    found: dict[int, list[int]] = {}
    for at in free_draws(first):
        draw = first.play.draws[at]
        coin = draw.among == BITS and draw.chances is not None and draw.chances.ndim == 1
        each = draw.values.size == nodes or (draw.nodes is not None and draw.values.size == draw.nodes.size)
        if each and (coin or draw.law == "uniform"):
            found.setdefault(first.study.copies.get(at, at), []).append(at)
    return tuple(map(tuple, found.values()))


def farthest_node(
    first: History, within: Inside, draws: tuple[tuple[int, ...], ...], delta: float
) -> tuple[Absence, Coins, History, Shifts]:
    """The node that always moves the run far if all steps read it, with its coins, the run without it, and its moves if all steps
    read it. How far counts in the run and in those of `telling`, because noise that tells much about a node may train the model
    so well on it that its gradient vanishes. Raises NoSamples, Incomparable.
    """
    some = [a for a in within.secrets if a.is_single and first.study.whole.graph.train[a.among[0]]][:NODES]
    inside = next((unit for a in some if (unit := inside_at(first, a, draws)) is not None), None)
    if inside is None:
        raise NoSamples("no number of a node in these draws keeps the node out of a sum")
    found, whole = [], first.study.whole
    alone = [without_nodes(whole, Unit.NODE, np.array([node])) for node in in_all_steps(first, draws, inside)]
    for absent in (*some, *alone, *outliers(whole, some[0])):
        coins = Coins(draws, int(absent.among[0]), inside, 1 - inside)
        gone = kept(first, absent)
        shifts = moves_of(first, absent, gone, coins, inside)
        found.append((math.hypot(*first.sizes(shifts)), absent, coins, gone, shifts))
    best, most = found[0], -1.0
    for each in sorted(found, key=lambda each: -each[0])[:CANDIDATES]:
        if each[0] <= most:
            break
        _, absent, coins, _, shifts = each
        least = smallest_move(first, absent, coins, shifts, delta)
        best, most = (each, least) if least > most else (best, most)
    return best[1:]


def in_all_steps(first: History, draws: tuple[tuple[int, ...], ...], inside: float) -> list[int]:
    """The training nodes that move the run farthest if all steps read all nodes, see `farthest_alone`; none if the model fails or
    departs from the run then.
    """
    known, whole = first.play.draws, first.study.whole
    script = with_numbers(known, {at: np.full_like(known[at].values, inside) for at in chain(*draws)})
    try:
        every = rerun(first, {}, script)
    except Departed:
        return []

    def sizes(absent: Absence) -> Sequence[float]:
        return sizes_between(every, absent, script) if whole.graph.train[absent.among[0]] else ()

    return farthest_alone(whole, Unit.NODE, first.study.effort, sizes)


def inside_at(first: History, absent: Absence, draws: tuple[tuple[int, ...], ...]) -> float | None:
    """The end of the draws, 0 or 1, at which all steps read the node; None if the node moves as many sums at both."""
    coins, gone = Coins(draws, int(absent.among[0])), kept(first, absent)
    low, high = (len(moving(first, moves_of(first, absent, gone, coins, unit))) for unit in BITS)
    return None if low == high else float(high > low)


def smallest_move(first: History, absent: Absence, coins: Coins, shifts: Shifts, delta: float) -> float:
    """The Euclidean norm of the smallest move of each mechanism in the run and in those of `telling`; 0 if such a run fails."""
    try:
        runs = [moves_of(run, absent, kept(run, absent), coins, coins.inside) for run in telling(first, shifts, delta)]
    except (NoSamples, Departed):
        return 0.0
    return float(np.linalg.norm(np.min([first.sizes(each) for each in (shifts, *runs)], axis=0)))


def moves_of(first: History, absent: Absence, gone: History, coins: Coins, *units: float) -> Shifts:
    """How far the node moves each mechanism with these coins. gone: the run without the node. units: one for each draw of the
    coins, or one for all. Raises NoSamples if the release shows the coins although every noisy value is the same.
    """
    script = coins.script(first, units if len(units) > 1 else units * len(coins.draws))
    run = rerun(first, {}, script)
    if not alike(first, run.play):
        raise NoSamples(f"the release shows the coins of node {coins.node} although every noisy value is the same")
    return moved(run, absent, gone)


def stepwise(first: History, absent: Absence, coins: Coins, gone: History, shifts: Shifts, wanted: float | None) -> Steps:
    """Which coin decides for which mechanism, and with which probability. gone: the run without the node. shifts: the moves if
    every step reads the node. wanted: the rate of the ledger. Raises NoSamples.
    """
    if not alike(first, gone.play, absent.hidden):
        raise NoSamples(f"{absent.secret} changes the release although every noisy value is the same")
    always = sorted(moving(first, moves_of(first, absent, gone, coins, coins.outside)))
    if always and any(first.play.draws[same[0]].nodes is not None for same in coins.draws):
        raise NoSamples("a mechanism reads the node whatever its number, and the run draws a number for each training node only")
    read = sorted(moving(first, shifts).difference(always))

    def reads(*units: float) -> list[bool]:
        """Which of the mechanisms `read` read the node."""
        own = moves_of(first, absent, gone, coins, *units)
        here = [first.mechanisms[i].size(own[i]) > NOTHING for i in read]
        some = [i for i, one in zip(read, here, strict=True) if one] + always
        whole = all(np.allclose(own[i], shifts[i], rtol=EQUAL, atol=NOTHING) for i in some)
        if not whole or moving(first, own).difference(read, always):
            if always:
                raise NoSamples(f"node {coins.node} moves a sum also if its coin leaves it out, {OF_ALL}")
            raise NoSamples(f"not only the coin of node {coins.node} decides how far it moves a sum, {NEIGHBOURS}")
        return here

    rate = rate_of(first, coins, wanted, reads)
    codes = dict.fromkeys(read, 0)
    for bit in range(len(coins.draws).bit_length()):
        chosen = [bool((j + 1) >> bit & 1) for j in range(len(coins.draws))]
        one = reads(*(coins.inside if c else coins.outside for c in chosen)) if len(chosen) > 1 else [True] * len(read)
        other = reads(*(coins.outside if c else coins.inside for c in chosen)) if len(chosen) > 1 else [False] * len(read)
        if any(a == b for a, b in zip(one, other, strict=True)):
            raise NoSamples("several coins, or none, decide whether a sum reads the node")
        for i, here in zip(read, one, strict=True):
            codes[i] |= here << bit
    groups = tuple(tuple(i for i in read if codes[i] == code) for code in dict.fromkeys(codes.values()))
    if any(not 0 < code <= len(coins.draws) for code in codes.values()):
        raise NoSamples("no single coin decides whether a sum reads the node")
    return Steps(absent, coins, rate, groups, tuple(always), shifts)


def rate_of(first: History, coins: Coins, wanted: float | None, reads: Callable[[float], list[bool]]) -> float:
    """The probability that a step reads the node, the same for all steps. wanted: the rate that is tried first. reads: a number
    of all coins -> which mechanisms read the node. Raises NoSamples if the rates of the steps differ.
    """
    drawn = [first.play.draws[same[0]] for same in coins.draws]
    chances = {float(draw.chances[int(coins.inside)]) for draw in drawn if draw.chances is not None}
    if chances:
        if len(chances) > 1 or any(draw.chances is None for draw in drawn):
            raise NoSamples("the steps have different sampling rates")
        return chances.pop()
    toward = 1.0 if coins.outside else -1.0

    def at(share: float) -> bool:
        """Whether all steps read the node if its numbers are this far from the end at which they do."""
        here = reads(coins.inside + toward * share)
        if any(here) != all(here):
            some = f"with the same number in all steps, node {coins.node} moves some of them and not others"
            raise NoSamples(f"{some}: their rates differ, or the coins of other nodes decide too, {NEIGHBOURS}")
        return all(here)

    if wanted is not None and 0 < wanted < 1 and at(wanted * (1 - NEAR)) and not at(wanted * (1 + NEAR)):
        return wanted
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) else (low, middle)
    return low


def another(first: History, number: int) -> History:
    """A run with another seed. Raises NoSamples if it has other mechanisms."""
    other = history(first.study, number)
    if other.lines != first.lines:
        raise NoSamples("another seed runs other mechanisms")
    return other


def telling(first: History, shifts: Shifts, delta: float) -> Iterator[History]:
    """Two runs whose noisy values tell much about the node: one speaks for the world with it, one for the world without it. How
    far the node moves a step may depend on earlier noisy values. shifts: the moves if all steps read it.

    Each noisy value moves by SCALES, but all of them together only so far that noise beyond has the probability TAIL times
    `delta`: rarer runs do not matter for the claim. Raises NoSamples if such a run has other mechanisms.
    """
    moved = moving(first, shifts)
    each = min(SCALES, float(norm.isf(TAIL * delta)) / math.sqrt(max(1, len(moved))))
    for side in (1, -1):
        run = repeated(first, {i: at_telling_value(first.mechanisms[i], shifts[i], side, each) for i in moved})
        if run is None:
            raise NoSamples("with other noisy values the run has other mechanisms, or fails")
        yield run


def moves_in(run: History, steps: Steps) -> NDArray[np.float64]:
    """`Steps.moves` in another run."""
    gone = kept(run, steps.absent)
    return steps.moves(run, moves_of(run, steps.absent, gone, steps.coins, steps.coins.inside))


def cost(moves: NDArray[np.float64], rate: float, delta: float, factor: float = 1.0) -> float:
    """A lower bound on the epsilon (nats) of all mechanisms, if all noise is divided by `factor`. moves: see `Steps.moves`."""
    always, *steps = factor * moves * (1 - SLACK)
    all_at_once = float(np.linalg.norm(moves)) * factor
    fine = max(FINE, ROUNDED / max(1, len(steps)))
    grid = fine * max(1.0, (all_at_once**2 / 2 + DEVIATIONS * all_at_once) / WIDE)
    return epsilon_at_least(float(always), np.array([move for move in steps if move > NOTHING]), rate, delta, grid)


def concluded(attempt: Attempt, steps: Steps, runs: Sequence[NDArray[np.float64]], reason: str) -> Bound:
    """The bound that the moves of the steps in several runs prove, and its smallest detectable violation. reason: why a draw may
    hide the moves, or "".
    """
    case, within, first = attempt.case, attempt.within, attempt.first
    claim = case.claim
    least = np.min(runs, axis=0)
    proven, most = cost(least, steps.rate, claim.delta), max(cost(moves, steps.rate, claim.delta) for moves in runs)
    coin = Condition(OWN_COIN, "checked", f"node {steps.coins.node}: other coins moved the sums of their own steps alone")
    masks = bool(reason) and most <= claim.epsilon and not other_noise(first)
    hides = MASKS if masks else Condition(UNHIDDEN.what, "failed", reason) if reason else UNHIDDEN
    conditions: tuple[Condition, ...] = (REPEATED, law_of(first), FRESH, EXACT, coin, hides, SEEN)
    if path := not_excluded(within):
        conditions = (*conditions, Condition(NO_PATH, "failed", path))
    if proven > claim.epsilon and not charged(case.model.ledger).steps:
        conditions = (*conditions, Condition("the ledger charges for sampled steps", "failed", UNCHARGED))
    elif most > claim.epsilon * (1 + EQUAL) and proven <= claim.epsilon:
        why = f"the steps cost {most:.3g} in one run, and {proven:.3g} with the smallest move of each step in {len(runs)} runs"
        conditions = (*conditions, Condition(STEADY, "failed", why))
    elif failed := known_noise(first.study, claim):
        conditions = (*conditions, failed)
    bound = exact(proven, described(steps, least, first), THEOREM, conditions)
    if bound.failed:
        return replace(bound, epsilon=0.0)
    notices = smallest_factor(lambda factor: cost(least, steps.rate, claim.delta, factor), claim.epsilon)
    reach = worth(case.model.ledger, claim, notices)
    covers = detected(
        case, within, first.worlds.graph.name == UNUSUAL, refuted=bool(charged(case.model.ledger).steps) and not masks
    )
    bound = replace(bound, refuted=proven > claim.epsilon, notices=notices, reach=reach, trials=(len(runs), 0), covers=covers)
    if masks:  # whoever does not know them may learn less
        return replace(bound, epsilon=0.0, method=f"{bound.method}; less noise would not refute the claim, because {reason}")
    return bound


def described(steps: Steps, least: NDArray[np.float64], first: History) -> str:
    """The moves that count in words. least: the smallest of each step in several runs, see `Steps.moves`."""
    always, *moves = least
    lines = {first.mechanisms[i].line: None for group in steps.groups for i in group}
    smallest = f"{min(moves):.4g} to " if min(moves) < max(moves) * (1 - EQUAL) else ""
    plain = f", and other mechanisms by {multiple(always, 'that scale')}" if always > NOTHING else ""
    by = f"{far(smallest, max(moves))}{plain}"
    shared = max(max(Counter(first.mechanisms[i].line for i in group).values()) for group in steps.groups)
    samples = "one sample" if len(moves) == 1 else f"each of {len(moves)} samples"
    moved = several(len(moves), "step") if shared == 1 else f"{several(shared, 'step')} on {samples}, together,"
    chance = f"each {'sample' if shared > 1 else 'step'} reads the node with probability {steps.rate:.4g}"
    return f"{steps.absent.secret} moves {moved} at {', '.join(lines)} by {by}; {chance}"
