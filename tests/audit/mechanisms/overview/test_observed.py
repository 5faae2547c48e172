"""The observed ledger: of honest models it is the declared one, and of others it says where what is released is not covered."""

import json
import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gnnaudit import Claim, Looped, Unit, audit
from gnnaudit.accounting.gaussian import mu_of_claim
from gnnaudit.audit.case import Case
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.inside import inside
from gnnaudit.audit.mechanisms.overview.observed import observe
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own_bounds.within_run import from_mechanisms
from gnnaudit.audit.recorded.study import study

from ....nightly import nightly

CLAIM = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
GRAPH = tiny(48)
SIGMA = 2**0.5 / mu_of_claim(CLAIM)  # two hops of sums of unit rows: each is moved by the square root of two, over sigma sqrt(2)


def observed(model):
    return observe(Recorded(Case(model, CLAIM), GRAPH, Key("observed")))


def charged_line(text, module):
    """The number of the line of a function's file that holds a text once."""
    return next(n for n, line in enumerate(open(module), 1) if text in line)


@pytest.mark.parametrize("kind", nightly(*{*strangers.HEARD} - {strangers.Sums, strangers.AroundTheSum}, among=strangers.HEARD))
def test_of_an_honest_model_the_observed_ledger_is_the_declared_one(kind):
    found = observed(kind(sigma=SIGMA))
    assert found.agrees
    assert [m.number for m in found.mechanisms] == [1, 2]
    assert [m.released for m in found.mechanisms] == ["'aggregates'[0]", "'aggregates'[1]"]
    for m in found.mechanisms:
        assert m.scale == pytest.approx((SIGMA * 2**0.5,) * 2, rel=1e-4)
        assert m.move == pytest.approx(1 / SIGMA, rel=1e-4)
        assert m.covered == 1
    assert found.costs == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("kind", nightly(strangers.EveryOtherColumn, *strangers.INFINITE[3:], among=strangers.INFINITE))
def test_what_leaves_past_the_noise_is_named(kind):
    found = observed(kind(sigma=SIGMA))
    assert found.faults
    assert not found.agrees
    assert found.costs is None
    assert any(r.how == "past the noise" for r in found.released)


def noisy(graph, scale, draw):
    clean = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    return clean + scale * draw(clean.shape)


def laplace(graph, seed):
    rng = np.random.default_rng(seed)
    rng.permutation(3)  # recorded, and noise on nothing
    sums = noisy(graph, 2.0, lambda shape: rng.laplace(size=shape))  # the noise is drawn here
    return {"posteriors": sums - np.logaddexp.reduce(sums, axis=1, keepdims=True), "aggregates": sums[None]}


def fixed(graph, seed):
    sums = noisy(graph, 2.0, lambda shape: np.random.default_rng(7).standard_normal(shape))
    return {"posteriors": sums - np.logaddexp.reduce(sums, axis=1, keepdims=True)}


def test_laplace_noise_costs_what_its_law_says():
    found = observed(Looped(laplace, releases=("posteriors", "aggregates"), events=dp.LaplaceDpEvent(1.0)))
    (mechanism,) = found.mechanisms
    assert mechanism.law == "laplace"
    assert mechanism.move == pytest.approx(2 / 2.0, rel=1e-3)  # an edge moves two counts by one, over the scale
    assert found.costs == pytest.approx(1.0 + 2 * math.log(1 - 1e-6), abs=5e-3)  # nearly pure epsilon at so small a delta
    line = charged_line("# the noise is drawn here", __file__)
    assert mechanism.line == f"{__name__.rpartition('.')[2]}.py, line {line}"
    assert [(h.law, h.draws) for h in found.unplaced] == [("permutation", 1)]


def twice(graph, seed):
    noise = 2.0 * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    clean = graph.adjacency() @ np.eye(graph.classes)[graph.y]
    return {"aggregates": np.stack([clean + noise, 2 * clean + noise])}


@pytest.mark.parametrize(
    ("model", "note"),
    [
        (Looped(fixed, events=dp.GaussianDpEvent(2.0)), "the same for two seeds"),
        (Looped(twice, releases=("aggregates",), events=dp.GaussianDpEvent(0.5)), "same noise as mechanism 1"),
    ],
)
def test_noise_that_is_not_fresh_is_marked_and_costs_nothing_that_could_be_said(model, note):
    found = observed(model)
    assert found.mechanisms[-1].note.startswith(note)
    assert not found.agrees
    assert found.costs is None


def votes(graph, seed):
    """Only posteriors are released: the noise is within."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((graph.classes, graph.classes))  # no noise
    sums = noisy(graph, 2.0, lambda shape: rng.standard_normal(shape))
    shares = np.tanh(sums) @ weights
    return {"posteriors": shares - np.logaddexp.reduce(shares, axis=1, keepdims=True)}


def test_noise_within_the_run_is_found_where_it_is_added_though_only_posteriors_leave():
    found = observed(Looped(votes, events=dp.GaussianDpEvent(2 / 2**0.5)))
    (mechanism,) = found.mechanisms
    assert mechanism.meets.endswith(f"line {charged_line('return clean + scale', __file__)}")
    assert mechanism.move == pytest.approx(2**0.5 / 2, rel=1e-6)
    assert mechanism.released == "used within the run"
    assert [(r.array, r.how) for r in found.released] == [("posteriors", "computed")]
    assert found.agrees
    assert found.doubts == ()
    assert [h.law for h in found.unplaced] == ["normal"]


def test_a_path_past_a_mechanism_within_the_run_is_named():
    def leaky(graph, seed):
        told = votes(graph, seed)["posteriors"]
        return {"posteriors": told + 1e-3 * graph.degree[:, None]}  # past the noise

    found = observed(Looped(leaky, events=dp.GaussianDpEvent(2 / 2**0.5)))
    assert any(f"test_observed.py, line {charged_line('# past the noise', __file__)}" in doubt for doubt in found.doubts)
    assert len(found.mechanisms) == 1
    assert found.agrees is not True
    assert [r.how for r in found.released] != ["computed"]


def test_the_line_that_computes_a_noised_value_again_without_its_noise_is_named():
    def counted(graph):
        return graph.adjacency() @ np.eye(graph.classes)[graph.y]

    def leaky(graph, seed):
        votes = np.tanh((counted(graph) + np.random.default_rng(seed).normal(0, 2.0, (graph.nodes, graph.classes))) / 9)
        again = counted(graph)  # without noise
        scores = votes + again / 99
        return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}

    found = observed(Looped(leaky, events=dp.GaussianDpEvent(2 / 2**0.5)))
    line = charged_line("return graph.adjacency() @ np.eye(graph.classes)[graph.y]", __file__)
    called = charged_line("# without noise", __file__)
    assert any(f"line {line} (called from test_observed.py, line {called}" in doubt for doubt in found.doubts)


def bound_of(train, epsilon):
    case = Case(Looped(train), Claim(epsilon, 1e-6))
    runs = Recorded(case, GRAPH, Key("bound"))
    return from_mechanisms(case, runs.inside)


def test_a_claim_below_what_the_mechanisms_cost_is_refuted_and_one_at_it_is_not():
    mu = 2**0.5 / 2
    exact = brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - 1e-6, 0, 20)
    assert bound_of(votes, exact * 0.99).refuted
    kept = bound_of(votes, exact)
    assert not kept.refuted
    assert kept.epsilon == pytest.approx(exact, rel=1e-3)


def test_noise_on_what_nobody_sees_does_not_count():
    def wasteful(graph, seed):
        noisy(graph, 0.01, lambda shape: np.random.default_rng([seed, 1]).standard_normal(shape))
        return votes(graph, seed)

    mu = 2**0.5 / 2
    assert bound_of(wasteful, 1.0).epsilon <= mu**2 / 2 + mu * 6  # of the votes alone; with the other sum it would be thousands


def test_entries_whose_noise_was_set_to_zero_are_not_covered():
    def half(graph, seed):
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        noise[:, 0] = 0
        shares = np.tanh(noisy(graph, 2.0, lambda shape: noise))
        return {"posteriors": shares - np.logaddexp.reduce(shares, axis=1, keepdims=True)}

    found = observed(Looped(half))
    assert found.mechanisms[0].covered == pytest.approx(1 / GRAPH.classes)
    assert [r.how for r in found.released] != ["computed"]


def test_each_step_of_a_noisy_training_is_a_mechanism():
    def descent(graph, seed):
        rng = np.random.default_rng(seed)
        x, w = graph.adjacency() @ graph.x / 10, np.zeros((graph.dim, graph.classes))
        for _ in range(10):
            p = np.exp(x @ w)
            g = x.T @ (p / p.sum(1, keepdims=True) - np.eye(graph.classes)[graph.y])
            g += 0.5 * rng.standard_normal(g.shape)
            w -= 0.1 * g
        s = graph.x @ w
        return {"posteriors": s - np.logaddexp.reduce(s, axis=1, keepdims=True)}

    found = observed(Looped(descent))
    assert len(found.mechanisms) == 10
    assert {m.meets for m in found.mechanisms} == {f"test_observed.py, line {charged_line('g += 0.5', __file__)}"}
    total = max(sum(m.move**2 for m in found.mechanisms) ** 0.5, 0)
    mu, epsilon = total, found.costs  # the largest of each, so at least what any one edge moves
    assert norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) >= CLAIM.delta * 0.999


def test_too_little_noise_disagrees_with_the_ledger_at_the_closed_form():
    def train(graph, seed):
        rng = np.random.default_rng(seed)
        return {"aggregates": noisy(graph, 1.0, lambda shape: rng.standard_normal(shape))[None]}

    found = observed(Looped(train, releases=("aggregates",), events=dp.GaussianDpEvent(2.0)))
    assert found.agrees is False
    moves = "the worst secret that was tried moves the values by 1.414 times the scale of the recorded noise."
    assert f"The ledger charges for moves of up to 0.5 times the scale of its noise; {moves}" in found.compared
    mu, epsilon = 2**0.5, found.costs
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)  # Balle and Wang (2018)
    assert delta == pytest.approx(CLAIM.delta, rel=1e-3)


def test_pytorch_that_trains_on_noisy_gradients_is_heard_step_by_step():
    torch = pytest.importorskip("torch")

    def descent(graph, seed):
        torch.manual_seed(seed)
        x = torch.tensor((graph.adjacency() @ graph.x / 10).astype(np.float32))
        y, model = torch.tensor(graph.y), torch.nn.Linear(graph.dim, graph.classes)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            for p in model.parameters():
                p.grad += 0.5 * torch.randn_like(p)
            optimiser.step()
        return {"posteriors": torch.log_softmax(model(torch.tensor(graph.x)), 1).detach().numpy()}

    found = observed(Looped(descent))
    assert len(found.mechanisms) == 6
    assert {m.scale for m in found.mechanisms} == {(0.5, 0.5)}
    assert {m.meets for m in found.mechanisms} == {f"test_observed.py, line {charged_line('p.grad += 0.5', __file__)}"}
    assert [(r.array, r.how) for r in found.released] == [("posteriors", "computed")]
    assert found.costs > 0
    assert {h.law for h in found.unplaced} == {"uniform"}  # the first weights


def test_a_node_moves_the_counts_of_its_neighbours_and_its_own_row_is_not_counted():
    claim = Claim(4.0, 1e-6, Unit.NODE)
    found = observe(Recorded(Case(Looped(votes, unit=Unit.NODE), claim), GRAPH, Key("nodes")))
    (mechanism,) = found.mechanisms
    assert mechanism.secret.startswith("the absence of node")
    # the busiest node is tried, which is not trained on: one count of each neighbour
    assert mechanism.move == pytest.approx(GRAPH.degree.max() ** 0.5 / 2)


def test_a_model_that_refuses_other_graphs_is_recorded_as_far_as_it_runs():
    def strict(graph, seed):
        if graph.edges.shape[1] != GRAPH.edges.shape[1]:
            raise RuntimeError("not my graph")
        return votes(graph, seed)

    found = inside(study(Looped(strict), GRAPH, Key("strict")), Claim(1.0, 1e-6), Key("strict"))
    assert len(found.mechanisms) == 1
    assert not found.moves
    assert "not my graph" in found.doubts[0]


def test_the_report_shows_the_mechanisms_and_no_record_leaves_them_out(tmp_path):
    model = Looped(laplace, releases=("posteriors", "aggregates"), events=dp.LaplaceDpEvent(1.0))
    claim = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE)
    options = {"audits": "none", "repeats": 1, "jobs": 1, "seed": "a"}
    results = audit(model, GRAPH, claim, out=tmp_path / "on", **options)
    (recorded,) = results.run.observed
    assert (recorded["model"], recorded["epsilon"]) == ("laplace", 1.0)
    assert recorded["mechanisms"][0]["released"] == "'aggregates'[0]"
    (file,) = (tmp_path / "on" / "evidence").glob("*recorder.json")
    assert json.loads(file.read_text())["observed"]["mechanisms"] == recorded["mechanisms"]
    page = (tmp_path / "on" / "report.html").read_text()
    assert 'id="recorder"' in page
    assert recorded["mechanisms"][0]["line"] in page
    assert (tmp_path / "on" / "figures" / "ledger-laplace-own-1-undirected-edge.svg").is_file()
    results = audit(model, GRAPH, claim, out=tmp_path / "off", record=False, **options)
    assert results.run.observed == []
    assert 'id="recorder"' not in (tmp_path / "off" / "report.html").read_text()
