"""How far a look saw: what its canaries are worth against what the claim allows."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from ..accounting.gaussian import epsilon_of, mu_of_claim

if TYPE_CHECKING:
    from ..accounting.claim import Claim
    from ..accounting.lower import Bound

NOTHING = "this model tells nothing of its noise"


def weaker(bound: Bound, claim: Claim, strength: float) -> Bound:
    """The bound with the reach of canaries that move `strength` noise sds where the claim's own mu would be the most.

    Its reach is that of the best attack; with canaries worth a share of mu, noise must be smaller by that much more before it
    is noticed.
    """
    mu = mu_of_claim(claim)
    if not (strength > 0 and 0 < mu < math.inf):
        return dataclasses.replace(bound, notices=math.inf, reach=math.inf)
    notices = bound.notices / min(strength / mu, 1.0)
    return dataclasses.replace(bound, notices=notices, reach=float(epsilon_of(notices * mu, claim.delta)))
