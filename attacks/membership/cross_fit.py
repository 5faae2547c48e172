"""One pool of runs, used as shadows for each other, with the run under attack left out of all that is fitted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ..base import Pilot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Release
    from ..base import Attack, Challenge


def scores_leave_one_out(
    attack: Attack, release: Release, challenge: Challenge, bits: NDArray[np.bool_], targets: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Each target run scored by the attack fitted on the other runs: (targets, c). targets: which runs; all by default.

    A run whose bits are the exact opposite of the target's is left out with it. Shadows drawn as complementary halves hold
    every challenge equally often, so that one left out alone would show its bits in what is missing from the counts.
    """
    check(release, challenge, bits)
    chosen = np.arange(len(release)) if targets is None else np.asarray(targets)
    return np.concatenate([scores_of(attack, release, challenge, bits, others(bits, k), np.array([k])) for k in chosen])


def scores_split(
    attack: Attack,
    release: Release,
    challenge: Challenge,
    bits: NDArray[np.bool_],
    shadows: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The target runs scored by the attack fitted once on the shadow runs: (targets, c).

    Raises ValueError for a run that is both.
    """
    check(release, challenge, bits)
    return scores_of(attack, release, challenge, bits, np.asarray(shadows), np.asarray(targets))


def scores_within(
    attack: Attack, release: Release, challenge: Challenge, bits: NDArray[np.bool_], taught: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Each run scored by the attack fitted on other challenges of that very run: (runs, challenges that are not taught).

    The attacker knows the bits of `taught`, (c,) bool, in the run under attack. This is how GAP's node attack is evaluated in
    its code; nothing is transferred from one model to another.
    """
    check(release, challenge, bits)
    known, asked = (dataclasses.replace(challenge, items=challenge.items[part]) for part in (taught, ~taught))
    runs = [np.array([k]) for k in range(len(release))]
    fitted = [attack.fit(Pilot(release.part(k), known, bits[k][:, taught])) for k in runs]
    return np.concatenate([a.score(release.part(k), asked) for a, k in zip(fitted, runs, strict=True)])


def scores_of(
    attack: Attack,
    release: Release,
    challenge: Challenge,
    bits: NDArray[np.bool_],
    shadows: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.float64]:
    both = np.intersect1d(shadows, targets)
    if both.size:
        raise ValueError(f"run {both[0]} is both shadow and target: an attack that was fitted on its target always wins.")
    fitted = attack.fit(Pilot(release.part(shadows), challenge, bits[shadows]))
    return fitted.score(release.part(targets), challenge)


def others(bits: NDArray[np.bool_], run: int) -> NDArray[np.int64]:
    """The runs that may be fitted on when `run` is the target."""
    left_out = (bits != bits[run]).all(1)
    left_out[run] = True
    return np.flatnonzero(~left_out)


def check(release: Release, challenge: Challenge, bits: NDArray[np.bool_]) -> None:
    if bits.shape != (len(release), len(challenge)):
        raise ValueError(f"bits {bits.shape}: must be (runs, challenges) = {(len(release), len(challenge))}.")
