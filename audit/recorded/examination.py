"""Examines a model by recording its random draws.

The result lists certain faults, how far each removed secret moves the means of noisy values, and the reason why nothing is stated
about some arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Claim, Unit
from ...models.base import Model
from ...models.capabilities import RunsElsewhere
from ...models.errors import one_line, raised
from ...models.graph.graph import Graph
from ...models.recorder.draws.draw import PICKS
from ...models.recorder.script import alike, of_fewer_nodes, other_rows
from ...reports.rounding import several
from ..case import EDGES
from ..key import Key
from .common_noise import Common, common, reweighted
from .forcing import Forced, forced
from .paths import certificate, changed, seeded
from .playing import Diverged, play, same_numbers, same_rows, small_moves
from .reuse import on_others_too, used_twice
from .secrets.matchings import loudest
from .secrets.one_by_one import farthest_alone
from .secrets.own_rows import Located, Place, private
from .secrets.worlds import (
    UNUSUAL,
    Absence,
    public_bound,
    single_secrets,
    small,
    without_any,
    without_edges,
    without_many,
    without_one,
)
from .seeds import SELDOM, often
from .sources import Source, in_line, laid_out, nudge
from .study import Study, on_its_base, study

WEAKEST = 3  # number of rows that `weakest` lists for each source
SMALLEST = 1e-4  # in units of the noise at scale 1; a smaller move may be rounding, so no lower bound counts it
ULPS = 2  # units in the last place of a released value: a smaller move of it is rounding in any case
SIZES = (1.0, 64.0)  # in units of the noise at scale 1: changes of the noise on an absent node's own row
ATTEMPTS = 4  # largest number of secrets for which a `Certificate` is searched
SECRETS = ((5_000, 24), (20_000, 6))  # (most nodes, secrets that are removed one by one); three for larger graphs
ONE_PICK = "if its probabilities depend on the data, draw each value by a call of its own, which is then judged by them"
LINES = 3  # lines of draws that a sentence names

ManyAbsent = tuple[Absence, Forced | None, dict, dict[str, str]]  # see `_without_many`


@dataclass(frozen=True)
class Move:
    """How far one secret moves the means along the released history, in units of the noise at scale 1.

    euclidean: the norm over all cells with Gaussian noise. entries: the absolute moves of single entries with other noise. laws:
    the law of the noise of each of these entries. each: the move of each source of noise alone, the Euclidean norm for Gaussian
    noise and else the sum of absolute values. left_out: why smaller moves, which `entries` leaves out as rounding, may matter
    together; "" if they do not. half: whether these are half of the moves in a world two steps away, see `Absence`.
    """

    secret: str
    euclidean: float = 0.0
    entries: tuple[float, ...] = ()
    laws: tuple[str, ...] = ()
    each: tuple[float, ...] = ()
    left_out: str = ""
    half: bool = False

    @property
    def size(self) -> tuple[float, float]:
        return self.euclidean, sum(self.entries)

    def of(self, law: str) -> Move:
        """The move behind noise of this law alone; `euclidean`, which belongs to normal noise, is kept."""
        entries = tuple(by for by, own in zip(self.entries, self.laws, strict=True) if own == law)
        return replace(self, entries=entries, laws=(law,) * len(entries))


@dataclass(frozen=True, eq=False)
class Examination:
    """The result of `examine`.

    study: the study of the model on the whole graph. fault: a sentence that proves that epsilon is infinite (see `Certificate`),
    or "". moves: one for each removed secret. summary: in words. doubts: array -> why nothing is stated about it;
    the key "" stands for all arrays. common: noise that entries of the release have in common; the moves take it into account.
    failed: the error with which the model failed on the small graph of unusual nodes, with its line; "" if it did not fail.
    inside: whether the mechanisms within the run may still be known although the doubt "" says that nothing is stated.
    """

    study: Study
    fault: str = ""
    doubts: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    summary: str = ""
    common: Common | None = None
    failed: str = ""
    inside: bool = False

    @property
    def laws(self) -> set[str]:
        return {s.block.law for s in self.study.sources}

    @property
    def noisy(self) -> tuple[str, ...]:
        """The arrays in which every cell carries recorded noise."""
        cells = {s.cell for s in self.study.sources}
        arrays = {c.array for c in cells}
        return tuple(a for a in sorted(arrays) if all(c in cells for c in self.study.base.cells if c.array == a))


def examine(model: Model, graph: Graph, claim: Claim, key: Key) -> Examination:
    """Examines the model on the whole graph and on a small graph with unusual nodes. A program runs on the whole graph only."""
    if isinstance(model, RunsElsewhere):
        made = study(model, graph, key)
        doubts = {"": made.doubt} if made.doubt else {}
        return Examination(made, doubts=doubts, summary="the draws of a program were recorded")
    first = _examined(model, graph, claim, key)
    if first.fault or "" in first.doubts:
        return first
    try:
        second = _examined(model, small(graph, public_bound(model, graph)), claim, key.fold("small"), False)
    except Exception as refusal:  # a user's model may refuse other graphs, with any exception
        return replace(first, failed=raised(refusal))
    where = f" on a {UNUSUAL}"
    doubts = {**{array: text + where for array, text in second.doubts.items()}, **first.doubts}
    moves = (*first.moves, *(replace(move, secret=move.secret + where) for move in second.moves))
    return replace(first, fault=second.fault and second.fault + where, doubts=doubts, moves=moves, inside=second.inside)


def _examined(model: Model, graph: Graph, claim: Claim, key: Key, probed: bool = True) -> Examination:
    unit = claim.unit
    limit = next((most for nodes, most in SECRETS if graph.nodes <= nodes), 3)
    made = study(model, graph, key, probed)
    if made.doubt:
        return Examination(made, doubts={"": made.doubt})
    if made.unplaced:
        return Examination(made, doubts=dict.fromkeys((c.array for c in made.base.cells), made.unplaced), summary=made.unplaced)
    made = without_reports(made, unit, key)
    doubts: dict[str, str] = {}
    if twice := used_twice(made):
        doubts[""] = twice
    rows, shared = weakest(made), common(made)
    many = _without_many(made, unit, key)
    for absent, run, differ, stray in many:
        if shared is not None and run is not None and (weight := reweighted(made, shared, absent, run)):
            doubts.setdefault("", weight)
        doubts |= {array: text for array, text in stray.items() if array not in doubts}
        for mask in sorted(differ.values(), key=lambda m: m.mean()):
            if mask.ndim and len(mask) == graph.nodes:
                rows = np.concatenate([rows, np.flatnonzero(mask.reshape(len(mask), -1).any(1))])
    rows = np.array(list(dict.fromkeys(rows.tolist())), dtype=np.int64)
    moves: list[tuple[Move, Study, Absence, Forced]] = []
    attempts, seen = 0, set[int]()
    loud = louder(made) if unit in EDGES and graph.name != UNUSUAL else []
    if unit in EDGES:
        loud = [*alone(made, unit), *loud]
    else:
        rows = np.array([*alone(made, unit), *rows], dtype=np.int64)
    for absent in chain(without_one(made.whole, unit, key, rows, limit, loud), only_together(made, many, seen, doubts)):
        try:
            here, one = on_its_base(made, absent)
            differ, other, stray = _without(here, one)
            found = seeded(here, one) if other is None else None
        except Exception as fault:  # a user's model may refuse the graph without the secret, with any exception
            doubts.setdefault("", f"{absent.secret} ends the training ({type(fault).__name__}: {one_line(fault)})")
            continue
        if other is not None and differ and attempts < ATTEMPTS:
            attempts += 1
            found = certificate(here, one.worlds, other, differ, absent.secret)
        if found is not None and often(claim.delta, partial(certain_in, here, one, key)):
            return Examination(made, str(found), doubts)
        if found is not None:
            doubts.setdefault("", f"{found}; {SELDOM}")
        doubts |= {array: text for array, text in stray.items() if array not in doubts}
        if other is not None and not any((differ[s.cell] & s.noised).any() for s in made.sources if s.cell in differ):
            move = _move(here, other, one, shared)
            moves.append((move, here, one, other))
            seen |= moving(move)
            for source in (made.sources[i] for i in moved_at_first(made, absent) - moving(move)):
                some = f"{absent.secret} moves {source.cell} with some noisy values and not with others"
                doubts.setdefault(source.cell.array, some)
            if shared is not None and move.euclidean < SMALLEST < max(move.each):
                moved = f"{absent.secret} moves the values before noise as noise does that entries have in common"
                for source in made.sources:
                    doubts.setdefault(source.cell.array, f"{moved}, and the rest may be rounding")
            if shared is not None and (weight := reweighted(here, shared, one, other)):
                doubts.setdefault("", weight)
    count = len(made.sources)
    of_noise = f"{several(count, 'draw')} of noise {'was' if count == 1 else 'were'} found in the release"
    summary = f"{of_noise}; {several(len(moves), 'secret')} {'was' if len(moves) == 1 else 'were'} removed one by one"
    if moves:
        largest, here, absent, other = max(moves, key=lambda m: m[0].size)
        summary += f"; {largest.left_out}" if largest.left_out else ""
        if text := resized(here, absent, other):  # the mechanisms within the run may still be known
            doubts |= {cell.array: text for cell in made.base.cells if cell.array not in doubts}
    elsewhere = "" if "" in doubts else on_others_too(made)
    if elsewhere:
        doubts[""] = elsewhere
    return Examination(made, "", doubts, tuple(move for move, *_ in moves), summary, shared, inside=bool(elsewhere))


def certain_in(made: Study, absent: Absence, key: Key, number: int) -> bool:
    """Whether a secret changes entries that no draw changes in another run too. number: of the run."""
    try:
        run = study(made.model, made.whole.graph, key.fold("certain", number), probed=False)
        there = replace(absent, worlds=replace(absent.worlds, seeds=run.whole.seeds))
        differ, other, _ = _without(run, there)
        return other is not None and certificate(run, there.worlds, other, differ, absent.secret) is not None
    except Exception:  # a user's model may fail with other seeds, with any exception
        return False


def without_reports(made: Study, unit: Unit, key: Key) -> Study:
    """The study without sources that are one pick (see `picked_one`) whose probabilities depend on the data. Such a pick is a
    report, which the recorder follows within the run, and no noise that is added to a value.
    """
    picks = {at for at in made.placed if made.base.draws[at].picked}
    reports: set[int] = set()
    for absent in without_any(made.whole, unit, key) if picks else ():
        try:
            draws = play(made.model, absent.worlds).draws
        except Exception:  # a user's model may refuse the graph, with any exception
            continue
        reports |= {at for at in picks if at >= len(draws) or not alike(draws[at], made.base.draws[at])}
    kept = tuple(source for source in made.sources if not any(at in reports for at, _ in source.block.parts))
    return replace(made, sources=kept)


def louder(made: Study) -> list[int]:
    """Edges that move rows of noisy cells of the release much farther than most edges do."""
    nodes = made.whole.graph.nodes
    rows = [i for i, s in enumerate(made.sources) if s.factor.shape[:1] == (nodes,)]

    def moved(edges: NDArray[np.int64]) -> list[NDArray[np.float64]] | None:
        try:
            other = forced(made, without_edges(made.whole, edges).worlds)
        except Exception:  # a user's model may refuse the graph without the edges, with any exception
            return None
        gaps = [laid_out(by, s.factor.shape, s.across) for s, by in zip(made.sources, other.shifts, strict=True)]
        return [np.linalg.norm(gaps[i].reshape(nodes, -1), axis=1) for i in rows]

    return loudest(made.whole.graph, np.random.default_rng(0), moved) if rows else []


def alone(made: Study, unit: Unit) -> list[int]:
    """The secrets that `farthest_alone` finds; none without noise in the release. Edges are removed one by one only if some noisy
    value has no row for each node: else `louder` finds them.
    """
    if all(unit in EDGES and s.factor.shape[:1] == (made.whole.graph.nodes,) for s in made.sources):
        return []

    def sizes(absent: Absence) -> tuple[float, ...]:
        return move.each if (move := tried_move(made, absent)) is not None else ()

    return farthest_alone(made.whole, unit, made.effort, sizes)


def tried_move(made: Study, absent: Absence, other: Forced | None = None) -> Move | None:
    """The move in a world without some secrets; None if the model refuses it or draws other numbers there. other: the run in this
    world with adjusted noise, if it is known.
    """
    try:
        return _move(made, other or forced(made, absent.worlds), absent)
    except Exception:  # a user's model may refuse the graph without the secrets, with any exception
        return None


def moving(move: Move | None) -> set[int]:
    """The sources that move by more than rounding; none if the move is not known."""
    return {i for i, by in enumerate(move.each) if by > SMALLEST} if move is not None else set()


def moved_at_first(made: Study, absent: Absence) -> set[int]:
    """The sources that move in a world with a base if it has the noisy values of the study; none for a world without a base, and
    if the model draws other numbers in a world.
    """
    return set() if absent.base is None else moving(tried_move(made, absent))


def only_together(made: Study, many: Sequence[ManyAbsent], seen: set[int], doubts: dict[str, str]) -> Iterator[Absence]:
    """Yields, for sources that many secrets together move and none of the sources `seen` resembles, a world without one secret
    that moves them. Adds a doubt for each such source for which the search by halving finds none.

    Sources of one line on cells of one shape with the same noise resemble one another. seen: the caller adds the sources that
    move in the worlds that it was given.
    """

    def moved(absent: Absence, other: Forced | None = None) -> set[int]:
        return moving(tried_move(made, absent, other))

    together = ((absent, moved(absent, run)) for absent, run, _, _ in many if absent.fewer is not None and run is not None)
    names = [(s.block.line, s.factor.shape, f"{np.abs(s.factor).max(initial=0):.3g}") for s in made.sources]
    for i, absent, one in single_secrets(together, names, seen, moved):
        if one is not None:
            yield one
        else:
            text = f"{absent.secret} moves {made.sources[i].cell}, and no single secret that was tried moves it"
            doubts.setdefault(made.sources[i].cell.array, text)


def _without_many(made: Study, unit: Unit, key: Key) -> list[ManyAbsent]:
    """Runs the model without very many secrets at once, or without fewer if it fails on such a graph.

    Returns, for each world, the run with adjusted noise, the entries that change in each cell, and for each changed array why
    nothing is stated about it.
    """
    why = ""
    for many in without_many(made.whole, unit, key):
        try:
            runs = [(_without(made, absent), reseeded(made, absent)) for absent in many]
        except Exception as fault:  # a user's model may refuse such a graph, with any exception
            why = why or f"{many[0].secret} ends the training ({type(fault).__name__}: {one_line(fault)})"
        else:
            pairs = zip(many, runs, strict=True)
            return [(absent, other, differ, stray | again) for absent, ((differ, other, stray), again) in pairs]
    return [(Absence("", made.whole), None, {}, {"": why})]


def _without(made: Study, absent: Absence) -> tuple[dict, Forced | None, dict[str, str]]:
    """Runs the model without a secret, with adjusted noise. Returns the entries that change in each cell, the run (None if it
    draws other numbers), and for each changed array why nothing is stated about it.
    """
    try:
        other = forced(made, absent.worlds)
    except Diverged as line:
        return {}, None, {cell.array: f"{absent.secret} changes what is drawn ({line})" for cell in made.base.cells}
    differ = changed(made, other.play, absent.hidden)
    uncovered = f"and no recorded noise covers this change{_other_draws(made) if differ else ''}"
    return differ, other, {cell.array: f"{absent.secret} changes {cell} {uncovered}" for cell in differ}


def _other_draws(made: Study) -> str:
    """The end of a sentence about a change that no noise covers: the lines whose draws may cover it nevertheless; "" if none."""
    noise = {at for source in made.sources for at, _ in source.block.parts}
    draws = [d for at, d in enumerate(made.base.draws) if at not in noise and at not in made.of_one_value and not d.weights]
    lines = ", ".join(list(dict.fromkeys(draw.line for draw in draws))[:LINES])
    return f"; the random numbers of {lines} may cover it in a way that the recorder does not follow" if lines else ""


def _move(made: Study, other: Forced, absent: Absence, shared: Common | None = None) -> Move:
    squares, entries, laws, each, small = 0.0, list[float](), list[str](), [], list[float]()
    shown = [np.ones(s.factor.shape) for s in made.sources]
    shifts = other.shifts
    if absent.base is not None:
        start = forced(made, absent.base.worlds)
        shifts = tuple(by - before for by, before in zip(shifts, start.shifts, strict=True))
    gaps = [laid_out(shift, s.factor.shape, s.across) for s, shift in zip(made.sources, shifts, strict=True)]
    for i, place in _own_rows(made, other, absent):
        gaps[i], shown[i] = np.nan_to_num(place.left_out(gaps[i])), np.nan_to_num(place.left_out(shown[i]))
    if absent.half:
        gaps = [by / 2 for by in gaps]
    for source, by in zip(made.sources, gaps, strict=True):
        if source.block.law == "normal":
            each.append(float(np.linalg.norm(by)))
            squares += each[-1] ** 2
        else:
            moved = [float(v) for v in np.abs(by[np.abs(by) > SMALLEST])]
            each.append(sum(moved))
            entries += moved
            laws += [source.block.law] * len(moved)
            small += _small(made, source, by)
    if shared is not None:
        move, there = (
            np.concatenate([in_line(by, s.across) for s, by in zip(made.sources, some, strict=True)]) for some in (gaps, shown)
        )
        squares = shared.left(move, there)
    counted = math.fsum(entries)
    uncounted = small_moves(counted, counted + math.fsum(small), len(small), SMALLEST)
    return Move(absent.secret, math.sqrt(squares), tuple(entries), tuple(laws), tuple(each), uncounted, absent.half)


def _small(made: Study, source: Source, by: NDArray[np.float64]) -> list[float]:
    """The absolute moves that may be rounding by their size, but are larger than the rounding of the released values."""
    numbers = made.base.cells[source.cell]
    kind = made.base.kinds.get(source.cell, numbers.dtype)
    error = ULPS * np.spacing(np.abs(numbers).astype(kind if kind.kind == "f" else numbers.dtype)).astype(np.float64)
    sizes = np.abs(by)
    return [float(v) for v in sizes[(sizes <= SMALLEST) & (sizes * np.abs(source.factor) > error)]]


def _own_rows(made: Study, other: Forced, absent: Absence) -> list[Located]:
    """The released rows of absent nodes in each source, if no other released number depends on their noise. other: the run
    without the nodes.
    """
    if absent.hidden is None:
        return []
    rows = [Place(0, absent.hidden, True)]
    tried = [(i, place) for i, s in enumerate(made.sources) if s.factor.shape[:1] == (made.whole.graph.nodes,) for place in rows]

    def alone(changed: Sequence[Located], _: Sequence[Located]) -> bool:
        for size in SIZES:
            shifts = [shift.copy() for shift in other.shifts]
            for i, place in changed:
                source = made.sources[i]
                change = laid_out(nudge(source.block, i, size), source.factor.shape, source.across)
                shifts[i] += in_line(np.where(place.mask(change.shape) & source.noised, change, 0.0), source.across)
            try:
                after = play(made.model, absent.worlds, made.shifted(shifts), made.base.draws)
            except Diverged:
                return False
            if not same_rows(other.play, after, made.whole.graph.nodes, absent.hidden):
                return False
        return True

    return private(tried, alone)


def resized(made: Study, absent: Absence, other: Forced) -> str:
    """A sentence if the noise has another size in the run without a secret, or if its size cannot be tested; "" if not.

    If the size of the noise changes, the move of a mean does not determine epsilon.
    """
    for i, source in enumerate(made.sources):
        change = nudge(source.block, i)
        shifts = [d + (change if j == i else 0) for j, d in enumerate(other.shifts)]
        try:
            after = play(made.model, absent.worlds, made.shifted(shifts), made.base.draws).cells[source.cell]
        except Diverged as line:
            return f"the noise on {source.cell} could not be tested in a world that differs by {absent.secret} ({line})"
        if not source.moves_by(change, other.play.cells[source.cell], after):
            return f"{absent.secret} changes the size of the noise on {source.cell}"
    return ""


def weakest(made: Study) -> NDArray[np.int64]:
    """The WEAKEST nodes with the least noise of each source with a row for each node whose noise differs between entries.
    -> (nodes,).
    """
    by_node = [s.factor for s in made.sources if s.factor.shape[:1] == (made.whole.graph.nodes,)]
    uneven = [factor for factor in by_node if np.ptp(np.abs(factor)) > SMALLEST * np.abs(factor).max()]
    rows = [np.argsort(np.abs(f.reshape(len(f), -1)).min(1), kind="stable")[:WEAKEST] for f in uneven]
    return np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)


def reseeded(made: Study, absent: Absence) -> dict[str, str]:
    """A doubt about all arrays if the same seed draws other noise in a world without some secrets, else {}. Such a model does not
    allow a run with another graph and the same noise.

    A draw of one number for each training node takes fewer random bits in a world with fewer of them, so later draws of the same
    generator differ too. Draws after it are not compared.
    """
    draws = play(made.model, absent.worlds).draws
    pairs = enumerate(zip(draws, made.base.draws, strict=False))
    comparable = next((at for at, (one, other) in pairs if of_fewer_nodes(one, other) is not None), len(made.base.draws))
    for source in made.sources:
        for at, _ in source.block.parts:
            if at < comparable and (at >= len(draws) or not same_numbers(draws[at], made.base.draws[at])):
                rows = (other_rows(one, other) for one, other in zip(draws, made.base.draws, strict=False))
                way = next(filter(None, rows), f"; {ONE_PICK}" if made.base.draws[at].law in PICKS else "")
                return {"": f"{absent.secret} changes the noise that the same seed draws ({made.base.draws[at].where}){way}"}
    return {}
