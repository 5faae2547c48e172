"""Looks for a secret that changes the release past the noise in few runs only, because an exact value is compared with a noisy
one.
"""

import dataclasses
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, cycle, islice

from scipy import stats

from ....accounting.claim import Claim
from ...key import Key
from ...recorded.playing import Diverged
from ...recorded.secrets.worlds import Absence, without_many
from ...recorded.study import History
from ..absence import Incomparable, history, kept
from ..inside import Inside, without_secrets
from ..past_noise import changed
from .rare_noise import opened

SECONDS = 4.0  # of processor time for rare noise and further runs, half for each
RUNS, EACH_RUN = range(1, 301), 2  # the numbers of the further runs, and how many secrets each of them tries
ASKED, HARDLY, LEVEL = range(301, 401), 0.1, 1e-3  # the numbers of other runs, and probabilities, see `_permitted`
WITH_MANY = 24  # so many of these runs also try worlds without many secrets


def in_other_runs(known: Inside, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what the first run with other noise shows in which one of the secrets that were removed alone, or many of them
    together, change a released array although every noisy value is the same. An exact comparison, as of a private loss with a
    bar, does so in few runs only, and in more runs without many secrets than without one. Yields nothing if the first run shows
    such a path.
    """
    secrets = [absent for absent in known.secrets if absent.is_single and absent.base is None]
    if not secrets or known.past:
        return
    many = list(chain.from_iterable(without_many(known.run.study.whole, claim.unit, key.fold("further"))))
    if (found := in_further_runs(known.run, secrets, claim.delta, many)) is not None:
        yield found


def in_further_runs(first: History, secrets: Sequence[Absence], delta: float, many: Sequence[Absence] = ()) -> Inside | None:
    """What `opened` finds, or the first of RUNS in which one of the secrets changes a released array although every noisy value
    is the same, unless delta may permit it; None if there is none. Each run tries the next EACH_RUN secrets: often all of them
    cross a bar together. The first WITH_MANY runs also try worlds without many secrets. Each of the two searches ends after half
    of SECONDS.
    """
    if (rare := opened(first, secrets, delta, time.process_time() + SECONDS / 2)) is not None:
        return rare
    until, each = time.process_time() + SECONDS / 2, cycle(secrets)
    for number in RUNS:
        if time.process_time() > until:
            break
        with suppress(Diverged):
            run = history(first.study, number)
            for absent in (*(many if number <= WITH_MANY else ()), *islice(each, min(EACH_RUN, len(secrets)))):
                with suppress(Incomparable):
                    past = changed(run, absent, kept(run, absent).play)
                    if past and not _permitted(first, absent, past, delta):
                        return dataclasses.replace(without_secrets(run), past=past, across=(absent,))
    return None


def _permitted(first: History, absent: Absence, past: Collection[str], delta: float) -> bool:
    """Whether a secret changes these arrays so seldom that delta may permit it: other runs do not show more changes than a
    probability of delta explains (binomial test at LEVEL). A small delta permits hardly any of RUNS.
    """
    if delta * len(RUNS) <= HARDLY:
        return False
    shown = 0
    for number in ASKED:
        with suppress(Diverged, Incomparable):
            run = history(first.study, number)
            shown += not changed(run, absent, kept(run, absent).play).keys().isdisjoint(past)
    return shown <= stats.binom.isf(LEVEL, len(ASKED), delta)
