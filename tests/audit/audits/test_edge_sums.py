"""Audits catch planted faults and pass honest recipes: replay, residual, game, exact."""

import dataclasses
import math
from functools import cache
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting.checks.independence import APART
from gnnaudit.accounting.checks.score_law import ROUNDS
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of, mu_lower, mu_of, mu_of_claim
from gnnaudit.accounting.lower.detection.power import notices
from gnnaudit.accounting.lower.one_run import RANKED, SPARED
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits import edge_sums
from gnnaudit.audit.audits.edge_sums import sd_at_most
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.audits.replay_sums import heaviest
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.cli.bound import COUNTED_COINS
from gnnaudit.audit.cli.bound import limits as of_audit_bound
from gnnaudit.audit.games.edge_catalogue import EACH, catalogue
from gnnaudit.audit.instruments.reach import limit_in_words
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.base import Release
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.lpgnn.lpgnn import Lpgnn

from ...nightly import nightly

EDGE = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)


def look(audit, model, claim, tmp_path, seed="audit", rounds=10, alpha=1e-4):
    case = Case(model, claim)
    assert AUDITS[audit].refuses(case) is None
    return AUDITS[audit].run(Setting(case, campus(), Store(Path(tmp_path)), Key(seed), rounds, alpha))


@cache
def campus():
    return load("campus:n=300")


def refuted(outcome):
    return any(b.refuted for b in outcome.bounds)


@pytest.fixture(scope="module")
def honest():
    return calibrate(Gap(), EDGE)


@pytest.mark.parametrize("audit", ["replay", "residual", "game"])
def test_an_honest_recipe_passes(audit, honest, tmp_path):
    assert not refuted(look(audit, honest, EDGE, tmp_path))  # the statistical ones fail once in 10,000 honest seeds


def test_the_game_says_no_more_reach_than_its_canaries_are_worth(honest, tmp_path):
    """Noise for a claim of 4, tested against a claim of 8: to violate it, the noise must be smaller by the quotient of the two
    mus.
    """
    lax = dataclasses.replace(EDGE, epsilon=8.0)
    bound = look("game", honest, lax, tmp_path).bounds[0]
    least = float(mu_of(8.0, EDGE.delta) / mu_of(4.0, EDGE.delta))
    assert least < bound.notices < 1.5 * least
    assert bound.reach == pytest.approx(dp_accounting.get_epsilon_gaussian(1 / (bound.notices * mu_of_claim(lax)), EDGE.delta))


def test_bounds_from_canaries_of_one_training_rest_on_a_check_of_their_independence(honest, tmp_path):
    for bound in look("game", honest, EDGE, tmp_path).bounds:
        known = {c.what: c.how for c in bound.conditions}
        assert known.get(APART) == ("checked" if bound.shape == "ledger" else None)
        assert bound.shape == "ledger" or set(known.values()) == {"proved"}
        assert ROUNDS not in known


def test_the_game_states_the_limit_of_any_shape_that_audit_bound_prints_for_as_many_coins(honest, tmp_path):
    outcome = look("game", honest, EDGE, tmp_path)
    free = outcome.bounds[1]
    limits = of_audit_bound(dataclasses.replace(free, method=COUNTED_COINS), EDGE)
    assert f"exceeds {limits[EDGE.epsilon]:.2f} in at most half of all audits" in outcome.reach
    assert free.epsilon <= EDGE.epsilon
    assert limit_in_words(free, dataclasses.replace(EDGE, delta=0.0)) == ""


def test_canaries_that_share_a_number_in_each_training_prove_nothing_as_rounds(honest, tmp_path, monkeypatch):
    """Independent of the bits, but equal for all canaries of a training, so a training is one trial and not fifty. The bound for
    any shape counts coins, which stay independent.
    """
    inner = edge_sums.look

    def shared(attack, seen, challenge, asked):
        (scores, *others), noise = inner(attack, seen, challenge, asked)
        draw = np.random.default_rng(int(seen.bits.sum()))
        return (draw.normal(size=(len(scores), 1)) * 9 + draw.normal(size=scores.shape), *others), noise

    monkeypatch.setattr(edge_sums, "look", shared)
    shaped, free = look("game", honest, EDGE, tmp_path).bounds
    assert free.shape == "any"
    assert not free.failed
    assert not free.refuted
    assert shaped.method.startswith("Mahloujifar")


def test_the_size_of_the_noise_is_chi_squared_and_what_rounding_leaves_is_none():
    assert sd_at_most(80.0, 100, 0.01) == pytest.approx(math.sqrt(80 / stats.chi2.ppf(0.01, 100)))
    for rest in (0.0, -1e-12):
        assert 0 < sd_at_most(rest, 100, 0.01) < 1e-6


def share_noticed(factor, canaries, mu, alpha, audits, seed):
    """The share of audits that reject mu, if all noise is too small by `factor`. Each draws the means of two samples and the sum
    of squares of the noise, with 63 degrees of freedom for each score.
    """
    draw, freedom = np.random.default_rng(seed), 63 * canaries
    n = canaries // 2
    left = (1 - edge_sums.NOISE_SHARE) * (1 - SPARED - RANKED) * alpha
    difference = mu + draw.standard_normal(audits) * math.sqrt(2 / n) / factor
    limits = np.array([sd_at_most(s, freedom, edge_sums.NOISE_SHARE * alpha) for s in draw.chisquare(freedom, audits)]) / factor
    return float((mu_lower(difference, limits, n, n, left, sd_known=True) > mu).mean())


@pytest.mark.parametrize(("canaries", "alpha"), [(100, 1e-3), *nightly((400, 1e-3), (1000, 1e-4))])
def test_nine_of_ten_games_notice_noise_at_their_reach_although_its_size_is_only_estimated(canaries, alpha):
    """Without the factor for the estimated size, 0.80 to 0.87 of them do."""
    claim = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
    mu, left = float(mu_of_claim(claim)), (1 - edge_sums.NOISE_SHARE) * (1 - SPARED - RANKED) * alpha
    known, _ = notices(claim, canaries // 2, canaries // 2, left, "likelihood-ratio, noise known")
    reach = known * edge_sums.overstated(63 * canaries, edge_sums.NOISE_SHARE * alpha)
    audits = 20_000
    assert stats.binom.cdf(audits * share_noticed(reach, canaries, mu, alpha, audits, 1), audits, 0.9) > 1e-6
    assert share_noticed(reach, canaries, mu, alpha, audits, 2) < 0.97  # the reach is not larger than it must be
    assert stats.binom.cdf(audits * share_noticed(known, canaries, mu, alpha, audits, 3), audits, 0.9) < 1e-6


def test_the_reach_of_the_game_counts_the_limit_of_the_noise_and_that_of_other_tests_does_not(honest, tmp_path, monkeypatch):
    real = look("game", honest, EDGE, tmp_path).bounds[0]
    assert real.method == edge_sums.EXACT
    monkeypatch.setattr(edge_sums, "overstated", lambda freedom, alpha: 3.0)
    assert look("game", honest, EDGE, tmp_path).bounds[0].notices > 2.5 * real.notices
    monkeypatch.setattr(edge_sums, "EXACT", "no such test")
    assert look("game", honest, EDGE, tmp_path).bounds[0].notices < real.notices


def test_replay_refutes_the_published_count_of_one_undirected_edge(tmp_path):
    paper = calibrate(Gap(mode="paper"), Claim(4.0, 1e-6, Unit.DIRECTED_EDGE))
    outcome = look("replay", paper, EDGE, tmp_path)
    bound, drawn = outcome.bounds[0], outcome.curves["moves"]
    assert bound.refuted
    # Two hops, two rows each: one Gaussian of noise multiplier sigma / 2.
    worst = max(drawn["of"], key=drawn["of"].get)
    assert drawn["of"][worst] == pytest.approx(2 / paper.sigma, rel=1e-4)
    assert outcome.reach.startswith(f"removing {worst}, ")
    assert dp_accounting.get_epsilon_gaussian(1 / drawn["allowed"], EDGE.delta) == pytest.approx(EDGE.epsilon, rel=1e-4)
    assert bound.epsilon == pytest.approx(dp_accounting.get_epsilon_gaussian(paper.sigma / 2, 1e-6), rel=1e-4)


def test_replay_does_not_call_the_directed_claim_of_the_paper_wrong(tmp_path):
    claim = Claim(4.0, 1e-6, Unit.DIRECTED_EDGE)
    assert not refuted(look("replay", calibrate(Gap(mode="paper"), claim), claim, tmp_path))


def test_replay_says_that_an_mlp_reads_no_edge(tmp_path):
    outcome = look("replay", Mlp(epochs=5), EDGE, tmp_path)
    assert outcome.bounds[0].epsilon == 0
    assert outcome.bounds[0].notices == 1


def test_enumeration_finds_the_exact_epsilon_of_local_reports(tmp_path):
    claim = Claim(2.0, 0.0, Unit.FEATURES)
    model = calibrate(Lpgnn(), claim)
    assert not look("exact", model, claim, tmp_path).bounds[0].refuted
    tighter = Claim(1.99, 0.0, Unit.FEATURES)
    assert look("exact", model, tighter, tmp_path).bounds[0].epsilon == pytest.approx(2.0, rel=1e-3)


def test_an_audit_that_cannot_look_says_why():
    features = Claim(2.0, 0.0, Unit.FEATURES)
    assert "not for claims about a node's own features" in (AUDITS["game"].refuses(Case(Lpgnn(), features)) or "")
    assert "NoisySums" in (AUDITS["game"].refuses(Case(Mlp(), EDGE)) or "")


@pytest.mark.parametrize("audit", ["one-run", *nightly("blackbox")])
def test_posteriors_of_an_honest_recipe_pass_and_their_reach_is_not_claimed(audit, honest, tmp_path):
    outcome = look(audit, honest, EDGE, tmp_path, rounds=2)
    assert not refuted(outcome)
    assert all(b.notices == float("inf") for b in outcome.bounds)


def test_posteriors_without_noise_give_planted_edges_away(tmp_path):
    outcome = look("blackbox", Gap(sigma=1e-3), EDGE, tmp_path, rounds=10)
    assert refuted(outcome)


@dataclasses.dataclass(frozen=True)
class LongRow:
    """One hop of noisy sums; the row of one node, neither a hub nor of low degree, is twice as long as the ledger says."""

    node: int
    sigma: float = 2.0
    name = "long-row"
    mode = "sound"
    unit = Unit.UNDIRECTED_EDGE
    ledger = dp_accounting.GaussianDpEvent(2.0 / math.sqrt(2))  # two rows of length one
    releases = ("posteriors", "aggregates", "inputs")
    offers = releases
    public = ()

    def footprint(self, graph):
        return 1 << 20

    def fit(self, worlds, device="cpu"):
        graph, rows = worlds.graph, {"posteriors": [], "aggregates": [], "inputs": []}
        h = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
        h[self.node] *= 2
        for run in range(len(worlds)):
            noise = np.random.default_rng(worlds.seeds[run]).normal(0, self.sigma, h.shape)
            total = worlds.removed(run).graph.adjacency() @ h + noise
            rows["posteriors"].append(np.full((graph.nodes, graph.classes), -np.log(graph.classes)))
            rows["aggregates"].append(total[None])
            rows["inputs"].append(h[None])
        arrays = {name: np.array(found, dtype=np.float32) for name, found in rows.items()}
        return Release(arrays, worlds.watch, {"noise_std": self.sigma})


def test_replay_finds_the_worst_of_all_edges_though_no_catalogue_lists_it(tmp_path):
    graph, key = campus(), Key("audit")
    listed = catalogue(graph, key)
    of_listed = np.unique(graph.edges[:, listed])
    node = int(next(v for v in np.argsort(abs(graph.degree - np.median(graph.degree))) if v not in of_listed))
    claim = Claim(float(epsilon_of(math.sqrt(2) / 2.0, 1e-6)), 1e-6, Unit.UNDIRECTED_EDGE)
    (bound,) = look("replay", LongRow(node), claim, tmp_path).bounds
    assert bound.refuted
    assert bound.epsilon == pytest.approx(float(epsilon_of(math.sqrt(5) / 2.0, 1e-6)), rel=1e-4)
    assert not refuted(look("replay", LongRow(node), dataclasses.replace(claim, epsilon=bound.epsilon * 1.001), tmp_path))


def test_the_heaviest_edges_are_those_of_brute_force():
    graph = campus()
    inputs = np.random.default_rng(1).standard_normal((2, graph.nodes, 3)).astype(np.float32)
    moved = [(inputs[:, [u, v]] ** 2).sum() for u, v in graph.edges.T]
    assert sorted(heaviest(inputs, graph)) == sorted(np.argsort(moved)[-EACH:])
