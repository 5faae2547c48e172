"""Releases of more randomised reports than the audit tests one by one: those that stand at their place in the release all count.
The truth is the closed form of one report times their number.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.events.types import PureDpEvent
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.worlds import without_edges
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.capabilities import THOROUGH
from gnnaudit.models.graph.graph import Worlds

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH, KEEP, MANY = load("campus:n=120:degree=6"), 0.8, 40
TRUTH = float(np.log(KEEP / (1 - KEEP)))


def bound_of(show, epsilon, tmp_path):
    """The largest bound for a release of `show` of MANY randomised bits of each node, all 1 if its first feature is positive."""

    def train(graph, seed):
        bits = np.repeat(np.asarray(graph.x)[:, :1] > 0, MANY, axis=1)
        rng = np.random.default_rng(seed)
        return {"rows": show(bits ^ (rng.random(bits.shape) > KEEP), rng)}

    claim = Claim(epsilon, 0.0, Unit.FEATURES, exposes=("rows",))
    model = Looped(train, releases=("rows",), unit=Unit.FEATURES, events=PureDpEvent(epsilon))
    bounds = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("many"), 3, 1e-4)).bounds
    return max(bounds, key=lambda b: b.epsilon)


@pytest.mark.parametrize("show", [lambda told, rng: told, lambda told, rng: 1.0 - 2.0 * told], ids=["bits", "signs"])
def test_reports_that_the_release_shows_at_their_place_all_count(show, tmp_path):
    bound = bound_of(show, 1.02 * MANY * TRUTH, tmp_path)
    assert not bound.refuted
    assert bound.epsilon == pytest.approx(MANY * TRUTH, rel=1e-3)
    assert bound.reach < 1.05 * MANY * TRUTH
    assert bound_of(show, 0.98 * MANY * TRUTH, tmp_path).refuted


@pytest.mark.parametrize(
    "show",
    [
        lambda told, rng: np.repeat(told[:, :1], MANY, axis=1),
        lambda told, rng: np.repeat(np.bitwise_xor.reduce(told, axis=1)[:, None], MANY, axis=1),
        lambda told, rng: np.repeat(told.any(axis=1)[:, None], MANY, axis=1),
    ],
    ids=["the first one", "whether an even number are 1", "whether one is 1"],
)
def test_reports_of_which_the_release_shows_one_bit_at_all_places_do_not_all_count(show, tmp_path):
    """No adversary learns more from one function of them than from the reports that it depends on: here 1, MANY and MANY. One bit
    of which both values have at least the probability (1 - KEEP)^MANY costs less than all reports together.
    """
    assert bound_of(show, 1.02 * TRUTH, tmp_path).epsilon <= TRUTH * (1 + 1e-6)


def test_reports_that_are_randomised_again_cost_no_more_than_both_coins_leave(tmp_path):
    """The second coin flips a report with the same probability, so a released bit is true with KEEP^2 + (1 - KEEP)^2."""
    right = KEEP**2 + (1 - KEEP) ** 2
    true = MANY * float(np.log(right / (1 - right)))
    bound = bound_of(lambda told, rng: told ^ (rng.random(told.shape) > KEEP), 1.02 * true, tmp_path)
    assert bound.epsilon <= true


class FewTested(Looped):
    effort = replace(THOROUGH, shown=1)


def picks(graph, seed):
    """A class for each node, picked with the scores of its neighbours' classes, as one-hot rows: no array shows the picks at
    their place. An edge moves two scores by 1 each.
    """
    votes = torch.from_numpy(graph.adjacency().toarray() @ np.eye(graph.classes)[graph.y])
    torch.manual_seed(seed % 2**63)
    drawn = torch.distributions.Categorical(logits=votes).sample().numpy()
    return {"rows": np.eye(graph.classes)[drawn]}


def cost_of(edge):
    """The largest log-ratio of the probabilities of all picks with and without an edge."""
    there, here = (Worlds.of(GRAPH, np.zeros(1, dtype=np.uint64)) for _ in range(2))
    gone = without_edges(here, np.array([edge])).worlds.graph
    logs = []
    for graph in (there.graph, gone):
        votes = graph.adjacency().toarray() @ np.eye(graph.classes)[graph.y]
        logs.append(votes - np.log(np.exp(votes).sum(axis=1, keepdims=True)))
    apart = logs[0] - logs[1]
    return max(apart.max(axis=1).sum(), (-apart).max(axis=1).sum())


COSTLIEST = max(map(cost_of, range(GRAPH.edges.shape[1])))


@pytest.mark.parametrize("kind", [Looped, FewTested])
@pytest.mark.parametrize("factor", [0.51, 1.02])
def test_what_picks_cost_that_are_not_known_to_be_shown_leaves_a_claim_open(kind, factor, tmp_path):
    """One of the two picks alone costs no more than 0.51 of both."""
    claim = Claim(factor * COSTLIEST, 0.0, Unit.UNDIRECTED_EDGE, exposes=("rows",))
    model = kind(picks, releases=("rows",), events=PureDpEvent(claim.epsilon))
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("picks"), 3, 1e-4)).bounds
    assert any(b.refuted for b in found) == (kind is Looped and factor < 1)
    assert any(b.reach < np.inf for b in found) == (kind is Looped or factor > 1)
    assert all(b.epsilon <= COSTLIEST * (1 + 1e-6) for b in found)
