"""The black-box audit of node claims: the structure of its graph, its two controls, and which plans run it."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gnnaudit import Looped, load
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.blackbox_nodes import aligned_nodes, class_scores, of_features, of_neighbours
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.games.crafted_features import LOUDER, crafted_features
from gnnaudit.audit.games.crafted_stars import KINDS, LEAST, TEACHERS, crafted_stars
from gnnaudit.audit.games.game import Game, Seen
from gnnaudit.audit.key import Key
from gnnaudit.audit.planning.plan import Plan
from gnnaudit.audit.run import left_out
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph.graph import Mask

from ...nightly import nightly

NODE = Claim(8.0, 1e-5, Unit.NODE)
DEGREE, TRAIN = 40, 600


@cache
def honest():
    return calibrate(Gap(unit=Unit.NODE, train_nodes=TRAIN, batch=TRAIN, epochs=10, max_degree=DEGREE), NODE)


def audited(model, tmp_path, rounds):
    """An audit at level 1e-4 of a graph with as many training nodes as `honest` declares; its batches hold all of them, so that
    its ledger is Gaussian.
    """
    graph = load("campus:n=800:degree=6")
    return aligned_nodes(Setting(Case(model, NODE), graph, Store(tmp_path), Key("nodes"), rounds, 1e-4))


@pytest.mark.parametrize("degree", [LEAST, 37, *nightly(100)])
def test_no_node_exceeds_the_degree_bound_and_every_canary_has_a_component_to_itself(degree):
    made = crafted_stars(3, degree, 100)
    graph = made.graph
    assert graph.degree.max() <= degree
    assert len(np.unique(graph.edges, axis=1).T) == graph.edges.shape[1]  # no edge twice
    assert np.all(graph.edges[0] < graph.edges[1])
    assert (graph.train.sum(), graph.train[made.centres].all()) == (100, True)
    send, receive = graph.arcs
    _, component = connected_components(sp.csr_array((np.ones(len(send)), (receive, send)), shape=(graph.nodes, graph.nodes)))
    assert np.all(component[made.leaves] == component[made.centres][:, None])
    assert len(set(component[made.centres])) == 3
    assert not np.isin(component[np.concatenate([made.bare, made.joined])], component[made.centres]).any()


def test_the_neighbours_of_a_canary_differ_from_the_known_leaves_by_it_alone():
    made = crafted_stars(2, DEGREE, 100)
    graph = made.graph
    assert made.leaves.shape == (2, DEGREE)
    assert [set(graph.degree[some].tolist()) for some in (made.leaves.ravel(), made.bare, made.joined)] == [
        {1},
        {0},
        {made.senders},
    ]
    assert np.array_equal(graph.x[made.bare[0]], graph.x[made.leaves[0, 0]])
    like = graph.adjacency()[[made.joined[0]]].indices
    assert np.all(graph.x[like] == graph.x[made.centres[0]])
    assert np.all(graph.x[made.probes] == graph.x[made.centres[0]])


def test_each_canary_has_a_class_that_no_other_training_node_has():
    made = crafted_stars(3, DEGREE, 100)
    graph, known = made.graph, made.known
    taught = np.bincount(graph.y[graph.train], minlength=graph.classes)
    assert not graph.train[made.probes].any()
    assert taught[KINDS : KINDS + known].max() == 0
    assert np.all(taught[KINDS + known :] == 1)
    assert graph.y[made.centres].tolist() == list(range(graph.classes))[-3:]


def test_the_labels_of_leaves_say_whether_they_have_senders():
    graph = crafted_stars(3, DEGREE, 100).graph
    bare, joined = (np.flatnonzero(graph.train & (graph.y == kind)) for kind in (1, 2))
    assert len(bare) == len(joined) > 0
    assert set(graph.degree[bare].tolist()) == {0}
    assert set(graph.degree[joined].tolist()) == {min(TEACHERS, DEGREE)}
    assert len(np.unique(graph.x[np.concatenate([bare, joined])], axis=0)) == 1


def test_a_class_is_found_by_the_posteriors_of_nodes_that_are_like_its_node(tmp_path):
    """The canaries have neighbours that the network does not read, so their classes alone reveal them."""
    for sigma, least, most in ((0.1, 0.9, 1.0), (100.0, 0.3, 0.7)):
        made = crafted_stars(40, DEGREE, TRAIN)
        game = Game(made.graph, "node", made.centres, Key("classes"), watch=made.probes).rounds(3)
        seen = Seen(perceptron(sigma).fit(game.worlds), game.challenge, game.bits)
        assert least <= ((class_scores(seen, made) > 0) == game.bits).mean() <= most


@pytest.mark.parametrize(("share", "refuted"), [(0.1, True), *nightly((1.0, False))])
def test_posteriors_alone_refute_a_tenth_of_the_noise_and_not_the_honest_noise(share, refuted, tmp_path):
    """600 guesses at level 1e-4. The honest one fails once in ten thousand seeds."""
    model = honest().with_noise(share * honest().sigma)
    assert any(b.refuted for b in audited(model, tmp_path, 15).bounds) == refuted


@pytest.mark.parametrize("make", [lambda: of_neighbours(40, DEGREE, TRAIN), lambda: of_features(40, DEGREE, TRAIN)])
def test_absent_canaries_are_not_found(make):
    """World 0 in every run, whatever the coins say: more than 260 of 400 right guesses come once in a billion seeds."""
    design = make()
    game = design.game(Key("absent")).rounds(10)
    nobody = Mask(game.worlds.nodes.items, np.zeros_like(game.worlds.nodes.present))
    seen = Seen(honest().fit(dataclasses.replace(game.worlds, nodes=nobody)), game.challenge, game.bits)
    right = (design.score(seen) > 0) == game.bits
    assert right.size == 400
    assert right.sum() <= 260


def test_only_a_canary_and_its_twin_have_its_feature_and_labels_are_balanced():
    made = crafted_features(40, DEGREE, TRAIN)
    graph, asked = made.graph, made.twins[2 * made.known :]
    assert (graph.train.sum(), graph.train[made.centres].all(), graph.train[made.twins].any()) == (TRAIN, True, False)
    assert np.array_equal(graph.x[made.centres], graph.x[asked])
    assert np.array_equal(graph.y[made.centres], graph.y[asked])
    own = graph.x[made.centres].argmax(axis=1)
    assert np.all((graph.x[:, own] != 0).sum(axis=0) == 2)
    assert np.all(np.bincount(graph.y[made.centres], minlength=graph.classes) == 40 // graph.classes)
    present = made.twins[made.known : 2 * made.known]
    assert np.all((graph.x[graph.train] @ graph.x[present].T >= LOUDER**2).sum(axis=0) == 1)
    absent = made.twins[: made.known]
    assert not (graph.x[graph.train] @ graph.x[absent].T >= LOUDER**2).any()


@cache
def perceptron(sigma):
    """DP-MLP on batches of all training nodes: a canary's gradient, and none of its edges, reaches the posteriors."""
    return Mlp(sigma=sigma, unit=Unit.NODE, train_nodes=TRAIN, batch=TRAIN, epochs=40)


def test_canaries_with_their_own_feature_are_found_in_a_network_that_reads_no_edges(tmp_path):
    """Of noise that a gradient hardly feels, nearly all guesses are right; of much noise, half. 120 guesses each."""
    for sigma, least, most in ((0.1, 0.9, 1.0), (100.0, 0.3, 0.7)):
        design = of_features(40, DEGREE, TRAIN)
        game = design.game(Key("gradients")).rounds(3)
        seen = Seen(perceptron(sigma).fit(game.worlds), game.challenge, game.bits)
        assert least <= ((design.score(seen) > 0) == game.bits).mean() <= most


def test_the_pilot_chooses_the_canaries_that_the_model_reveals(tmp_path):
    graph = load("campus:n=800:degree=6")
    sums = dataclasses.replace(honest(), hops=2).with_noise(0.1)
    for model, words in ((sums, f"of degree {DEGREE}"), (perceptron(1.0), "with a feature of their own")):
        outcome = aligned_nodes(Setting(Case(model, NODE), graph, Store(tmp_path / words), Key("pilot"), 1, 0.05))
        assert words in outcome.reach
        assert "chosen on 3 other trainings of each of two graphs" in outcome.reach


def test_a_degree_bound_too_small_for_neighbours_leaves_canaries_with_a_feature_and_gives_the_reason(tmp_path):
    narrow = dataclasses.replace(honest(), max_degree=1)
    reach = audited(narrow, tmp_path, 1).reach
    assert "with a feature of their own" in reach
    assert f"max_degree=1: nodes of the crafted graph need up to {LEAST} neighbours" in reach


def test_too_few_training_nodes_are_refused_with_the_number_that_would_do():
    with pytest.raises(ValueError, match=r"12 training nodes: the crafted graph needs 13, with 5 canaries"):
        crafted_stars(5, DEGREE, 12)
    assert crafted_stars(5, DEGREE, 13).graph.train.sum() == 13
    with pytest.raises(ValueError, match=r"36 training nodes: the crafted graph needs 37, with 5 canaries"):
        crafted_features(5, DEGREE, 36)
    assert crafted_features(5, DEGREE, 37).graph.train.sum() == 37


def test_a_user_s_function_is_trained_on_graphs_that_respect_its_bound(tmp_path):
    trained = []

    def uniform(graph, seed):
        trained.append(int(graph.degree.max()))
        return {"posteriors": np.full((graph.nodes, graph.classes), -np.log(graph.classes))}

    outcome = audited(Looped(uniform, unit=Unit.NODE, max_degree=30), tmp_path, 2)
    assert all(b.epsilon == 0 for b in outcome.bounds)
    assert max(trained) == 30


def test_a_plan_runs_it_for_nodes_only_if_it_names_the_audit_or_a_time_limit():
    audit, nodes = AUDITS["blackbox"], Case(honest(), NODE)
    edges = Case(Gap(sigma=1.0), Claim(8.0, 1e-6, Unit.UNDIRECTED_EDGE))
    plans = {"default": Plan(), "named": Plan(audits=("blackbox",)), "timed": Plan(minutes=1.0)}
    assert {name for name, plan in plans.items() if left_out(audit, nodes, plan) is None} == {"named", "timed"}
    assert all(left_out(audit, edges, plan) is None for plan in plans.values())
    assert "--audits blackbox or --minutes N" in left_out(audit, nodes, Plan())
