"""One noise number may serve several entries: noise of shape (n, 1, c) on values of shape (n, 2, c), for example."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, audit, load

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH = load("campus:n=240")
CLAIM = Claim(2.0, 1e-6)  # noise of std 3.2 on sums that an edge moves by sqrt(2) costs 1.97
STD = 3.2


def model(noisy):
    """The model that releases `noisy(sums, generator)`."""

    def train(graph, seed):
        return released(noisy(counts(graph), np.random.default_rng(seed)))

    return Looped(train, events=dp.GaussianDpEvent(STD / 2**0.5))


def twice(clean, random):
    """Both copies of a sum get the same noise, so they tell no more than one."""
    both = np.stack([clean, clean], 1) + STD * random.standard_normal((len(clean), 1, clean.shape[1]))
    return both.mean(1)


def twice_in_torch(clean, random):
    both = torch.stack([torch.from_numpy(clean)] * 2, 1)
    noise = torch.randn(len(clean), 1, clean.shape[1], generator=torch.Generator().manual_seed(int(random.integers(2**32))))
    return ((both + STD * noise)[:, 1]).numpy()


def copied(clean, random):
    """As `twice`, but the program repeats the numbers itself."""
    noise = STD * random.standard_normal(clean.shape)
    both = np.concatenate([clean, clean], 1) + noise[:, np.tile(np.arange(clean.shape[1]), 2)]
    return both[:, : clean.shape[1]]


def summed(clean, random):
    """Each sum is halved, gets half of the noise twice, and only the sum of both halves is used."""
    halves = np.stack([0.25 * clean, 0.75 * clean], 1) + STD / 2 * random.standard_normal((len(clean), 1, clean.shape[1]))
    return halves.sum(1)


def by_column(clean, random):
    """All columns of a row get the same number, so their differences have no noise."""
    return clean + STD * random.standard_normal((len(clean), 1))


def by_column_in_torch(clean, random):
    draw = torch.Generator().manual_seed(int(random.integers(2**32)))
    return (torch.from_numpy(clean) + torch.normal(0.0, STD, (len(clean), 1), generator=draw)).numpy()


def by_column_then_scaled(clean, random):
    """As `by_column_in_torch`, but the numbers have their copies before they are scaled."""
    draw = torch.Generator().manual_seed(int(random.integers(2**32)))
    return (torch.from_numpy(clean) + STD * torch.randn(len(clean), 1, generator=draw).expand(-1, clean.shape[1])).numpy()


def in_half(clean, random):
    """The sum less a possible count is a number of float16 for one count only."""
    draw = torch.Generator().manual_seed(int(random.integers(2**32)))
    return (torch.from_numpy(clean) + STD * torch.randn(clean.shape, generator=draw).half().double()).numpy()


@pytest.mark.parametrize("honest", [copied, *nightly(summed, twice, twice_in_torch)])
def test_copies_of_a_noisy_value_cost_as_much_as_one(honest):
    found = audit(model(honest), GRAPH, CLAIM, attacks="none", audits="differential", repeats=1)
    assert found.run.verdict in {"not refuted", "inconclusive"}


@pytest.mark.parametrize("fault", [by_column, *nightly(by_column_then_scaled, by_column_in_torch)])
def test_a_difference_of_entries_with_the_same_noise_number_is_not_hidden(fault):
    found = audit(
        model(lambda clean, random: np.tanh(fault(clean, random) / 50)),
        GRAPH,
        CLAIM,
        attacks="none",
        audits="differential",
        repeats=1,
    )
    assert found.run.verdict == "refuted"


def test_half_the_noise_on_copies_of_a_value_is_refuted():
    found = audit(
        model(lambda clean, random: twice(2 * clean, random) / 2), GRAPH, CLAIM, attacks="none", audits="differential", repeats=1
    )
    assert found.run.verdict == "refuted"


def test_noise_of_few_bits_is_no_noise_on_finer_sums():
    found = audit(model(in_half), GRAPH, CLAIM, attacks="none", audits="differential", repeats=1)
    assert found.run.verdict == "inconclusive"
