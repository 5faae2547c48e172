"""A noisy value refutes a claim only as far as the release shows it. Honest models release sums over groups, a projection or a
fractional part of a noisy value; their epsilon is the closed form of the Gaussian mechanism on what is released.
"""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.mechanisms.shown import parts
from gnnaudit.audit.own_bounds.within_run import from_mechanisms

from ....nightly import nightly
from ...recorded.votes import counts, released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-6


def refuted(train, epsilon):
    case = Case(Looped(train), Claim(epsilon, DELTA))
    runs = Recorded(case, GRAPH, Key("part"))
    return from_mechanisms(case, runs.inside).refuted


def standard(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def class_sums(std, answer):
    """Local noise on degrees, of which only sums over classes are released: their noise has this standard deviation."""

    def train(graph, seed):
        size = np.bincount(graph.y, minlength=graph.classes)
        local = graph.degree + std / np.sqrt(size[graph.y]) * standard(seed, graph.nodes)
        total = np.zeros(graph.classes)
        np.add.at(total, graph.y, local)
        return released(answer(total)[graph.y][:, None] * np.eye(graph.classes)[graph.y])

    return train


def pairs_of_nodes(std):
    """Sums over pairs of nodes, (0, 1) and so on: an edge within a pair moves its sum by 2."""

    def train(graph, seed):
        noisy = graph.degree + std / 2**0.5 * standard(seed, graph.nodes)
        return released(np.outer(np.repeat(noisy.reshape(-1, 2).sum(1), 2), np.arange(graph.classes)) / 8)

    return train


def projected(std):
    """A noisy adjacency matrix times eight public orthonormal columns: an edge moves two rows, each by the norm of a row of P."""

    def train(graph, seed):
        k = np.arange(graph.nodes)
        p = np.stack([np.cos(np.pi * (k + 0.5) * j / graph.nodes) for j in range(1, 9)], 1) * (2 / graph.nodes) ** 0.5
        shown = np.tanh((graph.adjacency().toarray() + std * standard(seed, graph.nodes, graph.nodes)) @ p / 4)
        return released(np.stack([shown[:, :4].sum(1), shown[:, 4:].sum(1), shown[:, 0], shown[:, 5]], 1))

    return train


def fraction(std):
    """Whole numbers leave the fractional part of their sum with noise as it is: epsilon 0."""

    def train(graph, seed):
        noisy = counts(graph) + std * standard(seed, graph.nodes, graph.classes)
        return released(noisy - np.floor(noisy))

    return train


def identity(total):
    return total


@pytest.mark.parametrize(
    ("train", "truth"),
    [
        (class_sums(4.0, lambda total: np.tanh(total / 200)), 2 / 4),
        (projected(0.5), 2 * (8 * 2 / 120) ** 0.5 / 0.5),
        *nightly((class_sums(4.0, identity), 2 / 4), (pairs_of_nodes(4.0), 2 / 4), (fraction(0.3), 0.01)),
    ],
)
def test_a_part_of_a_noisy_value_costs_no_more_than_the_part(train, truth):
    assert not refuted(train, 1.001 * float(epsilon_of(truth, DELTA)))


def by_class(std):
    """The same sums of degrees over classes, with too little noise."""
    return class_sums(std, identity)


def through(shape, std=4.0):
    """Counts that the release shows, through a function that has an inverse."""

    def train(graph, seed):
        return released(shape(counts(graph) + std * standard(seed, graph.nodes, graph.classes)))

    return train


DIFFERENCES = (2 * (1 - 1 / GRAPH.classes)) ** 0.5 / 4  # what log-probabilities show of counts


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(
    ("train", "truth"),
    [
        (by_class(0.25), 2**0.5 / 0.25),
        (through(np.tanh), 2**0.5 / 4),
        *nightly((through(lambda noisy: noisy - noisy.mean(0)), DIFFERENCES), (through(identity), DIFFERENCES)),
        *nightly((through(lambda noisy: np.log1p(np.exp(noisy))), 2**0.5 / 4)),
    ],
)
def test_too_little_noise_on_what_the_release_shows_is_refuted(train, truth):
    """Sums over classes are costed with an upper limit on their noise, so less of the truth is claimed."""
    share = 0.3 if truth > 1 else 0.97
    assert refuted(train, share * float(epsilon_of(truth, DELTA)))


@pytest.mark.parametrize("factor", [0.95, *nightly(1.05)])
def test_a_release_of_many_numbers_is_judged_in_little_memory(factor):
    """Beside the counts, 48,000 released numbers: a square matrix of so many would take 18 GB. mu = sqrt(2) / 5.4."""

    def train(graph, seed):
        noisy = counts(graph) + 5.4 * standard(seed, graph.nodes, graph.classes)
        return released(noisy) | {"wide": np.tanh(noisy @ standard(0, graph.classes, 400))}

    truth = float(epsilon_of(2**0.5 / 5.4, DELTA))
    case = Case(Looped(train, releases=("posteriors", "wide")), Claim(factor * truth, DELTA))
    runs = Recorded(case, GRAPH, Key("wide"))
    assert from_mechanisms(case, runs.inside).refuted == (factor < 1)


def sums_over_edges(graph):
    """How many edges have an end with each of eight features."""
    x = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x
    return (x[graph.edges[0], :8] + x[graph.edges[1], :8] > 0).sum(0)


PUBLIC = sums_over_edges(GRAPH)


def lead(graph, seed):
    """The largest of eight noisy sums, less public numbers, and its lead over the second (Ding et al. 2019). An edge raises some
    of the sums by 1 each, so the lead moves by 1 at most, whoever is first; the noisy sums themselves move by up to 8.
    """
    sums = sums_over_edges(graph) - PUBLIC
    noisy = sums + np.random.default_rng(seed).laplace(0, 1.0, sums.size)
    second, first = np.argsort(noisy)[-2:]
    return {"first": np.array([float(first)]), "lead": np.array([noisy[first] - noisy[second]])}


@pytest.mark.parametrize(("ledger", "expected"), [(PureDpEvent(1.0), False), (dp.LaplaceDpEvent(1.0), True)])
def test_a_release_that_selects_a_few_noisy_values_does_not_show_all_of_them(ledger, expected):
    """Each sum may be the largest, but near any noisy value the release shows two of them. A ledger of the Laplace mechanism says
    that its proof releases all of them, and then they cost more than it pays.
    """
    case = Case(Looped(lead, releases=("first", "lead"), events=ledger), Claim(1.0, 0.0))
    runs = [Recorded(case, GRAPH, Key("lead", number)) for number in range(4)]
    found = [from_mechanisms(case, run.inside).refuted for run in runs]
    assert any(found) == expected


NUMBERS = 11


def averages(width, bucket, std=0.6):
    """Moving averages of noisy numbers, of which the number of edges stands in one bucket."""

    def train(graph, seed):
        noisy = (np.arange(NUMBERS) == bucket) * float(graph.edges.shape[1]) + std * standard(seed, NUMBERS)
        return {"averages": np.convolve(noisy, np.full(width, 1 / width), "valid")}

    return train


def of_averages(width, bucket, std=0.6):
    """The epsilon of the averages: an edge moves them by the part of a unit vector that is orthogonal to all that they hide."""
    sums = sum(np.eye(NUMBERS - width + 1, NUMBERS, k) for k in range(width))
    part = np.linalg.pinv(sums) @ sums[:, bucket]
    return float(epsilon_of(np.linalg.norm(part) / std, DELTA))


@pytest.mark.parametrize("bucket", [0, 5, *nightly(*range(1, 5), *range(6, 11))])
@pytest.mark.parametrize("width", [2, 3, *nightly(4)])
def test_averages_hide_a_part_of_each_number_however_small_the_part_is(width, bucket):
    true = of_averages(width, bucket)
    model = Looped(averages(width, bucket), releases=("averages",), events=dp.GaussianDpEvent(1.0))
    found = [
        from_mechanisms(case, Recorded(case, GRAPH, Key("averages", bucket)).inside)
        for case in (Case(model, Claim(share * true, DELTA)) for share in (1.001, 0.97))
    ]
    assert not found[0].refuted
    assert found[1].refuted
    assert 0.99 * true < found[1].epsilon <= true


KINDS, COLUMNS, STD = 3, 40, 4.0
TABLE = np.random.default_rng(1).standard_normal((GRAPH.nodes, COLUMNS)) / COLUMNS**0.5  # public: a row for each node
KIND = np.arange(GRAPH.nodes) % KINDS
SOME = np.random.default_rng(2).standard_normal((KINDS * COLUMNS * 3 // 5, KINDS * COLUMNS)) / (KINDS * COLUMNS) ** 0.5


def sums_by_kind(edges):
    """For each kind of node, the sum of the public rows of all neighbours of such nodes."""
    sums = np.zeros((KINDS, COLUMNS))
    for one, other in (edges, edges[::-1]):
        np.add.at(sums, KIND[one], TABLE[other])
    return sums


def differences(noisy):
    return noisy - noisy.mean(0)


def random_sums(noisy):
    return SOME @ noisy.ravel()


def of_sums(shape, shown):
    """A release of some functions of noisy sums, to which the code adds the noise in an array of this shape."""

    def train(graph, seed):
        noisy = sums_by_kind(graph.edges).reshape(shape) + STD * standard(seed, *shape)
        return {"shown": np.tanh(shown(noisy.reshape(KINDS, COLUMNS)) / 32)}

    return train


def farthest_shown(shown):
    """The largest move by an edge of what is left of the sums beside all that `shown` hides."""
    effect = np.stack([shown(unit.reshape(KINDS, COLUMNS)).ravel() for unit in np.eye(KINDS * COLUMNS)], axis=1)
    onto_rows = np.linalg.pinv(effect) @ effect
    return max(np.linalg.norm(onto_rows @ sums_by_kind(edge[:, None]).ravel()) for edge in GRAPH.edges.T)


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(("shape", "shown"), [((KINDS, COLUMNS), differences), ((KINDS * COLUMNS,), random_sums)])
def test_what_many_entries_undo_together_does_not_count(shape, shown):
    """More entries than an audit changes one by one: those of a mean over rows, and of the null space of many random sums."""
    true = float(epsilon_of(farthest_shown(shown) / STD, DELTA))
    model = Looped(of_sums(shape, shown), releases=("shown",))
    above, below = (
        from_mechanisms(case, Recorded(case, GRAPH, Key("together")).inside)
        for case in (Case(model, Claim(share * true, DELTA)) for share in (1.02, 0.95))
    )
    assert not above.refuted
    assert below.refuted
    assert 0.95 * true < below.epsilon <= 1.001 * true


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(("seconds", "all_entries"), [(120.0, True), (0.0, False)])
def test_all_entries_are_changed_unless_their_trainings_take_too_long(seconds, all_entries, monkeypatch):
    changed = []
    monkeypatch.setattr(parts, "SECONDS", seconds)
    monkeypatch.setattr(parts, "effects_of", lambda view, entries, *more: changed.append(len(entries)))
    case = Case(Looped(of_sums((KINDS * COLUMNS,), random_sums), releases=("shown",)), Claim(0.1, DELTA))
    from_mechanisms(case, Recorded(case, GRAPH, Key("long")).inside)
    assert (KINDS * COLUMNS in changed) == all_entries
    assert changed
