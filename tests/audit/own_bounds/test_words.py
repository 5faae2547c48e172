"""What a bound on a user's model says is true of that model: how its reports are drawn, what the adversary sees, what moves."""

import re

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.observed import observe
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.recorded.study import ELSEWHERE, UNRECORDED_NUMBERS
from gnnaudit.models.recorder.mechanisms.mechanism import PICK, REPORT
from gnnaudit.reports.observed import REPORTS

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
WEIGHTS = ", and the random numbers that are drawn as initial weights"
OTHERS = ", and the random numbers that are no noise, such as initial weights"


def by_choice(scores, seed):
    powers = np.exp(scores - scores.max())
    return np.random.default_rng(seed).choice(len(scores), p=powers / powers.sum())


def by_gumbel(scores, seed):
    return np.argmax(scores + np.random.default_rng(seed).gumbel(size=scores.shape))


def by_multinomial(scores, seed):
    powers = torch.softmax(torch.from_numpy(scores), 0)
    return int(torch.multinomial(powers, 1, generator=torch.Generator().manual_seed(seed % 2**32)))


def picked(way):
    def train(graph, seed):
        return {"mode": np.array([way(2.0 * np.bincount(graph.y[graph.train], minlength=graph.classes), seed)])}

    return train


def flipped(graph, seed):
    edges = graph.adjacency().toarray() > 0
    return {"mode": edges ^ (np.random.default_rng(seed).random(edges.shape) > 0.8)}


def audited(train, claim, releases):
    case = Case(Looped(train, releases=releases, unit=claim.unit), claim)
    return case, differential(Setting(case, GRAPH, None, Key("words"))).bounds


def assumed(bounds):
    (refuted,) = {condition.what for b in bounds for condition in b.conditions if b.refuted and condition.how == "granted"}
    return refuted


@pytest.mark.parametrize(
    ("train", "claim", "law"),
    [
        (picked(by_choice), Claim(1.0, 0.0, "node"), PICK),
        (flipped, Claim(1.0, 1e-6), REPORT),
        *nightly(*((picked(way), Claim(1.0, 0.0, "node"), PICK) for way in (by_gumbel, by_multinomial))),
    ],
    ids=["choice", "coins", "gumbel", "multinomial"],
)
def test_a_pick_is_no_randomised_response_and_coins_are_no_pick(train, claim, law):
    case, bounds = audited(train, claim, ("mode",))
    (text,) = {b.method for b in bounds if b.refuted}
    assert f" ({law}) by " in text
    found = observe(Recorded(case, GRAPH, Key("words")))
    assert [m.law for m in found.mechanisms] == [law]
    assert found.costs is not None
    assert found.costs > claim.epsilon


def test_the_report_knows_both_names_of_reports():
    assert set(REPORTS) == {REPORT, PICK}


def degrees(start):
    """Noisy degrees that are too noisy for no claim, and initial weights of a layer that is not trained."""

    def train(graph, seed):
        noisy = graph.degree + 0.5 * np.random.default_rng(seed).standard_normal(graph.nodes)
        return {"degrees": np.exp(noisy / 10)} | start(seed)

    return train


def no_weights(seed):
    return {}


def fixed_weights(seed):
    torch.manual_seed(0)
    return {"weights": torch.nn.Linear(3, 2).weight.detach().numpy()}


def torch_weights(seed):
    torch.manual_seed(seed % 2**32)
    return {"weights": torch.nn.Linear(3, 2).weight.detach().numpy()}


def numpy_weights(seed):
    return {"weights": np.random.default_rng([seed, 1]).uniform(size=(3, 2))}


@pytest.mark.parametrize(
    ("start", "sees"), [(no_weights, ""), (torch_weights, WEIGHTS), (numpy_weights, OTHERS), *nightly((fixed_weights, ""))]
)
def test_the_adversary_sees_initial_weights_only_if_the_run_draws_some(start, sees):
    releases = ("degrees", *start(0))
    _, bounds = audited(degrees(start), Claim(1.0, 1e-6), releases)
    assert assumed(bounds) == f"for an adversary who sees the noisy value of each mechanism{sees}"


def test_the_adversary_does_not_see_a_number_that_only_seeds_a_generator():
    def train(graph, seed):
        number = int(np.random.default_rng(seed).integers(2**62))
        noise = torch.randn(graph.nodes, generator=torch.Generator().manual_seed(number), dtype=torch.float64).numpy()
        return {"degrees": np.exp((graph.degree + 0.5 * noise) / 10)}

    _, bounds = audited(train, Claim(1.0, 1e-6), ("degrees",))
    assert assumed(bounds) == "for an adversary who sees the noisy value of each mechanism"


def test_a_value_that_depends_on_other_draws_is_not_said_to_depend_on_its_noise():
    """Rows are dropped, or count by half, by one draw for each node, from which the program computes two masks."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        drawn = rng.random(graph.nodes)
        weights = np.where(drawn < 0.05, 0.0, np.where(drawn < 0.1, 0.5, 1.0)) * graph.train
        rows = np.asarray(graph.x, dtype=np.float64) / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1.0)
        sums = (np.eye(graph.classes)[graph.y] * weights[:, None]).T @ rows
        return {"sums": sums + 2.0 * rng.standard_normal(sums.shape)}

    case = Case(Looped(train, releases=("sums",), unit=Unit.NODE), Claim(3.0, 1e-6, Unit.NODE))
    found = differential(Setting(case, GRAPH, None, Key("masks")))
    assert not any(bound.refuted for bound in found.bounds)
    reasons = " ".join(detail for bound in found.bounds for detail in bound.failed)
    assert "this noise itself" not in reasons
    assert "the recorder did not follow on all their ways" in reasons


def nothing_moves(graph, seed):
    return {"noisy": graph.nodes + np.random.default_rng(seed).standard_normal(3)}


def constant(graph, seed):
    return {"noisy": np.zeros(3)}


@pytest.mark.parametrize(
    ("train", "says"),
    [
        (nothing_moves, "no secret that was tried moves the values before noise"),
        (constant, "no released value is a sum of data and recorded noise"),
    ],
)
def test_no_sentence_says_that_something_moves_by_0(train, says):
    case, bounds = audited(train, Claim(1.0, 1e-6), ("noisy",))
    texts = [text for b in bounds for text in (b.method, *(c.what for c in b.conditions), *(c.detail for c in b.conditions))]
    assert says in texts
    texts += observe(Recorded(case, GRAPH, Key("words"))).compared
    assert not any(re.search(r"\b0 times|by 0 |moves 0\b", text) for text in texts)


def test_what_an_audit_of_a_training_without_recorded_noise_did_is_a_whole_sentence():
    def train(graph, seed):
        state = (np.arange(graph.nodes * graph.classes, dtype=np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        noise = (state ^ (state >> np.uint64(31))).astype(np.float64).reshape(graph.nodes, -1) / 2**64
        votes = graph.adjacency() @ np.eye(graph.classes)[graph.y] + noise
        return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)}

    reach = differential(Setting(Case(Looped(train), Claim(1.0, 1e-5)), GRAPH, None, Key("words"))).reach
    assert reach == f"nothing is stated: {UNRECORDED_NUMBERS}: {ELSEWHERE}"
