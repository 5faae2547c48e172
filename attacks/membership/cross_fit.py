"""Scores runs with attacks that are fitted on other runs, or on other challenges of the same run."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Attack, Challenge, Pilot


def scores_split(
    attack: Attack,
    release: Release,
    challenge: Challenge,
    bits: NDArray[np.bool_],
    shadows: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The scores (targets, c) of the target runs, by the attack fitted once on the shadow runs. shadows, targets: indices of
    runs.

    Raises ValueError for a run that is both shadow and target, and for bits of another shape.
    """
    check(release, challenge, bits)
    shadows, targets = np.asarray(shadows), np.asarray(targets)
    both = np.intersect1d(shadows, targets)
    if both.size:
        raise ValueError(f"run {both[0]} is both shadow and target: an attack fitted on its target already knows the bits.")
    fitted = attack.fit(Pilot(release.part(shadows), challenge, bits[shadows]))
    return fitted.score(release.part(targets), challenge)


def scores_within(
    attack: Attack, release: Release, challenge: Challenge, bits: NDArray[np.bool_], taught: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The scores (runs, challenges not in `taught`) of each run, by the attack fitted on other challenges of the same run.

    taught: (c,) bool, the challenges whose bits in the run under attack the attacker knows. The attack uses no shadow models.
    GAP's code evaluates its node attack in this way. Raises ValueError for bits of another shape.
    """
    check(release, challenge, bits)
    known, asked = (dataclasses.replace(challenge, items=challenge.items[part]) for part in (taught, ~taught))
    runs = [np.array([k]) for k in range(len(release))]
    fitted = [attack.fit(Pilot(release.part(k), known, bits[k][:, taught])) for k in runs]
    return np.concatenate([a.score(release.part(k), asked) for a, k in zip(fitted, runs, strict=True)])


def check(release: Release, challenge: Challenge, bits: NDArray[np.bool_]) -> None:
    if bits.shape != (len(release), len(challenge)):
        raise ValueError(f"bits {bits.shape}: must be (runs, challenges) = {(len(release), len(challenge))}.")
