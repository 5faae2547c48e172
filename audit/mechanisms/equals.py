"""Looks for a secret that a model does not protect on graphs where it alone differs from all others."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from ...accounting.claim import Claim
from ...models.base import Model
from ...models.graph.graph import Graph, Worlds
from ..key import Key
from ..recorded.laws import cost
from ..recorded.secrets.among_equals import among_equals
from ..recorded.secrets.worlds import Absence
from ..recorded.study import study
from .absence import OtherNoise, history, without
from .inside import Inside, not_known, read_only, reports, without_secrets
from .past_noise import changed


def suspicious(model: Model, graph: Graph, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what a run on each graph of `among_equals` shows, if there the secret costs more than the claim, changes a released
    array although every noisy value is the same, or changes the size of the noise. No bound and no smallest detectable violation
    rests on the other graphs, so a model may fail on them.
    """
    for equal, without_secret in among_equals(graph, claim.unit, model):
        try:
            found = _on(model, equal, without_secret, claim, key)
        except Exception:  # a user's model may refuse other graphs, with any exception
            continue
        if found is not None and (found.worst is not None or found.past or found.resized):
            yield found


def _on(model: Model, graph: Graph, without_secret: Callable[[Worlds], Absence], claim: Claim, key: Key) -> Inside | None:
    """What a run on the graph shows of its only secret, which is the worst one if it costs more than the claim; None if the
    mechanisms are not known.
    """
    made = study(model, graph, key, probed=False)
    first = history(made, 0)
    if made.doubts or not_known(first) is not None or not all(np.all(np.isfinite(m.clean)) for m in first.mechanisms):
        return None
    found, absent = without_secrets(first), without_secret(made.whole)
    try:
        after, moves = without(first, absent)
    except OtherNoise:
        return dataclasses.replace(found, resized=(absent,))
    shifts, doubts = read_only(first, found.idle, moves, reports(first))
    counted = found.counted(shifts)
    if (past := changed(first, absent, after, {})) or doubts or cost(first.mechanisms, counted, claim.delta) <= claim.epsilon:
        return dataclasses.replace(found, past=past, across=(absent,))
    each = tuple(m.size(by) for m, by in zip(first.mechanisms, counted, strict=True))
    return dataclasses.replace(found, moves=((absent.secret, each),), worst=absent, shifts=shifts)
