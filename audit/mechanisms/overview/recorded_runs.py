"""What recorded runs of a user's model show: on the audited graph, and on other graphs."""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....accounting.claim import Claim
from ....models.capabilities import RunsElsewhere
from ....models.errors import raised
from ....models.graph.graph import Graph, Worlds
from ...case import Case, Setting, keeping, offered
from ...key import Key
from ...recorded.examination import Examination, examine
from ...recorded.playing import play
from ...recorded.reuse import same_bits
from ...recorded.secrets.worlds import UNUSUAL, public_bound, small
from ...recorded.study import History, Study, study
from ..absence import history
from ..inside import Inside, inside
from ..searches.other_graphs import suspicious


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
        found = found if found.fault else _as_served(self.case, self.counted, self.key, found)
        text = same_bits(found.study.base.draws)
        return dataclasses.replace(found, doubts={"": text, **found.doubts}, inside=False) if text else found

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
        if claim.delta > 0:
            return picked if dear(picked, claim) else found
        return picked if picked.cost(0.0) > 0 or picked.picked else found  # else the values lie too far apart

    def _inside(self, made: Study) -> Inside | str:
        """As `inside`, with the mechanisms of this study."""
        claim = self.case.claim
        found = made.doubt or inside(made, claim, self.key.fold("inside"))
        if isinstance(found, Inside) and made.effort.thorough:
            found = _with_small(found, made, self.counted, claim, self.key.fold("small"))
            others = tuple(suspicious(found, self.counted, claim, self.key.fold("decisive")))
            past = {a: f"{text}, {found.where(o)}" for o in others for a, text in o.past.items()}
            found = dataclasses.replace(found, elsewhere=others, past={**past, **found.past})
        return found


def recorded(setting: Setting) -> Recorded:
    """The recorded runs that all audits of one study share, with the key of the study; by default those of the setting itself."""
    return setting.shared.setdefault("recorded", Recorded(setting.case, setting.graph, setting.key))


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
        other = made.doubt or inside(dataclasses.replace(made, maxima=like.maxima), claim, key)
    except Exception as refusal:  # a user's model may refuse other graphs, with any exception
        return dataclasses.replace(found, failed=raised(refusal))
    where = f"on a {UNUSUAL}"
    if isinstance(other, str):
        return dataclasses.replace(found, doubts=(*found.doubts, f"{other or 'the run adds no recorded noise'}, {where}"))
    past = {array: f"{text}, {where}" for array, text in other.past.items()}
    doubts = (*found.doubts, *(f"{text}, {where}" for text in other.doubts))
    return dataclasses.replace(found, past={**past, **found.past}, doubts=doubts, small=other)


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
    return dataclasses.replace(found, fault=alone.fault, doubts={**found.doubts, "": text}, inside=False)
