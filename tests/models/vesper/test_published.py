"""VESPER: sensitivities, the sampled Gaussian under each bound, and the whole noise table."""

import numpy as np
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.claim import Relation
from gnnaudit.accounting.upper import rdp
from gnnaudit.models.vesper import published as paper

from ...nightly import nightly

ONE_LAYER, TWO_LAYERS = 0.06299149575044506, 0.5129343914450802
STEPS, DELTA = 640, 2e-4
RATE = {1: ONE_LAYER, 2: TWO_LAYERS}


def test_how_likely_a_batch_holds_the_edge():
    assert events.inclusion(2000, 64, 10, 1) == pytest.approx(ONE_LAYER, rel=1e-9)
    assert events.inclusion(2000, 64, 10, 2) == pytest.approx(TWO_LAYERS, rel=1e-9)
    assert events.inclusion(2000, 64, 10, 3) == pytest.approx(0.99953, abs=5e-6)
    assert events.inclusion(2000, 64, 10, 1) == pytest.approx(1 - (1936 * 1935) / (2000 * 1999), rel=1e-12)


@pytest.mark.parametrize(
    ("m", "printed", "upper"),
    [
        (1, 1.6864, 0.8567),
        (2, 0.8996, 0.6109),
        (3, 0.6285, 0.4744),
        (5, 0.3960, 0.3278),
        (10, 0.2051, 0.1849),
        (20, 0.1043, 0.0988),
        (50, 0.0421, 0.0412),
    ],
)
def test_sensitivity_of_a_normalised_layer(m, printed, upper):
    assert paper.gcn_sensitivity_printed(m) == pytest.approx(printed, abs=6e-5)
    assert paper.gcn_sensitivity(m) == pytest.approx(upper, abs=6e-5)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_an_explicit_graph_attains_the_sensitivity(m):
    """The edge u - v between two nodes with m more neighbours each, all of degree m once the edge is gone.

    It attains the bound but for the factor of two on other rows, which common neighbours may need.
    """
    edges, nodes = [(0, 1)], 2
    for centre in (0, 1):
        for _ in range(m):
            neighbour, nodes = nodes, nodes + 1
            edges.append((centre, neighbour))
            for _ in range(m - 1):
                edges.append((neighbour, nodes))
                nodes += 1

    def layer(pairs):
        a = np.zeros((nodes, nodes))
        for i, j in pairs:
            a[i, j] = a[j, i] = 1
        degree = np.maximum(a.sum(0), m)  # leaves further out count as if they had m edges
        return (a + np.eye(nodes)) / np.sqrt(np.outer(degree + 1, degree + 1))

    x = np.ones(nodes)
    x[1] = -1
    for i, j in edges:
        if i == 1:
            x[j] = -1  # each end's other neighbours agree with it, and it disagrees with the other end
    change = (layer(edges) - layer(edges[1:])) @ x
    assert paper.gcn_sensitivity(m) ** 2 == pytest.approx(change[:2] @ change[:2] + 2 * change[2:] @ change[2:], rel=1e-12)


ONE_STEP = [  # rate, alpha, theorem 27, Poisson, seen, plain; all at multiplier 4
    (ONE_LAYER, 2, 0.00102311405633616, 0.000255876664784567, 0.00405437234842909, 0.0625),
    (ONE_LAYER, 3, 0.00154962311270209, 0.000385308618488480, 0.00645354789378629, 0.09375),
    (ONE_LAYER, 8, 0.00430533768880777, 0.00104804192717731, 0.0374256023857821, 0.25),
    (ONE_LAYER, 32, 0.0175998501044346, 0.00465939340824736, 0.910814337103549, 1.0),
    (TWO_LAYERS, 2, 0.0656701348672434, 0.0168262425801992, 0.0325460118486189, 0.0625),
    (TWO_LAYERS, 8, 0.210811335368041, 0.0743006303702258, 0.176446049922171, 0.25),
    (TWO_LAYERS, 32, 0.507758493557903, 0.462473576723229, 0.978464279551262, 1.0),
]


@pytest.mark.parametrize("row", ONE_STEP)
def test_renyi_divergence_of_one_step(row):
    rate, alpha, theorem_27, poisson, seen, plain = row
    orders = (float(alpha),)

    def one(event, relation=Relation.ADD_REMOVE):
        return float(rdp.curve(event, relation, orders)[0])

    assert one(events.message_passing_as_published(4.0, 1, rate, 1), Relation.REPLACE) == pytest.approx(
        min(theorem_27, plain), rel=1e-7
    )
    assert one(events.message_passing_secret_edges(4.0, 1, rate, 1)) == pytest.approx(poisson, rel=1e-7)
    assert one(events.message_passing_seen(4.0, 1, rate, 1)) == pytest.approx(seen, rel=1e-9)


NOISE = [  # layers, epsilon, theorem 27, seen; in two layers theorem 27 gives what no amplification gives
    (1, 1, 10.8214, 21.8920),
    (1, 2, 5.9195, 11.9512),
    (1, 4, 3.3195, 6.6990),
    (1, 8, 1.9524, 3.7723),
    (1, 16, 1.2590, 2.2355),
    (2, 1, 119.3574, 85.7036),
    (2, 2, 64.9463, 46.6594),
    (2, 4, 35.8044, 25.7371),
    (2, 8, 20.2200, 14.5314),
    (2, 16, 12.0134, 8.6320),
]


@pytest.mark.parametrize("row", [*NOISE[::4], *nightly(*((row,) for i, row in enumerate(NOISE) if i % 4))])
def test_noise_table(row):
    layers, epsilon, *noise = row
    for bound, sigma in zip(("theorem-27", "seen"), noise, strict=True):
        found = paper.vesper_epsilon(sigma, layers, RATE[layers], STEPS, DELTA, bound)
        assert found == pytest.approx(epsilon, rel=2e-4), bound  # sigma is given to four decimals


@pytest.mark.parametrize(("sigma", "wor", "seen"), [(10.0, 1.0940, 2.4610), (20.0, 0.5002, 1.1081)])
def test_epsilon_at_fixed_noise(sigma, wor, seen):
    for bound, value in (("theorem-27", wor), ("seen", seen)):
        assert paper.vesper_epsilon(sigma, 1, ONE_LAYER, STEPS, DELTA, bound) == pytest.approx(value, abs=6e-5), bound


@pytest.mark.parametrize(
    ("keep", "noise"),
    [
        (0.1, (3.864, 2.572, 1.852, 1.408, 0.995)),
        (0.25, (8.081, 4.723, 2.921, 1.959, 1.320)),
        (0.5, (15.305, 8.516, 4.930, 2.936, 1.846)),
        (1.0, (29.839, 16.237, 8.951, 5.055, 3.003)),
    ],
)
def test_noise_with_secretly_sampled_edges(keep, noise):
    for epsilon, std in zip((1, 2, 4, 8, 16), noise, strict=True):
        ledger = events.message_passing_secret_edges(std / paper.gin_sensitivity(), 2, keep, 20)
        assert rdp.epsilon(ledger, DELTA, orders=paper.INTEGER_ORDERS) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize(
    ("sigma", "layers", "epsilon"),
    [(4.896, 1, 1), (1.655, 1, 4), (55.35, 2, 1), *nightly((2.768, 1, 2), (1.084, 1, 8), (0.776, 1, 16))],
)
def test_poisson_sampling_by_privacy_loss_distribution(sigma, layers, epsilon):
    from gnnaudit.accounting.upper.tradeoff import curve

    ledger = events.message_passing_secret_edges(sigma, layers, RATE[layers], STEPS)
    assert curve(ledger).epsilon(DELTA) == pytest.approx(epsilon, rel=5e-3)
