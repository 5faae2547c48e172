"""An exact entry beside steep functions of noisy values, or a small exact term in them, leaves no reach; other functions do."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load

from ...nightly import nightly
from .votes import counts, released

GRAPH, CLAIM, STD = load("campus:n=120:degree=6"), Claim(2.0, 1e-6), 3.2  # noise of std 3.2 costs 1.97


def verdict(shows, kind=np.float64, blocks=1):
    """Noisy counts, released with an array `shows(graph, noisy)`. blocks: in so many draws, which the recorder does not follow
    to the data if they are several; the noise is then found in the release.
    """

    def train(graph, seed):
        random, clean = np.random.default_rng(seed), counts(graph).astype(kind)
        rows = np.array_split(clean, blocks)
        noise = [random.standard_normal(part.shape).astype(kind) for part in rows]
        noisy = clean + kind(STD) * (noise[0] if blocks == 1 else np.concatenate(noise))
        return released(noisy) | {"votes": noisy, "shown": shows(graph, noisy)}

    model = Looped(train, releases=("posteriors", "votes", "shown"), events=dp.GaussianDpEvent(STD / 2**0.5))
    return audit(model, GRAPH, CLAIM, attacks="none", audits="differential", repeats=1, seed="entries").run.verdict


def beside_powers(graph, noisy):
    return np.column_stack([np.exp(noisy), graph.degree])


def small_term(graph, noisy):
    return noisy - np.log(np.exp(noisy).sum(1, keepdims=True)) + 4e-6 * graph.degree[:, None]


def powers(graph, noisy):
    return np.exp(noisy)


def ratios(graph, noisy):
    return np.column_stack([1 / noisy, noisy / noisy.sum(1, keepdims=True)])


def log_shares(graph, noisy):
    return 3 * noisy - np.log(np.exp(3 * noisy).sum(1, keepdims=True))


def ranks(graph, noisy):
    return noisy.argsort(0).argsort(0)


def test_an_exact_term_among_functions_of_noisy_values_leaves_no_reach():
    assert verdict(small_term) == "inconclusive"


@pytest.mark.parametrize("blocks", nightly(1, 3))
def test_exact_degrees_beside_functions_of_noisy_values_are_refuted(blocks):
    assert verdict(beside_powers, blocks=blocks) == "refuted"


@pytest.mark.parametrize(
    ("shows", "kind"), [(powers, np.float64), *nightly((ranks, np.float32), (log_shares, np.float32), (ratios, np.float32))]
)
def test_functions_of_noisy_values_keep_the_reach(shows, kind):
    assert verdict(shows, kind) == "not refuted"


def test_functions_of_noise_that_is_found_in_the_release_keep_the_reach():
    assert verdict(ratios, blocks=3) == "not refuted"
