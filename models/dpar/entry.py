"""The entry of DPAR in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .dpar import Dpar


def _dpar(mode: str, facts: Facts, private: bool) -> Dpar:
    from .dpar import Dpar

    if mode == "sound":
        return Dpar(mode=mode, train_nodes=facts.train)
    return Dpar(mode=mode, train_nodes=facts.train, batch=60, node_rate=0.09, epochs=200)


DPAR = System(
    make=_dpar,
    protects="a node with its edges",
    sees="posteriors, or noisy PageRank rows and gradients",
    source="Zhang et al., WWW 2024",
)
