"""Noise from few seeds, noise that a run discards, and models that fail on a graph without edges."""

import hashlib
import random

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, audit, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.paths import seeded
from gnnaudit.audit.recorded.playing import Play
from gnnaudit.audit.recorded.secrets.worlds import without_one
from gnnaudit.audit.recorded.seeds import few_values
from gnnaudit.audit.recorded.study import other_count, study, sure, switches_by_seed
from gnnaudit.models.recorder import Draw, recording
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import counts, released

CLAIM = Claim(1.6, 1e-6)
GRAPH = load("campus:n=240")
SMALL = load("campus:n=120:degree=6")
NODE = Claim(2.0, 1e-5, Unit.NODE)


def votes(reduced):
    """Noisy counts whose generator gets a function of the seed. mu = sqrt(2) / 4."""

    def train(graph, seed):
        draw = np.random.RandomState(reduced(int(seed)))
        return released(counts(graph) + 4.0 * draw.normal(size=(graph.nodes, graph.classes)))

    return Looped(train, events=dp.GaussianDpEvent(4 / 2**0.5))


def verdict(model, claim=CLAIM, graph=GRAPH):
    return audit(model, graph, claim, attacks="none", audits="differential", repeats=1).run.verdict


@pytest.mark.parametrize(
    "reduced",
    [
        lambda s: s % 1000,
        *nightly(
            lambda s: s & 0xFFFF,
            lambda s: s % 100,
            lambda s: 7,
            lambda s: s % 10**6,
            lambda s: hash(s % 256) % 2**31,
            lambda s: s % 997,
            lambda s: int(hashlib.md5(str(s).encode()).hexdigest(), 16) % 1000,
            lambda s: random.Random(s).randint(0, 9999),
        ),
    ],
    ids=["1000", "16 bits", "100", "constant", "million", "byte, hashed", "997", "a hash", "a random number"],
)
def test_noise_from_few_seeds_hides_nothing(reduced):
    assert verdict(votes(reduced)) == "refuted"


@pytest.mark.parametrize(
    "reduced",
    [lambda s: (s ^ (s >> 32)) & 0xFFFFFFFF, *nightly(lambda s: s % 2**32, lambda s: s >> 32, lambda s: s % (2**31 - 1))],
    ids=["folded", "low 32 bits", "high 32 bits", "a prime"],
)
def test_noise_from_a_seed_of_32_bits_is_not_blamed(reduced):
    assert verdict(votes(reduced)) == "not refuted"


class Draws:
    """A model that only draws. Each draw is (a function of the seed, how many values it takes)."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def fit(self, worlds, device):
        seed = int(worlds.seeds[0])
        for reduced in self.reduced:
            np.random.RandomState(reduced(seed)).normal(size=3)
            np.random.RandomState(reduced(seed)).normal(size=3)


def found(*reduced):
    model = Draws(*reduced)
    with recording() as recorded:
        model.fit(type("One", (), {"seeds": [1]}), "cpu")
    return few_values(model, GRAPH, Key("few"), recorded.draws, sure)


@pytest.mark.parametrize("values", [1, 5000, *nightly(10, 997)])
def test_the_number_of_values_is_estimated_from_the_seeds_that_draw_the_same(values):
    """400 seeds make 79,800 pairs, of which one in `values` is equal: for 5000 values 16 of them, with a deviation of 4."""
    estimates = found(lambda s: (s // 3) % values)
    assert estimates.keys() == {0, 1}
    assert all(values / 2 <= estimate <= 2 * values for estimate in estimates.values())


def test_only_draws_that_take_few_values_for_all_seeds_are_named_and_31_bits_are_many():
    def one(s):
        return (s // 3) % 100

    def two(s):
        return s % (2**31 - 1)

    class Two(Draws):
        def fit(self, worlds, device):
            np.random.RandomState(two(int(worlds.seeds[0]))).normal(size=3)
            np.random.RandomState(one(int(worlds.seeds[0]))).normal(size=3)

    model = Two()
    with recording() as recorded:
        model.fit(type("One", (), {"seeds": [1]}), "cpu")
    assert few_values(model, GRAPH, Key("few"), recorded.draws, sure).keys() == {1}


def sampled(seeds, of_sample=7, rare=None):
    """Gradient descent on samples, with noise: without a node, the sampler draws fewer numbers. seeds: of the noise."""

    def train(graph, seed):
        x, y = np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x), np.eye(graph.classes)[graph.y]
        sampler = np.random.default_rng(seed if of_sample is None else of_sample)
        noise, weights = np.random.default_rng(seeds(seed)), np.zeros((graph.dim, graph.classes))
        for _ in range(3):
            drawn = graph.train & (sampler.random(graph.nodes) < 0.5)
            weights -= (x[drawn].T @ (0.1 - y[drawn]) + 9.0 * noise.standard_normal(weights.shape)) / graph.nodes
        if rare is not None:
            weights += rare * np.random.default_rng(seed).geometric(1 - 1e-9)
        return released(x @ weights)

    return Looped(train, unit=Unit.NODE)


def test_noise_of_one_generator_hides_nothing_though_the_sampler_draws_fewer_numbers_without_a_node():
    assert verdict(sampled(lambda s: 42), NODE) == "refuted"


def test_noise_of_one_generator_hides_nothing_though_the_sampler_is_fresh():
    outcome = differential(Setting(Case(sampled(lambda s: 42, None), NODE), GRAPH, None, Key("seeded")))
    verdict = judge(NODE, [], outcome.bounds)
    assert verdict.kind == "refuted"
    assert "is the same for two seeds" in verdict.sentence


def told(train, graph=SMALL):
    claim = Claim(2.0, 1e-5)
    return judge(claim, [], differential(Setting(Case(Looped(train), claim), graph, None, Key("lost"))).bounds).sentence


def test_draws_that_were_not_followed_are_the_reason_shown(graph):
    def one_by_one(graph, seed):
        gauss = random.Random(seed).gauss
        return released(np.array([[v + float(gauss(0, 4.0)) for v in row] for row in counts(graph)]))

    def summed(graph, seed):
        noise = np.random.default_rng(seed).normal(0, 4.0, (graph.nodes, graph.nodes))
        return released((graph.adjacency() + noise.cumsum(0)) @ np.eye(graph.classes)[graph.y])

    count = graph.nodes * graph.classes
    assert f"normal random numbers of {count} draws at test_few_seeds.py" in (sentence := told(one_by_one, graph))
    assert "add each number to its value before anything else happens to it" in sentence
    assert "normal random numbers of 1 draw" in (sentence := told(summed, graph))
    assert "add each number" not in sentence


def box_muller(graph, seed):
    u, v = np.random.default_rng(seed).random((2, graph.nodes, graph.classes))
    return released(counts(graph) + 4.0 * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v))


def coins_in_an_if(graph, seed):
    draw = np.random.default_rng(seed)
    bits = (counts(graph)[:, 0] > 0).tolist()
    votes = np.array([1 - bit if draw.random() < 0.3 else bit for bit in bits])
    return released(votes[:, None] * np.arange(graph.classes))


def written(graph, seed):
    draw, votes = np.random.default_rng(seed), counts(graph)
    noise = np.empty(len(votes))
    for i in range(len(noise)):
        noise[i] = draw.laplace(0, 4.0)
    return released(votes + np.outer(noise, np.arange(1, graph.classes + 1)))


LOST = {box_muller: "`np.where(random(n) < p", coins_in_an_if: "and no `if`", written: "array that it is written into"}


@pytest.mark.parametrize(("train", "way"), nightly(*list(LOST.items())[1:], among=LOST.items()))
def test_the_reason_says_what_to_write_instead(train, way):
    sentence = told(train)
    assert "draw" in sentence
    assert "at test_few_seeds.py, line" in sentence
    assert way in sentence


def test_a_loop_that_ends_at_a_noisy_comparison_is_named():
    def above(graph, seed):
        draw, found = np.random.default_rng(seed), 0
        for degree in counts(graph).sum(1).tolist():
            if degree + draw.laplace(0, 2.0) > 6:
                break
            found += 1
        return released(np.full((graph.nodes, 1), found) * np.arange(graph.classes))

    assert "draw one array before the loop or the `if`" in (sentence := told(above))
    assert "at test_few_seeds.py, line" in sentence


@pytest.mark.parametrize(
    "model", [sampled(lambda s: s), sampled(lambda s: 42, None), sampled(lambda s: 42, rare=1.0)], ids=["noise", "sample", "rare"]
)
def test_a_release_that_other_draws_may_change_is_no_function_of_the_graph_alone(model):
    """The last one has further noise that is the same for almost all seeds."""
    assert seeded_at_all(model) is None


def seeded_at_all(model):
    made = study(model, GRAPH, Key("seeded"))
    return seeded(made, next(iter(without_one(made.whole, Unit.NODE, Key("one"), np.zeros(0, dtype=np.int64), 1))))


def gated(threshold, margin):
    """Rows of counts are answered with noise only if the largest count of the graph exceeds a threshold. The gate is exact."""

    def train(graph, seed):
        clean = counts(graph)
        noisy = clean + 4.0 * np.random.default_rng(seed).standard_normal(clean.shape)
        return released(noisy if clean.max() > threshold + margin else np.zeros_like(clean))

    return Looped(train)


def test_a_run_that_discards_its_noise_supports_no_claim():
    """No tried secret opens the gate. Without a mechanism in use, nothing would have been noticed."""
    assert verdict(gated(counts(GRAPH).max(), 50)) == "inconclusive"


def test_a_model_without_any_noise_that_reads_no_edge_keeps_its_verdict():
    def train(graph, seed):
        x = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x
        return released(np.asarray(x, dtype=np.float64)[:, : graph.classes])

    assert verdict(Looped(train)) == "not refuted"


@pytest.mark.parametrize(("scale", "expected"), [(4.0, "not refuted"), (1.0, "refuted")])
def test_a_model_that_needs_an_edge_is_judged_on_graphs_with_fewer_edges(scale, expected):
    def train(graph, seed):
        if graph.edges.shape[1] == 0:
            raise ZeroDivisionError("average degree")
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        return released(counts(graph) + scale * noise)

    assert verdict(Looped(train, events=dp.GaussianDpEvent(scale / 2**0.5))) == expected


@pytest.mark.parametrize(("share", "found"), [(20, True), *nightly((10**12, False))])
def test_a_seed_that_switches_the_noise_off_is_found_if_it_is_not_rare(share, found):
    def train(graph, seed):
        noise = 4.0 * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        return released(counts(graph) + (0.0 if seed % share == 3 else noise))

    model = Looped(train)
    assert switches_by_seed(model, GRAPH, Key("switch"), study(model, GRAPH, Key("switch"), False).base) == found
    assert (verdict(model) == "inconclusive") == found


@pytest.mark.parametrize("extra", [1, 3])
@pytest.mark.parametrize("longer", [0, 1])
def test_the_line_that_draws_more_numbers_with_another_seed_is_named_and_no_later_one(extra, longer):
    """The loop at line 2 draws again and again; the noise at line 5 is drawn once."""

    def run(times):
        lines = [1, *([2] * times), 5]
        return Play({}, [Draw("normal", np.zeros(3), f"mine.py, line {line}") for line in lines])

    runs = [run(2), run(2 + extra)]
    said = other_count(runs[longer], [runs[1 - longer]])
    assert said.startswith("another seed draws more or fewer numbers, at mine.py, line 2 ")
    assert other_count(runs[0], [run(2)]) == ""
