"""Noise that is cut off, resized or replaced only where it is large or near 0 leaves no reach; other noise keeps it."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, audit, load

from ....nightly import nightly
from ...recorded.votes import counts, released

GRAPH, CLAIM, STD = load("campus:n=120:degree=6"), Claim(1.0, 1e-5), 5.4  # noise of std 5.4 costs 0.98
FAR = 5 * STD  # no number of the recorded runs is beyond; 720 numbers of a run are with a probability of 4e-4, above delta


def verdict(train, claim=CLAIM, ledger=None):
    """train: (graph, seed) -> noisy counts and whether they are released."""

    def run(graph, seed):
        noisy, shown = train(graph, seed)
        return released(noisy) | ({"votes": noisy} if shown else {})

    shown = train(GRAPH, 0)[1]
    model = Looped(
        run, releases=("posteriors", "votes") if shown else ("posteriors",), events=ledger or dp.GaussianDpEvent(STD / 2**0.5)
    )
    return audit(model, GRAPH, claim, attacks="none", audits="differential", repeats=1, seed="cut off").run.verdict


def followed(change, shown=False):
    def train(graph, seed):
        random, clean = np.random.default_rng(seed), counts(graph)
        return clean + change(STD * random.standard_normal(clean.shape), random), shown

    return train


def located(change):
    """The recorder does not follow noise through a concatenation, but finds it in the released votes."""

    def train(graph, seed):
        random, clean = np.random.default_rng(seed), counts(graph)
        parts = [STD * random.standard_normal((len(rows), clean.shape[1])) for rows in np.array_split(clean, 4)]
        return clean + change(np.concatenate(parts), random), True

    return train


def with_torch(change):
    def train(graph, seed):
        clean = torch.from_numpy(counts(graph))
        noise = STD * torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed % 2**63), dtype=torch.float64)
        return (clean + change(noise)).numpy(), False

    return train


def clipped_in_place(noise, random):
    return np.clip(noise, -FAR, FAR, out=noise)


def one_sided(noise, random):
    return np.minimum(noise, FAR, out=noise)


def zero_where_large(noise, random):
    noise[np.abs(noise) > FAR] = 0
    return noise


def zero_where_small(noise, random):
    noise[np.abs(noise) < 1e-5 * STD] = 0
    return noise


def smaller_where_large(noise, random):
    return noise / 10 if np.abs(np.asarray(noise)).max() > FAR else noise


def drawn_again(noise, random):
    while np.abs(np.asarray(noise)).max() > FAR:
        noise = STD * random.standard_normal(noise.shape)
    return noise


def plain(noise, random):
    return noise


def clipped_where_nothing_ever_is(noise, random):
    """Beyond 9 standard deviations, where a number lies with a probability of 2e-19."""
    return np.clip(noise, -9 * STD, 9 * STD, out=noise)


def single(noise, random):
    return noise.astype(np.float32)


@pytest.mark.parametrize(
    "change", [clipped_in_place, *nightly(drawn_again, one_sided, zero_where_large, zero_where_small, smaller_where_large)]
)
def test_noise_that_is_changed_where_no_recorded_number_is_leaves_no_reach(change):
    assert verdict(followed(change)) == "inconclusive"


@pytest.mark.parametrize("change", [zero_where_small, *nightly(clipped_in_place)])
def test_it_leaves_no_reach_where_the_noisy_values_are_released(change):
    assert verdict(followed(change, True)) == "inconclusive"


@pytest.mark.parametrize("change", [plain, *nightly(clipped_where_nothing_ever_is, single)])
def test_noise_that_is_added_whatever_its_values_keeps_the_reach(change):
    assert verdict(followed(change)) == "not refuted"


@pytest.mark.parametrize(("change", "says"), [(zero_where_small, "inconclusive"), (plain, "not refuted")])
def test_noise_that_is_only_located_in_the_release_is_tested_too(change, says):
    assert verdict(located(change)) == says


def smaller_in_torch(noise):
    return noise / 10 if noise.abs().max() > FAR else noise


@pytest.mark.parametrize(("change", "says"), [(smaller_in_torch, "inconclusive"), (torch.clone, "not refuted")])
def test_a_branch_on_noise_of_torch_leaves_no_reach(change, says):
    assert verdict(with_torch(change)) == says


def laplace(most):
    """Laplace noise of scale 2, cut off at `most`: two counts that move by 1 cost 1."""

    def train(graph, seed):
        clean = counts(graph)
        noise = np.random.default_rng(seed).laplace(0, 2.0, clean.shape)
        noise[noise < -most] = -most
        return clean + noise, False

    return train


@pytest.mark.parametrize(("most", "says"), [(40.0, "inconclusive"), (200.0, "not refuted")])
def test_a_pure_claim_is_tested_farther_out(most, says):
    """Numbers beyond 20 scales make epsilon infinite at delta = 0; beyond 64 scales, where 1e-28 lies, none is tried."""
    assert verdict(laplace(most), Claim(1.02, 0.0), dp.LaplaceDpEvent(1.0)) == says


def many(change):
    """Noisy sums of 100 float32 columns for each class: so many numbers of one sign would often be equal if they lay close
    together.
    """

    def train(graph, seed):
        clean = torch.from_numpy(counts(graph).astype(np.float32)).repeat(1, 100) / 10
        noise = STD * torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed % 2**63))
        noisy = clean + change(noise)
        return noisy.reshape(graph.nodes, 100, -1).sum(1).double().numpy(), False

    return train


@pytest.mark.parametrize(
    ("change", "says"), [(torch.clone, "not refuted"), (lambda noise: noise.clamp(-5 * STD, 5 * STD), "inconclusive")]
)
def test_many_numbers_of_a_short_type_are_noise_of_their_own(change, says):
    assert verdict(many(change)) == says


def from_uniform_numbers(change):
    """Laplace noise by its inverse distribution function on every pair of nodes: with so many numbers, some lie close to 1/2."""

    def run(graph, seed):
        away = np.random.default_rng(seed).random((graph.nodes, graph.nodes)) - 0.5
        noise = -0.5 * np.sign(away) * np.log1p(-2 * np.abs(away))
        return {"pairs": np.triu(graph.adjacency().toarray(), 1) + change(noise)}

    return Looped(run, releases=("pairs",), events=dp.LaplaceDpEvent(0.5))


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda noise: noise, "not refuted"), (lambda noise: np.where(np.abs(noise) < 1e-4, 0, noise), "inconclusive")],
)
def test_noise_that_is_computed_from_many_uniform_numbers_is_tested_near_zero(change, says):
    found = audit(
        from_uniform_numbers(change), GRAPH, Claim(2.0, 0.0), attacks="none", audits="differential", repeats=1, seed="u"
    )
    assert found.run.verdict == says
