"""A model that releases only what it computes from noisy values: its mechanisms, and worlds without any secret, say what would
have been noticed. The truth is the closed form of the Gaussian mechanism.
"""

import dp_accounting
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Release, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH, DELTA, SCALE = load("campus:n=120:degree=6"), 1e-5, 4.0
TRUTH = float(epsilon_of(2**0.5 / SCALE, DELTA))  # an edge moves two rows of a sum of unit rows by one each


def noisy_rows(graph, seed, scale=SCALE):
    x = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
    return graph.adjacency() @ x + scale * np.random.default_rng(seed).standard_normal(x.shape)


def regression(rows, graph):
    """Softmax regression on the training nodes; nothing that it reads is private but the rows."""
    weights, onehot = np.zeros((rows.shape[1], graph.classes)), np.eye(graph.classes)[graph.y]
    for _ in range(30):
        scores = rows[graph.train] @ weights
        shares = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        weights -= rows[graph.train].T @ (shares - onehot[graph.train]) / graph.train.sum()
    scores = rows @ weights
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}


def honest(graph, seed):
    """The arctan keeps large values apart. In float32 a tanh does not, and the audit then says that it hides a part of them."""
    return regression(np.arctan(noisy_rows(graph, seed)), graph)


def centred_by_few(graph, seed):
    rows = np.arctan(noisy_rows(graph, seed))
    many = graph.degree > 12
    return regression(rows - rows[many].mean(0) if many.any() else rows, graph)


def divided_by_degree(graph, seed):
    return regression(noisy_rows(graph, seed) / np.maximum(graph.degree, 1)[:, None], graph)


def audited(train, tmp_path, epsilon=1.05 * TRUTH):
    case = Case(Looped(train), Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("within"), 3, 1e-4))


def test_an_honest_model_is_bounded_by_its_closed_form_and_little_more_would_have_been_noticed(tmp_path):
    outcome = audited(honest, tmp_path)
    (bound,) = (b for b in outcome.bounds if np.isfinite(b.reach))
    assert not bound.refuted
    assert bound.epsilon == pytest.approx(TRUTH, rel=1e-3)
    assert 1.05 * TRUTH <= bound.reach < 1.12 * TRUTH
    assert "a path past the noise" in outcome.covers["posteriors"]


def test_a_claim_below_the_closed_form_is_refuted(tmp_path):
    assert any(b.refuted for b in audited(honest, tmp_path, 0.95 * TRUTH).bounds)


@pytest.mark.parametrize("train", [divided_by_degree, *nightly(centred_by_few)])
def test_a_path_past_the_noise_is_named_also_where_only_few_edges_open_it(train, tmp_path):
    outcome = audited(train, tmp_path)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)
    (failed,) = {text for b in outcome.bounds for text in b.failed}
    assert "changes 'posteriors' although every noisy value is the same" in failed
    assert "test_within_the_run.py, line" in failed


class OfClasses:
    """Noisy sums of the rows of each class: an array without a row for each node. A node moves it by one."""

    name, mode, unit, ledger = "of-classes", "sound", Unit.NODE, dp_accounting.GaussianDpEvent(SCALE)
    releases = offers = ("posteriors", "sums")
    public = ()

    def footprint(self, graph):
        return 1 << 20

    def fit(self, worlds, device="cpu"):
        found = {"posteriors": [], "sums": []}
        for run in range(len(worlds)):
            graph = worlds.removed(run).graph
            x = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
            sums = np.eye(graph.classes)[graph.y][graph.train].T @ x[graph.train]
            sums = sums + SCALE * np.random.default_rng(worlds.seeds[run]).standard_normal(sums.shape)
            scores = x @ sums.T
            found["sums"].append(sums)
            found["posteriors"].append((scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))[worlds.watch])
        return Release({name: np.array(each, dtype=np.float32) for name, each in found.items()}, worlds.watch)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_an_array_without_a_row_for_each_node_is_judged_for_nodes_too(factor, tmp_path):
    claim = Claim(factor * float(epsilon_of(1 / SCALE, DELTA)), DELTA, Unit.NODE)
    outcome = AUDITS["differential"].run(Setting(Case(OfClasses(), claim), GRAPH, Store(tmp_path), Key("within"), 3, 1e-4))
    assert any(b.refuted for b in outcome.bounds) == (factor < 1)


def draws_for_edges(graph, seed):
    rng = np.random.default_rng(seed)
    rng.standard_normal(graph.edges.shape[1])
    return honest(graph, int(rng.integers(2**32)))


def scaled_by_edges(graph, seed):
    scale = SCALE * (1 + 1e-4 * graph.edges.shape[1])
    return regression(np.arctan(noisy_rows(graph, seed, scale)), graph)


@pytest.mark.parametrize(
    ("train", "why"),
    [(draws_for_edges, "changes what is drawn"), *nightly((scaled_by_edges, "changes the size of the noise"))],
)
def test_a_verdict_without_reach_says_which_repetition_was_not_possible(train, why, tmp_path):
    outcome = audited(train, tmp_path)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)
    assert any(why in text for b in outcome.bounds for text in b.failed), [b.failed for b in outcome.bounds]


def adaptive(scale=SCALE, of_noisy=True):
    """Two noisy sums. The second is scaled together with its noise, as a clipping norm that a run adapts scales both."""

    def train(graph, seed):
        rng, x = np.random.default_rng(seed), graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)
        sums = graph.adjacency() @ x
        first = sums + rng.normal(0, scale, sums.shape)
        norm = 1 + 0.3 * np.tanh((first if of_noisy else sums).mean())
        return {"sums": sums * norm + rng.normal(0, scale * norm, sums.shape), "first": first}

    return train


def of_both(train, tmp_path):
    claim = Claim(float(epsilon_of(2 / SCALE, DELTA)), DELTA, Unit.UNDIRECTED_EDGE)
    case = Case(Looped(train, releases=("sums", "first")), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("adaptive"), 3, 1e-4))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_noise_whose_size_follows_from_noisy_values_is_as_large_in_both_worlds(share, tmp_path):
    outcome = of_both(adaptive(share * SCALE), tmp_path)
    truth = float(epsilon_of(2 / (share * SCALE), DELTA))
    bound = max(outcome.bounds, key=lambda b: b.epsilon)
    assert bound.refuted == (share < 1)
    assert 0.98 * truth < bound.epsilon <= truth * (1 + 1e-3)
    assert bound.refuted or {"sums", "first"} <= set(outcome.covers)


def test_noise_whose_size_follows_from_the_data_is_not_judged(tmp_path):
    outcome = of_both(adaptive(of_noisy=False), tmp_path)
    assert "sums" not in outcome.covers
