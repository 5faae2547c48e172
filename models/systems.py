"""The catalogue of systems. Each line names the entry of a system; the entry is in the folder of the system's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..accounting.claim import Unit
from .baselines import entry as baselines
from .dpar import entry as dpar
from .facts import Facts, System
from .gap import entry as gap
from .lpgnn import entry as lpgnn
from .privgnn import entry as privgnn
from .vesper import entry as vesper

if TYPE_CHECKING:
    from .base import Model

SYSTEMS: dict[str, System] = {
    "gap": gap.GAP,
    "progap": gap.PROGAP,
    "vesper": vesper.VESPER,
    "dpar": dpar.DPAR,
    "privgnn": privgnn.PRIVGNN,
    "lpgnn": lpgnn.LPGNN,
    "mlp": gap.MLP,
    "edgerand": baselines.EDGERAND,
    "dpgnn": baselines.DPGNN,
    "gcn": baselines.GCN,
    "sage": baselines.SAGE,
    "gat": baselines.GAT,
    "gin": baselines.GIN,
}


def at_unit(recipe: Model, unit: Unit | None, facts: Facts) -> dict[str, Any]:
    """The fields of the recipe that make it protect `unit`, if the system has a node-level version; otherwise none."""
    entry = SYSTEMS.get(recipe.name)
    if unit is not Unit.NODE or recipe.unit is unit or entry is None or not entry.node_level:
        return {}
    return {"unit": unit, "train_nodes": facts.train, **entry.node_level}
