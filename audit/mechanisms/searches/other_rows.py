"""Looks for a secret that costs more than the claim with rows of features unlike those of the audited graph."""

import time

from ....accounting.claim import Claim
from ...key import Key
from ...recorded.secrets.worlds import UNUSUAL, of_cancelling_rows, of_unlike_rows, public_bound, small
from ..inside import Inside, inside
from .crossings import recorded_as

SECONDS = 4.0  # of processor time for the first of the two graphs: if it takes longer, the second one is not tried
OTHER_ROWS = (  # rows in words, and the graph that gets them
    ("shorter, longer, negative, one-hot or dense", of_unlike_rows),
    ("multiples of one row, long and short, in both directions", of_cancelling_rows),
)


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
            found = inside(recorded_as(made, other(unusual), key), claim, key)
        except Exception:  # a user's model may refuse other rows, with any exception
            continue
        if isinstance(found, Inside) and (what := _leaks(found, claim)):
            own = inside(recorded_as(made, unusual, key), claim, key) if found.past else ""
            if isinstance(own, Inside) and own.past:
                return f"{next(iter(own.past.values()))}, on a {UNUSUAL} in a run with other noise", True
            return f"with rows that are {rows}, {what}", False
    return "", False


def _leaks(found: Inside, claim: Claim) -> str:
    """What a secret does on a graph that the claim does not permit, and the secret; "" if none does."""
    if (most := found.cost(claim.delta)) > claim.epsilon and found.worst is not None:
        return f"a secret costs ε = {most:.3g} for an adversary who sees the noisy values: {found.worst.secret.removesuffix(',')}"
    if found.resized:
        fewest = min(found.resized, key=lambda absent: absent.among.size)
        return f"a secret changes the size or the kind of the noise: {fewest.secret.removesuffix(',')}"
    # each of many secrets may leak less than delta permits
    single = [f"{absent.secret} " for absent in found.across if absent.among.size == 1]
    leaks = (text for text in found.past.values() if any(map(text.startswith, single)))
    return next((f"a secret leaks past the noise: {text}" for text in leaks), "")
