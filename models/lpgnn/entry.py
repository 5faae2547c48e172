"""The entry of LPGNN in the catalogue of systems."""

from __future__ import annotations

from ..facts import System, factory

# feature_steps is the authors' choice for low budgets on most graphs. Labels are not propagated, because propagation presumes
# strong homophily.
LPGNN = System(
    make=factory(__name__, "lpgnn.Lpgnn", lambda mode, facts, private: {"feature_steps": 2, "label_steps": 0}),
    protects="one node's features and label",
    sees="the users' reports",
    source="Sajadmanesh & Gatica-Perez, CCS 2021",
)
