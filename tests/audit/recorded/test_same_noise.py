"""Whether two runs drew the same noise, although the noise was drawn around other data."""

import math

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.playing import same_numbers
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.recorder.draws.draw import Draw


def drawn(loc, seed):
    """A recorded sample of `torch.distributions.Laplace`, in float32, much larger than its location."""
    torch.manual_seed(seed)
    scale = torch.full_like(loc, 6.4)
    values = torch.distributions.Laplace(loc, scale).sample()
    return Draw("laplace", values.numpy(), "mine.py, line 1", loc.numpy(), scale.numpy())


@pytest.mark.parametrize("seed", range(5))
def test_rounding_of_large_noise_around_other_data_is_no_other_noise(seed):
    one, other = drawn(torch.zeros(400, 64), seed), drawn(torch.ones(400, 64), seed)
    assert same_numbers(one, other)
    assert same_numbers(one, drawn(torch.zeros(400, 64), seed))


def test_noise_of_another_seed_around_other_data_is_other_noise():
    one = drawn(torch.zeros(400, 64), 0)
    assert not same_numbers(one, drawn(torch.ones(400, 64), 1))
    nearly = drawn(torch.ones(400, 64), 0)
    nearly.values[3, 5] += np.float32(1e-3)
    assert not same_numbers(one, nearly)


REMARKS = ("are the same for all seeds, so they are no noise", "so they are no further noise")


@pytest.mark.parametrize(("start", "remark"), [("constant", REMARKS[0]), ("again", REMARKS[1]), ("none", "")])
def test_a_path_past_the_noise_names_numbers_that_are_no_noise(start, remark, tmp_path):
    """One array has fresh noise. The other has numbers of a constant seed, those of the first array, or none."""

    def normal(seed, size):
        return np.random.default_rng(seed).normal(size=size)

    def train(graph, seed):
        fresh = graph.degree + normal(seed, graph.nodes)
        other = 0.0 if start == "none" else normal(42 if start == "constant" else seed, graph.nodes)
        return {"fresh": fresh, "other": graph.degree * graph.train + other}

    case = Case(Looped(train, releases=("fresh", "other")), Claim(1.0, 1e-5))
    bounds = AUDITS["differential"].run(Setting(case, load("campus:n=120:degree=6"), Store(tmp_path), Key("alike"))).bounds
    (bound,) = (bound for bound in bounds if bound.refuted)
    assert math.isinf(bound.epsilon)
    assert [text for text in REMARKS if text in bound.method] == [remark] * bool(remark)


@pytest.mark.parametrize(("kind", "short"), [(torch.float16, True), (torch.float32, False)])
def test_noise_of_sixteen_bits_is_named_as_such(kind, short, tmp_path):
    def train(graph, seed):
        clean = torch.from_numpy(graph.adjacency() @ np.eye(graph.classes)[graph.y])
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed), dtype=kind)
        return {"sums": (clean + 3.0 * noise.double()).numpy()}

    case = Case(Looped(train, releases=("sums",)), Claim(4.0, 1e-5))
    found = AUDITS["differential"].run(Setting(case, load("campus:n=120:degree=6"), Store(tmp_path), Key("half"), 2, 1e-4))
    assert not any(b.refuted for b in found.bounds)
    assert ("numbers of 16 bits take few values, unlike those of float32" in found.reach) is short
