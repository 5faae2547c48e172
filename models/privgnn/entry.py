"""The entry of PrivGNN in the catalogue of systems."""

from ..facts import System, factory

PRIVGNN = System(
    make=factory(__name__, "privgnn.PrivGnn", lambda mode, facts, private: {"classes": facts.classes, "queries": 50}),
    protects="a node with its edges",
    sees="posteriors of the student, or its labels",
    source="Olatunji et al., TMLR 2023",
)
