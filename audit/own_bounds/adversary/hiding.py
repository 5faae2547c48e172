"""What hides how far a secret moves a clean value: noise that is fresh, and other draws, such as samples and masks."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....accounting.events.counts import charged
from ....models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ...key import Key
from ...mechanisms.absence import Incomparable, history, moves_without
from ...mechanisms.draws.lost import lost_noise
from ...mechanisms.draws.steady import other_scripts, shown_in, shown_with_other_weights, steady_cells
from ...mechanisms.inside import Inside, moving
from ...mechanisms.loud_secrets import quietest
from ...mechanisms.reading import (
    EACH,
    alike,
    farthest,
    moved_entries,
    redrawn,
    repeated,
    rerun,
    same_means,
    unmoved,
    visible,
    with_other_entries,
    with_other_values,
)
from ...mechanisms.relations import added_only, averaged, in_full, parted, proportional
from ...recorded.laws import NOTHING
from ...recorded.playing import Cell, with_numbers
from ...recorded.secrets.worlds import Absence, without_one
from ...recorded.study import CONTINUOUS, History, Shifts

EQUAL = 1e-2  # relative tolerance between the sizes of one move in runs with different draws
NEXT = 6  # the first number of a run that `other_noise` tries
PAIRS = 16  # largest number of pairs of mechanisms with the same noise of which `not_fresh` tests what the release shows
TRIED = 8  # largest number of draws, and of entries, that are tested one by one
NUDGE = 1e-5  # relative change of a drawn number that seldom changes the result of a comparison
SAMPLES = "samples are followed if each step draws one number for every node or training node, as `rng.random(nodes) < rate` does"
FIRST_VALUES = (
    "first values that are no noise, such as the first centres of k-means, can be drawn from a constant seed; noise cannot"
)
DROPOUT = "a proof of DP-SGD holds for each mask of dropout; audited without dropout, too little noise may refute the claim"
MASKS = ("uniform", "integers")  # laws of masks: a uniform number that is added modulo its range hides a value completely


Secret = tuple[Absence, Shifts, Shifts]  # the world without it, its moves, and the moves that the run reads


def every_secret(within: Inside, unit: Unit, worst: Shifts) -> list[Secret]:
    """The secrets that are tried, the worst one first.

    Only the worst secret is listed if all noise is fresh: then no other secret can show more. worst: the moves of the worst
    secret that count. Reports count for the worst secret only.
    """
    assert within.worst is not None
    first, found = within.run, [(within.worst, within.shifts, worst)]
    reused = within.again or within.shared or any(m.shared or m.mirrored for m in first.mechanisms)
    if not reused and not first.noise & first.study.constant:
        return found
    for absent, moves in moves_of_each(first, unit):
        kept = counted(first, within, moves)
        found.append((absent, kept, kept))
    return found


def counted(run: History, within: Inside, moves: Shifts) -> Shifts:
    """The moves, 0 for mechanisms that the run does not read and for reports."""
    unread = [i in within.idle or m.law == REPORT for i, m in enumerate(run.mechanisms)]
    return tuple(np.zeros_like(by) if gone else by for by, gone in zip(moves, unread, strict=True))


@lru_cache(maxsize=2)  # a search for the reach asks again for those of the run on the graph, and of that on the small graph
def moves_of_each(first: History, unit: Unit) -> tuple[tuple[Absence, Shifts], ...]:
    """The secrets of `without_one`, each with its moves; those without which the run cannot be repeated are left out."""
    found = []
    for absent in without_one(first.study.whole, unit, Key("every secret"), quietest(first), first.study.effort.secrets):
        with suppress(Incomparable):
            found.append((absent, moves_without(first, absent)))
    return tuple(found)


def apart(within: Inside, shifts: Shifts) -> str:
    """Why two mechanisms with the same noise have no cost: the secret moves them by different amounts; "" if it moves all such
    mechanisms alike.
    """
    for i, j in within.again.items():
        with np.errstate(invalid="ignore"):  # infinite moves, see `Mechanism.over`
            gap = np.nan_to_num(shifts[i] - shifts[j], posinf=np.inf)
        if np.abs(gap).max(initial=0) > 10 * NOTHING:
            both = f"the value at {within.mechanisms[i].line} has the noise of another value, and a secret moves them differently"
            return f"{both}; the recorder does not know what the release shows of both, so it computes no cost"
    return ""


def not_fresh(run: History, within: Inside, moves: Shifts, shifts: Shifts) -> Iterator[str]:
    """Yields a sentence for each mechanism whose mean the secret moves and whose noise does not hide this move, because two
    seeds draw the same noise or because another mechanism uses it too. moves: all moves. shifts: those that the run reads. Of
    mechanisms that use the noise of others, the first PAIRS are tested; `apart` says why the others have no cost.
    """
    places = {id(draw): at for at, draw in enumerate(run.play.draws)}
    tested = set(list(within.again)[:PAIRS])
    for i, (mechanism, by) in enumerate(zip(run.mechanisms, shifts, strict=True)):
        single = parted(run, i)
        seen = np.any(np.isinf(by)) and not averaged(run, i) and (not mechanism.mirrored or in_full(single, (i,)))
        if seen and visible(single, i, alike_entries(mechanism, by)):
            one = f"one number of the noise of {mechanism.draw.where} serves several entries of the value at {mechanism.line}"
            yield f"{one}, which move by different amounts; their difference has no noise"
            continue
        drawn = (mechanism.draw, *mechanism.beside)
        far, constant = np.abs(by).max(initial=0) > NOTHING, all(places[id(draw)] in run.study.constant for draw in drawn)
        if constant and far and visible(run, i):
            few = run.study.values(places[id(mechanism.draw)])
            yield f"the noise of {mechanism.draw.where} is the same for two seeds{few}, and the value at {mechanism.line} moves"
        j = i if mechanism.law == REPORT else within.again.get(i, i)
        unseen = any(k in within.idle or (np.any(moves[k]) and not np.any(shifts[k])) for k in (i, j))
        gap = np.abs(by - shifts[j]) if j != i else np.zeros(1)
        if unseen or gap.max(initial=0) <= 10 * NOTHING:
            continue
        if i not in tested or one_term(run.separated, i, j):
            continue
        farthest = [np.unravel_index(int(at), gap.shape) for at in np.argsort(-gap, axis=None)[:TRIED]]
        entries = [tuple(map(int, entry)) for entry in farthest if gap[entry] > 10 * NOTHING]
        each = run.separated
        seen = any(visible(each, i, [entry]) and visible(each, j, [entry]) for entry in entries)
        if seen and not holds_hidden_noise(each, (i, j), moves):
            used = f"the noise of {mechanism.draw.where} is used {both_lines(run.mechanisms[j], mechanism)}"
            yield f"{used}; their difference depends on the secret and has no noise"


def both_lines(one: Mechanism, other: Mechanism) -> str:
    """The lines of two mechanisms with noise in common, in words."""
    return f"twice at {one.line}" if one.line == other.line else f"at {one.line} and at {other.line}"


def holds_hidden_noise(run: History, pair: tuple[int, int], moves: Shifts) -> bool:
    """Whether a value of two mechanisms with the same noise is computed from a noisy value that a secret moves, and that the
    release shows only with this noise. Their difference then has the noise of that value. Tests the PAIRS last such values, and
    TRIED numbers of each, because single numbers of one line are one mechanism.
    """
    before = [k for k in range(max(pair)) if k not in pair and np.any(moves[k])][-PAIRS:]
    single = [(k, entry) for k in (*before, *pair) if moves[k].ndim == 1 for entry in moved_entries(moves[k])[:TRIED]]
    whole = (other for k in before for other in with_other_values(run, [k]))
    for other in chain(whole, (other for k, entry in single for other in with_other_entries(run, k, [entry]))):
        read = other is not None and any(not np.array_equal(run.mechanisms[k].clean, other.mechanisms[k].clean) for k in pair)
        if other is not None and read and alike(run, other.play):
            return True
    return False


@lru_cache(maxsize=2 * PAIRS)  # it depends on no secret
def one_term(run: History, i: int, j: int) -> bool:
    """Whether the run may use the noisy values of two mechanisms with the same noise only together, so that the release need not
    show their difference.
    """
    may_hide = linear_term(run, j, i) or added_only(run, i, j, released=True) or proportional(run, i, j)
    return may_hide and not in_full(run, (i, j))


def alike_entries(mechanism: Mechanism, by: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Some entries that share a noise number: those of the first infinite move, at most TRIED of them."""
    first = np.argwhere(np.isinf(by))[0]
    group = np.zeros(by.shape, dtype=bool)
    group[tuple(slice(None) if axis in mechanism.shared else at for axis, at in enumerate(first))] = True
    group |= group.T if mechanism.mirrored else False
    return [tuple(entry) for entry in np.random.default_rng(0).permutation(np.argwhere(group))[:TRIED].tolist()]


def linear_term(run: History, j: int, i: int) -> bool:
    """Whether mechanism `i` may add the same draw as mechanism `j` in another step of one loop. Objective perturbation does so:
    it adds one random linear term to an objective, hence one draw to each gradient. Its proof releases the last step only.
    """
    one, other = run.mechanisms[j], run.mechanisms[i]
    if one.draw is not other.draw or one.line != other.line:
        return False
    runs = with_other_values(run, [j])
    return any(after is None or not np.array_equal(after.mechanisms[i].clean, other.clean) for after in runs)


def hidden(within: Inside, differs: bool, accounted: Collection[int] = ()) -> str:
    """Why a draw that is not noise may hide the move, or "" if no draw does.

    A draw may hide the move if it is a coin, of any law, that changes a clean value, if it changes how far the secret moves a
    clean value, or if it is a mask of uniform numbers; initial weights are no masks. Samples and shuffles are such draws: a claim
    may rely on their amplification, and then its epsilon is smaller than that of the composition. Initial weights may change how
    far a secret moves a gradient: the adversary sees them, and the caller counts the smallest move of several runs. differs:
    whether the move has another size with another seed. accounted: the positions of draws whose effect is accounted for.
    """
    first = within.run
    free = [at for at in free_draws(first) if at not in accounted]
    moved_laws = {first.mechanisms[i].law for i in moving(first, within.shifts)}
    if moved_laws == {REPORT}:  # no mask hides a report that a released number shows, but a draw may change its probabilities
        known = same_means(first, rerun(first, {}, redrawn(first, free)), within.idle)
        why = f"the draws at {first.drawn_at(free)} change the probabilities of the reports, so they may hide a secret"
        return "" if known else why
    least = smallest(within)
    uniform = [at for at in free if first.play.draws[at].law in MASKS and not first.play.draws[at].weights]
    masks = [at for at in uniform if first.play.draws[at].values.size >= least]
    if masks and not alike(first, rerun(first, {}, redrawn(first, masks)).play):
        many = "change the release and have at least as many numbers as a noisy value, so they may mask that value"
        return f"the draws at {first.drawn_at(masks)} {many}"
    coins = [at for at in free if first.play.draws[at].law not in CONTINUOUS]
    coins += compared(first, [at for at in free if first.play.draws[at].law in CONTINUOUS])
    numbers = [at for at in free if at not in coins and not first.play.draws[at].weights] if differs else []
    for number, script in enumerate(other_scripts(first, coins) if coins else ()):
        run = repeated(first, {}, script) if number else rerun(first, {}, script)
        if run is not None and not same_means(first, run, within.idle):
            some = [first.play.draws[at] for at in coins]
            dropped = any(draw.masks is not None or draw.values.ndim > 1 for draw in some)
            way = SAMPLES if charged(first.study.model.ledger).steps else DROPOUT if dropped else FIRST_VALUES
            changes = "change the value to which noise is added, as dropout, samples and shuffles do"
            return f"the draws at {first.drawn_at(coins)} {changes}; they may hide a secret; {way}"
    if numbers and not same_means(first, (other := rerun(first, {}, redrawn(first, numbers))), within.idle):
        assert within.worst is not None
        moved = same_entries(first, within.shifts, moves_without(other, within.worst))
        if further := grown(first, within.worst.secret, within.shifts, moved):
            return f"{further}; this size depends on the draws at {first.drawn_at(numbers)}, which may hide the move"
    return ""


def other_noise(first: History) -> str:
    """Says that the noise of another seed has another law or size, or that there is more or less of it; "" if it is the same for
    all seeds that are tried. A number of a large mask may switch the noise off.
    """
    for number in range(NEXT, NEXT + first.study.effort.redrawn * first.study.effort.thorough):
        other = history(first.study, number).mechanisms
        pairs = zip(first.mechanisms, other, strict=False)
        same = len(other) == len(first.mechanisms) and all(m.law == o.law for m, o in pairs)
        if not same or any(not np.allclose(m.scale, o.scale, rtol=EQUAL) for m, o in zip(first.mechanisms, other, strict=True)):
            return "another seed has other noise, and draws that may hide a secret may decide this"
    return ""


def compared(first: History, numbers: Sequence[int]) -> list[int]:
    """The positions of the draws that act as coins: the run only compares their numbers with a threshold or with one another.

    The test makes the numbers slightly smaller, which changes nothing if they are coins. If it changes something for all draws
    together, the function tests single draws, at most TRIED: first those that have one number, or one per node or edge.
    """

    def only(some: Sequence[int]) -> bool:
        draws = first.play.draws
        smaller = with_numbers(draws, {at: draws[at].values * (1 - NUDGE) for at in some})
        return unmoved(first, rerun(first, {}, smaller))

    if not numbers or only(numbers):
        return list(numbers)
    graph = first.study.whole.graph
    lengths = {1, graph.nodes, int(graph.train.sum()), graph.edges.shape[1], graph.arcs.shape[1]}
    likely = sorted(numbers, key=lambda at: first.play.draws[at].values.size not in lengths)
    return [at for at in likely[:TRIED] if only([at])]


def shown_always(first: History, moves: Shifts, sampled: Collection[int] = ()) -> tuple[tuple[Cell, ...], str]:
    """The released arrays that show the noisy values for all tried values of the other draws, and why no array may show them, or
    "". Tests the EACH mechanisms that move farthest.
    """
    tested = farthest(first, moves)[:EACH]
    for i in tested:
        if line := lost_noise(first, moves, i):
            shows = f"change all released numbers that show the noisy value at {first.mechanisms[i].line}, as more noise does"
            return (), f"the draws at {line} {shows}; they may hide a secret"
    draws = free_draws(first)
    weights = [at for at in draws if first.play.draws[at].weights]
    free = [at for at in draws if at not in weights and at not in sampled]
    cells = steady_cells(first, free, moves, tested)
    if len(cells) < len(first.play.cells) and not any(shown_in(first, moves, i, cells) for i in tested):
        shuffles = f"the draws at {first.drawn_at(free)} reorder or choose the released values, as shuffles do"
        return (), f"{shuffles}; they may hide a secret"
    if not shown_with_other_weights(first, weights, moves, tested, cells):
        return (), f"with other initial weights, drawn at {first.drawn_at(weights)}, the release may not show the noisy values"
    return cells, ""


def smallest(within: Inside) -> int:
    """The number of entries of the smallest mechanism that the worst secret moves; 0 if it moves none."""
    moved = (m.noisy.size for m, by in zip(within.mechanisms, within.shifts, strict=True) if np.any(np.abs(by) > NOTHING))
    return min(moved, default=0)


def grown(run: History, secret: str, shifts: Shifts, others: Shifts) -> str:
    """A sentence about the first mechanism that a secret moves by different amounts in two runs; "" if there is none."""
    for m, one, two in zip(run.mechanisms, shifts, others, strict=True):
        by, again = m.size(one), m.size(two)
        if abs(by - again) > EQUAL * max(by, again) + NOTHING:
            return f"{secret} moves the value at {m.line} by {by:.4g} in one run and by {again:.4g} in another"
    return ""


def free_draws(first: History) -> list[int]:
    """The positions of all draws that differ from seed to seed and are not the noise of a mechanism."""
    return [
        at
        for at, d in enumerate(first.play.draws)
        if at not in first.noise
        and not any(np.array_equal(d.values, m.draw.values) for m in first.mechanisms)
        and not np.array_equal(d.values, first.study.others[0][at].values)
        and d.values.size
    ]


def same_entries(first: History, moves: Shifts, others: Shifts) -> Shifts:
    """The moves `others`. They are set to 0 for each mechanism, and for each entry of a report, whose move in `moves` is 0."""
    return tuple(
        np.where(np.any(by, axis=-1, keepdims=True) if m.law == REPORT else np.any(by), other, 0.0)
        for m, by, other in zip(first.mechanisms, moves, others, strict=True)
    )
