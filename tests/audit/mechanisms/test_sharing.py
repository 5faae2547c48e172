"""Noise that several mechanisms share: computed again it costs once, on values that move apart it hides nothing, and noise that
is shared in part is not costed. The truth is the closed form of the Gaussian mechanism.
"""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, audit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.observed import observe
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly

GRAPH, DELTA, SCALE = load("campus:n=120:degree=6"), 1e-5, 4.0
ONE = 2**0.5 / SCALE  # what an edge moves a sum of unit rows by, over the noise


def counts(graph):
    return graph.adjacency() @ np.eye(graph.classes)[graph.y]


def drawn(seed, *shape):
    return SCALE * np.random.default_rng(seed).standard_normal(shape)


def answer(*noisy):
    """Shows all of the noisy values. A tanh would not: in float32 it is 1 for all large ones, and the audit says so."""
    shares = np.arctan(np.hstack(noisy))
    return {"posteriors": shares - np.logaddexp.reduce(shares, axis=1, keepdims=True)}


def once(graph, seed):
    return answer(counts(graph) + drawn(seed, graph.nodes, graph.classes))


def computed_again(graph, seed):
    """As a sum over a tree of steps does: the same value with the same noise, added up anew."""
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    return answer(clean + noise, (clean / 2 + clean / 2) + noise)


def by_covariance(graph, seed):
    noise = np.random.default_rng(seed).multivariate_normal(
        np.zeros(graph.classes), SCALE**2 * np.eye(graph.classes), size=graph.nodes
    )
    return answer(counts(graph) + noise)


def disjoint(graph, seed):
    noise, clean = drawn(seed, graph.nodes, 2 * graph.classes), counts(graph)
    return answer(clean + noise[:, : graph.classes], clean + noise[:, graph.classes :])


def running_sums(graph, seed):
    """Continual release: what was added so far, with all noise so far. Honest, at two steps of one sum each."""
    first, second = (drawn([seed, step], graph.nodes, graph.classes) for step in (1, 2))
    clean = counts(graph)
    return answer(clean + first, 2 * clean + (first + second))


def overlapping(graph, seed):
    noise, clean = drawn(seed, graph.nodes, graph.classes + 2), counts(graph)
    return answer(clean + noise[:, : graph.classes], clean + noise[:, 2:])


def doubled(graph, seed):
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    return answer(clean + noise, 2 * clean + noise)


def parties(graph, seed):
    """Distributed noise: four parties count disjoint sets of edges, each with a quarter of the variance, and the sum leaves."""
    total = 0.0
    for party in range(4):
        total = total + (part(graph, party) + drawn([seed, party], graph.nodes, graph.classes) / 2)
    return answer(total)


def accumulated(graph, seed):
    """The same as a running sum, of which only the last value leaves."""
    total = np.zeros((graph.nodes, graph.classes))
    for party in range(4):
        total = (total + part(graph, party)) + drawn([seed, party], graph.nodes, graph.classes) / 2
    return answer(total)


def part(graph, party):
    u, v = graph.edges[:, (graph.edges.sum(0)) % 4 == party]
    one_hot = np.eye(graph.classes)[graph.y]
    found = np.zeros((graph.nodes, graph.classes))
    np.add.at(found, u, one_hot[v])
    np.add.at(found, v, one_hot[u])
    return found


def parties_whose_parts_leave(graph, seed):
    """The same messages, but every one of them is released: the least noisy one decides."""
    messages = [part(graph, p) + drawn([seed, p], graph.nodes, graph.classes) / 2 for p in range(4)]
    return answer(*messages)


def masked(graph, seed):
    """A noisy value behind a uniform mask: whoever sees the release learns nothing of it."""
    noisy = counts(graph) + drawn(seed, graph.nodes, graph.classes) / 100
    hidden = (noisy / 100 + np.random.default_rng([seed, 1]).random(noisy.shape)) % 1.0
    return answer(hidden)


def drafts(graph, seed):
    """A value, and the same value with more noise on top: the second is computed from the first."""
    first, second = (drawn([seed, step], graph.nodes, graph.classes) for step in (1, 2))
    clean = counts(graph)
    return answer(clean + first) | {"draft": clean + (first + second), "final": clean + first}


def stops(graph, seed):
    """How many values are computed depends on the noisy values, and on nothing else."""
    noisy = []
    for step in range(6):
        noisy.append(counts(graph) + drawn([seed, step], graph.nodes, graph.classes))
        if noisy[-1].sum() > counts(graph).size:
            break
    return answer(np.mean(noisy, axis=0))


def added_with_one_noise(graph, seed):
    """The same noise on two values, of which the sum alone leaves: twice the noise, and a move of 3 / 2 over it."""
    noise, clean = drawn(seed, graph.nodes, graph.classes), counts(graph)
    return answer((clean + noise) + (2 * clean + noise))


def sampled(graph, seed):
    """Each node's friends are counted with a chance of one half, by a secret coin; the lowest bit of the seed is not used."""
    random = np.random.default_rng(seed >> 1)
    joined = random.random(graph.nodes) < 0.5
    clean = graph.adjacency() @ (np.eye(graph.classes)[graph.y] * joined[:, None])
    return answer(clean + SCALE * random.standard_normal(clean.shape))


def hops(graph, seed, rows=slice(None), more=0.0):
    """Two hops with one noise matrix, drawn once: hop 2 minus hop 1 has no noise. Released: `rows` of both, with `more` noise."""
    x = torch.from_numpy(np.eye(graph.classes)[graph.y])
    noise = SCALE * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed % 2**62), dtype=x.dtype)
    ends, found = torch.from_numpy(np.hstack([graph.edges, graph.edges[::-1]])), []
    for _ in range(2):
        found.append(torch.zeros_like(x).index_add_(0, ends[1], x[ends[0]]) + noise)
        x = torch.nn.functional.normalize(found[-1], dim=1)
    shown = torch.cat(found, 1).numpy()
    blurred = shown + more * np.random.default_rng([seed, 7]).standard_normal(shown.shape)
    return answer(found[-1].numpy() / 10) | {"hops": blurred[rows]}


def last_hop(graph, seed):
    """The first hop stays inside, as the early gradients of objective perturbation do."""
    return hops(graph, seed, slice(0, 0))


def blurred_hops(graph, seed):
    return hops(graph, seed, more=SCALE)


def bound(train, epsilon, tmp_path):
    shown = ("posteriors", "hops") if train in (hops, last_hop, blurred_hops) else ("posteriors",)
    case = Case(Looped(train, releases=shown), Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("sharing"), 3, 1e-4))
    return max(outcome.bounds, key=lambda b: b.epsilon)


@pytest.mark.parametrize(
    ("train", "moved"),
    [
        (computed_again, ONE),
        *nightly(
            (by_covariance, ONE),
            (once, ONE),
            (disjoint, 2**0.5 * ONE),
            (parties, ONE),
            (accumulated, ONE),
            (parties_whose_parts_leave, 2 * ONE),
        ),
    ],
)
def test_what_is_costed_is_the_closed_form(train, moved, tmp_path):
    truth = float(epsilon_of(moved, DELTA))
    found = observe(Recorded(Case(Looped(train), Claim(truth, DELTA, Unit.UNDIRECTED_EDGE)), GRAPH, Key("sharing")))
    assert found.costs == pytest.approx(truth, rel=5e-3)
    assert not bound(train, truth * 1.001, tmp_path / "honest").refuted
    refuted = bound(train, truth * 0.98, tmp_path / "too small")
    assert refuted.refuted
    assert refuted.epsilon == pytest.approx(truth, rel=5e-3)


@pytest.mark.parametrize("train", [running_sums, *nightly(overlapping)])
def test_noise_that_is_shared_in_part_is_not_costed_and_the_reason_is_said(train, tmp_path):
    model = Looped(train)
    claim = Claim(float(epsilon_of(2**0.5 * ONE, DELTA)), DELTA, Unit.UNDIRECTED_EDGE)
    found = observe(Recorded(Case(model, claim), GRAPH, Key("sharing")))
    assert found.costs is None
    assert any("2 mechanisms" in doubt and "share noise" in doubt for doubt in found.doubts)
    assert not bound(train, claim.epsilon, tmp_path).refuted


def test_the_same_noise_on_two_terms_of_a_sum_is_no_infinite_epsilon(tmp_path):
    truth = float(epsilon_of(1.5 * ONE, DELTA))
    assert not bound(added_with_one_noise, truth, tmp_path).refuted


@pytest.mark.parametrize("key", ["sharing", *nightly(*"abcde")])
def test_a_secret_sample_hides_though_the_model_drops_bits_of_its_seed(key, tmp_path):
    case = Case(Looped(sampled), Claim(0.6 * float(epsilon_of(ONE, DELTA)), DELTA, Unit.UNDIRECTED_EDGE))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key(key), 3, 1e-4))
    assert not any(b.refuted for b in outcome.bounds)


def test_a_value_behind_a_mask_is_not_taken_for_one_that_is_seen(tmp_path):
    found = bound(masked, 1.0, tmp_path)
    assert not found.refuted


def test_a_value_with_more_noise_on_top_is_no_path_past_the_noise(tmp_path):
    model = Looped(drafts, releases=("posteriors", "draft", "final"))
    case = Case(model, Claim(float(epsilon_of(ONE, DELTA)), DELTA, Unit.UNDIRECTED_EDGE))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("sharing"), 3, 1e-4))
    assert not any(b.refuted for b in outcome.bounds)


def test_a_run_that_stops_by_its_noisy_values_ends_in_an_answer(tmp_path):
    assert not bound(stops, 50.0, tmp_path).refuted


def test_the_same_noise_on_values_that_move_apart_hides_nothing(tmp_path):
    found = bound(doubled, 100.0, tmp_path)
    assert found.refuted
    assert found.epsilon == np.inf


def test_one_noise_matrix_for_two_hops_hides_nothing_if_both_are_released(tmp_path):
    found = bound(hops, 100.0, tmp_path)
    assert found.refuted
    assert found.epsilon == np.inf
    assert "their difference depends on the secret and has no noise" in found.method


@pytest.mark.parametrize("train", [last_hop, *nightly(blurred_hops)])
def test_one_noise_matrix_for_two_hops_is_not_refuted_if_one_stays_inside_or_gets_more_noise(train, tmp_path):
    assert not bound(train, 5.0, tmp_path).refuted


@pytest.mark.parametrize(("same", "verdicts"), [(True, {"inconclusive", "refuted"}), (False, {"not refuted"})])
def test_two_layers_whose_generators_have_one_seed_are_not_passed(same, verdicts):
    """The layers have different widths, so the noise numbers are in other rows; each layer alone costs less than the claim."""

    def train(graph, seed):
        def noise(layer, columns):
            generator = torch.Generator().manual_seed(seed % 2**62 + (0 if same else layer))
            return 6.0 * torch.randn(graph.nodes, columns, generator=generator)

        adjacency = torch.from_numpy(graph.adjacency().toarray())
        labels = torch.from_numpy(np.eye(graph.classes)[graph.y] * graph.train[:, None]).float()
        wide = torch.tanh((adjacency @ labels.repeat(1, 2) / 2**0.5 + noise(0, 2 * graph.classes)) / 8)
        votes = adjacency @ labels + noise(1, graph.classes)
        return {"posteriors": votes.log_softmax(1).numpy(), "wide": wide.numpy()}

    events = dp.SelfComposedDpEvent(dp.GaussianDpEvent(6 / 2**0.5), 2)
    model = Looped(train, releases=("posteriors", "wide"), events=events)
    found = audit(model, GRAPH, Claim(2.0, 1e-6), attacks="none", audits="differential", repeats=1)
    assert found.run.verdict in verdicts


def mixtures(data_factor):
    """Five noisy copies of the data, whose noise goes step by step from one array to another. With the factor 1 all copies are
    mixtures of the first and the last one.
    """

    def train(graph, seed):
        clean, noise = counts(graph), drawn(seed, 2, graph.nodes, graph.classes)
        return {"copies": np.stack([data_factor(t) * clean + (1 - t) * noise[0] + t * noise[1] for t in np.arange(5) / 4])}

    return train


@pytest.mark.parametrize(("data_factor", "faulty"), [(lambda t: 1.0, False), (lambda t: 1.0 + t * t, True)], ids=["1", "1 + t^2"])
def test_mixtures_of_two_noisy_values_cost_what_both_cost(data_factor, faulty, tmp_path):
    """An edge moves two counts by 1, in two noisy values. Of other factors, a weighted sum of three copies has no noise."""
    truth = float(epsilon_of(2 / SCALE, 1e-6))
    case = Case(Looped(mixtures(data_factor), releases=("copies",)), Claim(1.01 * truth, 1e-6))
    found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("mixtures"), 2, 1e-4))
    assert any(bound.refuted and np.isinf(bound.epsilon) for bound in found.bounds) is faulty
    assert faulty or max(bound.epsilon for bound in found.bounds) == pytest.approx(truth, rel=1e-2)


def singles(seed, count, std):
    return [std * np.random.default_rng([seed, at]).standard_normal(1) for at in range(count)]


def multiples_of_one(edges, seed):
    (noise,) = singles(seed, 1, 2.0)
    return edges + noise, 2 * edges + 2 * noise, -edges - noise


def a_mean_of_two(edges, seed):
    one, two = singles(seed, 2, 8**0.5)
    return edges + one, 0.5 * one + 0.5 * two + edges, edges + two


def step_by_step(edges, seed):
    one, two = singles(seed, 2, 8**0.5)
    return tuple(edges + (1 - t / 4) * one + t / 4 * two for t in range(5))


def of_a_tensor(edges, seed):
    one, two = 8**0.5 * torch.randn(2, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    clean = torch.from_numpy(edges)
    return tuple(value.numpy() for value in (clean + one, clean + 0.5 * one + 0.5 * two, clean + two))


@pytest.mark.parametrize("made", [multiples_of_one, a_mean_of_two, step_by_step, of_a_tensor])
def test_single_numbers_that_share_noise_are_not_composed_as_if_they_did_not(made, tmp_path):
    """All are multiples or mixtures of noisy numbers of edges, so they cost a move of 1 / 2; half the claim is not supported."""

    def train(graph, seed):
        return {f"number{at}": value for at, value in enumerate(made(np.array([float(graph.edges.shape[1])]), seed))}

    truth, names = float(epsilon_of(0.5, 1e-6)), tuple(train(GRAPH, 1))
    for share, supported in ((1.01, True), (0.5, False)):
        claim = Claim(share * truth, 1e-6, exposes=names)
        setting = Setting(Case(Looped(train, releases=names), claim), GRAPH, Store(tmp_path), Key("single"), 2, 1e-4)
        found = AUDITS["differential"].run(setting)
        assert not (supported and any(bound.refuted for bound in found.bounds))
        assert supported or judge(claim, (), found.bounds, notices=1.5).kind != "not-refuted"
