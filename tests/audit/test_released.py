"""Games on messages, reports, entries and votes: faults are detected, honest recipes pass, and scores have the stated
distribution.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.stats import ks_2samp

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.closed_forms import argmax_top_probability, channel_epsilon, noisy_argmax_epsilon
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.detection.power import notices_along
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.channels import entries, exact, transcript, user_reports, votes
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.base import Release
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.vesper.vesper import Vesper

from ..nightly import nightly

EDGE = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
NODE = Claim(4.0, 1e-4, Unit.NODE)
LOCAL = Claim(4.0, 0.0, Unit.FEATURES)


@dataclasses.dataclass(frozen=True)
class QuietVesper(Vesper):
    """Adds half of the noise that it states."""

    def fit(self, worlds, device="cpu"):
        release = Vesper.fit(dataclasses.replace(self, sigma=self.sigma / 2), worlds, device)
        return dataclasses.replace(release, public={"noise_std": self.noise_std})


@dataclasses.dataclass(frozen=True)
class LoudLpgnn(Lpgnn):
    """Spends twice the budget that it declares."""

    def fit(self, worlds, device="cpu"):
        spent = dataclasses.replace(self, feature_budget=2 * self.feature_budget, label_budget=2 * self.label_budget)
        return Lpgnn.fit(spent, worlds, device)


@dataclasses.dataclass(frozen=True)
class QuietPrivGnn(PrivGnn):
    """Adds half of the noise that it states to every answer."""

    def votes(self, worlds, taught):
        return PrivGnn.votes(dataclasses.replace(self, sigma=self.sigma / 2), worlds, taught)


@dataclasses.dataclass(frozen=True)
class LoudEdgeRand(EdgeRand):
    """Draws its graph for twice the epsilon that it states."""

    def response(self, worlds, run):
        return EdgeRand.response(dataclasses.replace(self, sigma=self.sigma / 2), worlds, run)


def calibrated(kind, recipe, claim):
    honest = calibrate(recipe, claim)
    return kind(**{f.name: getattr(honest, f.name) for f in dataclasses.fields(honest)})


def look(audit, model, claim, graph, tmp_path, rounds=10):
    case = Case(model, claim)
    assert AUDITS[audit].refuses(case) is None
    return AUDITS[audit].run(Setting(case, graph, Store(tmp_path), Key("released"), rounds, 1e-4)).bounds[0]


GAMES = {
    "transcript": (Vesper, QuietVesper, Vesper(epochs=2), EDGE),
    "reports": (Lpgnn, LoudLpgnn, Lpgnn(), LOCAL),
    "entries": (EdgeRand, LoudEdgeRand, EdgeRand(), EDGE),
    "votes": (PrivGnn, QuietPrivGnn, PrivGnn(classes=3, queries=8), NODE),
}


@pytest.mark.parametrize("audit", nightly("reports", "votes", among=GAMES))
def test_an_honest_recipe_passes(audit, graph, tmp_path):
    honest, _, recipe, claim = GAMES[audit]
    found = look(audit, calibrated(honest, recipe, claim), claim, graph, tmp_path)
    assert not found.refuted  # refuted for one seed in ten thousand at most
    assert found.epsilon > 0


@pytest.mark.parametrize("audit", nightly("reports", "votes", among=GAMES))
def test_a_recipe_that_adds_half_of_its_noise_is_refuted(audit, graph, tmp_path):
    _, faulty, recipe, claim = GAMES[audit]
    assert look(audit, calibrated(faulty, recipe, claim), claim, graph, tmp_path).refuted


@pytest.mark.parametrize("epsilon", [8.0, *nightly(4.0)])
def test_reports_prove_almost_what_enumeration_finds_and_detect_little_more(epsilon, graph, tmp_path):
    claim = dataclasses.replace(LOCAL, epsilon=epsilon)
    found = look("reports", calibrate(Lpgnn(), claim), claim, graph, tmp_path)
    assert 0.94 * epsilon < found.epsilon <= epsilon
    assert epsilon < found.reach < 1.06 * epsilon


@pytest.mark.nightly
def test_votes_prove_almost_what_the_ledger_composes_and_detect_little_more(graph, tmp_path):
    model = calibrate(PrivGnn(classes=3, queries=50), NODE)
    found = look("votes", model, NODE, graph, tmp_path)
    assert 0.94 * NODE.epsilon < found.epsilon <= NODE.epsilon
    assert NODE.epsilon < found.reach < 1.06 * NODE.epsilon


def test_declared_reports_follow_the_law_of_those_that_are_sent(graph):
    model = calibrate(Lpgnn(), dataclasses.replace(LOCAL, epsilon=8.0))
    even = np.arange(8000) % 2 == 0
    wider, users = user_reports.planted(model, graph, even[:, None], even)
    release = dataclasses.replace(model, epochs=1).fit(Worlds(wider, np.array([3], dtype=np.uint64), users))
    sent, (drawn, high) = user_reports.log_ratio(model, release, graph), user_reports.declared(model, graph, Key("declared"))
    for real, declared in ((sent[1::2], drawn[~high]), (sent[::2], drawn[high])):
        assert {float(v) for v in real} <= {float(v) for v in declared}  # equal to the last bit, as a threshold needs
        assert ks_2samp(real, declared).pvalue > 1e-6  # fails once in a million honest runs, or more rarely


def test_published_ranges_are_those_of_the_users(graph):
    coins = np.array([True, False])
    wider, users = user_reports.planted(Lpgnn(mode="paper"), graph, coins[:, None], coins)
    np.testing.assert_array_equal(wider.x[users], np.stack([graph.x.max(0), graph.x.min(0)]))


def test_votes_of_sure_teachers_follow_the_noisy_argmax(graph):
    model = PrivGnn(sigma=1.5, queries=4000, rate=1.0)
    worlds = Worlds.of(graph, [3])
    labels = votes.votes(model, worlds, np.arange(4000)[None], np.zeros((1, 1), dtype=bool))
    top = argmax_top_probability(graph.classes, 1.5)
    wins = (labels == 0).mean()
    assert abs(wins - top) < 5 * np.sqrt(top * (1 - top) / 4000)  # fails once in two million honest runs


@pytest.mark.parametrize("single", [False, True])
def test_the_ratio_of_votes_averages_to_one_without_the_node(single):
    """E[e^score] = 1 without the node, by enumeration of all votes of three queries among three classes."""
    model = PrivGnn(sigma=0.8, queries=3, rate=0.4, single=single)
    labels = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3)
    top = argmax_top_probability(3, 0.8)
    law = np.array([top, (1 - top) / 2, (1 - top) / 2])
    assert (law[labels].prod(1) * np.exp(votes.log_ratio(model, 3, labels))).sum() == pytest.approx(1)


def test_one_vote_without_sampling_costs_what_the_closed_form_says():
    model = PrivGnn(sigma=2.0, queries=1, rate=1.0)
    assert exact.votes_epsilon(model, 5, 0.0) == pytest.approx(noisy_argmax_epsilon(5, 2.0), rel=2e-3)


def test_two_votes_cost_what_enumeration_of_both_says():
    model = PrivGnn(sigma=1.0, queries=2, rate=0.5)
    top = argmax_top_probability(3, 1.0)
    other = (1 - top) / 2
    before, after = np.array([top, other, other]), np.array([other, top, other])
    mixed = (before + after) / 2
    pair = np.stack([np.outer(before, before).ravel(), np.outer(mixed, mixed).ravel()])
    assert exact.votes_epsilon(model, 3, 1e-2) == pytest.approx(channel_epsilon(pair, 1e-2), rel=2e-3)


def test_what_each_game_cannot_look_at_is_said():
    assert "does not declare NoisyMessages" in (transcript.refuses(Case(Gap(), EDGE)) or "")
    assert "game on sums" in (transcript.refuses(Case(Vesper(variant="s2"), EDGE)) or "")
    assert "trained on the private edges" in (transcript.refuses(Case(Vesper(mode="paper", n_train=20), EDGE)) or "")
    assert "does not release 'reports'" in (
        user_reports.refuses(Case(Mlp(), dataclasses.replace(EDGE, unit=Unit.FEATURES))) or ""
    )
    assert "not for claims about an undirected edge" in (AUDITS["reports"].refuses(Case(Lpgnn(), EDGE)) or "")
    assert "does not declare RandomisedEdges" in (entries.refuses(Case(Gap(), EDGE)) or "")
    assert "not for claims about a node" in (AUDITS["entries"].refuses(Case(EdgeRand(sigma=1.0), NODE)) or "")
    assert "flips no entry" in (entries.refuses(Case(EdgeRand(), EDGE)) or "")
    assert "does not declare NoisyVotes" in (votes.refuses(Case(Mlp(), NODE)) or "")
    assert "logarithms" in (votes.refuses(Case(PrivGnn(mode="paper", as_coded=True), NODE)) or "")


@pytest.mark.parametrize("mode", ["sound", "paper"])
def test_one_edge_under_randomised_response_costs_what_its_recipe_says(mode, graph, tmp_path):
    model = EdgeRand(sigma=0.5, mode=mode, nodes=500)
    assert 2.0 - 3e-4 < exact.response_epsilon(model, model.ledger, 0.0)[0] <= 2.0
    claim = Claim(2.0, 0.0, model.unit)
    found = AUDITS["exact"].run(Setting(Case(model, claim), graph, Store(tmp_path), Key("response"), 1, 0.05)).bounds[0]
    assert not found.refuted
    assert found.reach == math.inf  # the bound assumes the declared probabilities; the game tests the draws
    less = dataclasses.replace(claim, epsilon=1.99)
    assert AUDITS["exact"].run(Setting(Case(model, less), graph, Store(tmp_path), Key("response"), 1, 0.05)).bounds[0].refuted


@pytest.mark.parametrize(
    ("mode", "unit"), [("sound", "undirected-edge"), ("paper", "directed-edge"), ("paper", "undirected-edge")]
)
def test_entries_are_drawn_as_often_as_the_rates_that_the_game_plans_with_say(mode, unit, graph):
    """Edges and pairs without one, 200 drawn graphs; a pair's entries are counted by a set of arcs."""
    model = EdgeRand(sigma=0.5, mode=mode, nodes=graph.nodes)
    case = Case(model, Claim(2.0, 0.0, Unit(unit)))
    union, runs = case.counted(graph), 200
    pairs = (union.edges, entries.unjoined(union, 500, Key("apart")))
    worlds, seen = Worlds.of(union, list(range(runs))), ([], [])
    for run in range(runs):
        drawn = model.response(worlds, run)
        arcs = set(map(tuple, drawn.T.tolist()))
        for k, ends in enumerate(pairs):
            found = entries.entries(union, drawn, ends)
            both = [((u, v) in arcs) + (not union.directed and (v, u) in arcs) for u, v in ends.T.tolist()]
            assert found.tolist() == both
            seen[k].append(found)
    high, low = (np.array(s) for s in seen)
    for cut, (a, b) in enumerate(zip(*entries.rates(case, union, 1.0), strict=True)):
        for rate, hits in ((a, low > cut), (b, high <= cut)):
            assert abs(hits.mean() - rate) < 0.05 * rate + 5 * math.sqrt(
                rate / hits.size
            )  # the density is noisy and without loops


def test_at_a_delta_the_entry_and_the_density_cost_what_an_integral_over_both_says():
    """With the symmetric coins of a dense graph, and 200,000 quantiles of the Laplace noise on the density."""
    model, delta = EdgeRand(sigma=0.25), 1e-2
    link, noise = 0.9 * 4.0, 0.1 * 4.0
    u = (np.arange(200_000) + 0.5) / 200_000
    draw = np.where(u < 0.5, np.log(2 * u), -np.log(2 - 2 * u)) / noise
    loss = noise * (np.abs(draw + 1) - np.abs(draw))
    keep = 1 / (1 + np.exp(-link))

    def missing(epsilon):
        kept, flipped = (np.maximum(1 - np.exp(epsilon - loss - side), 0).mean() for side in (link, -link))
        return keep * kept + (1 - keep) * flipped - delta

    assert exact.response_epsilon(model, model.ledger, delta)[0] == pytest.approx(brentq(missing, 1, 4), rel=1e-3)


@dataclasses.dataclass(frozen=True)
class OneDrawForAll(PrivGnn):
    """Adds the same noise to all votes of a run."""

    def _noise(self, worlds, queries, classes):
        noise = PrivGnn._noise(self, worlds, queries, classes)
        return np.repeat(noise[:, :1], noise.shape[1], axis=1)


@dataclasses.dataclass(frozen=True)
class OneDrawForTwoBits(Lpgnn):
    """Turns the second bit of a report over if and only if it turns the first one over."""

    def fit(self, worlds, device="cpu"):
        release = Lpgnn.fit(self, worlds, device)
        reports = release["reports"].copy()
        index, sign = reports[0, :, :, 0].astype(int), reports[0, :, :, 1]
        ends = np.where(worlds.graph.x[worlds.watch[:, None], index] > (self.low + self.high) / 2, 1, -1)
        reports[0, :, 1:, 1] = ends[:, 1:] * (ends * sign)[:, :1]
        return dataclasses.replace(release, arrays={**release.arrays, "reports": reports})


@pytest.mark.parametrize(
    ("audit", "kind", "recipe", "claim"),
    [
        ("votes", OneDrawForAll, PrivGnn(classes=3, queries=8), NODE),
        ("reports", OneDrawForTwoBits, Lpgnn(), dataclasses.replace(LOCAL, epsilon=8.0)),
    ],
)
@pytest.mark.nightly
def test_channels_that_share_a_draw_are_not_added_up(audit, kind, recipe, claim, graph, tmp_path):
    case = Case(calibrated(kind, recipe, claim), claim)
    found = AUDITS[audit].run(Setting(case, graph, Store(tmp_path), Key("shared"), 2, 1e-2))
    assert found.bounds[0].method != "elementary channels"
    assert "because every channel of every unit in every run draws its own numbers" in found.reach


def test_reports_claimed_at_a_delta_are_tested_as_a_whole(graph, tmp_path):
    claim = dataclasses.replace(LOCAL, delta=1e-3)
    case = Case(calibrate(Lpgnn(), LOCAL), claim)
    found = AUDITS["reports"].run(Setting(case, graph, Store(tmp_path), Key("delta"), 2, 1e-2))
    assert "delta is above 0" in found.reach
    assert 0 < found.bounds[0].epsilon <= LOCAL.epsilon


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_reports_that_leak_as_much_as_the_game_notices_are_refuted_nine_times_out_of_ten(epsilon, graph):
    """Reports are drawn from channels with that many times the budget; the threshold comes from the declared channels."""
    claim = Claim(epsilon, 0.0, Unit.FEATURES)
    model, few, many, alpha = calibrate(Lpgnn(), claim), 5000, 45_000, 1e-3
    kappa = notices_along(claim, lambda k: user_reports.rates(model, graph, k), many, few, alpha)
    loud = dataclasses.replace(model, feature_budget=kappa * model.feature_budget, label_budget=kappa * model.label_budget)
    pilot, draw, refuted = user_reports.declared(model, graph, Key("pilot")), np.random.default_rng(0), 0
    (_, copies), _ = model.channels(graph.dim, graph.classes)
    one = 1 / (1 + math.exp(-loud.feature_budget / copies))
    kept = math.exp(loud.label_budget) / (math.exp(loud.label_budget) + graph.classes - 1)
    for seed in range(60):
        bits = np.arange(many + few) >= many
        ups = draw.binomial(copies, np.where(bits, one, 1 - one))
        other = draw.integers(1, graph.classes, bits.size)
        sent = np.where(draw.random(bits.size) < kept, bits, (bits + other) % graph.classes)
        scores = user_reports.ratio(model, graph, ups, copies - ups, sent)
        refuted += from_rounds(scores, bits, claim, alpha=alpha, pilot=pilot, seed=seed).refuted
    assert stats.binom.cdf(refuted, 60, 0.9) > 1e-6  # fails once in a million


@dataclasses.dataclass(frozen=True)
class ManyBits:
    """Every user sends `bits` features by randomised response, each of `spent` nats, and a label of `spent` nats; `stated` is
    declared for each. With `again`, all bits are copies of one report of one feature.
    """

    spent: float = 0.2
    stated: float = 0.2
    bits: int = 50
    again: bool = False
    epochs: int = 1
    name: str = "many-bits"

    def channels(self, dim, classes):
        keep = 1 / (1 + math.exp(-self.stated))
        response = np.array([[keep, 1 - keep], [1 - keep, keep]])
        return (response, self.bits), (response, 1)

    def ends(self, graph):
        return np.zeros(graph.dim), np.ones(graph.dim)

    def fit(self, worlds, device="cpu"):
        draw, users = np.random.default_rng(int(worlds.seeds[0])), worlds.watch
        turned = draw.random((users.size, self.bits + 1)) > 1 / (1 + math.exp(-self.spent))
        index = np.arange(self.bits) * (not self.again) + np.zeros((users.size, 1), dtype=int)
        up = (worlds.graph.x[users[:, None], index] > 0.5) ^ turned[:, : 1 if self.again else self.bits]
        labels = worlds.graph.y[users] ^ turned[:, -1]
        return Release({"reports": np.stack([index, 2 * up - 1], 2)[None], "label_reports": labels[None]}, users)


def reports_of(model, tmp_path, seed, rounds=1, alpha=0.05):
    graph = load("campus:n=120:degree=6")
    total = model.stated * (1 + (1 if model.again else model.bits))
    case = Case(model, Claim(total, 0.0, Unit.FEATURES))
    return user_reports.play_reports(Setting(case, graph, Store(tmp_path), Key("coins", seed), rounds, alpha)).bounds[0]


@pytest.mark.nightly
def test_users_with_many_bits_are_refuted_no_more_often_than_alpha_says(tmp_path, monkeypatch):
    """With one coin for all 51 channels of a user, two thirds of these audits would refute the exact sum of 51 epsilons."""
    monkeypatch.setattr(user_reports, "USERS", 1000)
    found = [reports_of(ManyBits(), tmp_path, seed) for seed in range(30)]
    assert {b.method for b in found} == {"elementary channels"}
    assert stats.binom.sf(sum(b.refuted for b in found) - 1, 30, 0.05) > 1e-6  # fails once in a million
    assert reports_of(ManyBits(spent=0.4), tmp_path, 0).refuted


def test_every_channel_of_a_planted_user_has_a_coin_of_its_own(tmp_path, monkeypatch):
    """A sum of n fair signs has variance n, and its square has variance below 2 n^2. With one coin the variance would be n^2."""
    monkeypatch.setattr(user_reports, "USERS", 2000)
    seen, plant = [], user_reports.planted
    monkeypatch.setattr(user_reports, "planted", lambda *given: seen.append(plant(*given)) or seen[-1])
    assert not reports_of(ManyBits(), tmp_path, 0, alpha=1e-4).refuted
    assert reports_of(ManyBits(spent=0.4), tmp_path, 0).refuted
    assert len(seen) == 2
    for wider, users in seen:
        signs = np.concatenate([wider.x[users] > 0.5, wider.y[users][:, None]], axis=1) * 2.0 - 1
        n = signs.shape[1]
        assert abs((signs.sum(1) ** 2).mean() - n) < 6 * n * math.sqrt(2 / users.size)


def test_a_feature_that_is_reported_twice_is_guessed_once():
    reports = np.array([[[3, 1], [3, -1], [0, -1]], [[1, -1], [2, 1], [9, 1]]])
    coins = np.array([[True, False, False, True], [False, True, False, True]])
    chosen, values = user_reports.own_coins(reports, coins)
    assert values.tolist() == [[1, -1, 0], [0, 1, -1]]
    assert chosen[0, [0, 2]].tolist() == [True, True]
    assert chosen[1, :2].tolist() == [True, False]


def test_a_channel_that_is_never_guessed_proves_nothing(tmp_path):
    """All bits but the first report the same feature again, so no coin is left for them."""
    found = reports_of(ManyBits(again=True, bits=3), tmp_path, 0)
    assert (found.epsilon, found.p_value, found.refuted) == (0.0, 1.0, False)
