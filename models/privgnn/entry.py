"""The entry of PrivGNN in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .privgnn import PrivGnn


def _privgnn(mode: str, facts: Facts, private: bool) -> PrivGnn:
    from .privgnn import PrivGnn

    return PrivGnn(mode=mode, classes=facts.classes, queries=50)


PRIVGNN = System(
    make=_privgnn,
    protects="a node with its edges",
    sees="posteriors of the student, or its labels",
    source="Olatunji et al., TMLR 2023",
)
