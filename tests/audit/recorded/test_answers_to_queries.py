"""A user's model that also answers queries, about its own graph with the attacker's features, or about the attacker's graph.

Each model has the same honest release: sums over neighbours with Gaussian noise. Only the answers differ.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

GRAPH = load("campus:n=120:degree=6")
SIGMA, DELTA = 2.0, 1e-5
TRUE = float(epsilon_of(2**0.5 / SIGMA, DELTA))


def sums(graph, seed, sigma=SIGMA):
    """An edge moves two rows by at most 1 each, so the sums cost `epsilon_of(sqrt 2 / sigma)`."""
    rows = graph.x / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1e-9)
    return graph.adjacency() @ rows + sigma * np.random.default_rng(seed).standard_normal(rows.shape)


def train(graph, seed):
    return {"sums": sums(graph, seed)}


def trained(worlds, answer):
    """Answers (K, nodes, columns), from `answer(graph, seed, query)` for each run."""
    runs = [(worlds.removed(k).graph, int(seed)) for k, seed in enumerate(worlds.seeds)]
    return lambda query: np.stack([answer(graph, seed, query) for graph, seed in runs])


def about_features(answer):
    class Model(Looped):
        def deployed(self, worlds, device="cpu"):
            return trained(worlds, answer)

    return Model


def about_graphs(answer):
    class Model(Looped):
        def anywhere(self, worlds, device="cpu"):
            return trained(worlds, answer)

    return Model


def weights(graph, seed):
    return sums(graph, seed).T @ np.eye(graph.nodes)[:, :3]


def too_little_noise(graph, seed, x):
    return sums(graph, seed, SIGMA / 2) * x


def through_a_nonlinear_layer(graph, seed, x):
    return np.maximum(graph.adjacency() @ x, 0) @ weights(graph, seed)


def of_large_degrees(graph, seed, x):
    return np.where((graph.degree > 8)[:, None], 1.0, 0.0) + x[:, :3]


def same_noise_for_all_queries(graph, seed, x):
    return graph.adjacency() @ x + SIGMA * np.random.default_rng(7).standard_normal(x.shape)


def of_noisy_sums(graph, seed, x):
    return x * sums(graph, seed)


def of_a_noisy_weight(graph, seed, x):
    return np.tanh(x @ weights(graph, seed))


def of_features_alone(graph, seed, x):
    return np.asarray(x, dtype=np.float64)[:, :2] ** 2


def over_the_queried_graph(graph, seed, other):
    return other.adjacency() @ np.asarray(other.x, dtype=np.float64) @ weights(graph, seed)


def with_the_training_graph(graph, seed, other):
    rows = np.asarray(other.x, dtype=np.float64)[:, : graph.dim]
    return rows * graph.edges.shape[1]


def judged(kind, tmp_path, claimed=TRUE * 1.001, asked="queries"):
    claim = Claim(claimed, DELTA, Unit.UNDIRECTED_EDGE, exposes=("sums", asked))
    model = kind(train, releases=("sums",))
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("answers"), 2, 1e-4))
    return found, judge(claim, (), found.bounds, notices=1.5)


@pytest.mark.parametrize(
    "answer",
    [too_little_noise, through_a_nonlinear_layer, of_large_degrees, same_noise_for_all_queries],
    ids=lambda answer: answer.__name__,
)
def test_answers_past_the_noise_are_refuted(answer, tmp_path):
    found, verdict = judged(about_features(answer), tmp_path)
    assert verdict.kind == "refuted"
    assert found.reach.endswith("in answers to queries")


@pytest.mark.parametrize("answer", [of_noisy_sums, of_a_noisy_weight, of_features_alone], ids=lambda answer: answer.__name__)
def test_answers_that_post_process_noisy_sums_are_not_refuted(answer, tmp_path):
    _, verdict = judged(about_features(answer), tmp_path)
    assert verdict.kind == "not-refuted", verdict.sentence
    assert "queries" in verdict.sentence


def test_answers_about_other_graphs_are_examined(tmp_path):
    _, honest = judged(about_graphs(over_the_queried_graph), tmp_path / "honest", asked="graph queries")
    _, faulty = judged(about_graphs(with_the_training_graph), tmp_path / "faulty", asked="graph queries")
    assert (honest.kind, faulty.kind) == ("not-refuted", "refuted")


def fails(graph, seed, x):
    raise ZeroDivisionError("no answer")


def of_two_axes(graph, seed, x):
    return np.zeros(3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(fails, "ZeroDivisionError: no answer"), (of_two_axes, "gave an array of shape (1, 3), not (K, nodes, classes) = (1, 120,")],
)
def test_a_model_whose_answers_cannot_be_examined_is_inconclusive_with_the_reason(answer, said, tmp_path):
    _, verdict = judged(about_features(answer), tmp_path)
    assert verdict.kind == "inconclusive"
    assert "the smallest detectable violation in queries is unknown" in verdict.sentence
    assert said in verdict.sentence
    assert "test_answers_to_queries.py, line" in verdict.sentence or "deployed: " in verdict.sentence
