"""Audits of nodes: the computed move of a node, faults that are detected, honest recipes that pass, and the distribution of
scores.
"""

import dataclasses
import math
import re

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import kstest, norm

from gnnaudit.accounting.checks.independence import APART
from gnnaudit.accounting.checks.score_law import ROUNDS
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits import node_stars
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.games.canaries import hub
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.dpar.pagerank import page_rank
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.looped import Looped
from gnnaudit.models.random import witness
from gnnaudit.models.vesper.vesper import Vesper
from gnnaudit.reports.evidence import judge

from ...nightly import nightly

CLAIM = Claim(4.0, 1e-3, Unit.NODE)
OWN = {"unit": Unit.NODE, "train_nodes": 20, "batch": 8}
HONEST = {
    "gap": Gap(epochs=2, max_degree=12, **OWN),
    "progap": ProGap(epochs=2, depth=2, max_degree=12, **OWN),
    "dpar": Dpar(train_nodes=20, sources=5, epochs=5),
    "mlp": Mlp(epochs=2, **OWN),
}


@dataclasses.dataclass(frozen=True)
class Stingy(Gap):
    """Its noise covers a quarter of the rows that a node may move."""

    @property
    def noise_std(self):
        return self.sigma * np.sqrt(self.max_degree / 4)


@dataclasses.dataclass(frozen=True)
class QuietRows(Dpar):
    """An eighth of the noise that its ledger counts is added to PageRank rows."""

    @property
    def row_noise(self):
        return self.sigma * self.source_sigma / 8

    @property
    def ledger(self):
        return Dpar(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Dpar)}).ledger


def calibrated(kind, recipe):
    honest = calibrate(recipe, CLAIM)
    return kind(**{f.name: getattr(honest, f.name) for f in dataclasses.fields(honest)})


def look(audit, model, graph, tmp_path, rounds=5):
    case = Case(model, CLAIM)
    assert AUDITS[audit].refuses(case) is None
    outcome = AUDITS[audit].run(Setting(case, graph, Store(tmp_path), Key("nodes"), rounds, 1e-4))
    return max(outcome.bounds, key=lambda b: (b.refuted, b.epsilon)), outcome.reach


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.nightly
def test_an_honest_recipe_can_be_repeated_without_any_node(name, graph, tmp_path):
    found, told = look("replay", calibrate(HONEST[name], CLAIM), graph, tmp_path)
    assert not found.refuted
    assert "as far as the ledger's noise covers" in told or "by 0." in told


@pytest.mark.parametrize(
    ("audit", "name"), [("residual", "gap"), ("game", "gap"), *nightly(("residual", "progap"), ("game", "progap"))]
)
def test_honest_sums_pass(audit, name, graph, tmp_path):
    found, _ = look(audit, calibrate(HONEST[name], CLAIM), graph, tmp_path)
    assert not found.refuted  # refuted for one seed in ten thousand at most


@pytest.mark.parametrize(("audit", "rounds"), [("residual", 5), ("game", 20)])
def test_noise_for_a_quarter_of_the_rows_is_refuted(audit, rounds, graph, tmp_path):
    assert look(audit, calibrated(Stingy, HONEST["gap"]), graph, tmp_path, rounds)[0].refuted


def test_bounds_from_stars_of_one_training_rest_on_a_check_of_their_independence(graph, tmp_path):
    case = Case(calibrate(HONEST["gap"], CLAIM), CLAIM)
    for bound in AUDITS["game"].run(Setting(case, graph, Store(tmp_path), Key("nodes"), 5, 1e-4)).bounds:
        known = {c.what: c.how for c in bound.conditions}
        assert known.get(APART) == ("checked" if bound.shape == "ledger" else None)
        assert bound.shape == "ledger" or set(known.values()) == {"proved"}
        assert ROUNDS not in known


def test_replay_computes_by_how_much_the_noise_is_too_small(graph, tmp_path):
    cap = int(graph.degree.max())
    found, told = look("replay", dataclasses.replace(calibrated(Stingy, HONEST["gap"]), max_degree=cap), graph, tmp_path)
    largest = graph.degree[graph.train].max() / (cap / 4)
    assert f"move {np.sqrt(largest):.4g} times as far as" in told
    assert "without the training node with the most edges" in told
    assert found.refuted


@pytest.mark.parametrize("aggregator", ["gcn-floor", "mean-floor"])
def test_an_edge_at_the_minimum_degree_moves_no_more_than_the_noise_is_for(aggregator, graph, tmp_path):
    claim = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
    case = Case(calibrate(Vesper(aggregator=aggregator, floor=5, epochs=2), claim), claim)
    assert AUDITS["replay"].refuses(case) is None
    outcome = AUDITS["replay"].run(Setting(case, graph, Store(tmp_path), Key("floor"), 1, 1e-4))
    assert not outcome.bounds[0].refuted
    factor = re.search(r"moves? (?:(\S+) times )?as far as", outcome.reach)
    assert 0.3 < float(factor[1] or 1) <= 1.0001


@dataclasses.dataclass(frozen=True)
class Floored(Vesper):
    """Its noise assumes a minimum degree of 20, whatever the minimum is."""

    @property
    def noise_std(self):
        return Vesper.noise_std.fget(dataclasses.replace(self, floor=20))


def test_noise_for_a_larger_minimum_degree_is_refuted_by_replay(graph, tmp_path):
    claim = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
    honest = calibrate(Vesper(aggregator="mean-floor", floor=5, epochs=2), claim)
    case = Case(Floored(**{f.name: getattr(honest, f.name) for f in dataclasses.fields(Vesper)}), claim)
    assert AUDITS["replay"].run(Setting(case, graph, Store(tmp_path), Key("floor"), 1, 1e-4)).bounds[0].refuted


def test_the_published_cut_of_degrees_is_refuted_by_the_node_that_breaks_it(graph, tmp_path):
    model = calibrate(Gap(mode="paper", epochs=2, max_degree=4, **OWN), CLAIM)
    found, told = look("replay", model, graph, tmp_path)
    assert found.refuted
    assert "which edges the degree cap drops" in told


def test_the_published_release_of_own_rows_is_refuted_by_the_game(graph, tmp_path):
    model = calibrate(Gap(mode="paper", epochs=2, max_degree=12, **OWN), CLAIM)
    assert look("game", model, graph, tmp_path)[0].refuted


def test_scores_of_stars_are_standard_normal_and_shifted_by_what_the_ledger_says(graph):
    model = dataclasses.replace(HONEST["gap"], sigma=2.0)
    runs = [node_stars.run_stars(Case(model, CLAIM), graph, Key("law", run), "cpu", 50) for run in range(8)]
    scores, bits = (np.concatenate([getattr(s, name) for s in runs]) for name in ("scores", "bits"))
    shift = np.sqrt(2) / 2.0  # two hops at sigma 2, max_degree leaves
    assert np.linalg.norm(runs[0].moves) == pytest.approx(shift, rel=1e-4)
    for bit in (False, True):
        assert kstest(scores[bits == bit] - bit * shift, norm.cdf).pvalue > 1e-6  # fails once in a million honest runs


def test_moves_of_page_rank_rows_are_those_of_the_vectors(graph):
    model = dataclasses.replace(HONEST["dpar"], sigma=2.0)
    wider, canary = hub(dataclasses.replace(graph, edges=graph.edges[:, :0]))
    moves, residuals = node_stars.drawn_rows(model, wider, canary, Key("rows"), "cpu")
    assert moves.shape == residuals.shape == (5, int(wider.train.sum()))
    trained = np.flatnonzero(wider.train)
    vectors = page_rank(wider.adjacency(), trained, model.teleport, model.threshold).toarray()[:, trained]
    np.fill_diagonal(vectors, 0)  # a row does not list its own source, and so holds nothing without the hub
    clipped = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) / (model.row_noise * np.sqrt(2))
    apart = np.linalg.norm(moves[:, None] - clipped[None], axis=2).min(1)
    np.testing.assert_allclose(apart, 0, atol=1e-6)
    assert kstest(residuals.ravel(), norm.cdf).pvalue > 1e-6  # fails once in a million honest runs


def test_page_rank_rows_with_an_eighth_of_the_noise_are_refuted_and_honest_ones_pass(graph, tmp_path):
    assert look("rows", calibrated(QuietRows, HONEST["dpar"]), graph, tmp_path)[0].refuted
    found, _ = look("rows", calibrate(HONEST["dpar"], CLAIM), graph, tmp_path)
    assert not found.refuted
    assert found.epsilon > 0


def test_what_it_cannot_look_at_is_said():
    assert "NoisySums" in (AUDITS["game"].refuses(Case(HONEST["mlp"], CLAIM)) or "")
    assert "fixed size" in (AUDITS["replay"].refuses(Case(Dpar(mode="paper", batch=60, sigma=1.0), CLAIM)) or "")
    assert "does not declare NoisyRows" in (AUDITS["rows"].refuses(Case(HONEST["gap"], CLAIM)) or "")
    assert "NoisyRows" in (AUDITS["rows"].refuses(Case(Dpar(mechanism="gumbel"), CLAIM)) or "")


def split(sizes):
    """A training that releases noisy numbers. A training node adds as many noise sds to each as `sizes` says."""

    def train(graph, seed):
        noise = np.random.default_rng(seed).standard_normal(len(sizes))
        logits = np.zeros((graph.nodes, graph.classes))
        for k, size in enumerate(sizes):
            value = np.full((1, 1), size * graph.train.sum(), dtype=np.float64)
            witness.clean(f"sum {k}", value)
            value += noise[k]
            witness.released(f"sum {k}", value, scale=1.0)
            logits[:, k] = 1e-3 * value[0, 0]
        return {"posteriors": logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)}

    return train


@pytest.mark.parametrize(
    ("sizes", "against"),
    [
        ((1.0, 1.0), None),
        ((1.2, 0.7), None),  # the first part costs more than its share, and both together less than the ledger
        ((1.41, 0.1), None),
        ((1.2, 0.9), "claim"),
        ((1.6, 0.0), "claim"),
    ],
)
def test_the_moves_of_one_node_cost_what_they_cost_together(sizes, against, graph, tmp_path):
    model = Looped(split(sizes), unit="node", events=dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 2))
    claim = Claim(float(epsilon_of(math.sqrt(2), 1e-5)), 1e-5, Unit.NODE)
    bound = AUDITS["replay"].run(Setting(Case(model, claim), graph, Store(tmp_path), Key("split"), 1, 1e-4)).bounds[0]
    assert bound.refuted is (against is not None)
    if against:
        assert bound.against == against
        assert bound.epsilon == pytest.approx(float(epsilon_of(math.hypot(*sizes), 1e-5)), rel=1e-3)


def test_a_step_on_samples_that_moves_too_far_refutes_the_ledger_and_proves_no_epsilon(graph, tmp_path):
    """The adversary does not know the samples, so the moves given the samples do not add up to an epsilon."""
    ledger = dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(1.0))
    model = Looped(split((1.5,)), unit="node", events=ledger)
    case = Case(model, Claim(0.5, 1e-5, Unit.NODE))
    bound = AUDITS["replay"].run(Setting(case, graph, Store(tmp_path), Key("split"), 1, 1e-4)).bounds[0]
    assert bound.refuted
    assert (bound.against, bound.epsilon) == ("ledger", 0.0)
    assert judge(case.claim, [], [bound]).kind == "exceeds"


def test_a_replay_says_which_moves_add_up_and_never_one_times(graph, tmp_path):
    """DPAR's steps move exactly as far as their noise covers, on samples, so only the moves of the rows add up."""
    case = Case(calibrate(HONEST["dpar"], CLAIM), CLAIM)
    found = AUDITS["replay"].run(Setting(case, graph, Store(tmp_path), Key("words"), 1, 1e-4))
    assert "'steps' moves as far as the ledger's noise covers; the moves of 'rows' by one secret add up to" in found.reach
    assert "1 times" not in found.reach
    assert found.curves["moves"]["by"] == "standard deviations of the stated noise of 'rows'"
