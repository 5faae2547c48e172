"""Computes how far one secret moves the clean values of the mechanisms within a run. The noisy values need not be released.

A clean value is a value before its noise is added. This module repeats the run without the secret, and gives every mechanism the
same noisy value as before. If the release still changes, a path past the noise leads from the secret to the release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...accounting.claim import Claim, Unit
from ...models.recorder.mechanisms.mechanism import PICK, REPORT, Mechanism
from ..case import EDGES
from ..key import Key
from ..recorded.laws import NOTHING, cost
from ..recorded.secrets.worlds import Absence, single_secrets, without_many, without_one
from ..recorded.study import History, Shifts, Study, same
from .absence import Incomparable, OtherNoise, draws_nothing, history, kept, moved
from .initial_weights import added, of_mechanisms, same_for_all_seeds, with_weights
from .loud_secrets import louder, quietest
from .past_noise import changed, or_else
from .picks import changed_in_two_steps, improbable_here, in_full
from .reading import EACH, Read, added_later, idle, unread
from .relations import REPEATED, SAME, entangled, sums
from .undone import common_changes, without_common


@dataclass(frozen=True, eq=False)
class Inside:
    """The mechanisms within a run, and how far secrets move them.

    run: the run without removals; its mechanisms are in order, each a place where noise is added to data. moves: for each secret,
    the move of each mechanism in units of its scale. past: for each array with a path past the noise, a sentence that names the
    secret which changes the array. across: for each of these, the world without this secret or secrets. doubts: why some secrets
    could not be tried. worst: the secret whose moves cost most. shifts: the moves of `worst`, one array for each mechanism.
    again: mechanism -> the earlier mechanism whose noise it uses at all entries, both as positions. sums: groups of mechanisms.
    The run uses only the sum of the noisy values of a group. shared: why mechanisms share noise in another way, so that their
    moves cannot be composed; "" if none do. entangled: see `entangled`. others: the other secrets, those that cost most first.
    apart: why no run without many secrets at once could be compared with the run; "" if one was. idle: the mechanisms that the
    run does not read; empty if there are more than EACH mechanisms. steady: the mechanisms that no secret moves, neither alone
    nor together with many others; empty if the run could not be repeated without many. small: the same on a small graph of
    unusual nodes; None if this is not known. elsewhere: what other graphs show, see `suspicious`. failed: the error with which
    the model failed on the small graph, or "". searched: whether the search for secrets that move a value farther than most was
    finished, see `louder`. resized: worlds without one or many secrets in which some noise is of another size or kind. silenced:
    worlds without one secret in which the run draws nothing. unmatched: worlds without one secret in which the run has other
    mechanisms, on a graph of `suspicious`. undone: see `common_changes`. all_tried: whether `worst` is the one of all edges or
    nodes of which the release shows most. improbable: see `improbable_here`. picked: the world two steps away that costs most
    with its picks in full; None if none changes a pick.
    """

    run: History
    moves: tuple[tuple[str, tuple[float, ...]], ...]
    past: dict[str, str]
    doubts: tuple[str, ...]
    worst: Absence | None = None
    shifts: Shifts = ()
    others: tuple[Absence, ...] = ()
    again: Mapping[int, int] = field(default_factory=dict)
    sums: tuple[tuple[int, ...], ...] = ()
    shared: str = ""
    entangled: str = ""
    apart: str = "the run was not repeated without many secrets at once"
    idle: frozenset[int] = frozenset()
    steady: frozenset[int] = frozenset()
    small: Inside | None = None
    elsewhere: tuple[Inside, ...] = ()
    failed: str = ""
    searched: bool = True
    across: tuple[Absence, ...] = ()
    resized: tuple[Absence, ...] = ()
    silenced: tuple[Absence, ...] = ()
    unmatched: tuple[Absence, ...] = ()
    undone: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    all_tried: bool = False
    improbable: str = ""
    picked: Absence | None = None

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return self.run.mechanisms

    @property
    def parts(self) -> tuple[tuple[Inside, str], ...]:
        """What the graph, the other graphs and other runs show, each with the words that end a sentence about it."""
        others = [part for part in (self.small, *self.elsewhere) if part is not None]
        return (self, ""), *((part, f", {self.where(part)}") for part in others)

    @property
    def secrets(self) -> tuple[Absence, ...]:
        """The secrets that were tried, `worst` first."""
        return self.others if self.worst is None else (self.worst, *self.others)

    def where(self, part: Inside) -> str:
        """Where `part` was found: on another graph, or in a run with other noise on the same one."""
        same = part.run.worlds.graph is self.run.worlds.graph
        return "in a run with other noise" if same else f"on a {part.run.worlds.graph.name}"

    def cost(self, delta: float) -> float:
        """The cost (nats) of all moves of the worst secret, even if the release shows only part of them; 0 without one."""
        return 0.0 if self.worst is None else cost(self.mechanisms, self.counted(self.shifts), delta)

    def counted(self, shifts: Shifts) -> Shifts:
        """The moves that count in the composition; all other moves are set to 0.

        A mechanism that uses the noise of an earlier one and moves as the earlier one does repeats the same noisy value, so its
        move does not count. In a group of `sums`, only the sum counts. The last term gets the move of the sum, divided by the
        noise of the sum. The other terms get 0. Along the axes `undone`, only differences count.
        """
        each = [
            np.zeros_like(by) if i in self.again and np.abs(by - shifts[self.again[i]]).max(initial=0) <= REPEATED else by
            for i, by in enumerate(shifts)
        ]
        for group in self.sums:
            scales = [np.broadcast_to(np.asarray(self.mechanisms[k].scale, dtype=np.float64), each[k].shape) for k in group]
            move = np.sum([each[k] * scale for k, scale in zip(group, scales, strict=True)], axis=0)
            noise = np.sqrt(np.sum(np.square(scales), axis=0))
            for k in group:
                each[k] = np.zeros_like(each[k])
            each[group[-1]] = np.divide(move, noise, out=np.zeros_like(move), where=noise > 0)
        for i, axes in self.undone.items():
            each[i] = without_common(self.mechanisms[i], each[i], axes)
        return tuple(each)


@dataclass(frozen=True, eq=False)
class Trial:
    """A repetition without one secret. shifts: the moves of what the run reads. each: the size of the move of each mechanism, in
    units of its scale. cost: of all moves (nats), or 0 under normal noise alone: there the Euclidean norm of `each` orders moves
    as their costs do.
    """

    absent: Absence
    shifts: Shifts
    each: tuple[float, ...]
    cost: float

    @property
    def size(self) -> tuple[float, float]:
        """What trials are compared by: the cost first, then the Euclidean norm."""
        return self.cost, float(np.linalg.norm(self.each))

    def exceeds(self, other: Trial | None) -> bool:
        """Whether it costs more than the other, by more than rounding."""
        (cost, norm), (most, longest) = self.size, other.size if other is not None else (0.0, 0.0)
        return cost > most * (1 + SAME) or (cost >= most * (1 - SAME) and norm > longest * (1 + SAME))


def inside(made: Study, claim: Claim, key: Key) -> Inside | str:
    """The mechanisms of the run on the whole graph, with their moves by several secrets. If the mechanisms are not known, returns
    the reason instead, and "" if the run adds no recorded noise to data.

    If paths lead past the noise, the run is also recorded closely. It then counts as a run whose mechanisms end with the last sum
    of data, if this leaves no path. If mechanisms are `entangled`, some may be sums of data and initial weights. If the noise of
    some mechanisms is the same for all seeds, such as random first centres of clusters, everybody may know it. It then counts as
    data, if other mechanisms hide all secrets.
    """
    first = history(made, 0)
    if not_known(first) is None and (public := same_for_all_seeds(first)):
        known = inside(with_weights(made, public), claim, key)
        if isinstance(known, Inside) and known.worst is not None and not known.past:
            return known
    found = of_run(first, claim, key)
    if isinstance(found, Inside) and found.entangled:
        return with_known_weights(found, claim, key)
    if not isinstance(found, Inside) or not found.past:
        return found
    first = history(dataclasses.replace(made, closely=True), 0)
    if not added_later(first):
        return found
    closely = of_run(first, claim, key)
    return closely if isinstance(closely, Inside) and not closely.past else found


def with_known_weights(found: Inside, claim: Claim, key: Key) -> Inside:
    """The mechanisms of a run, without sums that no secret moves and whose noise is known to be initial weights."""
    if not (weights := of_mechanisms(found.run, found.steady)):
        return found
    known = of_run(history(with_weights(found.run.study, weights), 0), claim, key)
    if not isinstance(known, Inside) or known.worst is None or known.entangled or known.past:
        return found
    return found if added(known.run, weights, known.worst, known.shifts) else known


def of_run(first: History, claim: Claim, key: Key) -> Inside | str:
    """As `inside`, for a run that was recorded."""
    if (reason := not_known(first)) is not None:
        return reason
    found, read = without_secrets(first), reports(first)
    many, strange, apart = repetitions(first, claim.unit, key.fold("many"))
    doubts = [why for why in (found.entangled, found.shared, *map(str, strange[:1])) if why]
    resized, silenced = [reason.absent for reason in strange], []
    past: dict[str, str] = {}
    across: list[Absence] = []
    worst: Trial | None = None
    picks = [i for i, m in enumerate(first.mechanisms) if m.shown == PICK and i not in found.idle]
    two_steps: list[tuple[float, str, Absence]] = []  # what both together cost, where one alone is not known to change a pick
    improbable = ""
    trials: list[Trial] = []
    normal, seen = all(m.law == "normal" for m in first.mechanisms), set(found.idle)
    loud, searched = louder(first, many, claim.unit)
    for absent in tried(first, claim.unit, key, many, loud, seen, doubts):
        try:
            after = kept(first, absent)
            shifts = moved(first, absent, after)
        except Incomparable as departed:
            doubts.append(str(departed))
            if isinstance(departed, OtherNoise):
                resized.append(absent)
            elif absent.is_single and draws_nothing(first.study.model, absent.worlds):
                silenced.append(absent)
            continue
        seen |= moving(first, shifts)
        shifts, lost = read_only(first, found.idle, shifts, read)
        doubts += lost
        counted = found.counted(shifts)
        trial = Trial(absent, shifts, first.sizes(counted), 0.0 if normal else cost(first.mechanisms, counted, claim.delta))
        worst = trial if trial.exceeds(worst) else worst
        whole = in_full(first, absent, after, shifts, picks)
        if why := changed_in_two_steps(first, absent, shifts, whole, picks):
            two_steps.append((cost(first.mechanisms, found.counted(whole), claim.delta), why, absent))
        improbable = improbable or improbable_here(first, absent, whole, picks, claim)
        trials.append(dataclasses.replace(trial, shifts=()))  # the moves of all trials may not fit into memory
        if new := changed(first, absent, after.play, past):
            past |= new
            across.append(absent)
    steady = {i for i in range(len(first.mechanisms)) if not any(trial.each[i] for trial in trials)}
    for absent, repetition in many:
        if new := changed(first, absent, repetition.play, past):
            past |= new
            across.append(absent)
        clean = zip(first.mechanisms, repetition.mechanisms, strict=True)
        steady -= {i for i, (m, o) in enumerate(clean) if not np.array_equal(m.clean, o.clean)}
    for array, other in or_else(first, past).items() if past else ():
        past[array] += f"; {other}"
    costly = sorted(trials, key=lambda trial: trial.size, reverse=True)
    both_steps, why, picked = max(two_steps, key=lambda each: each[0], default=(0.0, "", None))
    if both_steps > max([claim.epsilon, *(trial.cost for trial in trials)]) * (1 + SAME):
        doubts.append(why)
    if improbable:
        doubts.append(improbable)
    return dataclasses.replace(
        found,
        moves=tuple((trial.absent.secret, trial.each) for trial in trials),
        past=past,
        doubts=tuple(doubts),
        worst=worst.absent if worst is not None else None,
        shifts=worst.shifts if worst is not None else (),
        others=tuple(trial.absent for trial in costly if worst is None or trial.absent is not worst.absent),
        apart=apart,
        steady=frozenset(steady if many else ()),
        searched=searched,
        across=tuple(across),
        resized=tuple(resized),
        silenced=tuple(silenced),
        improbable=improbable,
        picked=picked,
    )


def not_known(first: History) -> str | None:
    """Why the mechanisms of the run are not known; "" if it has none, and None if they are known."""
    if first.play.notes:
        return first.play.notes[0]
    if not same(first.study.base, first.play):
        return "recording the mechanisms within a run changes its release"
    return None if first.mechanisms else ""


def without_secrets(first: History) -> Inside:
    """What the run itself shows of its mechanisms, before any secret is removed."""
    repeats, shared = first.sharing
    bound_up = entangled(first)
    places = range(len(first.mechanisms))
    unused = idle(first, [[i] for i in reversed(places)]) if len(places) <= EACH else frozenset[int]()
    repeats = without_idle(repeats, unused)
    added = tuple(sums(first, repeats))
    for terms in ([first.mechanisms[k] for k in group] for group in added):
        if len({(m.shared, m.mirrored) for m in terms}) > 1:
            text = f"the noise at {terms[0].line} and at {terms[-1].line} adds up, and entries have only one of both in common"
            shared = shared or f"{text}; within a run no cost of such a sum is computed"
    undone = common_changes(first, {k for group in added for k in group})
    return Inside(first, (), {}, (), again=repeats, sums=added, shared=shared, entangled=bound_up, idle=unused, undone=undone)


def tried(
    first: History,
    unit: Unit,
    key: Key,
    many: Sequence[tuple[Absence, History]],
    loud: Sequence[int],
    seen: set[int],
    doubts: list[str],
) -> Iterator[Absence]:
    """The worlds without one secret: a list, those of `loud`, and then those that a thorough search finds, see `Effort`.
    many, seen, doubts: see `only_together`.
    """
    effort = first.study.effort
    near = np.array([*([] if unit in EDGES else loud), *quietest(first)], dtype=np.int64)
    yield from without_one(first.study.whole, unit, key, near, effort.secrets, loud)
    if effort.thorough:
        yield from only_together(first, many, seen, doubts)


def repetitions(first: History, unit: Unit, key: Key) -> tuple[list[tuple[Absence, History]], list[OtherNoise], str]:
    """The repetitions without many secrets at once, the largest number with which the run can be repeated; empty if there is
    none. The second result says which larger numbers of secrets change the noise itself, and the third one why there is no
    repetition.
    """
    strange: list[OtherNoise] = []
    why = ""
    for many in without_many(first.study.whole, unit, key):
        try:
            return [(absent, kept(first, absent)) for absent in many], strange, ""
        except OtherNoise as reason:
            strange.append(reason)
        except Incomparable as reason:
            why = str(reason)
    return [], strange, why or str(strange[-1])


def moving(first: History, shifts: Shifts, secrets: int = 1) -> set[int]:
    """The mechanisms that these moves move by more than rounding, on average over so many secrets."""
    return {i for i, size in enumerate(first.sizes(shifts)) if size > NOTHING * secrets}


def only_together(
    first: History, many: Sequence[tuple[Absence, History]], seen: set[int], doubts: list[str]
) -> Iterator[Absence]:
    """Yields, for mechanisms that many secrets together move and none of the mechanisms `seen` resembles, a world without one
    secret that moves them. Adds a doubt for each such mechanism for which the search by halving finds none.

    Mechanisms of one line with clean values of one shape and the same noise resemble one another. seen: the caller adds the
    mechanisms that move in the worlds that it was given.
    """

    def those(absent: Absence, repetition: History | None = None) -> set[int]:
        return moving(first, _moved(first, absent, repetition), absent.among.size)

    together = ((absent, those(absent, run)) for absent, run in many if absent.fewer is not None)
    names = [
        (m.line, m.clean.shape, f"{np.asarray(m.scale, dtype=np.float64).min(initial=np.inf):.3g}") for m in first.mechanisms
    ]
    for i, absent, one in single_secrets(together, names, seen, those):
        if one is not None:
            yield one
        else:
            doubts.append(f"{absent.secret} moves the value at {names[i][0]}, and no single secret that was tried moves it")


def _moved(first: History, absent: Absence, repetition: History | None = None) -> Shifts:
    """The moves without some secrets, in full if they are two steps, or zeros if they are not known."""
    try:
        return moved(first, dataclasses.replace(absent, half=False), kept(first, absent) if repetition is None else repetition)
    except Incomparable:
        return tuple(np.zeros_like(m.clean) for m in first.mechanisms)


def reports(first: History) -> dict[int, Read]:
    """For each report, which of its entries the run reads, as far as this is known: of none."""
    return {i: Read() for i, m in enumerate(first.mechanisms) if m.law == REPORT}


def read_only(first: History, idle: Collection[int], shifts: Shifts, read: Mapping[int, Read]) -> tuple[Shifts, list[str]]:
    """The moves, set to 0 for mechanisms and entries of reports that the run does not read.

    The second result is a sentence for each report of which it is not known which entries the run reads. read: for each report,
    what is known of the entries that the run reads; the function adds to it.
    """
    kept, doubts = [], []
    for i, by in enumerate(shifts):
        if i in idle or i not in read:
            kept.append(np.zeros_like(by) if i in idle else by)
            continue
        left, lost = unread(first, i, by, read[i])
        kept.append(left)
        if lost:
            doubts.append(f"it is not known which of {lost} randomised reports at {first.mechanisms[i].line} the run uses")
    return tuple(kept), doubts


def without_idle(again: Mapping[int, int], idle: Collection[int]) -> dict[int, int]:
    """`again`, restricted to the mechanisms that the run reads. If the first of several mechanisms with the same noise is idle,
    the next of them replaces it.
    """
    firsts: dict[int, int] = {}
    left = {}
    for i, j in sorted(again.items()):
        if i not in idle and (stands := j if j not in idle else firsts.setdefault(j, i)) != i:
            left[i] = stands
    return left
