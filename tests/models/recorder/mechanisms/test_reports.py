"""Randomised reports are found, with the probabilities of their closed form, by any way of writing them; samples are none."""

import numpy as np
import pytest
from scipy.stats import bernoulli

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms, OtherMechanisms
from gnnaudit.models.recorder.mechanisms.mechanism import REPORT
from gnnaudit.models.recorder.mechanisms.sharing import again

BITS = np.arange(12).reshape(3, 4) % 3 == 0
LABELS = np.arange(12).reshape(3, 4) % 5
SHARES = np.linspace(0.2, 0.8, 12).reshape(3, 4)
ONES = np.ones((3, 4), dtype=bool)
EDGES = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
FLIPPED = np.where(BITS, 0.7, 0.3)  # the probability of a 1 if each bit is flipped with probability 0.3
CHANGED = np.where(LABELS[..., None] == np.arange(5), 0.7 + 0.06, 0.06)  # a label, or with probability 0.3 any of five


def in_place(rng):
    bits = BITS.copy()
    bits ^= rng.random((3, 4)) < 0.3
    return bits


def of_torch(seed_to_result):
    import torch

    def way(rng):
        torch.manual_seed(int(rng.integers(2**31)))
        return np.asarray(seed_to_result(torch))

    return way


def in_place_arithmetic(torch):
    bits = torch.tensor(BITS).double()
    return bits.sub_(torch.bernoulli(torch.full((3, 4), 0.3, dtype=torch.float64))).abs_()


def arithmetic(way):
    """way: coins, bits -> bits that the coins flip."""
    return lambda rng: way(rng.binomial(1, 0.3, (3, 4)), BITS.astype(int))


ARITHMETIC = [
    arithmetic(lambda c, b: np.abs(b - c)),
    arithmetic(lambda c, b: (c - b) ** 2),
    arithmetic(lambda c, b: np.square(b.astype(float) - c)),
    arithmetic(lambda c, b: b * (1 - c) + (1 - b) * c),
    arithmetic(lambda c, b: b + c - 2 * b * c),
    arithmetic(lambda c, b: (np.ones((3, 4)) - c) * b + c * (np.ones((3, 4)) - b)),
    lambda rng: (BITS & ~(c := rng.random((3, 4)) < 0.3)) | (~BITS & c),
    lambda rng: BITS * (c := rng.random((3, 4)) < 0.7) + (1 - BITS) * ~c,
    of_torch(lambda torch: (torch.tensor(BITS).long() - (torch.rand(3, 4) < 0.3).long()).abs()),
    of_torch(lambda torch: (torch.bernoulli(torch.full((3, 4), 0.3, dtype=torch.float64)) - torch.tensor(BITS).double()) ** 2),
    of_torch(lambda torch: (c := torch.rand(3, 4) < 0.3) * ~torch.tensor(BITS) + torch.tensor(BITS) * (1 - c.long())),
]
FLIPS = [
    *ARITHMETIC,
    lambda rng: np.where(rng.random((3, 4)) < 0.7, BITS, ~BITS),
    lambda rng: np.where(~(rng.random((3, 4)) <= 0.3), BITS, ~BITS),
    lambda rng: BITS ^ (rng.random((3, 4)) < 0.3),
    lambda rng: (rng.uniform(0, 10, (3, 4)) > 7) != BITS,
    lambda rng: (rng.random(12) < 0.7).reshape(3, 4) == BITS,
    lambda rng: np.logical_xor(rng.binomial(1, 0.3, size=(3, 4)).astype(bool), BITS),
    lambda rng: BITS ^ bernoulli(0.3).rvs(size=(3, 4), random_state=rng).astype(bool),
    in_place,
    of_torch(lambda torch: torch.where(torch.rand(3, 4) < 0.7, torch.tensor(BITS), ~torch.tensor(BITS))),
    of_torch(lambda torch: torch.tensor(BITS) ^ (torch.rand(3, 4) >= 0.7)),
    of_torch(lambda torch: torch.tensor(BITS) ^ torch.bernoulli(torch.full((3, 4), 0.3, dtype=torch.float64)).bool()),
    of_torch(lambda torch: np.where((torch.rand(3, 4) < 0.7).numpy(), BITS, ~BITS)),
]
OWN = [
    lambda rng: rng.random((3, 4)) < SHARES,
    lambda rng: np.greater(SHARES, rng.random((3, 4))),
    lambda rng: rng.binomial(1, SHARES),
    of_torch(lambda torch: torch.bernoulli(torch.tensor(SHARES))),
    of_torch(lambda torch: torch.empty(3, 4).bernoulli_(torch.tensor(SHARES))),
    of_torch(lambda torch: torch.rand(3, 4, dtype=torch.float64) < torch.tensor(SHARES)),
    of_torch(lambda torch: torch.distributions.Bernoulli(torch.tensor(SHARES)).sample()),
]
CERTAIN = np.where(BITS, 1.0, 0.2)  # a 1 is certain where a bit is set
OF_CERTAIN = [
    lambda rng: rng.random((3, 4)) < CERTAIN,
    lambda rng: rng.binomial(1, CERTAIN),
    of_torch(lambda torch: torch.bernoulli(torch.tensor(CERTAIN))),
]
OF_FIVE = [
    lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, rng.integers(0, 5, (3, 4))),
    lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, rng.integers(5, size=(3, 4))),
    of_torch(lambda torch: torch.where(torch.rand(3, 4) < 0.7, torch.tensor(LABELS), torch.randint(0, 5, (3, 4)))),
]


SHIFTS = np.array([0.6, 0.1, 0.1, 0.15, 0.05])  # the probability that a label is shifted by 0, 1, 2, 3, 4 modulo 5
OF_SHIFTS = np.stack([np.take(SHIFTS, (k - LABELS) % 5) for k in range(5)], axis=-1)
LYING = np.where(LABELS[..., None] == np.arange(5), 0.7, 0.075)  # a label, or with probability 0.3 one of the other four
LIES = [
    lambda rng: np.where(rng.random((3, 4)) > 0.7, (LABELS + rng.integers(1, 5, (3, 4))) % 5, LABELS),
    lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, np.mod(rng.integers(4, size=(3, 4)) + (LABELS + 1), 5)),
    lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, (LABELS - rng.choice([1, 2, 3, 4], (3, 4))) % 5),
    lambda rng: (LABELS + (rng.random((3, 4)) < 0.3) * rng.integers(1, 5, (3, 4))) % 5,
    of_torch(
        lambda torch: torch.where(
            torch.rand(3, 4) < 0.3, (torch.tensor(LABELS) + torch.randint(1, 5, (3, 4))) % 5, torch.tensor(LABELS)
        )
    ),
    of_torch(lambda torch: (torch.tensor(LABELS) + (torch.rand(3, 4) < 0.3) * torch.randint(1, 5, (3, 4))) % 5),
    of_torch(lambda torch: (torch.tensor(LABELS) - (torch.rand(3, 4) < 0.3).long() * torch.randint(1, 5, (3, 4))) % 5),
]
SHIFTED = [
    lambda rng: (LABELS + rng.choice(5, (3, 4), p=SHIFTS)) % 5,
    lambda rng: (LABELS - rng.choice([0, 4, 3, 2, 1], (3, 4), p=SHIFTS)) % 5,
    of_torch(
        lambda torch: (torch.tensor(LABELS) + torch.multinomial(torch.tensor(SHIFTS), 12, replacement=True).reshape(3, 4)) % 5
    ),
]
UNARY = np.where(BITS, 0.5, 0.1)  # the probability of a 1 in an optimised unary encoding
OF_UNARY = [
    lambda rng: np.where(BITS, rng.random((3, 4)) < 0.5, rng.random((3, 4)) < 0.1),
    lambda rng: np.where(BITS, rng.integers(0, 2, (3, 4)), rng.binomial(1, 0.1, (3, 4))),
    lambda rng: np.where(BITS, *((u := rng.random((3, 4))) < 0.5, u < 0.1)),
    of_torch(lambda torch: torch.where(torch.tensor(BITS), torch.rand(3, 4) < 0.5, torch.rand(3, 4) < 0.1)),
    of_torch(
        lambda torch: torch.where(
            torch.tensor(BITS), torch.bernoulli(torch.full((3, 4), 0.5)), torch.bernoulli(torch.full((3, 4), 0.1))
        )
    ),
]
BY_TWO_COINS = [
    lambda rng: (BITS & (rng.random((3, 4)) < 0.5)) | (~BITS & (rng.random((3, 4)) < 0.1)),
    lambda rng: np.logical_or(BITS & (rng.random((3, 4)) >= 0.5), np.logical_and(rng.random((3, 4)) < 0.1, np.logical_not(BITS))),
    lambda rng: (BITS & rng.binomial(1, 0.5, (3, 4))) | ((1 - BITS) & rng.binomial(1, 0.1, (3, 4))),
    lambda rng: BITS * rng.integers(0, 2, (3, 4)) + (1 - BITS) * (rng.random((3, 4)) < 0.1),
    lambda rng: BITS - BITS * rng.integers(0, 2, (3, 4)) + (1 - BITS) * rng.binomial(1, 0.1, (3, 4)),
    of_torch(lambda torch: (torch.tensor(BITS) & (torch.rand(3, 4) < 0.5)) | (~torch.tensor(BITS) & (torch.rand(3, 4) < 0.1))),
    of_torch(
        lambda torch: (
            torch.tensor(BITS).float() * torch.bernoulli(torch.full((3, 4), 0.5))
            + (1 - torch.tensor(BITS).float()) * torch.bernoulli(torch.full((3, 4), 0.1))
        )
    ),
]
BOTH = np.where(BITS, 0.3 + 0.7 * 0.2, 0.2)  # a bit that is kept with 0.3, or a 1 with 0.2 in any case
SCORES = np.arange(15.0).reshape(3, 5) % 4
POWERS = np.exp(SCORES / 2)
OF_SCORES = [
    lambda rng: (SCORES + 2 * rng.gumbel(size=(3, 5))).argmax(1),
    lambda rng: np.argmax(rng.gumbel(0, 2, (3, 5)) + SCORES, axis=-1),
    of_torch(lambda torch: (torch.tensor(SCORES) + torch.distributions.Gumbel(0.0, 2.0).sample((3, 5)).double()).argmax(-1)),
]


NEGATED = np.where(BITS, 0.7 + 0.3 * 0.8, 0.3 * 0.8)  # a bit, or with probability 0.3 a coin that is true with 0.8
WITH_COINS = [lambda rng: np.where(rng.random((3, 4)) < 0.7, BITS, ~(rng.random((3, 4)) < 0.2))]


def with_two(chance):
    return np.stack([1 - chance, chance], axis=-1)


def followed(way, seed=1, script=None):
    recorded = Mechanisms(script)
    with recording(follow=recorded):
        return np.asarray(way(np.random.default_rng(seed))), recorded.found


@pytest.mark.parametrize(
    ("way", "chances"),
    [
        *((w, with_two(FLIPPED)) for w in FLIPS),
        *((w, with_two(SHARES)) for w in OWN),
        *((w, with_two(CERTAIN)) for w in OF_CERTAIN),
        *((w, with_two(NEGATED)) for w in WITH_COINS),
        *((w, CHANGED) for w in OF_FIVE),
        *((w, LYING) for w in LIES),
        *((w, OF_SHIFTS) for w in SHIFTED),
        *((w, with_two(UNARY)) for w in (*OF_UNARY, *BY_TWO_COINS)),
        (lambda rng: (BITS & (rng.random((3, 4)) < 0.3)) | (ONES & (rng.random((3, 4)) < 0.2)), with_two(BOTH)),
        (
            lambda rng: BITS * (rng.random((3, 4)) < 0.3) + (1 - BITS) * ~(rng.random((3, 4)) < 0.3),
            with_two(np.where(BITS, 0.3, 0.7)),
        ),
        *((w, POWERS / POWERS.sum(1, keepdims=True)) for w in OF_SCORES),
    ],
)
def test_each_way_of_reporting_has_the_probabilities_of_its_closed_form(way, chances):
    with recording():
        plain = np.asarray(way(np.random.default_rng(1)))
    told, (report,) = followed(way)
    assert np.array_equal(told, plain)
    assert report.law == REPORT
    assert np.allclose(report.clean, chances, rtol=1e-6)
    assert report.line.startswith("test_reports.py, line ")


@pytest.mark.parametrize("way", [*FLIPS, *OWN, *OF_FIVE, *LIES, *SHIFTED, *OF_UNARY, *BY_TWO_COINS, *OF_SCORES])
def test_the_report_of_another_run_takes_its_place(way):
    first, found = followed(way)
    second, (again,) = followed(way, seed=2, script=found)
    assert np.array_equal(first, second)
    assert np.array_equal(again.clean, found[0].clean)


@pytest.mark.parametrize("use", [lambda noisy: noisy.max(1), lambda noisy: noisy + 1.0, lambda noisy: np.argmax(noisy, axis=0)])
def test_scores_with_gumbel_noise_that_are_used_otherwise_are_a_sum(use):
    _, found = followed(lambda rng: use(SCORES + 2 * rng.gumbel(size=(3, 5))))
    assert [m.law for m in found] == ["gumbel"]
    assert np.array_equal(found[0].clean, SCORES)


def mirrored(rng):
    flips = np.triu(rng.random((4, 4)) < 0.3, 1)
    return EDGES ^ (flips | flips.T)


def mirrored_in_torch(rng):
    import torch

    torch.manual_seed(int(rng.integers(2**31)))
    flips = torch.triu(torch.rand(4, 4) < 0.3, 1)
    return (torch.tensor(EDGES) ^ (flips | flips.t())).numpy()


@pytest.mark.parametrize("way", [mirrored, mirrored_in_torch])
def test_one_coin_for_both_entries_of_a_pair_counts_once(way):
    told, (report,) = followed(way)
    assert np.array_equal(told, told.T)
    assert report.mirrored
    assert not report.covered.diagonal().any()
    assert report.covered.sum() == 12
    one_edge = np.zeros((4, 4))
    one_edge[0, 1] = one_edge[1, 0] = -0.4  # the probability of a 1 where an edge is removed: 0.7 - 0.3
    move = report.over(np.stack([-one_edge, one_edge], axis=-1))
    assert report.size(move) == pytest.approx(np.log(0.7 / 0.3))


def without_diagonal(rng):
    flips = rng.random((4, 4)) < 0.3
    np.fill_diagonal(flips, False)
    return EDGES ^ flips


def without_some(rng):
    flips = rng.random((4, 4)) < 0.3
    flips[np.eye(4, dtype=bool)] = False
    return EDGES ^ flips


@pytest.mark.parametrize("way", [without_diagonal, without_some])
@pytest.mark.parametrize("seed", range(5))
def test_coins_that_are_set_to_zero_hide_nothing(way, seed):
    _, (report,) = followed(way, seed)
    assert np.array_equal(report.covered, ~np.eye(4, dtype=bool))


def set_to_one(rng):
    flips = rng.random((4, 4)) < 0.3
    flips[0, 0] = True
    return EDGES ^ flips


def sorted_in_place(rng):
    numbers = rng.random((3, 4))
    numbers.sort()
    return numbers < SHARES


def lopsided(rng):
    flips = np.triu(rng.random((4, 4)) < 0.3, 1)
    return np.triu(EDGES) ^ (flips | flips.T)


def same_numbers_twice(rng):
    """The second coin is true for half of the numbers above 0.7, not for 85 % of them."""
    numbers = rng.random((3, 4))
    return np.where(numbers < 0.7, BITS, numbers < 0.85)


def two_of_one_seed(rng):
    seed = int(rng.integers(2**31))
    one, other = (np.random.default_rng(seed).random((3, 4)) for _ in range(2))
    return (BITS & (one < 0.7)) | (~BITS & (other < 0.3))


def one_seed_twice(rng):
    seed = int(rng.integers(2**31))
    one, other = (np.random.default_rng(seed).random((3, 4)) for _ in range(2))
    return np.where(one < 0.7, BITS, other < 0.85)


@pytest.mark.parametrize(
    "way",
    [
        set_to_one,
        lambda rng: np.where(rng.random((3, 1)) < 0.7, BITS, ~BITS),  # one coin for a whole row
        lambda rng: BITS ^ (rng.random((1, 4)) < 0.3),
        lambda rng: rng.random((3, 1)) < SHARES,
        lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, rng.integers(0, 5, (3, 1))),
        lambda rng: np.where(rng.random((3, 4)) < 0.7, SHARES, rng.random((3, 4))),
        of_torch(lambda torch: torch.tensor(BITS) ^ (torch.rand(3, 1) < 0.3).expand(3, 4)),
        of_torch(lambda torch: torch.rand(3, 1, dtype=torch.float64) < torch.tensor(SHARES)),
        sorted_in_place,
        same_numbers_twice,
        one_seed_twice,
        lambda rng: (LABELS + rng.integers(1, 5, (3, 4))) % 5,  # never the truth
        lambda rng: (LABELS + rng.integers(0, 5, (3, 1))) % 5,
        lambda rng: (LABELS.astype(np.uint8) + rng.integers(0, 5, (3, 4), dtype=np.uint8)) % 5,  # a sum that may overflow
        lambda rng: (SHARES + rng.integers(0, 5, (3, 4))) % 5,
        lambda rng: np.where(rng.random((3, 4)) < 0.3, (LABELS + np.sort(rng.integers(1, 5, (3, 4)))) % 5, LABELS),
        lambda rng: np.where(BITS, rng.random((3, 4)) < 0.5, rng.random((3, 1)) < 0.1),
        lambda rng: np.where(BITS, np.triu(rng.random((3, 4)) < 0.5), SHARES > 0.5),
        lambda rng: rng.uniform(0, 5, (3, 4)).astype(int) < SHARES * 5,  # whole numbers, not uniform ones
        of_torch(lambda torch: torch.add(torch.tensor(LABELS), torch.randint(0, 5, (3, 4)), alpha=2) % 5),
        of_torch(lambda torch: (torch.rand(3, 4) * 5).long() < torch.tensor(SHARES * 5)),
        lopsided,  # one coin on two different bits tells whether they are equal
        lambda rng: np.where(rng.random((3, 4)) < 0.7, LABELS, 0),  # drops data
        lambda rng: BITS & (rng.random((3, 4)) < 0.7),
        lambda rng: LABELS[rng.random((3, 4)) < 0.7],
        lambda rng: LABELS * (rng.random((3, 4)) < 0.7),
        lambda rng: np.cumsum(rng.random((3, 4)) < 0.3) % 2 == BITS.ravel(),
        lambda rng: np.sort(rng.random((3, 4)) < 0.3, axis=0) ^ BITS,
        arithmetic(lambda c, b: c * c),
        arithmetic(lambda c, b: b * c + b * c),
        arithmetic(lambda c, b: np.abs(b + c)),
        arithmetic(lambda c, b: b * (1 - c) + SHARES * c),
        lambda rng: BITS * ((u := rng.random((3, 4))) < 0.3) + (1 - BITS) * (u > 0.7),  # two bars, so two coins
        lambda rng: (BITS & (rng.random((3, 4)) < 0.3)) | (BITS & (rng.random((3, 4)) < 0.3)),  # keeps or drops
        lambda rng: (BITS & ((u := rng.random((3, 4))) < 0.3)) | (~BITS & (u < 0.1)),
        lambda rng: (BITS & (rng.random((3, 4)) < 0.3)) | (~BITS & (rng.random((3, 1)) < 0.1)),
        lambda rng: BITS * (rng.random((3, 4)) < 0.3) + (rng.random((3, 4)) < 0.3) * np.ones((3, 4), int),  # up to 2
        two_of_one_seed,
        of_torch(lambda torch: torch.rsub((torch.rand(3, 4) < 0.3).long(), torch.tensor(BITS).long(), alpha=2).abs()),
        of_torch(in_place_arithmetic),  # the data are overwritten before the recorder reads them
        of_torch(lambda torch: torch.nn.functional.dropout(torch.tensor(SHARES), 0.5)),
    ],
)
def test_samples_and_coins_that_do_not_hide_every_value_are_no_reports(way):
    with recording():
        plain = np.asarray(way(np.random.default_rng(1)))
    told, found = followed(way)
    assert np.array_equal(told, plain)
    assert not found


def test_another_report_than_that_of_the_script_is_an_error():
    _, found = followed(FLIPS[0])
    with pytest.raises(OtherMechanisms, match=r"test_reports\.py"):
        followed(FLIPS[2], script=found)


@pytest.mark.parametrize(
    "way",
    [
        lambda rng: rng.integers(0, 2**40, (3, 4)),
        lambda rng: rng.integers(0, np.arange(1, 5), (3, 4)),
        lambda rng: rng.integers(0, 3, (3, 4), endpoint=True),
        lambda rng: rng.choice(10**9, 12),
        of_torch(lambda torch: torch.randint(0, 2**40, (3, 4))),
        of_torch(lambda torch: torch.empty(3, 4).random_()),
        of_torch(lambda torch: torch.empty(3, 4).random_(5)),
    ],
)
def test_draws_of_whole_numbers_are_recorded_whatever_their_range(way):
    with recording() as recorded:
        plain = way(np.random.default_rng(1))
    told, found = followed(way)
    assert np.array_equal(told, plain)
    assert not found
    assert all(set(np.ravel(d.values).tolist()) <= set(d.among) for d in recorded.draws if d.among)


@pytest.mark.parametrize(
    "toss",
    [lambda rng: rng.random((3, 4)) < 0.3, lambda rng: rng.binomial(1, 0.3, (3, 4)).astype(bool)],
    ids=["uniform", "coins"],
)
def test_reports_of_different_data_by_the_same_coins_share_them(toss):
    """Two answers that are wrong together tell which answers are wrong."""

    def way(rng):
        coins = toss(rng)
        return (BITS ^ coins), ((LABELS > 2) ^ coins)

    share_noise(way)


def share_noise(way):
    """The recorder says that the reports of a run share noise, and takes none of them for a copy."""
    found = Mechanisms()
    with recording(follow=found) as recorded:
        way(np.random.default_rng(1))
    same, shared = again(found.found, recorded.draws, {})
    assert not same
    assert "share noise" in shared


def test_a_report_that_is_computed_twice_is_one_report():
    def way(rng):
        coins = rng.random((3, 4)) < 0.3
        return (BITS ^ coins), (BITS ^ coins)

    found = Mechanisms()
    with recording(follow=found) as recorded:
        way(np.random.default_rng(1))
    assert again(found.found, recorded.draws, {}) == ({1: 0}, "")


def test_two_reports_with_the_same_first_coin_and_different_second_ones_are_two():
    def way(rng):
        lie = rng.random((3, 4)) < 0.3
        return [np.where(lie, rng.integers(0, 5, (3, 4)), LABELS) for _ in range(2)]

    share_noise(way)
