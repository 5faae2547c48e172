"""Finds graphs on which one secret makes an exact value cross a threshold, such as a bound on degrees or a smallest number of
nodes.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from ....accounting.claim import Claim
from ....models.graph.graph import Graph, Worlds
from ....models.recorder.mechanisms.found import Mechanisms
from ....models.recorder.mechanisms.mechanism import Mechanism
from ...key import Key
from ...recorded.secrets.chains import Link, chains
from ...recorded.secrets.worlds import Absence, public_bound
from ...recorded.study import History, Shifts, Study, study
from ..absence import Incomparable, OtherNoise, draws_nothing, history, kept, moved_between, moved_cells
from ..inside import not_known
from ..relations import REPEATED, same_size

SECONDS = 4.0  # of processor time for the runs of a chain
FIRST = (1.0, 0.75, 0.5, 0.25, 0.0)  # parts of a chain's links: where the run is looked for that the others repeat
DIFFERING = 3  # largest number of secrets of a chain that change a released array

Without = Callable[[Worlds], Absence]
World = tuple[Graph, Without, bool]  # whether the secret is tried in further runs too
Noise = tuple[Mechanism, ...]


def recorded_as(like: Study, graph: Graph, key: Key) -> Study:
    """A study of the model on another graph, recorded as `like` is."""
    made = study(like.model, graph, key, probed=False, searched=False)
    return dataclasses.replace(made, closely=like.closely, maxima=like.maxima)


def crossings(like: Study, graph: Graph, claim: Claim, key: Key) -> Iterator[World]:
    """Yields graphs, each with the function that gives the world that differs from it by one secret, and with further runs. They
    are links of `chains`: in each chain, the one whose secret moves the clean values of the run farthest (two if reports make it
    depend on the graph whose probabilities count); the first ones whose secret changes a released array although every noisy
    value is the same (with further runs, because another run may seldom meet the same comparison); the first one whose secret
    moves two values with the same noise by different amounts; the first one that draws random numbers in only one of the two
    worlds; and the first one whose noise is of another size, or added to other values, in the other world (two if in both worlds
    of the first one a part of the chain's noise is missing).

    The runs begin with the fewest secrets, because thresholds are small, and end after SECONDS. If the model refuses the graphs,
    their degrees are those of `graph` at most.
    """
    for most in dict.fromkeys((public_bound(like.model, graph), int(graph.degree.max(initial=0)))):
        for links in chains(graph, claim.unit, most, key.fold("order").generator()):
            try:
                found = tuple(_of_chain(like, links, key))
            except Exception:  # a user's model may refuse other graphs, with any exception
                break
            yield from found
        else:
            return


def _of_chain(like: Study, links: list[Link], key: Key) -> Iterator[World]:
    """As `crossings`, for one chain; yields none if the mechanisms of the run are not known."""
    if (first := _first(like, links, key)) is None:
        return
    until = time.process_time() + SECONDS
    # sizes of moves of reports depend on their probabilities: on those of `first`, or on those on the link's own graph
    sizes, farthest = [0.0, 0.0], [links[0], links[0]]
    differing: list[Link] = []
    parted, silent = None, None
    unlike: dict[bool, World] = {}  # whether one of both runs has all noise of `first` -> the first such link
    state = lru_cache(maxsize=2)(partial(_state, first))  # a link's first graph is often the second one of the next link
    for link in links:
        other, one = state(link.without), state(link.graph)
        match one, other:
            case History(), History():
                absent = link.absence(one.worlds)
                by = moved_between(one, other, absent)
                for i, base in enumerate((first, one)):
                    if (length := math.hypot(*base.sizes(by))) > sizes[i]:
                        sizes[i], farthest[i] = length, link
                if len(differing) < DIFFERING and any(True for _ in moved_cells(one.play, other.play, absent)):
                    differing.append(link)
                if parted is None and _moves_apart(first, by):
                    parted = link
            case True, History():
                silent = silent or (link.without, link.presence, False)
            case History(), True:
                silent = silent or (link.graph, link.absence, False)
            case _ if not _noise_alike(one, other):
                world = (link.without, link.presence) if isinstance(other, History) else (link.graph, link.absence)
                unlike.setdefault(isinstance(one, History) or isinstance(other, History), (*world, False))
        if time.process_time() > until:
            break
    moved = (link for link, size in zip(farthest, sizes, strict=True) if size)
    for found in dict.fromkeys(filter(None, (*moved, *differing, parted))):
        yield found.graph, found.absence, found in differing
    yield from filter(None, (silent, *unlike.values()))


def _moves_apart(first: History, by: Shifts) -> bool:
    """Whether two mechanisms with the same noise move by different amounts."""
    same, _ = first.sharing
    return any(np.abs(by[i] - by[j]).max(initial=0) > REPEATED for i, j in same.items())


def _first(like: Study, links: list[Link], key: Key) -> History | None:
    """The run that the others repeat: on the largest graph that is tried on which it has mechanisms, and these are known."""
    for part in FIRST:
        made = recorded_as(like, links[max(math.ceil(part * len(links)), 1) - 1].graph, key)
        first = history(made, 0)
        if not made.doubt and not_known(first) is None:
            return first
    return None


def _state(first: History, graph: Graph) -> History | Noise | bool:
    """The repetition of a run on another graph, with every noisy value the same. If it cannot be repeated: the mechanisms of the
    run on the graph if they differ in their noise alone; else, True if that run draws nothing, and False if it does.
    """
    worlds, again = dataclasses.replace(first.worlds, graph=graph), Mechanisms(first.mechanisms)
    try:
        return kept(first, Absence(graph.name, worlds), again)
    except OtherNoise:
        return tuple(again.found)
    except Incomparable:
        return draws_nothing(first.study.model, worlds)


def _noise_alike(one: History | Noise | bool, other: History | Noise | bool) -> bool:
    """Whether the runs of two states have noise of the same size, or no known noise."""
    some, more = _noise(one), _noise(other)
    return len(some) == len(more) and all(same_size(m, o) for m, o in zip(some, more, strict=True))


def _noise(state: History | Noise | bool) -> Noise:
    if isinstance(state, bool):
        return ()
    return state.mechanisms if isinstance(state, History) else state
