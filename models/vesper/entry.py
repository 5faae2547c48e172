"""The entry of VESPER in the catalogue of systems."""

from ..facts import System, factory

VESPER = System(
    make=factory(__name__, "vesper.Vesper", lambda mode, facts, private: {"n_train": facts.train}),
    protects="an edge",
    sees="posteriors, or all messages that party B receives",
    source="Wu et al., arXiv 2310.20552",
)
