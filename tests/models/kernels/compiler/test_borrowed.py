"""Borrowed arrays are the caller's memory, and the caller's counts of references stay as they are."""

import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from gnnaudit.models.kernels.compiler.borrowed import borrowed


class Inner(NamedTuple):
    x: np.ndarray
    count: int


class Outer(NamedTuple):
    inner: Inner
    y: np.ndarray


@numba.njit
def doubled(of):
    for _ in range(1000):
        own = borrowed(of)
        own.inner.x[0] += 1
        part = own.y[1:]
        part[0] += own.inner.count
    return own.y.sum()


@pytest.fixture
def arrays():
    return np.zeros(3), np.zeros(4)


def test_writes_reach_the_callers_memory(arrays):
    x, y = arrays
    assert doubled(Outer(Inner(x, 2), y)) == 2000
    assert x.tolist() == [1000, 0, 0]
    assert y.tolist() == [0, 2000, 0, 0]


def test_no_reference_is_gained_or_lost(arrays):
    before = [sys.getrefcount(a) for a in arrays]
    for _ in range(3):
        doubled(Outer(Inner(arrays[0], 2), arrays[1]))
    assert [sys.getrefcount(a) for a in arrays] == before
