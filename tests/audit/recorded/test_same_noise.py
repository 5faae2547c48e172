"""Whether two runs drew the same noise, although the noise was drawn around other data."""

import numpy as np
import pytest
import torch

from gnnaudit.audit.recorded.playing import same_numbers
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
