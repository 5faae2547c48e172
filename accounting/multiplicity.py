"""Many looks at one promise: alpha is divided before looking."""

from __future__ import annotations


def divide(alpha: float, looks: int) -> float:
    """The level of each of `looks` looks whose false alarms together stay below alpha, however they depend on one another."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha}: must be between 0 and 1, both excluded. 0.05 is a common choice.")
    if looks < 1:
        raise ValueError(f"looks={looks}: must be at least 1. A plan that looks at nothing needs no alpha.")
    return alpha / looks
