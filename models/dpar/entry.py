"""The entry of DPAR in the catalogue of systems."""

from __future__ import annotations

from typing import Any

from ..facts import Facts, System, factory


def _fields(mode: str, facts: Facts, private: bool) -> dict[str, Any]:
    return {"train_nodes": facts.train} | ({"batch": 60, "node_rate": 0.09, "epochs": 200} if mode == "paper" else {})


DPAR = System(
    make=factory(__name__, "dpar.Dpar", _fields),
    protects="a node with its edges",
    sees="posteriors, or noisy PageRank rows and gradients",
    source="Zhang et al., WWW 2024",
)
