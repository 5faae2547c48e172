"""Looks for a secret that a model does not protect on graphs where it alone differs from all others, or where it makes an exact
value cross a threshold.
"""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from ....accounting.claim import Claim
from ....models.graph.graph import Graph
from ...key import Key
from ...recorded.laws import cost
from ...recorded.playing import Diverged
from ...recorded.secrets.among_equals import among_equals
from ...recorded.secrets.worlds import Absence
from ...recorded.study import History, Study
from ..absence import Incomparable, OtherNoise, changed_without, draws_nothing, history, kept, moved
from ..initial_weights import same_for_all_seeds, with_weights
from ..inside import Inside, not_known, read_only, reports, without_secrets
from ..past_noise import changed
from ..reading import added_later
from .crossings import Without, crossings, recorded_as
from .further_runs import in_further_runs, in_other_runs
from .rare_noise import opened, rarely, reads_one

SECONDS = 4.0  # of processor time for other noise on all graphs
RUNS = range(1, 9)  # the numbers of the runs with other noise on each graph
SMALL = 1e-4  # above this delta the claim may permit what so few runs show


def suspicious(known: Inside, graph: Graph, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what a run on each graph of `among_equals` and `crossings` shows, if there the secret moves a noisy value, changes a
    released array although every noisy value is the same, changes the size of the noise, or decides whether the run draws
    anything, or to what it adds noise. A model may fail on such a graph: then nothing rests on it. At last, yields what
    `in_runs_with_other_noise` shows of these graphs, and what `in_other_runs` does. known: what the run on `graph` shows.
    """
    like, tried = known.run.study, list[tuple[Inside, bool]]()
    equal = ((*world, False) for world in among_equals(graph, claim.unit, like.model))
    for made, without_secret, seldom in (*equal, *crossings(like, graph, claim, key)):
        try:
            found = _on(like, made, without_secret, claim, key, seldom)
        except Exception:  # a user's model may refuse other graphs, with any exception
            continue
        if found is not None and (found.worst or found.past or found.resized or found.silenced or found.unmatched):
            yield found
            tried.append((found, seldom))
    yield from in_runs_with_other_noise([(part, seldom) for part, seldom in tried if part.worst is not None], claim)
    for part in filter(None, (known, known.small)):
        yield from in_other_runs(part, claim, key)


def _on(like: Study, graph: Graph, without_secret: Without, claim: Claim, key: Key, seldom: bool) -> Inside | None:
    """What a run on the graph shows of its only secret, see `_without`; None if the mechanisms are not known. Noise that is the
    same for all seeds counts as data, if other noise is left. seldom: whether a further run in which the secret changes the
    release counts, if it does not do so in the first run.
    """
    made = recorded_as(like, graph, key)
    first = history(made, 0)
    if not made.doubt and not_known(first) is None and (public := same_for_all_seeds(first)):
        known = history(with_weights(made, public), 0)
        first = known if not_known(known) is None else first
    if made.doubt or not_known(first) is not None or not all(np.all(np.isfinite(m.clean)) for m in first.mechanisms):
        return None
    if made.closely and not added_later(first):
        return None
    absent = without_secret(made.whole)
    found = _without(first, absent, claim)
    if seldom and not (found.past or found.resized or found.silenced or found.unmatched):
        return in_further_runs(first, [absent], claim.delta) or found
    return found


def in_runs_with_other_noise(parts: Sequence[tuple[Inside, bool]], claim: Claim) -> Iterator[Inside]:
    """Yields what one run with other noise shows, if `opened` finds it on one of these graphs; or if in one of RUNS the secret
    changes a released array although every noisy value is the same, or a noisy value is read that was not read, and the secret
    then costs more than the claim. On small graphs, noise crosses a threshold that it never reaches on the whole graph: the exact
    number of edges is 0, or all nodes are training nodes. The search begins with the smallest graph, and ends after SECONDS.
    parts: each with whether `opened` was asked before.
    """
    until = time.process_time() + SECONDS
    for part, asked in sorted(parts, key=lambda pair: _size(pair[0].run.worlds.graph)):
        assert part.worst is not None
        if time.process_time() > until:
            return
        if not asked and (found := opened(part.run, [part.worst], claim.delta, until)) is not None:
            yield found
            return
        for run in _that_read(part, claim.delta, until):
            if not (part.idle or changed_without(run, part.worst)):
                continue
            other = _without(run, part.worst, claim)
            if other.past or (part.idle - other.idle and other.cost(claim.delta) > claim.epsilon):
                yield other
                return


def _size(graph: Graph) -> int:
    return graph.nodes + int(graph.edges.shape[1])


def _that_read(part: Inside, delta: float, until: float) -> Iterator[History]:
    """Yields runs with other noise, and one with rare noise that reads a value that the run does not read, if there is one."""
    for number in RUNS if delta <= SMALL else ():
        with suppress(Diverged):
            yield history(part.run.study, number)
    if part.idle and (found := rarely(part.run, [partial(reads_one, some=part.idle)], delta, until)) is not None:
        yield found[0]


def _without(first: History, absent: Absence, claim: Claim) -> Inside:
    """What a run shows of its only secret, which is the worst one if it moves anything."""
    found = without_secrets(first)
    try:
        after = kept(first, absent)
        moves = moved(first, absent, after)
    except OtherNoise:
        return dataclasses.replace(found, resized=(absent,))
    except Incomparable:
        silent = draws_nothing(first.study.model, absent.worlds)
        return dataclasses.replace(found, silenced=(absent,) * silent, unmatched=(absent,) * (not silent))
    shifts, doubts = read_only(first, found.idle, moves, reports(first))
    counted = found.counted(shifts)
    past = changed(first, absent, after.play)
    if past or doubts or not cost(first.mechanisms, counted, claim.delta) > 0:
        return dataclasses.replace(found, past=past, across=(absent,))
    return dataclasses.replace(found, moves=((absent.secret, first.sizes(counted)),), worst=absent, shifts=shifts, apart="")
