"""The entry of VESPER in the catalogue of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import Facts, System

if TYPE_CHECKING:
    from .vesper import Vesper


def _vesper(mode: str, facts: Facts, private: bool) -> Vesper:
    from .vesper import Vesper

    return Vesper(mode=mode, n_train=facts.train)


VESPER = System(
    make=_vesper,
    protects="an edge",
    sees="posteriors, or all messages that party B receives",
    source="Wu et al., arXiv 2310.20552",
)
