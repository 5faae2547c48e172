"""Tests the privacy claims of differentially private graph neural networks.

Users' code imports names from here only: `from gnnaudit import Claim, lower`. A name is loaded at its first use. A program that
`audit run --target` calls uses `gnnaudit.target`, which needs only NumPy.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# MKL reads this variable when torch is loaded. Without it, a matrix product depends on where its factors lie in memory, so a run
# with the same seed may differ in the last bits.
os.environ.setdefault("MKL_CBWR", "AUTO")

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .accounting.claim import Claim, Relation, Unit
    from .accounting.events import PureDpEvent
    from .accounting.lower.bounds import Bound
    from .accounting.lower.of_scores import lower
    from .accounting.upper.accountants import Upper, upper
    from .accounting.upper.calibration import calibrate
    from .accounting.upper.tradeoff import curve, gaussian_curve
    from .audit.from_python import audit
    from .models.base import Model, Release
    from .models.capabilities import (
        AnswersOtherFeatures,
        AnswersOtherGraphs,
        BoundedDegree,
        ClippedGradients,
        Effort,
        FiniteChannels,
        NoisyMessages,
        NoisyRows,
        NoisySums,
        NoisyVotes,
        RandomisedEdges,
        RandomisedReports,
    )
    from .models.data.loading import load
    from .models.graph.graph import Graph, Worlds
    from .models.looped import Looped
    from .models.random import witness
    from .models.random.streams import normal
    from .reports.evidence import Verdict, judge
    from .reports.results import Results

NAMES = {
    "accounting.claim": ("Claim", "Relation", "Unit"),
    "accounting.events": ("PureDpEvent",),
    "accounting.lower.bounds": ("Bound",),
    "accounting.lower.of_scores": ("lower",),
    "accounting.upper.accountants": ("Upper", "upper"),
    "accounting.upper.calibration": ("calibrate",),
    "accounting.upper.tradeoff": ("curve", "gaussian_curve"),
    "models.base": ("Model", "Release"),
    "models.capabilities": (
        "AnswersOtherFeatures",
        "AnswersOtherGraphs",
        "BoundedDegree",
        "ClippedGradients",
        "Effort",
        "FiniteChannels",
        "NoisyMessages",
        "NoisyRows",
        "NoisySums",
        "RandomisedEdges",
        "RandomisedReports",
        "NoisyVotes",
    ),
    "models.data.loading": ("load",),
    "models.graph.graph": ("Graph", "Worlds"),
    "models.looped": ("Looped",),
    "models.random": ("witness",),
    "models.random.streams": ("normal",),
    "reports.evidence": ("Verdict", "judge"),
    "reports.results": ("Results",),
}
_HOME = {name: module for module, names in NAMES.items() for name in names}
__all__ = sorted([*_HOME, "__version__", "audit"])


def __getattr__(name: str) -> Any:
    """Loads a public name at its first use. `audit` is the package `gnnaudit.audit`, which can also be called as a function."""
    if name == "audit":
        return import_module(".audit", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_HOME[name]}", __name__)
    found = getattr(module, name, None) or import_module(f".{_HOME[name]}.{name}", __name__)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
