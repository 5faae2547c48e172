"""The processor's treatment of subnormal numbers changes within the context only."""

import numpy as np
import pytest
import torch

from gnnaudit.models.engine.subnormal import flushed, subnormals_are_zero

able = torch.set_flush_denormal(False)
pytestmark = pytest.mark.skipif(not able, reason="this processor has no such switch")


def halved():
    return float(torch.full((1,), 1e-39) * 0.5)


@pytest.mark.parametrize("before", [False, True])
def test_tiny_numbers_vanish_within_and_come_back_as_they_were(before):
    torch.set_flush_denormal(before)
    try:
        with subnormals_are_zero():
            assert halved() == 0
            assert flushed()
        assert (halved() == 0) == flushed() == before
        with pytest.raises(KeyError), subnormals_are_zero():
            raise KeyError
        assert flushed() == before
        assert (np.float32(1e-39) * np.float32(0.5) == 0) == before
    finally:
        torch.set_flush_denormal(False)
