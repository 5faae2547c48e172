"""Looks for a secret that a model does not protect on graphs where it alone differs from all others, or where it makes an exact
value cross a threshold.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ....accounting.claim import Claim
from ....models.graph.graph import Graph
from ...key import Key
from ...recorded.laws import cost
from ...recorded.secrets.among_equals import among_equals
from ...recorded.study import Study
from ..absence import Incomparable, OtherNoise, draws_nothing, history, kept, moved
from ..initial_weights import same_for_all_seeds, with_weights
from ..inside import Inside, not_known, read_only, reports, without_secrets
from ..past_noise import changed
from ..reading import added_later
from .crossings import Without, crossings, recorded_as
from .further_runs import in_further_runs, in_other_runs


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


def _on(like: Study, graph: Graph, without_secret: Without, claim: Claim, key: Key, seldom: bool) -> Inside | None:
    """What a run on the graph shows of its only secret, which is the worst one if it moves anything; None if the mechanisms are
    not known. Noise that is the same for all seeds counts as data, if other noise is left. seldom: whether a further run in which
    the secret changes the release counts, if it does not do so in the first run.
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
    found, absent = without_secrets(first), without_secret(made.whole)
    try:
        after = kept(first, absent)
        moves = moved(first, absent, after)
    except OtherNoise:
        return dataclasses.replace(found, resized=(absent,))
    except Incomparable:
        silent = draws_nothing(like.model, absent.worlds)
        return dataclasses.replace(found, silenced=(absent,) * silent, unmatched=(absent,) * (not silent))
    shifts, doubts = read_only(first, found.idle, moves, reports(first))
    counted = found.counted(shifts)
    past = changed(first, absent, after.play)
    if seldom and not past and (rare := in_further_runs(first, [absent], claim.delta)) is not None:
        return rare
    if past or doubts or not cost(first.mechanisms, counted, claim.delta) > 0:
        return dataclasses.replace(found, past=past, across=(absent,))
    return dataclasses.replace(found, moves=((absent.secret, first.sizes(counted)),), worst=absent, shifts=shifts, apart="")
