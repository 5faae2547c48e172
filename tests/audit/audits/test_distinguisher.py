"""A classifier that guesses worlds from all that is released: of models whose noise the recorder does not follow, the leaky ones
are refuted and the honest ones are not. The truth is the exact privacy of each mechanism.
"""

import dataclasses
import functools
import re
import time

import dp_accounting
import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, audit, load
from gnnaudit.audit.audits import distinguisher
from gnnaudit.audit.audits.distinguisher import distinguish
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.models.capabilities import FEW
from gnnaudit.reports.results import BoundRow, SkippedRow

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
EDGE, NODE = Unit.UNDIRECTED_EDGE, Unit.NODE
TRUTH = np.e / (1 + np.e)  # a bit that is told truly with this probability costs epsilon = 1


def answers(graph, rng, truth=TRUTH, among=12):
    """Randomised response by an `if`, about the pairs of the first nodes."""
    told, edges = [], set(zip(*graph.edges.tolist(), strict=True))
    for v in range(min(among, graph.nodes)):
        for u in range(v):
            bit = (u, v) in edges
            told.append(bit if rng.random() < truth else not bit)
    return np.array(told)


def sums(graph, rng, angle=2.0):
    """Degrees with noise by the method of Box and Muller; an edge moves two of them by 1."""
    u, v = rng.random((2, graph.nodes))
    return graph.degree + 8 * np.sqrt(-2 * np.log(1 - u)) * np.sin(angle * np.pi * v)


def staircase(graph, rng, seen=False):
    """The number of edges with noise that takes few calls to draw, and with `seen` whether it is even."""
    noisy = graph.edges.shape[1] + (rng.geometric(1 - 1 / np.e) - rng.geometric(1 - 1 / np.e))
    return np.array([noisy, graph.edges.shape[1] % 2 if seen else 0])


def cached(graph, rng):
    """Nodes of one degree share their noise."""
    noise = functools.cache(lambda degree: rng.normal(0, 4))
    return np.array([degree + noise(int(degree)) for degree in graph.degree])


def shuffled_lies(graph, rng):
    """Randomised response whose lies are the true answers of other nodes, so the number of nodes of each degree is exact."""
    told, lies = graph.degree.copy(), rng.random(graph.nodes) < 0.9
    told[lies] = rng.permutation(told[lies])
    return told


def balanced(graph, rng):
    """Noise that is centred afterwards does not hide the sum."""
    noise = rng.laplace(0, 20.0, graph.nodes)
    return graph.degree + noise - noise.mean()


def setting(way, claim, key=0, **fields):
    def train(graph, seed):
        return {"found": way(graph, np.random.default_rng(seed))}

    model = Looped(train, releases=("found",), unit=claim.unit, events=PureDpEvent(claim.epsilon), claim=claim)
    return Setting(Case(model, claim), GRAPH, None, Key("distinguisher", key), **fields)


@pytest.fixture(autouse=True)
def fewer_rounds(monkeypatch):
    monkeypatch.setattr(distinguisher, "TRIED", 2)
    monkeypatch.setattr(distinguisher, "PILOT", 512)
    monkeypatch.setattr(distinguisher, "TEST", 512)


PURE, GAUSSIAN = Claim(1.0, 0.0, EDGE), Claim(dp_accounting.get_epsilon_gaussian(8 / 2**0.5, 1e-6), 1e-6, EDGE)


@pytest.mark.parametrize(
    ("way", "claim"),
    [
        (functools.partial(answers, truth=0.97), PURE),
        *nightly((functools.partial(sums, angle=1.0), GAUSSIAN)),  # half a turn: the sine is never negative
        (functools.partial(staircase, seen=True), PURE),
        *nightly((cached, Claim(4.0, 1e-6, EDGE)), (shuffled_lies, PURE), (balanced, PURE)),
    ],
)
def test_a_leak_is_refuted(way, claim):
    (bound,) = distinguish(setting(way, claim)).bounds
    assert bound.refuted
    assert bound.shape == "any"
    assert not bound.assumed


@pytest.mark.parametrize("key", nightly(*range(1, 20), among=range(20)))
@pytest.mark.parametrize(("way", "claim"), [(answers, PURE), *nightly((sums, GAUSSIAN), (staircase, PURE))])
def test_an_honest_model_is_not_refuted(way, claim, key):
    """Each audit errs with a probability of at most 0.001."""
    (bound,) = distinguish(setting(way, claim, key, alpha=0.001)).bounds
    assert not bound.refuted
    assert not np.isfinite(bound.reach)  # nobody knows how much a classifier misses


@pytest.mark.nightly
def test_true_claims_are_refuted_no_more_often_than_alpha(monkeypatch):
    """300 audits at a level of 0.2 of a bit that costs exactly the claim; 3 standard errors allowed."""
    monkeypatch.setattr(distinguisher, "PILOT", 64)
    monkeypatch.setattr(distinguisher, "TEST", 128)
    refuted = sum(distinguish(setting(answers, PURE, key, alpha=0.2)).bounds[0].refuted for key in range(300))
    assert refuted <= 300 * 0.2 + 3 * (300 * 0.2 * 0.8) ** 0.5


def test_the_choice_of_the_secret_sees_no_round_that_counts(monkeypatch):
    """Rounds of the pilot and rounds that count have different seeds, and no seed of a round that counts occurs twice."""
    seen = []

    def way(graph, rng):
        seen.append(rng.bit_generator.seed_seq.entropy)
        return staircase(graph, rng)

    monkeypatch.setattr(distinguisher, "PILOT", 64)
    monkeypatch.setattr(distinguisher, "TEST", 128)
    distinguish(setting(way, PURE))
    assert len(set(seen[-128:])) == 128
    assert not set(seen[-128:]) & set(seen[:-128])


def test_a_training_that_takes_too_long_is_refused_in_a_line_that_says_the_way_out(monkeypatch):
    monkeypatch.setattr(distinguisher, "SECONDS", 1.0)

    def slow(graph, rng):
        time.sleep(0.02)
        return answers(graph, rng)

    with pytest.raises(ValueError, match=r"\d+ more trainings of 0\.\d+ s each take .* of 1 s are left; .* --minutes"):
        distinguish(setting(slow, PURE))


@pytest.mark.parametrize(("count", "each", "left"), [(256, 0.234376, 60.0), (128, 0.2, 25.599), (256, 3.0, 0.0)])
def test_the_time_that_is_needed_is_never_shown_as_one_that_fits(count, each, left):
    assert count * each > left
    text = distinguisher._too_slow(count, each, left, 60.0)
    needed, rest = (float(number) for number in re.search(r"take ([\d.]+) s, and ([\d.]+) s of 60 s are left", text).groups())
    assert needed > rest


def test_a_release_that_no_secret_changes_is_refused():
    with pytest.raises(ValueError, match="no secret that was tried changes the release"):
        distinguish(setting(lambda graph, rng: rng.normal(size=3), PURE))


def bits(graph, noise):
    """Bits that no single edge, node or user of the graph moves; all together change them for sure."""
    counts = np.bincount(graph.y[graph.train], minlength=graph.classes)
    sums = np.array([graph.edges.shape[1] - 50.0, graph.x.sum() - 200.0, counts[1] - counts[-1] - 10.0])
    return (sums + noise > 0).astype(float)


@pytest.mark.parametrize("unit", [*nightly(EDGE), Unit.FEATURES])
def test_a_bit_that_one_secret_changes_where_others_are_absent_is_refuted(unit):
    """A function of the graph without noise has no finite epsilon, if it is no constant."""
    found = distinguish(setting(lambda graph, rng: bits(graph, 0.0), dataclasses.replace(PURE, unit=unit, relation=None)))
    assert found.bounds[0].refuted
    assert "with the same change of" in found.reach


def test_what_only_many_secrets_together_change_refutes_nothing():
    """With Laplace noise of scale 1 each edge changes the odds of the first bit by e at most, also where it is likely to tip."""
    found = distinguish(setting(lambda graph, rng: bits(graph, rng.laplace(size=3))[:1], PURE))
    assert not found.bounds[0].refuted


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_change_of_all_labels_is_no_single_secret(noise):
    """Of the worlds without many nodes, those that lie two steps away have no part that is one secret."""
    claim = dataclasses.replace(PURE, unit=NODE, relation=None)
    with pytest.raises(ValueError, match="no secret that was tried changes the release"):
        distinguish(setting(lambda graph, rng: bits(graph, noise * rng.laplace(size=3) / 1e6)[2:], claim))


def test_a_model_that_refuses_the_small_graph_is_audited_on_its_own():
    def way(graph, rng):
        if graph.nodes != GRAPH.nodes:
            raise KeyError("another graph")
        return staircase(graph, rng, seen=True)

    outcome = distinguish(setting(way, PURE))
    assert outcome.bounds[0].refuted
    assert "another graph" in outcome.reach


def reasons(found):
    return {row.what: row.reason for row in found.rows if isinstance(row, SkippedRow)}


def test_a_run_asks_the_distinguisher_only_if_the_other_audits_leave_the_claim_open(monkeypatch):
    monkeypatch.setattr(distinguisher, "PILOT", 256)
    monkeypatch.setattr(distinguisher, "TEST", 256)
    honest = setting(lambda graph, rng: graph.degree + rng.laplace(0, 2.0, graph.nodes), PURE).case.model
    open_ = setting(functools.partial(answers, truth=0.97), PURE).case.model
    decided, refuted = (audit(model, GRAPH, seed="distinguisher") for model in (honest, open_))
    assert decided.run.exit_code == 0
    assert "the other audits decide" in reasons(decided)["audit distinguisher"]
    assert refuted.run.exit_code == 1
    assert {row.audit for row in refuted.rows if isinstance(row, BoundRow) and row.verdict == "refuted"} == {
        "distinguisher",
        "distinguisher again",
    }
    assert "audit distinguisher" not in reasons(audit(honest, GRAPH, audits="distinguisher", seed="distinguisher"))


def test_a_model_whose_trainings_take_long_is_asked_only_by_name_or_with_a_time_limit():
    class Slow(Looped):
        effort = FEW

    case = setting(answers, PURE).case
    slow = dataclasses.replace(case, model=Slow(answers, unit=EDGE))
    assert distinguisher.seldom_decides(case) is None
    assert "--minutes" in (distinguisher.seldom_decides(slow) or "")


def test_the_systems_of_the_package_are_left_to_their_own_audits():
    from gnnaudit.models.gap.gap import Gap

    case = Case(Gap(sigma=2.0), dataclasses.replace(PURE, delta=1e-6))
    assert "other audits test each mechanism" in (distinguisher.refuses(case) or "")
