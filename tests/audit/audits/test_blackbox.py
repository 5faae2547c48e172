"""Black-box audits: the crafted graph has the documented structure, honest recipes pass, and too little noise is detected."""

import dataclasses
import re
import sys
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.sparse.csgraph import connected_components

from gnnaudit import Looped, load
from gnnaudit.accounting.checks.conditions import Condition
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import mu_of
from gnnaudit.accounting.lower.bounds import Bound, from_rounds, resting
from gnnaudit.accounting.lower.guessed_coins import chance_of_so_many, guessed
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.attacks.canary.fisher import log_likelihood_ratio
from gnnaudit.audit.audits import affordable
from gnnaudit.audit.audits.affordable import check_cost
from gnnaudit.audit.audits.blackbox import (
    aligned_canaries,
    better,
    canary_game,
    canary_scores,
    most_right,
    until_decided,
)
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.games.crafted_graph import ENDS, POOL, REFERENCES, STRONG, crafted
from gnnaudit.audit.games.game import Seen
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Mask
from gnnaudit.models.vesper.vesper import Vesper

EDGE = Claim(8.0, 1e-6, Unit.UNDIRECTED_EDGE)
ARC = Claim(8.0, 1e-6, Unit.DIRECTED_EDGE)


@cache
def made_with(canaries):
    return crafted(canaries)


@cache
def honest(kind):
    return calibrate(kind(), EDGE)


def play(model, claim, canaries, rounds, key="blackbox", alter=lambda worlds: worlds):
    """Scores and bits of an audit whose worlds the test may alter."""
    case, made = Case(model, claim), made_with(canaries)
    game = canary_game(case, made, Key(key)).rounds(rounds)
    seen = Seen(model.fit(alter(game.worlds)), game.challenge, game.bits)
    return canary_scores(seen, made), game.bits


def gate(model, claim, scores, bits, alpha=0.05):
    return guessed(scores, bits, claim, curve(model.ledger), alpha)


def share(scores, bits, claim):
    """The difference of the two worlds' mean scores, as a share of the claim's mu."""
    ins, outs = scores[bits], scores[~bits]
    return (ins.mean() - outs.mean()) / np.sqrt((ins.var() + outs.var()) / 2) / float(mu_of(claim.epsilon, claim.delta))


def test_every_canary_has_a_component_to_itself_and_nothing_is_trained_on_there():
    made = crafted(3)
    graph = made.graph
    send, receive = graph.arcs
    _, component = connected_components(sp.csr_array((np.ones(len(send)), (receive, send)), shape=(graph.nodes, graph.nodes)))
    own = component[graph.edges[:, made.canaries]]
    assert np.array_equal(own[0], own[1])
    assert len(set(own[0])) == 3
    assert not np.isin(component[np.flatnonzero(graph.train)], own[0]).any()
    assert not np.isin(component[np.concatenate([made.bare, made.joined])], own[0]).any()


def test_the_ends_of_a_canary_differ_from_the_references_by_its_edge_only():
    made = crafted(2)
    graph = made.graph
    assert np.all(graph.edges[0] < graph.edges[1])
    assert len(np.unique(graph.edges, axis=1).T) == graph.edges.shape[1]  # no edge twice
    ends = graph.edges[:, made.canaries]
    assert np.all(graph.degree[ends] == POOL + 1)
    assert np.all(graph.degree[made.bare] == POOL)
    assert np.all(graph.degree[made.joined] == POOL + STRONG)
    assert made.bare.shape == made.joined.shape == (2, REFERENCES * ENDS // 2)
    for side in (0, 1):
        kinds = [graph.x[nodes[side]].argmax(1) for nodes in (ends, made.bare, made.joined)]
        assert all(np.all(kind == side) for kind in kinds)


def test_the_discriminant_learns_the_log_likelihood_ratio_of_normal_laws():
    draw = np.random.default_rng(1)
    mix, step = np.eye(6) + 0.3 * draw.standard_normal((6, 6)), 0.4 * draw.standard_normal(6)
    spread = mix @ mix.T
    rows = [draw.standard_normal((n, 6)) @ mix.T for n in (2000, 100_000, 100_000)]
    found = log_likelihood_ratio(rows[0], rows[1], rows[2] + 3 * step, 3)
    truth = rows[0] @ np.linalg.solve(spread, step) - step @ np.linalg.solve(spread, step) / 2
    assert found == pytest.approx(truth, abs=0.05 * truth.std())


def test_the_discriminant_says_nothing_where_references_are_alike():
    same = np.ones((5, 3))
    assert np.array_equal(log_likelihood_ratio(np.zeros((2, 3)), same, same, 4), np.zeros(2))


@pytest.mark.parametrize("kind", [Gap, Vesper, lambda: ProGap(epochs=3)], ids=["gap", "vesper", "progap"])
def test_one_canary_s_coin_leaves_what_is_answered_about_the_others_as_it_was(kind):
    """Five hops of ProGAP included: this is what makes canaries of one training independent trials."""
    made, model = crafted(2), dataclasses.replace(kind(), sigma=1.0, epochs=3)
    worlds = canary_game(Case(model, EDGE), made, Key("apart")).rounds(1).worlds
    answers = []
    for there in (False, True):
        bits = np.array([[there, True]])
        answers.append(model.fit(dataclasses.replace(worlds, edges=Mask(made.canaries, bits)))["posteriors"])
    first, second = (np.isin(worlds.watch, made.graph.edges[:, edge]) for edge in made.canaries)
    assert not np.array_equal(answers[0][:, first], answers[1][:, first])
    assert np.array_equal(answers[0][:, ~first], answers[1][:, ~first])
    assert second.sum() == 2


@pytest.mark.parametrize("kind", [Gap, Vesper, ProGap], ids=["gap", "vesper", "progap"])
@pytest.mark.nightly
def test_posteriors_hold_most_of_what_released_sums_would(kind):
    """About 400 trials: the share is 0.95 with a standard deviation of 0.07, so values below 0.75 come once in three hundred
    seeds.
    """
    scores, bits = play(honest(kind), EDGE, canaries=40, rounds=10)
    assert share(scores, bits, EDGE) > 0.75
    assert not gate(honest(kind), EDGE, scores, bits, alpha=1e-4).refuted


def test_without_the_edge_in_both_worlds_nothing_is_found():
    """A bound above 0 would need error rates that a fair coin has once in ten thousand seeds."""

    def removed(worlds):
        return dataclasses.replace(worlds, edges=Mask(worlds.edges.items, np.zeros_like(worlds.edges.present)))

    scores, bits = play(honest(Gap), EDGE, canaries=40, rounds=10, alter=removed)
    assert gate(honest(Gap), EDGE, scores, bits, alpha=1e-4).epsilon == 0
    assert from_rounds(scores, bits, EDGE, alpha=1e-4).epsilon == 0


def test_a_directed_edge_is_looked_for_at_its_receiver():
    model = calibrate(Gap(mode="paper"), ARC)
    scores, bits = play(model, ARC, canaries=40, rounds=10)
    assert share(scores, bits, ARC) > 0.75  # as above
    assert not gate(model, ARC, scores, bits, alpha=1e-4).refuted


@pytest.mark.nightly
def test_posteriors_alone_refute_a_third_of_the_noise():
    quiet = honest(Gap).with_noise(honest(Gap).sigma / 3)
    scores, bits = play(quiet, EDGE, canaries=40, rounds=10)
    assert gate(honest(Gap), EDGE, scores, bits, alpha=1e-4).refuted


def test_posteriors_alone_refute_the_published_count_of_one_undirected_edge():
    """Noise the root of two too small: about 300 trials a world at 0.95 of mu miss it once in five hundred seeds."""
    scores, bits = play(calibrate(Gap(mode="paper"), ARC), EDGE, canaries=40, rounds=15)
    assert gate(honest(Gap), EDGE, scores, bits).refuted


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [Gap, Vesper], ids=["gap", "vesper"])
def test_honest_audits_are_refuted_no_more_often_than_alpha_says(kind):
    """More than 22 of two hundred at alpha = 0.05 come once in five thousand seeds even if each came with probability 0.05."""
    refuted = [gate(honest(kind), EDGE, *play(honest(kind), EDGE, 40, 1, key=f"{s}")).refuted for s in range(200)]
    assert sum(refuted) <= 22


def test_a_model_that_reads_no_edge_gives_nothing_away(tmp_path):
    outcome = aligned_canaries(Setting(Case(Mlp(epochs=5), EDGE), crafted(1).graph, Store(tmp_path), Key("mlp"), 2, 1e-4))
    assert all(bound.epsilon == 0 for bound in outcome.bounds)


def anytime(right, seed, minutes=1e9, told=None, notices=1.5, repeats=False, alpha=0.025, first=None):
    """An audit of an honest GAP that plays on; each of 20 coins of a training is guessed correctly with this probability."""
    draw = np.random.default_rng(seed)
    bits, good = draw.random((640, 20)) < 0.5, draw.random((640, 20)) < right

    def played(rounds):
        return np.where(good == bits, 1.0, -1.0)[:rounds], bits[:rounds]

    case = Case(honest(Gap), EDGE)
    setting = Setting(
        case,
        None,
        None,
        Key(str(seed)),
        10,
        alpha,
        first,
        notices=notices,
        repeats=repeats,
        tell=(told if told is not None else []).append,
    )
    return until_decided(setting, minutes, played)


@pytest.mark.nightly
def test_the_claim_is_refuted_as_soon_as_a_stage_can():
    told = []
    found = anytime(0.999, 1, told=told)
    assert any(b.refuted for b in found.bounds)
    assert "1 stage, then refuted" in found.reach
    assert len(told) == 1
    later = anytime(most_right(Case(honest(Gap), EDGE)) + 0.02, 1, notices=1.01)
    assert any(b.refuted and b.p_value < 0.025 for b in later.bounds)
    assert "stages, then refuted" in later.reach


def test_it_stops_when_the_asked_violation_would_have_been_detected():
    found = anytime(most_right(Case(honest(Gap), EDGE)) - 0.001, 2)
    assert "then decided" in found.reach
    assert not any(b.refuted for b in found.bounds)


def test_it_plays_on_while_more_guesses_are_right_than_the_claim_allows_and_in_a_repetition():
    """Ten trainings do not refute, but would detect a violation of 30 if the present noise were that of the claim."""
    limit = most_right(Case(honest(Gap), EDGE))
    assert "1 stage, then decided" in anytime(limit - 0.05, 2, notices=30).reach
    found = anytime(limit + 0.03, 1, notices=30)
    assert "1 stage" not in found.reach
    assert any(b.refuted for b in found.bounds)
    assert "then out of time" in anytime(limit - 0.05, 2, minutes=0.001, notices=30, repeats=True).reach


def test_a_suspicion_at_the_level_of_the_run_ends_the_first_test_and_only_the_repetition_refutes():
    """Three per cent more right guesses than the claim allows, in a run of 74 tests."""
    named = {"alpha": 0.05 / 74, "notices": 1.01}
    chance = most_right(Case(honest(Gap), EDGE)) + 0.03
    first, again = anytime(chance, 2, first=0.05, **named), anytime(chance, 3, repeats=True, **named)
    alone = anytime(chance, 2, **named)
    assert "then suspected" in first.reach
    assert not any(b.refuted for b in first.bounds)
    assert min(b.p_value for b in first.bounds) < 0.05
    assert "then refuted" in again.reach
    trainings = {name: int(o.reach.split()[0]) for name, o in (("first", first), ("alone", alone))}
    assert trainings["first"] < trainings["alone"]


def test_ten_thousand_honest_audits_of_five_stages_are_suspected_in_at_most_five_percent_by_one_test():
    """The count of right guesses at the largest chance that the claim allows, 40 in a training, without any training."""
    most, draw = most_right(Case(honest(Gap), EDGE)), np.random.default_rng(0)
    wrong = 0
    for _ in range(10_000):
        right = draw.random((160, 40)) < most
        stages = (right[: 10 * 2**j] for j in range(5))
        wrong += any(chance_of_so_many(r, most) * (j + 1) * (j + 2) < 0.05 for j, r in enumerate(stages))
    assert wrong / 10_000 > 0.005
    assert stats.binom.sf(wrong - 1, 10_000, 0.05) > 1e-6  # fails once in a million


def test_the_smallest_p_value_of_a_test_is_kept_and_a_failed_check_loses_both():
    strong, weak = (Bound(e, 0.05, "ledger", "x", (5, 5), False, p, 1.0, 1.0) for e, p in ((1.0, 0.3), (0.5, 0.2)))
    assert (better(strong, weak).epsilon, better(strong, weak).p_value) == (1.0, 0.2)
    failed = resting(weak, "x", Condition("independent", "failed", "p = 0"))
    assert better(strong, failed) == failed
    assert better(failed, strong) == strong


def test_guesses_that_cluster_decide_nothing():
    """All guesses of a training are right or half of them: the bound is withdrawn, however many are right, and play goes on."""
    draw = np.random.default_rng(4)
    bits = draw.random((20, 20)) < 0.5
    good = (draw.random((20, 20)) < 0.5) | (np.arange(20) % 2 == 0)[:, None]
    told = []
    setting = Setting(Case(honest(Gap), EDGE), None, None, Key("clusters"), 20, 0.05, tell=told.append)
    found = until_decided(setting, 1e-9, lambda rounds: (np.where(good == bits, 1.0, -1.0), bits))
    assert "then out of time" in found.reach
    assert "; no violation would be detected; the run asks for noise 1.5 times too small; " in told[0]


def test_it_stops_when_time_is_up_and_says_how_far_it_came():
    told = []
    found = anytime(0.6, 3, minutes=1e-9, told=told)
    assert "1 stage, then out of time" in found.reach
    assert "10 trainings" in told[0]
    assert "the run asks for noise 1.5 times too small" in told[0]
    assert re.search(r"0:0\d used; the limit was 0:00$", told[0])


def test_a_stage_within_the_time_limit_says_how_much_of_it_is_used():
    told = []
    anytime(most_right(Case(honest(Gap), EDGE)) - 0.001, 2, minutes=90, told=told)
    assert re.search(r"0:\d\d of 1:30:00 used$", told[0])


@pytest.mark.nightly
def test_honest_audits_that_play_on_are_refuted_in_at_most_five_percent():
    """At the largest chance of a right guess that the claim allows: 30 audits, of 2 tests at 2.5 % each, several stages."""
    limit, wrong = most_right(Case(honest(Gap), EDGE)), 0
    for seed in range(30):
        wrong += any(b.refuted for b in anytime(limit, seed, minutes=0.001, notices=1.1, repeats=seed % 2 == 0).bounds)
    assert stats.binom.sf(wrong - 1, 30, 0.05) > 1e-6  # fails once in a million


def test_a_dense_matrix_that_does_not_fit_on_the_crafted_graph_is_refused_with_the_way_out(tmp_path):
    """1274 and 5096 nodes are parts: dense matrices of them take 12 and 198 MiB each, and one of all nodes 3170 MiB."""

    def dense(graph, seed):
        matrix = graph.adjacency().toarray() + 2 * np.random.default_rng(seed).standard_normal((graph.nodes, graph.nodes))
        votes = matrix @ np.eye(graph.classes)[graph.y]
        return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)}

    case = Case(Looped(dense), Claim(1.0, 1e-6))
    setting = Setting(case, load("campus:n=120:degree=6"), Store(tmp_path, memory=1 << 30), Key("dense"), 2, 0.05)
    with pytest.raises(ValueError, match=r"memory=1024MiB: one training on the crafted graph of 20384 nodes may need \d+MiB"):
        aligned_canaries(setting)


DENSE = """
import sys
import numpy as np
graph = np.load(sys.argv[1] + "/graph.npz")
nodes = len(graph["y"])
matrix = np.ones((nodes, nodes))
np.save(sys.argv[2] + "/posteriors.npy", np.full((1, nodes, int(graph["classes"])), 1 / int(graph["classes"])))
"""


def test_a_program_with_a_dense_matrix_is_left_out_by_the_memory_of_its_processes(tmp_path):
    """A matrix of all 20384 nodes takes 3170 MiB, and Python with NumPy about 30."""
    (tmp_path / "dense.py").write_text(DENSE)
    case = Case(External(f"{sys.executable} {tmp_path / 'dense.py'} {{worlds}} {{out}}"), Claim(1.0, 1e-6))
    setting = Setting(case, load("campus:n=120:degree=6"), Store(tmp_path, memory=1 << 30), Key("dense"), 2, 0.05)
    with pytest.raises(ValueError, match=r"memory=1024MiB: one training .* may need 3[12]\d\dMiB, as one needs 2\d\dMiB"):
        aligned_canaries(setting)
    check_cost(dataclasses.replace(setting, store=Store(tmp_path, memory=4 << 30)), crafted(1).graph)


@pytest.mark.parametrize(("power", "least"), [(1, 40), (2, 160)])
def test_a_model_that_is_slow_on_the_crafted_graph_is_left_out_with_the_way_out(tmp_path, monkeypatch, power, least):
    """One training takes a second on a quarter of the nodes, so 4 or 16 on all: ten take 40 or 160, and never more than 160."""

    def uniform(graph, seed):
        return {"posteriors": np.full((graph.nodes, graph.classes), -np.log(graph.classes))}

    monkeypatch.setattr(affordable, "cost", lambda _, graph: ((graph.nodes / 5096) ** power, 0))
    setting = Setting(Case(Looped(uniform), Claim(1.0, 1e-6)), load("campus:n=120:degree=6"), Store(tmp_path), Key("slow"), 10)
    with pytest.raises(ValueError, match=r"10 trainings .* of 20384 nodes may take .*--audits blackbox.*--minutes"):
        aligned_canaries(dataclasses.replace(setting, patience=least - 1.0))
    made = crafted(1).graph
    check_cost(dataclasses.replace(setting, patience=161.0), made)
    check_cost(setting, made)  # a plan that names the audit waits as long as it takes


def test_a_claim_for_graphs_of_bounded_degree_is_not_tested_on_a_graph_with_larger_degrees(tmp_path):
    graph, claim = load("campus:n=120:degree=6"), Claim(1.0, 1e-6)
    trained = []

    def uniform(graph, seed):
        trained.append(graph.degree.max())
        return {"posteriors": np.full((graph.nodes, graph.classes), -np.log(graph.classes))}

    for bound, tested in ((1000, True), (60, False)):
        trained.clear()
        case = Case(Looped(uniform, max_degree=bound), claim)
        told = aligned_canaries(Setting(case, graph, Store(tmp_path / str(bound)), Key("degrees"), 1, 0.05))
        assert (bool(told.bounds), bool(trained)) == (tested, tested)
    assert "max_degree=60" in told.reach
