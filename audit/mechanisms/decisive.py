"""Looks for a secret that a model does not protect on graphs where it alone differs from all others, or where it makes an exact
value cross a threshold, such as a bound on degrees or a smallest number of nodes.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain, cycle, islice

import numpy as np

from ...accounting.claim import Claim
from ...models.graph.graph import Graph, Worlds
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.mechanism import Mechanism
from ..key import Key
from ..recorded.laws import cost
from ..recorded.playing import Diverged
from ..recorded.secrets.among_equals import among_equals
from ..recorded.secrets.chains import Link, chains
from ..recorded.secrets.worlds import UNUSUAL, Absence, of_cancelling_rows, of_unlike_rows, public_bound, small, without_many
from ..recorded.study import History, Shifts, Study, study
from .absence import Incomparable, OtherNoise, draws_nothing, history, kept, moved_between, moved_cells, without
from .initial_weights import same_for_all_seeds, with_weights
from .inside import Inside, inside, not_known, read_only, reports, without_secrets
from .past_noise import changed, opened
from .reading import added_later
from .relations import REPEATED, same_size

SECONDS = 4.0  # of processor time for the runs of a chain, for further runs, and for other rows
FIRST = (1.0, 0.75, 0.5, 0.25, 0.0)  # parts of a chain's links: where the run is looked for that the others repeat
RUNS, EACH_RUN = range(1, 301), 2  # of `_in_further_runs`: the numbers of the runs, and how many secrets each of them tries
WITH_MANY = 24  # so many of these runs also try worlds without many secrets
DIFFERING = 3  # largest number of such secrets of a chain
OTHER_ROWS = (  # rows in words, and the graph that gets them
    ("shorter, longer, negative, one-hot or dense", of_unlike_rows),
    ("multiples of one row, long and short, in both directions", of_cancelling_rows),
)

Without = Callable[[Worlds], Absence]
World = tuple[Graph, Without, bool]  # whether the secret is tried in further runs too
Noise = tuple[Mechanism, ...]


def suspicious(known: Inside, graph: Graph, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what a run on each graph of `among_equals` and `crossings` shows, if there the secret moves a noisy value, changes a
    released array although every noisy value is the same, changes the size of the noise, or decides whether the run draws
    anything, or to what it adds noise. A model may fail on such a graph: then nothing rests on it. At last, yields what
    `in_other_runs` does. known: what the run on `graph` shows.
    """
    like = known.run.study
    equal = ((*world, False) for world in among_equals(graph, claim.unit, like.model))
    for made, without_secret, seldom in (*equal, *crossings(like, graph, claim, key)):
        try:
            found = _on(like, made, without_secret, claim, key, seldom)
        except Exception:  # a user's model may refuse other graphs, with any exception
            continue
        if found is not None and (found.worst or found.past or found.resized or found.silenced or found.unmatched):
            yield found
    for part in filter(None, (known, known.small)):
        yield from in_other_runs(part, claim, key)


def in_other_runs(known: Inside, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what the first run with other noise shows in which one of the secrets that were removed alone, or many of them
    together, change a released array although every noisy value is the same. An exact comparison, as of a private loss with a
    bar, does so in few runs only, and in more runs without many secrets than without one. Yields nothing if the first run shows
    such a path.
    """
    secrets = [absent for absent in known.secrets if absent.among.size == 1 and absent.base is None and not absent.half]
    if not secrets or known.past:
        return
    many = list(chain.from_iterable(without_many(known.run.study.whole, claim.unit, key.fold("further"))))
    if (found := _in_further_runs(known.run, secrets, claim.delta, many)) is not None:
        yield found


def _in_further_runs(first: History, secrets: Sequence[Absence], delta: float, many: Sequence[Absence] = ()) -> Inside | None:
    """What `opened` finds, or the first of RUNS in which one of the secrets changes a released array although every noisy value
    is the same; None if there is none. Each run tries the next EACH_RUN secrets: often all of them cross a bar together. The
    first WITH_MANY runs also try worlds without many secrets. Each of the two searches ends after half of SECONDS.
    """
    if (rare := opened(first, secrets, delta, time.process_time() + SECONDS / 2)) is not None:
        return dataclasses.replace(without_secrets(rare.run), past=rare.past, across=(rare.absent,))
    until, each = time.process_time() + SECONDS / 2, cycle(secrets)
    for number in RUNS:
        if time.process_time() > until:
            break
        with suppress(Diverged):
            run = history(first.study, number)
            for absent in (*(many if number <= WITH_MANY else ()), *islice(each, min(EACH_RUN, len(secrets)))):
                with suppress(Incomparable):
                    if past := changed(run, absent, kept(run, absent).play, {}):
                        return dataclasses.replace(without_secrets(run), past=past, across=(absent,))
    return None


def _recorded(like: Study, graph: Graph, key: Key) -> Study:
    """A study of the model on another graph, recorded as `like` is."""
    made = study(like.model, graph, key, probed=False, searched=False)
    return dataclasses.replace(made, closely=like.closely, maxima=like.maxima)


def _on(like: Study, graph: Graph, without_secret: Without, claim: Claim, key: Key, seldom: bool) -> Inside | None:
    """What a run on the graph shows of its only secret, which is the worst one if it moves anything; None if the mechanisms are
    not known. Noise that is the same for all seeds counts as data, if other noise is left. seldom: whether a further run in which
    the secret changes the release counts, if it does not do so in the first run.
    """
    made = _recorded(like, graph, key)
    first = history(made, 0)
    if not made.doubts and not_known(first) is None and (public := same_for_all_seeds(first)):
        known = history(with_weights(made, public), 0)
        first = known if not_known(known) is None else first
    if made.doubts or not_known(first) is not None or not all(np.all(np.isfinite(m.clean)) for m in first.mechanisms):
        return None
    if made.closely and not added_later(first):
        return None
    found, absent = without_secrets(first), without_secret(made.whole)
    try:
        after, moves = without(first, absent)
    except OtherNoise:
        return dataclasses.replace(found, resized=(absent,))
    except Incomparable:
        silent = draws_nothing(like.model, absent.worlds)
        return dataclasses.replace(found, silenced=(absent,) * silent, unmatched=(absent,) * (not silent))
    shifts, doubts = read_only(first, found.idle, moves, reports(first))
    counted = found.counted(shifts)
    past = changed(first, absent, after, {})
    if seldom and not past and (rare := _in_further_runs(first, [absent], claim.delta)) is not None:
        return rare
    if past or doubts or not cost(first.mechanisms, counted, claim.delta) > 0:
        return dataclasses.replace(found, past=past, across=(absent,))
    return dataclasses.replace(found, moves=((absent.secret, first.sizes(counted)),), worst=absent, shifts=shifts, apart="")


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
        made = _recorded(like, links[max(math.ceil(part * len(links)), 1) - 1].graph, key)
        first = history(made, 0)
        if not made.doubts and not_known(first) is None:
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


def leaks_with_other_rows(within: Inside, claim: Claim, key: Key) -> tuple[str, bool]:
    """A sentence about a secret that costs more than the claim on one of two small graphs with rows unlike those of the audited
    graph, or that changes there the size of the noise, or a released array although every noisy value is the same. "" if there is
    no such secret, if this is not known, and if with rows of the audited graph there is one. The second graph is tried only if
    the first one took less than SECONDS.

    The second result says whether the array also changes with rows of the audited graph, in a run with the same noise. Then the
    other noise opens the path, and not the other rows.
    """
    if any(_leaks(part, claim) for part, _ in within.parts):
        return "", False
    made = within.run.study
    unusual, until = small(made.whole.graph, public_bound(made.model, made.whole.graph)), time.process_time() + SECONDS
    for rows, other in OTHER_ROWS:
        if time.process_time() > until:
            break
        try:
            found = inside(_recorded(made, other(unusual), key), claim, key)
        except Exception:  # a user's model may refuse other rows, with any exception
            continue
        if isinstance(found, Inside) and (what := _leaks(found, claim)):
            own = inside(_recorded(made, unusual, key), claim, key) if found.past else ""
            if isinstance(own, Inside) and own.past:
                return f"{next(iter(own.past.values()))}, on a {UNUSUAL} in a run with other noise", True
            return f"with rows that are {rows}, {what}", False
    return "", False


def _leaks(found: Inside, claim: Claim) -> str:
    """What a secret does on a graph that the claim does not permit, and the secret; "" if none does."""
    if (most := found.cost(claim.delta)) > claim.epsilon and found.worst is not None:
        return f"a secret costs ε = {most:.3g}: {found.worst.secret.removesuffix(',')}"
    if found.resized:
        fewest = min(found.resized, key=lambda absent: absent.among.size)
        return f"a secret changes the size or the kind of the noise: {fewest.secret.removesuffix(',')}"
    return next((f"a secret leaks past the noise: {text}" for text in found.past.values()), "")
