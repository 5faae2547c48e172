"""The membership games of a run: their challenges, their attacks, and the skipped attacks with reasons."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.attacks.registry import ATTACKS, GAMES
from gnnaudit.attacks.roc import measure
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.leakage import question as questions
from gnnaudit.audit.leakage.pool import Pool, membership, with_models
from gnnaudit.audit.leakage.question import public_part, question
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.lpgnn.lpgnn import Lpgnn

EPOCHS = 60
PAY_FOR_EACH = ("linkteller", "linkteller-normalised", "g-base")  # with fewer challenges
SOME = (*PAY_FOR_EACH, "nmi-within")


@pytest.fixture(scope="module")
def graph():
    from gnnaudit.models.data.loading import load

    return load("campus:n=300")


@pytest.fixture(scope="module")
def open_model(graph, tmp_path_factory):
    """Every attack on a network without privacy that answers any query, and the store with its runs."""
    case = Case(Gnn(epochs=EPOCHS, learning_rate=0.01), Claim(np.inf, 1e-5, Unit.NODE, exposes=Gnn.releases))
    store = Store(tmp_path_factory.mktemp("runs"))
    return membership(case, graph, store, Key("suite"), tuple(ATTACKS), 8, 2), store


def codes(pairs):
    return set(map(frozenset, np.asarray(pairs).tolist()))


@pytest.mark.nightly
def test_every_attack_is_made_on_a_model_that_answers_every_query(open_model):
    measured, _ = open_model
    assert not measured.skips
    wanted = {(ATTACKS[name](query).name, kind) for kind, query in GAMES.items() for name in ATTACKS}
    wanted = {(name, kind) for name, kind in wanted if any(a().name == name and kind in a().kinds for a in ATTACKS.values())}
    assert {(r.attack, r.game) for r in measured.rows if not r.baseline} == wanted


def test_attacks_find_the_answers_to_every_query_that_they_read(graph, tmp_path):
    case = Case(Gnn(epochs=2), Claim(np.inf, 1e-5, Unit.NODE, exposes=Gnn.releases))
    names = ("shadow-mlp-public", "label-only-neighbours", "strongest")
    measured = membership(case, graph, Store(tmp_path), Key("queries"), names, 4, 1, ("node",))
    assert not measured.skips
    assert {r.attack for r in measured.rows if not r.baseline} == {ATTACKS[name](GAMES["node"]).name for name in names}


@pytest.mark.nightly
def test_no_two_rows_answer_the_same_question(open_model):
    places = [(r.attack, r.game, r.negatives) for r in open_model[0].rows]
    assert len(set(places)) == len(places)
    assert set(open_model[0].rocs) == {
        f"{a} ({g}, {n})" for a, g, n in places if a not in ("feature-distance", "edge-free-distance")
    }


@pytest.mark.nightly
def test_all_attacks_read_one_pool_for_each_game_and_one_of_public_nodes(open_model):
    _, store = open_model
    assert len(list((store.root / "gcn").iterdir())) == len(GAMES) + 2  # public shadows for the label and the node game


def test_public_shadows_hold_no_node_that_is_trained_on(graph):
    part = public_part(graph, Key("public"))
    assert part.nodes == (~graph.train).sum()
    assert (part.x == graph.x[~graph.train]).all()
    kept = (~graph.train[graph.edges]).all(0)
    ids = np.flatnonzero(~graph.train)
    assert codes(ids[part.edges].T) == codes(graph.edges[:, kept].T)
    assert (part.train | part.val | part.test).all()


@pytest.mark.nightly
def test_the_baselines_stand_once_beside_each_kind_of_non_member(open_model):
    rows = [r for r in open_model[0].rows if r.game == "edge"]
    found = [(r.attack, r.negatives) for r in rows if r.baseline]
    names, kinds = ("feature-distance", "edge-free-distance"), ("dropped", "random", "2-hop")
    assert sorted(found) == sorted((name, kind) for name in names for kind in kinds)
    assert {r.negatives for r in rows if r.attack == "link-stealing-3"} == set(kinds)
    by_features = {r.negatives: r.auc for r in rows if r.attack == "feature-distance"}
    assert all(r.baseline_auc == by_features[r.negatives] for r in rows if r.attack not in PAY_FOR_EACH)
    assert all(r.baseline_auc is None for r in open_model[0].rows if r.game != "edge")


@pytest.mark.nightly
def test_members_and_others_are_asked_alike_in_each_game(open_model):
    asked = {(r.game, r.query) for r in open_model[0].rows if r.attack in ("lira", "edge-lira")}
    assert asked == {("label", "full"), ("node", "0-hop"), ("edge", "full")}


@pytest.mark.nightly
def test_slices_hold_every_unit_and_only_where_non_members_are_fair(open_model):
    for row in open_model[0].rows:
        fair = row.negatives in ("unlabelled", "absent", "dropped") and row.attack not in SOME
        assert bool(row.slices) == fair, row.attack
        for groups in row.slices.values():
            assert sum(s.members for s in groups.values()) == row.members


@pytest.mark.nightly
def test_rates_stand_beside_their_counts(open_model):
    for row in open_model[0].rows:
        for rate, value in row.tpr_at_fpr.items():
            assert value == pytest.approx(row.true_positives[rate] / row.members, abs=0.02)  # a mean over targets of unlike size


@pytest.mark.nightly
def test_an_overfitted_network_gives_its_members_and_edges_away(open_model):
    best = {}
    for row in open_model[0].rows:
        best[row.game, row.negatives] = max(best.get((row.game, row.negatives), 0), row.auc)
    assert best["node", "absent"] > 0.7
    assert best["edge", "dropped"] > 0.65
    assert best["label", "unlabelled"] > 0.6


def test_no_pair_that_is_asked_about_is_known(graph):
    asked = question(graph, "edge", Key("pairs"))
    pairs, there = codes(asked.challenge.items), asked.bits(np.ones((1, len(asked.game.items)), bool))[0]
    assert not pairs & codes(asked.challenge.known.edges.T)
    assert codes(asked.challenge.items[there]) | codes(asked.challenge.known.edges.T) == codes(graph.edges.T)
    assert not codes(asked.challenge.items[~there]) & codes(graph.edges.T)
    assert set(np.unique(asked.challenge.items)) == set(asked.game.watch)
    for columns in (asked.kinds["random"], asked.kinds["2-hop"]):
        assert there[columns].any()
        assert not there[columns].all()


def test_a_model_that_changes_its_graph_when_it_answers_queries_is_refused(graph):
    class Mine(Gnn):
        def deployed(self, worlds, device="cpu"):
            worlds.graph.x[:] = 0
            return super().deployed(worlds, device)

    before = graph.x.copy()
    split = Pool(question(graph, "edge", Key("pairs")), range(2), range(1))
    with pytest.raises(ValueError, match=r"^deployed changed graph\.x in place\."):
        list(with_models([ATTACKS["linkteller"](GAMES["edge"])], Mine(epochs=1), split, "cpu"))
    np.testing.assert_array_equal(graph.x, before)


def test_two_hop_pairs_share_a_neighbour_and_no_edge(graph):
    adjacency = graph.adjacency().toarray() > 0
    for u, v in questions.two_hop_pairs(graph, 50, Key("hops")):
        assert not adjacency[u, v]
        assert (adjacency[u] & adjacency[v]).any()


def test_few_keeps_as_many_members_as_others(graph):
    asked = question(graph, "edge", Key("few"))
    few = asked.few(10)
    bits = few.bits(np.ones((1, len(asked.game.items)), bool))[0]
    assert [int(bits[few.kinds[k]].sum()) for k in ("random", "2-hop")] == [10, 10]
    assert len(few.kinds["dropped"]) == len(few.kinds["random"]) == 20


@pytest.mark.nightly
def test_what_learns_within_a_run_is_tried_on_the_other_half_of_its_nodes(open_model):
    rows = {(r.attack, r.game): r for r in open_model[0].rows}
    for game in ("node", "label"):
        within, across = (rows[name, game] for name in ("nmi-within", "nmi"))
        assert (within.targets, within.negatives) == (across.targets, across.negatives)
        assert within.members + within.non_members == pytest.approx((across.members + across.non_members) / 2, abs=2)


def test_what_a_model_does_not_release_is_skipped_with_the_reason(graph, tmp_path):
    case = Case(Gap(sigma=5.0, epochs=5), Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE))
    names = ("confidence", "label-only-neighbours", "linkteller", "edge-lira")
    measured = membership(case, graph, Store(tmp_path), Key("skips"), names, 4, 2)
    assert {r.game for r in measured.rows} == {"label", "edge"}
    reasons = {s.what: s.reason for s in measured.skips}
    assert set(reasons) == {"label-only-neighbours", "linkteller"}
    assert "needs 'queries'" in reasons["linkteller"]
    assert "'posteriors@0-hop'" in reasons["label-only-neighbours"]


def test_edges_that_are_public_are_not_attacked(graph, tmp_path):
    case = Case(Lpgnn(epochs=2), Claim(1.0, 0.0, Unit.FEATURES))
    measured = membership(case, graph, Store(tmp_path), Key("public"), ("confidence", "edge-lira"), 4, 2)
    assert {r.game for r in measured.rows} == {"label"}
    assert [(s.what, "public" in s.reason) for s in measured.skips] == [("edge-lira", True)]


def test_one_game_trains_one_pool(graph, tmp_path):
    """A model that answers no query of a node alone says that its label game runs the same attacks."""
    store = Store(tmp_path)
    case = Case(Gnn(epochs=2), Claim(np.inf, 1e-5, Unit.NODE, exposes=Gnn.releases))
    measured = membership(case, graph, store, Key("one game"), ("confidence", "edge-lira"), 2, 1, ("edge",))
    assert {r.game for r in measured.rows} == {"edge"}
    case = Case(Lpgnn(epochs=2), Claim(1.0, 0.0, Unit.FEATURES))
    measured = membership(case, graph, store, Key("one game"), ("confidence",), 2, 1, ("node",))
    assert not measured.rows
    assert [(s.what, "--games label" in s.reason) for s in measured.skips] == [("game node", True)]


def test_a_target_is_never_among_the_runs_that_were_learnt_from(graph, tmp_path):
    """If the release holds only the number of the run, an attack fitted on that run could recognise it."""
    rng = np.random.default_rng(0)
    asked = question(graph, "label", Key("targets"))
    bits = asked.game.rounds(12).bits
    assert not (bits[8:, None] == bits[None, :8]).all(-1).any()
    assert not (bits[8:, None] != bits[None, :8]).all(-1).any()
    assert measure(rng.normal(size=bits.shape), bits).targets == 12


def test_an_attack_that_cannot_learn_is_skipped_and_the_others_go_on(tmp_path, graph):
    sparse = dataclasses.replace(graph, edges=graph.edges[:, :2])
    case = Case(Gnn(epochs=2), Claim(np.inf, 1e-5, Unit.NODE, exposes=Gnn.releases))
    measured = membership(case, sparse, Store(tmp_path), Key("two edges 2"), ("link-stealing", "link-stealing-3"), 4, 2)
    assert {r.attack for r in measured.rows if not r.baseline} == {"link-stealing-0"}
    assert [s.what for s in measured.skips] == ["link-stealing-3"]


def test_units_whose_coins_all_agree_are_told_and_pairs_without_a_coin_are_measured(tmp_path, graph):
    """One of three edges has a coin, so a single target has either a member or a non-member, never both."""
    sparse = dataclasses.replace(graph, edges=graph.edges[:, :3])
    case = Case(Gnn(epochs=2), Claim(np.inf, 1e-5, Unit.NODE, exposes=Gnn.releases))
    measured = membership(case, sparse, Store(tmp_path), Key("one coin"), ("link-stealing",), 2, 1)
    assert {(r.attack, r.negatives) for r in measured.rows} >= {("link-stealing-0", "random"), ("feature-distance", "random")}
    assert {s.what for s in measured.skips} >= {"link-stealing-0 against dropped", "feature-distance against dropped"}
    assert all("both members and non-members" in s.reason for s in measured.skips)
