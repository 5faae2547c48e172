"""Models whose only protection is randomised response: their epsilon is the closed form ln(p / (1 - p))."""

import dataclasses
import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Release, Unit, load
from gnnaudit.accounting.events.types import FiniteDpEvent, PureDpEvent
from gnnaudit.accounting.upper.exact import finite_epsilon
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.reading import elsewhere
from gnnaudit.audit.recorded.secrets.worlds import small
from gnnaudit.audit.storage.store import Store
from gnnaudit.models import capabilities
from gnnaudit.models.capabilities import Effort
from gnnaudit.models.recorder import Draw
from gnnaudit.models.recorder.mechanisms.mechanism import Mechanism
from gnnaudit.reports.evidence import judge

from ...nightly import nightly

GRAPH, DELTA, KEEP = load("campus:n=120:degree=6"), 1e-9, 0.8
TRUTH = float(np.log(KEEP / (1 - KEEP)))
RESPONSE = dp.RandomizedResponseDpEvent(2 * (1 - KEEP), 2)


def read_out(adjacency, graph):
    return shares(adjacency @ np.eye(graph.classes)[graph.y] / 4)


def shares(scores):
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}


def on_pairs(graph, seed):
    edges = graph.adjacency().toarray() > 0
    flips = np.triu(np.random.default_rng(seed).random(edges.shape) > KEEP, 1)
    return read_out(edges ^ (flips | flips.T), graph)


def upper_half_only(graph, seed):
    edges = graph.adjacency().toarray() > 0
    stays = np.random.default_rng(seed).random(edges.shape) < KEEP
    told = np.triu(np.where(stays, edges, ~edges), 1)
    return read_out(told | told.T, graph)


def of_torch(graph, seed):
    import torch

    edges = torch.tensor(graph.adjacency().toarray() > 0)
    torch.manual_seed(int(seed) % 2**31)
    flips = torch.triu(torch.rand(edges.shape) > KEEP, 1)
    return read_out((edges ^ (flips | flips.t())).numpy(), graph)


def of_own_chances(graph, seed):
    edges = graph.adjacency().toarray() > 0
    told = np.triu(np.random.default_rng(seed).binomial(1, np.where(edges, KEEP, 1 - KEEP)), 1)
    return read_out(told + told.T, graph)


def each_direction(graph, seed):
    """An edge is two bits here, each with a coin of its own."""
    edges = graph.adjacency().toarray() > 0
    return read_out(edges ^ (np.random.default_rng(seed).random(edges.shape) > KEEP), graph)


def audited(train, tmp_path, epsilon, ledger=RESPONSE):
    case = Case(Looped(train, events=ledger), Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("reports"), 3, 1e-4))


@pytest.mark.parametrize("train", [on_pairs, *nightly(upper_half_only, of_torch, of_own_chances)])
def test_the_exact_epsilon_as_a_claim_is_never_refuted_by_rounding(train, tmp_path):
    assert not any(b.refuted for b in audited(train, tmp_path, TRUTH).bounds)


@pytest.mark.parametrize("train", [on_pairs, *nightly(upper_half_only, of_torch, of_own_chances)])
def test_randomised_response_on_pairs_has_the_epsilon_of_its_closed_form(train, tmp_path):
    outcome = audited(train, tmp_path, 1.02 * TRUTH)
    assert not any(b.refuted for b in outcome.bounds)
    (bound,) = (b for b in outcome.bounds if np.isfinite(b.reach))
    assert bound.epsilon == pytest.approx(TRUTH, rel=3e-4)
    assert 1.02 * TRUTH <= bound.reach < 1.05 * TRUTH
    assert any(b.refuted for b in audited(train, tmp_path, 0.98 * TRUTH).bounds)


def test_entries_that_may_be_unread_are_said_to_be_unknown(tmp_path, monkeypatch):
    """Of two moved entries the model reads one; without runs to find out which, no cost is stated."""
    monkeypatch.setattr(capabilities, "THOROUGH", Effort(halvings=1))
    outcome = audited(upper_half_only, tmp_path, 0.5 * TRUTH)
    assert not any(b.refuted or np.isfinite(b.reach) for b in outcome.bounds)
    assert any("it is not known which of" in text for b in outcome.bounds for text in b.failed)


def test_two_coins_for_one_edge_cost_twice(tmp_path):
    assert any(b.refuted for b in audited(each_direction, tmp_path, 1.9 * TRUTH).bounds)
    assert not any(b.refuted for b in audited(each_direction, tmp_path, 2.1 * TRUTH).bounds)


def test_reports_that_only_a_sum_shows_refute_no_ledger_that_does_not_charge_for_them(tmp_path):
    """The shuffle model proves a smaller epsilon for the sum of many reports than for the reports."""
    outcome = audited(on_pairs, tmp_path, 0.5 * TRUTH, PureDpEvent(0.5 * TRUTH))
    assert not any(b.refuted for b in outcome.bounds)
    assert any("no released number shows the randomised reports" in text for b in outcome.bounds for text in b.failed)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)


class OfPairs:
    """Releases noisy pairs, as rows of both triangles. coin: one for each pair, or the same for every seed."""

    name, mode, unit, ledger = "of-pairs", "sound", Unit.UNDIRECTED_EDGE, PureDpEvent(TRUTH)
    releases = offers = ("posteriors", "rows")
    public = ()

    def footprint(self, graph):
        return 1 << 20

    def coins(self, seed, shape):
        return np.random.default_rng(seed).random(shape) > KEEP

    def fit(self, worlds, device="cpu"):
        found = {"posteriors": [], "rows": []}
        for run in range(len(worlds)):
            graph = worlds.removed(run).graph
            edges = graph.adjacency().toarray() > 0
            noisy = self.told(edges, self.coins(worlds.seeds[run], edges.shape))
            found["posteriors"].append(read_out(noisy, graph)["posteriors"][worlds.watch])
            found["rows"].append(noisy[worlds.watch])
        return Release({name: np.array(each, dtype=np.float32) for name, each in found.items()}, worlds.watch)

    def told(self, edges, coins):
        upper = np.triu(edges ^ coins, 1)
        return upper | upper.T


class HalfOfCoins(OfPairs):
    """Flips the upper triangle alone, so that the reports of the lower one are 0 for certain, and mirrors the result."""

    def told(self, edges, coins):
        upper = np.triu(edges, 1) ^ np.triu(coins, 1)
        return upper | upper.T


class Majority(OfPairs):
    """Flips each pair three times and releases the majority: a pair costs less than one of its three reports."""

    copies = 1 - 3 * KEEP**2 + 2 * KEEP**3  # the chance that the majority is wrong
    ledger = PureDpEvent(math.log((1 - copies) / copies))

    def fit(self, worlds, device="cpu"):
        found = {"posteriors": [], "rows": []}
        for run in range(len(worlds)):
            graph = worlds.removed(run).graph
            random, edges = np.random.default_rng(worlds.seeds[run]), graph.adjacency().toarray() > 0
            flipped = [edges ^ (random.random(edges.shape) > KEEP) for _ in range(3)]
            told = np.triu(flipped[0].astype(int) + flipped[1] + flipped[2] >= 2, 1)
            noisy = told | told.T
            found["posteriors"].append(read_out(noisy, graph)["posteriors"][worlds.watch])
            found["rows"].append(noisy[worlds.watch])
        return Release({name: np.array(each, dtype=np.float32) for name, each in found.items()}, worlds.watch)


class SameCoins(OfPairs):
    def coins(self, seed, shape):
        return np.random.default_rng(7).random(shape) > KEEP


class WithoutCoins(OfPairs):
    """Asks a generator for bits whose probabilities are 0 and 1: the report is the data."""

    def coins(self, seed, shape):
        return np.zeros(shape, dtype=bool)

    def fit(self, worlds, device="cpu"):
        found = {"posteriors": [], "rows": []}
        for run in range(len(worlds)):
            graph = worlds.removed(run).graph
            edges = np.random.default_rng(worlds.seeds[run]).binomial(1, graph.adjacency().toarray())
            found["posteriors"].append(read_out(edges, graph)["posteriors"][worlds.watch])
            found["rows"].append(edges[worlds.watch])
        return Release({name: np.array(each, dtype=np.float32) for name, each in found.items()}, worlds.watch)


def audited_model(model, tmp_path, epsilon):
    case = Case(model, Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("pairs"), 3, 1e-4))


@pytest.mark.parametrize(
    ("factor", "model"), [(0.95, OfPairs()), (1.05, HalfOfCoins()), *nightly((0.95, HalfOfCoins()), (1.05, OfPairs()))]
)
def test_reports_that_released_numbers_show_need_no_ledger_that_names_them(factor, model, tmp_path):
    bounds = audited_model(model, tmp_path, factor * TRUTH).bounds
    assert any(b.refuted for b in bounds) == (factor < 1)
    assert max(b.epsilon for b in bounds) == pytest.approx(TRUTH, rel=3e-4)


def test_reports_without_randomness_are_an_infinite_loss(tmp_path):
    bounds = audited_model(WithoutCoins(), tmp_path, 10 * TRUTH).bounds
    assert any(b.refuted and np.isinf(b.epsilon) for b in bounds)


def test_coins_that_are_the_same_for_every_seed_hide_nothing(tmp_path):
    bounds = audited_model(SameCoins(), tmp_path, 10 * TRUTH).bounds
    assert any(b.refuted and np.isinf(b.epsilon) for b in bounds)


def sampled(graph, seed):
    """Edges are sampled, then their sums get Gaussian noise: the sample may hide an edge, and nothing is refuted."""
    rng = np.random.default_rng(seed)
    edges = graph.adjacency().toarray() * (rng.random((graph.nodes, graph.nodes)) < 0.5)
    sums = edges @ np.eye(graph.classes)[graph.y]
    return shares(np.tanh(sums + rng.standard_normal(sums.shape)))


def thinned_by_degree(graph, seed):
    """The same, where each node keeps its edges with a probability of its own."""
    rng = np.random.default_rng(seed)
    rates = np.broadcast_to((0.9 / (1 + np.arange(graph.nodes) % 3))[:, None], (graph.nodes, graph.nodes))
    edges = graph.adjacency().toarray() * (rng.random((graph.nodes, graph.nodes)) < rates)
    sums = edges @ np.eye(graph.classes)[graph.y]
    return shares(np.tanh(sums + rng.standard_normal(sums.shape)))


@pytest.mark.parametrize("train", [sampled, thinned_by_degree])
def test_a_sample_is_no_randomised_response(train, tmp_path):
    outcome = audited(train, tmp_path, 0.1, dp.GaussianDpEvent(20.0))
    assert not any(b.refuted for b in outcome.bounds)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)


def noisy_maximum(law):
    """Each node answers its best class, by scores that each neighbour moves by up to one in all classes."""

    def train(graph, seed):
        scores = graph.adjacency() @ np.sign(graph.x[:, : graph.classes] - 0.5)
        noise = getattr(np.random.default_rng(seed), law)(0.0, BLUR, scores.shape)
        best = (scores + noise).argmax(1)
        return {"posteriors": np.log(np.eye(graph.classes)[best] * 0.9 + 0.1 / graph.classes)}

    train.__name__ = f"noisy_maximum_{law}"
    return train


BLUR = 4.0  # report-noisy-max costs 2 / BLUR for each of two nodes (Dwork and Roth 2014, Claim 3.9)


@pytest.mark.parametrize("law", ["laplace", *nightly("gumbel")])
def test_a_noisy_maximum_is_not_charged_for_all_its_scores(law, tmp_path):
    """All six scores of both nodes move: their noisy values cost twelve moves, the two maxima four."""
    outcome = audited(noisy_maximum(law), tmp_path, 4 / BLUR, PureDpEvent(4 / BLUR))
    assert not any(b.refuted for b in outcome.bounds)


def test_a_noisy_maximum_is_charged_for_its_scores_if_the_ledger_charges_for_them(tmp_path):
    assert any(b.refuted for b in audited(noisy_maximum("laplace"), tmp_path, 4 / BLUR, dp.LaplaceDpEvent(BLUR / 4)).bounds)


def test_a_noisy_maximum_with_normal_noise_costs_more_than_with_laplace_noise(tmp_path):
    """The normal distribution function falls faster in its tail than any exponential function."""
    assert any(b.refuted for b in audited(noisy_maximum("normal"), tmp_path, 4 / BLUR, PureDpEvent(4 / BLUR)).bounds)


class OfLabels:
    """Releases the answer of each node: the exponential mechanism, whose epsilon for one edge is that of its probabilities."""

    name, mode, unit, ledger = "of-labels", "sound", Unit.UNDIRECTED_EDGE, PureDpEvent(4 / BLUR)
    releases = offers = ("posteriors", "labels")
    public = ()

    def footprint(self, graph):
        return 1 << 20

    def fit(self, worlds, device="cpu"):
        found = {"posteriors": [], "labels": []}
        for run in range(len(worlds)):
            graph = worlds.removed(run).graph
            answers = noisy_maximum("gumbel")(graph, worlds.seeds[run])["posteriors"]
            found["posteriors"].append(answers[worlds.watch])
            found["labels"].append(answers.argmax(1))
        return Release({name: np.array(each, dtype=np.float32) for name, each in found.items()}, worlds.watch)


def exact_epsilon(whole, edge):
    """Of the two answers that an edge changes, by enumeration of all pairs of classes."""
    pairs = []
    for graph in (whole, dataclasses.replace(whole, edges=np.delete(whole.edges, edge, axis=1))):
        scores = graph.adjacency() @ np.sign(graph.x[:, : graph.classes] - 0.5)
        powers = np.exp((scores - scores.max(1, keepdims=True)) / BLUR)
        rows = (powers / powers.sum(1, keepdims=True))[whole.edges[:, edge]]
        pairs.append(np.outer(*rows).ravel())
    return finite_epsilon(FiniteDpEvent(*map(tuple, pairs)), DELTA)


@pytest.mark.parametrize("factor", [*nightly(0.95), 1.05])
def test_released_answers_of_the_exponential_mechanism_have_the_epsilon_of_their_probabilities(factor, tmp_path):
    graphs = GRAPH, small(GRAPH, None)
    worst = max(exact_epsilon(graph, edge) for graph in graphs for edge in range(graph.edges.shape[1]))
    claim = Claim(factor * worst, DELTA, Unit.UNDIRECTED_EDGE)
    outcome = AUDITS["differential"].run(Setting(Case(OfLabels(), claim), GRAPH, Store(tmp_path), Key("labels"), 3, 1e-4))
    bound = max(outcome.bounds, key=lambda b: b.epsilon)
    assert bound.epsilon <= worst
    if factor > 1:
        assert not any(b.refuted for b in outcome.bounds)


@pytest.mark.parametrize("seed", [5, *nightly(*range(5))])
def test_a_majority_of_reports_is_not_charged_for_any_of_them(seed, tmp_path):
    """A pair may be decided by one report while the two others disagree. Other random values show that they share it."""
    model = Majority()
    claim = Claim(0.5 * model.ledger.epsilon, DELTA, Unit.UNDIRECTED_EDGE, exposes=model.offers)
    outcome = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("majority", seed), 3, 1e-4))
    assert not any(b.refuted or np.isfinite(b.reach) for b in outcome.bounds)
    assert any("no released number shows" in text for b in outcome.bounds for text in b.failed)


def test_the_sum_modulo_two_of_two_reports_changes_with_half_of_their_entries_but_not_with_all():
    noisy = np.random.default_rng(0).random((50, 2)) < 0.5
    draw = Draw("uniform", np.zeros((50, 2)), "line")
    report = Mechanism("line", draw, 1.0, np.full((50, 2, 2), 0.5), noisy, values=(0.0, 1.0))
    parity = [np.logical_xor(*elsewhere(report, 0, half).noisy.T) for half in (False, True)]
    assert np.array_equal(parity[0], np.logical_xor(*noisy.T))
    assert not np.array_equal(parity[1], np.logical_xor(*noisy.T))


def lists_and_degrees(graph, seed):
    """Both ends of an edge report it, and each counts its neighbours. Only sums of two reports are used."""
    rng = np.random.default_rng(seed)
    lists = (graph.adjacency().toarray() > 0) ^ (rng.random((graph.nodes, graph.nodes)) > KEEP)
    degrees = graph.degree + rng.laplace(0, 1.0, graph.nodes)
    links = np.triu(np.log(np.maximum(degrees, 0.5))[:, None] + 2 * lists + 2 * lists.T > 3, 1)
    return read_out(links | links.T, graph)


@pytest.mark.parametrize(
    ("ledger", "epsilon"),
    [
        (dp.ComposedDpEvent([RESPONSE, dp.LaplaceDpEvent(1.0)]), 2 * TRUTH + 2),
        (dp.ComposedDpEvent([dp.PoissonSampledDpEvent(0.5, RESPONSE), dp.LaplaceDpEvent(1.0)]), None),
    ],
)
def test_a_ledger_of_reports_and_additive_noise_charges_for_reports_of_which_only_sums_are_released(ledger, epsilon, tmp_path):
    """A sample may use coins that are no reports, so a ledger with samples does not say that the adversary sees the coins."""
    claim = Claim(TRUTH + 1, DELTA, Unit.UNDIRECTED_EDGE)
    case = Case(Looped(lists_and_degrees, events=ledger, claim=claim), claim)
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("lists"), alpha=0.05)).bounds
    if epsilon is None:
        assert not any(bound.refuted for bound in found)
        assert not any("does not charge for them" in text for bound in found for text in bound.failed)
    else:
        assert 0.98 * epsilon < max(bound.epsilon for bound in found if bound.refuted) <= epsilon


def randomised_twice(graph, seed):
    """A client flips the parity of its label, and a shuffler flips the answer again: together as if flipped once with 0.32."""
    rng = np.random.default_rng(seed)
    first = (graph.y % 2 == 1) ^ (rng.random(graph.nodes) > KEEP)
    return {"bits": first ^ (rng.random(graph.nodes) > KEEP)}


def kept_and_sent(graph, seed):
    """RAPPOR: a permanent response on one-hot labels, and a new response to it, which alone is released."""
    rng = np.random.default_rng(seed)
    hot = np.eye(graph.classes, dtype=bool)[graph.y]
    permanent = np.where(rng.random(hot.shape) < 0.5, hot, rng.random(hot.shape) < 0.5)
    return {"sent": np.where(permanent, rng.random(hot.shape) < 0.75, rng.random(hot.shape) < 0.25)}


def label_and(told):
    """A randomised label, of which the function releases `told`."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        label = np.where(rng.random(graph.nodes) < 0.2226, graph.y, rng.integers(0, graph.classes, graph.nodes))
        return {"told": told(label)}

    return train


TWICE = math.log(0.68 / 0.32)
SENT = dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(0.75, 2), 2)
LABEL = math.log((0.2226 + 0.7774 / 6) / (0.7774 / 6))
PARITY = math.log(1.2226 / 0.7774)
THIRD = math.log((0.2226 + 0.7774 / 3) / (0.7774 / 3))


HASHED = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1]])  # of the parity, in three columns


def of_features(train, name, ledger, epsilon, tmp_path):
    claim = Claim(epsilon, 0.0, Unit.FEATURES)
    case = Case(Looped(train, releases=(name,), events=ledger, claim=claim, name="mine"), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("twice"), alpha=0.05)).bounds


@pytest.mark.parametrize(
    ("train", "name", "ledger", "epsilon"),
    [
        (randomised_twice, "bits", dp.RandomizedResponseDpEvent(0.64, 2), TWICE),
        (kept_and_sent, "sent", SENT, 2 * math.log(0.625 / 0.375)),
        (label_and(lambda label: label % 2), "told", PureDpEvent(PARITY), PARITY),
        (label_and(lambda label: label // 2), "told", PureDpEvent(THIRD), THIRD),
        (label_and(lambda label: np.eye(6)[label] @ HASHED), "told", PureDpEvent(PARITY), PARITY),
    ],
)
def test_a_report_of_which_less_is_released_is_not_charged_as_a_whole(train, name, ledger, epsilon, tmp_path):
    bounds = of_features(train, name, ledger, epsilon * (1 + 1e-6), tmp_path)
    assert not any(bound.refuted for bound in bounds)
    assert all(bound.epsilon <= epsilon for bound in bounds)


@pytest.mark.parametrize("told", [lambda label: label, lambda label: (3 * label + 1) % 7, lambda label: np.exp(label) / 50])
def test_a_report_whose_values_the_release_tells_apart_is_charged_as_a_whole(told, tmp_path):
    bounds = of_features(label_and(told), "told", PureDpEvent(0.5 * LABEL), 0.5 * LABEL, tmp_path)
    assert max(bound.epsilon for bound in bounds if bound.refuted) == pytest.approx(LABEL, rel=3e-4)


@pytest.mark.parametrize(
    ("told", "epsilon"),
    [(lambda label: label % 2, PARITY), (lambda label: np.cos(np.pi * label), PARITY), (lambda label: label // 2, THIRD)],
)
def test_a_released_function_of_a_label_is_charged_for_the_values_that_it_tells_apart(told, epsilon, tmp_path):
    bounds = of_features(label_and(told), "told", PureDpEvent(0.9 * epsilon), 0.9 * epsilon, tmp_path)
    assert max(bound.epsilon for bound in bounds if bound.refuted) == pytest.approx(epsilon, rel=3e-4)


@pytest.mark.parametrize(("charged", "refuted"), [(KEEP, True), (0.7, False)])
def test_hidden_reports_count_only_if_the_ledger_charges_as_much_for_one(charged, refuted, tmp_path):
    """Two answers on each pair cost twice. A ledger of weaker answers may mean others, which the run gives later."""
    ledger = dp.RandomizedResponseDpEvent(2 * (1 - charged), 2)
    outcome = audited(each_direction, tmp_path, 1.1 * TRUTH, ledger)
    assert any(bound.refuted for bound in outcome.bounds) == refuted


def bits_of_random_columns(graph, seed):
    """Each user answers about two random columns; the columns are released as they are, and hold no data."""
    rng, columns = np.random.default_rng(seed), min(2, graph.dim)
    asked = np.argsort(rng.random((graph.nodes, graph.dim)), axis=1)[:, :columns]
    true = np.take_along_axis(np.asarray(graph.x) > 0.5, asked, axis=1)
    flipped = rng.random(true.shape) >= KEEP
    return {"columns": asked, "bits": (true ^ flipped).astype(np.int64)}


@pytest.mark.parametrize(("claimed", "supported"), [(2.01 * TRUTH, True), (1.5 * TRUTH, False)])
def test_a_released_draw_without_data_beside_reports_has_the_reach_of_the_reports(claimed, supported, tmp_path):
    claim = Claim(claimed, 0.0, Unit.FEATURES, exposes=("columns", "bits"))
    model = Looped(bits_of_random_columns, releases=("columns", "bits"), unit=Unit.FEATURES, events=PureDpEvent(claimed))
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("columns"), 2, 1e-4))
    assert (judge(claim, (), found.bounds, notices=1.5).kind == "not-refuted") is supported
