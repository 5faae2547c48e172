"""Products of a block of nodes, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")
layers = pytest.importorskip("gnnaudit.models.kernels.layers")

SHAPES = [(1, 1), (2, 1), (5, 3), (6, 16), (7, 4), (13, 17), (16, 64)]  # outputs, inputs


@pytest.fixture(scope="module")
def product():
    flat = numba.float32[::1]
    return numba.njit((flat, numba.int64, numba.int64, flat, flat))(
        lambda w, down, right, x, y: layers.add_product(w, down, right, x, y)
    )


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_any_shape_is_added_to_the_block_and_to_nothing_beside_it(product, outputs, inputs, turned):
    random = np.random.default_rng(outputs)
    w, x = (random.standard_normal(shape).astype(np.float32) for shape in ((outputs, inputs), (inputs, layers.BLOCK)))
    around = random.standard_normal((outputs + 2, layers.BLOCK)).astype(np.float32)
    expected = around.astype(np.float64)
    expected[1:-1] += w.astype(np.float64) @ x
    flat, strides = np.ascontiguousarray(w.T if turned else w).ravel(), (1, outputs) if turned else (inputs, 1)
    product(flat, *strides, x.ravel(), around.reshape(-1)[layers.BLOCK : -layers.BLOCK])
    np.testing.assert_allclose(around, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(around[[0, -1]], expected[[0, -1]])
