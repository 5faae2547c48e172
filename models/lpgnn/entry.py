"""The entry of LPGNN in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .lpgnn import Lpgnn


def _lpgnn(mode: str, facts: Facts, private: bool) -> Lpgnn:
    from .lpgnn import Lpgnn

    # feature_steps is the authors' choice for low budgets on most graphs. Labels are not propagated, because propagation presumes
    # strong homophily.
    return Lpgnn(mode=mode, feature_steps=2, label_steps=0)


LPGNN = System(
    make=_lpgnn,
    protects="one node's features and label",
    sees="the users' reports",
    source="Sajadmanesh & Gatica-Perez, CCS 2021",
)
