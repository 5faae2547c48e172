"""The game on the messages that one party sends to another. The scores are log-likelihood ratios of the messages."""

import dataclasses
import math
from typing import Any

from ...accounting.gaussian import mu_of_claim
from ...accounting.lower.one_run import canaries
from ...accounting.lower.rank_test import gaussian_family
from ...accounting.upper.tradeoff import curve
from ...attacks.canary.direction_ratio import DirectionRatio
from ...models.capabilities import NoisyMessages
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, keeping
from ..games.canaries import pairs
from ..games.game import Game

CANARIES = 1000  # canary edges in one run
DECOYS = 2000  # planted pairs that no run joins; they are additional trials of world 0 and cost no run
READ = ("transcript",)


def refuses(case: Case) -> str | None:
    """The audit needs messages that are normalised noisy sums of known rows."""
    return case.lacks(NoisyMessages)


def play_messages(setting: Setting) -> Outcome:
    """Plays the likelihood-ratio game on all messages, with many disjoint canary edges in every run.

    Given the earlier messages, canaries that move different rows are independent. A message contains the direction of a noisy sum
    but not its length. Therefore the log-likelihood ratio is only nearly normal, and a rank test compares the scores with the
    ledger's curve. If an edge had a Gaussian effect of strength mu, it would raise the mean of the log-likelihood ratio by about
    mu squared. The audit computes mu from the measured means, and from mu (at most that of the claim) the smallest detectable
    violation.
    """
    case = setting.case
    wider, edges, ends = pairs(case.counted(setting.graph), CANARIES, DECOYS)
    game = Game(wider, "edge", edges, setting.key.fold("game"))
    seen, attack = setting.store.fit(keeping(case.model, READ), game, setting.rounds, READ), DirectionRatio()
    every = attack.score(seen.release, dataclasses.replace(seen.challenge, items=ends))
    scores, decoys, bits = every[:, :CANARIES], every[:, CANARIES:], seen.bits
    strength = math.sqrt(max(scores[bits].mean() - decoys.mean(), 0.0))
    more: dict[str, Any] = {"decoys": decoys, "shown": gaussian_family(min(strength, mu_of_claim(case.claim))), "normal": False}
    seed = setting.key.fold("coin").seed
    bound, apart = canaries(scores, bits, case.claim, curve(case.model.ledger), setting.alpha, seed=seed, **more)
    rounds = f"{several(len(seen), 'round')} of {CANARIES} planted edges and {DECOYS} that are never present"
    reach = f"{rounds}; test of independence: {apart.reason}"
    return Outcome("transcript", (bound,), {}, reach, READ, attack=attack.name)
