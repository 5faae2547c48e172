"""Decides which audits apply to a user's model. An audit applies if the recorded draws confirm its assumptions."""

import numpy as np

from ....models.base import Model
from ....models.capabilities import RunsElsewhere
from ....models.graph.graph import Graph
from ...case import EDGES, Case, Setting, keeping, offered
from ...instruments.sums_of_programs import doubted
from ...own.model_file import is_built_in
from ...recorded.examination import Examination
from .recorded_runs import recorded

# audits that assume sums of the inputs with Gaussian noise; replay assumes this only for claims about edges
OF_SUMS = ("replay", "residual", "game")
EQUAL = 1e-3  # relative tolerance between the stated and the recorded size of the noise


def a_strangers(model: Model) -> bool:
    """Whether the model is a user's own and runs in this process. Built-in models report their noise themselves."""
    return not (isinstance(model, RunsElsewhere) or is_built_in(model))


def is_recorded(model: Model) -> bool:
    """Whether the model's draws are recorded: it is a user's own, and runs in this process or as a program with `record`."""
    return model.record if isinstance(model, RunsElsewhere) else a_strangers(model)


def disbelieved(name: str, setting: Setting) -> str | None:
    """Why the recorded draws do not confirm the assumptions of the audit `name`; None if they do, or if the audit does not assume
    sums.
    """
    case = setting.case
    if isinstance(case.model, RunsElsewhere):
        return doubted(name, setting)
    if name not in OF_SUMS or not a_strangers(case.model) or (name == "replay" and case.claim.unit not in EDGES):
        return None
    graph, found = recorded(setting).counted, recorded(setting).examination
    arrays = {cell.array for cell in found.study.base.cells if not cell.public}
    doubted_all = arrays <= found.doubts.keys()  # then each doubt counts, even if the model releases no sums
    unclear = ["", *(("aggregates", "inputs") if not doubted_all else sorted(arrays))]
    reason = next((found.doubts[a] for a in unclear if a in found.doubts), None)
    if found.fault or reason:
        return reason or "some released values have no noise"
    return _not_sums(case, graph, found)


def _not_sums(case: Case, graph: Graph, found: Examination) -> str | None:
    """Why 'aggregates' are not the sums of 'inputs' over neighbours with Gaussian noise of the stated size; None if they are."""
    from ....accounting.events.tree import gaussian_mu

    made = found.study
    if gaussian_mu(case.model.ledger) is None:
        return "its ledger is no composition of Gaussian mechanisms"
    cells = [c for c in made.base.cells if c.array == "aggregates"]
    stated = keeping(case.model, offered(case.model)).fit(made.whole).public.get("noise_std")
    for cell in cells:
        sources = made.on(cell)
        if len(sources) != 1 or sources[0].block.law != "normal":
            return f"{cell} does not contain exactly one draw of Gaussian noise"
        factor, source = sources[0].factor, sources[0]
        if float(np.ptp(factor)) > EQUAL * float(np.abs(factor).max()):
            return f"the noise on {cell} has different sizes at different entries"
        if stated is None or abs(abs(float(factor.flat[0])) - stated) > EQUAL * stated:
            return f"the noise on {cell} has a standard deviation of {abs(float(factor.flat[0])):.4g}; noise_std says {stated}"
        rows = next((a for c, a in made.base.cells.items() if (c.array, c.hop) == ("inputs", cell.hop)), None)
        if rows is None:
            return f"the model does not release the rows that {cell} sums"
        clean = made.base.cells[cell] - factor * source.numbers(made.base.draws)
        if np.abs(clean - graph.adjacency() @ rows).max() > EQUAL * abs(float(factor.flat[0])):
            return f"{cell} is not the sum of 'inputs' over neighbours"
    return None
