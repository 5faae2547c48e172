"""The same numbers give the same product, wherever they lie in memory: otherwise a resumed run differs from an unbroken one."""

import numpy as np
import torch

import gnnaudit  # noqa: F401  # before torch computes anything

OFFSETS = (0, 1, 3, 4, 7, 8)


def placed(a, offset):
    """The array, at an address that is not a multiple of 64 bytes."""
    room = np.empty(a.size + 64, np.float32)[offset : offset + a.size].reshape(a.shape)
    room[...] = a
    return torch.from_numpy(room)


def test_a_product_does_not_depend_on_where_its_factors_lie():
    rng = np.random.default_rng(0)
    for m, k, n in rng.integers(1, 200, (300, 3)):  # three of these differ where MKL_CBWR is not set
        a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
        first, *others = (placed(a, offset) @ placed(b, offset) for offset in OFFSETS)
        assert all(torch.equal(first, other) for other in others), (m, k, n)
