"""Decides which audits apply to a user's model. An audit applies if the recorded draws confirm its assumptions."""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...accounting.claim import Claim
from ...models.base import Model
from ...models.capabilities import RunsElsewhere
from ...models.errors import raised
from ...models.graph.graph import Graph, Worlds
from ..case import EDGES, Case, Setting, keeping, offered
from ..instruments.sums_of_programs import doubted
from ..key import Key
from ..own.model_file import is_built_in
from ..recorded.examination import Examination, examine
from ..recorded.playing import play
from ..recorded.reuse import same_bits
from ..recorded.secrets.worlds import UNUSUAL, public_bound, small
from ..recorded.study import History, Study, study
from .absence import history
from .decisive import suspicious
from .inside import Inside, inside

# audits that assume sums of the inputs with Gaussian noise; replay assumes this only for claims about edges
OF_SUMS = ("replay", "residual", "game")
EQUAL = 1e-3  # relative tolerance between the stated and the recorded size of the noise


@dataclass(frozen=True, eq=False)
class Recorded:
    """What recorded runs of a case's model show. Each part is found at its first use."""

    case: Case
    graph: Graph
    key: Key

    @cached_property
    def counted(self) -> Graph:
        """The graph, of which each edge is one unit of the claim."""
        return self.case.counted(self.graph)

    @cached_property
    def examination(self) -> Examination:
        """The model is asked for all arrays that it offers."""
        model = self.case.model
        found = examine(keeping(model, offered(model)), self.counted, self.case.claim, self.key)
        found = found if found.faults else _as_served(self.case, self.counted, self.key, found)
        text = same_bits(found.study.base.draws)
        return found if text is None else dataclasses.replace(found, doubts={"": text, **found.doubts}, inside=False)

    @property
    def study(self) -> Study:
        return self.examination.study

    @cached_property
    def inside(self) -> Inside | str:
        """The mechanisms within a run, or the reason why they are not known.

        The run may use some noisy values only to pick the largest. At delta = 0 the index of this value then counts in place of
        the values. At delta above 0 it does so only if it costs more than the claim. Else the values count: a proof by their
        composition is usual there, and noise that is too small for it must be noticed.
        """
        claim, found = self.case.claim, self._inside(self.study)
        if not isinstance(found, Inside) or isinstance(self.study.model, RunsElsewhere):
            return found
        if claim.delta > 0 and not dear(found, claim):
            return found
        made = dataclasses.replace(self.study, maxima=True)
        if not picks_alone(history(made, 0)):
            return found
        picked = self._inside(made)
        if not isinstance(picked, Inside) or picked.past or picked.entangled:
            return found
        if not (dear(picked, claim) if claim.delta > 0 else picked.cost(0.0) > 0):  # else the values lie too far apart
            return found
        return picked

    def _inside(self, made: Study) -> Inside | str:
        """As `inside`, with the mechanisms of this study."""
        claim = self.case.claim
        found = made.doubts[0] if made.doubts else inside(made, claim, self.key.fold("inside"))
        if isinstance(found, Inside) and made.effort.thorough:
            found = _with_small(found, made, self.counted, claim, self.key.fold("small"))
            others = tuple(suspicious(found, self.counted, claim, self.key.fold("decisive")))
            past = {a: f"{text}, {found.where(o)}" for o in others for a, text in o.past.items()}
            found = dataclasses.replace(found, decisive=others, past={**past, **found.past})
        return found


def recorded(setting: Setting) -> Recorded:
    """The recorded runs that all audits of one study share, with the key of the study; by default those of the setting itself."""
    return setting.shared.setdefault("recorded", Recorded(setting.case, setting.graph, setting.key))


def a_strangers(model: Model) -> bool:
    """Whether the model is a user's own and runs in this process. Built-in models report their noise themselves."""
    return not (isinstance(model, RunsElsewhere) or is_built_in(model))


def dear(found: Inside, claim: Claim) -> bool:
    """Whether the noisy values cost more than the claim, on one of the graphs that were tried."""
    return any(part.cost(claim.delta) > claim.epsilon for part, _ in found.parts)


def picks_alone(run: History) -> bool:
    """Whether the run reports the index of the largest of several noisy values, and uses none of these values otherwise."""
    picked = {id(m.draw) for m in run.mechanisms if m.largest}
    uses = Counter(id(draw) for m in run.mechanisms for draw in (m.draw, *m.beside))
    return bool(picked) and all(uses[draw] == 1 for draw in picked)


def _with_small(found: Inside, like: Study, graph: Graph, claim: Claim, key: Key) -> Inside:
    """Adds what a small graph of unusual nodes shows: its mechanisms, the arrays that its secrets change although every noisy
    value stays the same, and why some of its secrets could not be tried. like: the study of the graph.
    """
    model = like.model
    try:
        made = study(model, small(graph, public_bound(model, graph)), key, probed=False)
        other = made.doubts[0] if made.doubts else inside(dataclasses.replace(made, maxima=like.maxima), claim, key)
    except Exception as refusal:  # a user's model may refuse other graphs, with any exception
        return dataclasses.replace(found, failed=raised(refusal))
    where = f"on a {UNUSUAL}"
    if isinstance(other, str):
        return dataclasses.replace(found, doubts=(*found.doubts, f"{other or 'the run adds no recorded noise'}, {where}"))
    past = {array: f"{text}, {where}" for array, text in other.past.items()}
    doubts = (*found.doubts, *(f"{text}, {where}" for text in other.doubts))
    return dataclasses.replace(found, past={**past, **found.past}, doubts=doubts, small=other)


def is_recorded(model: Model) -> bool:
    """Whether the model's draws are recorded: it is a user's own, and runs in this process or as a program with `record`."""
    return model.record if isinstance(model, RunsElsewhere) else a_strangers(model)


def _as_served(case: Case, graph: Graph, key: Key, found: Examination) -> Examination:
    """The examination with a doubt about all arrays, if the release depends on which arrays the model is asked to keep.

    In this case the faults are those that the model has with the arrays that it releases by itself.
    """
    if set(case.model.releases) == set(offered(case.model)) or ("" in found.doubts and not found.inside):
        return found
    served = play(case.model, Worlds.of(graph, found.study.whole.seeds))
    if all(np.array_equal(a, found.study.base.cells.get(cell, np.zeros(0))) for cell, a in served.cells.items()):
        return found
    text = "the release changes when the model is asked for more arrays, so results about all arrays do not apply to the release"
    alone = examine(case.model, graph, case.claim, key)
    return dataclasses.replace(found, faults=alone.faults, doubts={**found.doubts, "": text}, inside=False)


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
    if found.faults or reason:
        return reason or "some released values have no noise"
    return _not_sums(case, graph, found)


def _not_sums(case: Case, graph: Graph, found: Examination) -> str | None:
    """Why 'aggregates' are not the sums of 'inputs' over neighbours with Gaussian noise of the stated size; None if they are."""
    from ...accounting.events.tree import gaussian_mu

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
