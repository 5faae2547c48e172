"""The exact cost of finite channels: computed by enumeration of all outputs, at delta = 0 and above."""

import dataclasses
import math
import re

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.closed_forms import amplified, noisy_argmax_epsilon
from gnnaudit.accounting.events.types import PureDpEvent
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.channels.exact import channels_epsilon
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.data.loading import load
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.privgnn.privgnn import PrivGnn

from ...nightly import nightly


def response(epsilon, categories=2):
    """Randomised response among some categories."""
    other = 1 / (math.exp(epsilon) + categories - 1)
    return np.full((categories, categories), other) + np.eye(categories) * other * (math.exp(epsilon) - 1)


def enumerated(epsilon, copies, delta):
    """Epsilon of several copies of binary randomised response, from the two binomial distributions of their sum."""
    keep = response(epsilon)[0, 0]
    counts = np.arange(copies + 1)
    p, q = binom.pmf(counts, copies, keep), binom.pmf(counts, copies, 1 - keep)

    def excess(at):
        return float(np.maximum(p - math.exp(at) * q, 0).sum()) - delta

    return brentq(excess, 0, epsilon * copies + 1) if excess(0) > 0 else 0.0


@pytest.mark.parametrize("delta", [1e-9, 1e-2, *nightly(1e-5, 0.1)])
@pytest.mark.parametrize(("epsilon", "copies"), [(0.5, 1), (0.3, 4), (0.05, 40), (2.0, 3)])
def test_copies_of_a_channel_cost_what_enumeration_says(epsilon, copies, delta):
    truth = enumerated(epsilon, copies, delta)
    found = channels_epsilon([(response(epsilon), copies)], delta)
    assert truth - 3e-4 <= found <= truth


def test_at_delta_zero_the_epsilons_of_channels_add_up():
    assert channels_epsilon([(response(0.5), 4), (response(1.0, 6), 1)], 0.0) == pytest.approx(3.0, rel=1e-8)


@pytest.mark.parametrize("name", ["exact", "votes"])
def test_an_honest_privgnn_keeps_its_claim_at_delta_zero_and_one_with_less_noise_does_not(name, tmp_path):
    graph, claim = load("campus:n=300"), Claim(8.0, 0.0, Unit.NODE)
    model = calibrate(PrivGnn(queries=20), claim)
    for kappa, kept in ((1.0, True), (1.5, False)):
        case = Case(model.with_noise(model.sigma / kappa), claim)
        bound = AUDITS[name].run(Setting(case, graph, Store(tmp_path), Key("pure"), 2, 0.05)).bounds[0]
        assert bound.refuted is not kept
        one = noisy_argmax_epsilon(graph.classes, case.model.sigma)
        assert bound.epsilon <= 20 * amplified(one, model.rate)  # the closed form: each vote is amplified, and the 20 add up
        assert (bound.p_value or 1.0) > 1e-6 or not kept  # fails once in a million honest audits


@dataclasses.dataclass(frozen=True)
class Teachers:
    """PATE: each of 20 teachers has one vote on each query, and a node changes one teacher."""

    scale: float
    name = "teachers"
    mode = "sound"
    unit = Unit.NODE
    releases = ("posteriors", "votes")
    public = ()
    share = 1 / 20
    queries = 10
    rate = 1.0
    single = False
    classes = 4
    ledger = dp.SelfComposedDpEvent(PureDpEvent(2 / 10), 10)  # Laplace noise of scale 10: two counts move by one

    @property
    def vote_noise(self):
        return self.scale

    def labels(self, worlds, queries, shares):
        noise = np.random.default_rng(worlds.seeds.tolist()).laplace(0, self.scale, shares.shape)
        return (20 * shares + noise).argmax(2)


@pytest.mark.parametrize("name", ["exact", "votes"])
def test_a_node_that_changes_one_of_twenty_teachers_is_not_charged_for_all(name, tmp_path):
    graph, claim = load("campus:n=300"), Claim(2.0, 0.0, Unit.NODE)
    for scale, kept in ((10.0, True), (3.0, False)):
        case = Case(Teachers(scale), claim)
        bound = AUDITS[name].run(Setting(case, graph, Store(tmp_path), Key("teachers"), 2, 0.05)).bounds[0]
        assert bound.refuted is not kept
        assert 0 < bound.epsilon <= 10 * 2 / scale  # every label has epsilon 2 / scale, whatever the other votes


@dataclasses.dataclass(frozen=True)
class Flips:
    """Each pair of nodes is flipped with probability 0.1, whatever the density; no density is released."""

    name = "flips"
    mode = "sound"
    unit = Unit.UNDIRECTED_EDGE
    releases = ("posteriors",)
    public = ()
    one_density = True
    sigma = 1.0
    ledger = dp.RandomizedResponseDpEvent(0.2, 2)

    def entry_chances(self, density, kappa=1.0):
        return 0.9, 0.1

    def response(self, worlds, run):
        raise AssertionError


@pytest.mark.parametrize(
    ("model", "unit", "said"),
    [
        (Teachers(10.0), Unit.NODE, r"10 votes: 0\.\d+ nats"),
        (PrivGnn(queries=20, sigma=10.0), Unit.NODE, r"20 votes on secret samples: 0\.\d+ nats"),
        (Flips(), Unit.UNDIRECTED_EDGE, r"one entry: 2\.19\d* nats"),
        (EdgeRand(sigma=1.0), Unit.UNDIRECTED_EDGE, r"one entry at density 0\.\d+, and Laplace noise on the density: \S+ nats"),
    ],
)
def test_samples_and_densities_are_named_only_if_a_model_has_them(model, unit, said, tmp_path):
    case = Case(model, Claim(8.0, 1e-6, unit))
    found = AUDITS["exact"].run(Setting(case, load("campus:n=300"), Store(tmp_path), Key("said"), 2, 0.05))
    assert re.fullmatch(said, found.reach)


def test_a_model_that_does_not_say_how_many_votes_a_node_changes_is_not_audited():
    case = Case(Teachers(10.0), Claim(2.0, 0.0, Unit.NODE))
    assert AUDITS["votes"].refuses(case) is None
    Silent = dataclasses.make_dataclass("Silent", [], bases=(Teachers,), frozen=True, namespace={"share": 0})
    assert "`share`" in (AUDITS["votes"].refuses(Case(Silent(10.0), case.claim)) or "")


def test_a_channel_that_reveals_its_input_has_no_epsilon_below_its_probability():
    half = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    assert channels_epsilon([(half, 1)], 0.4) == math.inf
    assert channels_epsilon([(half, 1)], 0.6) == 0


@pytest.mark.parametrize("name", ["exact", "reports"])
@pytest.mark.parametrize(("epsilon", "delta"), [(4.0, 0.05), *nightly((1.0, 1e-2))])
def test_an_honest_claim_at_a_large_delta_keeps_its_verdict_and_a_false_one_does_not(name, epsilon, delta, tmp_path):
    """The noise is calibrated at this delta, so epsilon at delta = 0 is larger than the claim."""
    claim = Claim(epsilon, delta, Unit.FEATURES, exposes=("reports", "label_reports"))
    graph = load("campus:n=300")
    model = calibrate(Lpgnn(), claim)

    def audited(claimed):
        return AUDITS[name].run(Setting(Case(model, claimed), graph, Store(tmp_path), Key("delta"), 4, 0.01)).bounds

    assert not any(bound.refuted for bound in audited(claim))
    assert any(bound.refuted for bound in audited(dataclasses.replace(claim, epsilon=0.6 * epsilon)))
