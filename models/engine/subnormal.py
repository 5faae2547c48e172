"""A context in which the processor treats subnormal numbers (below 1e-38) as zero, because arithmetic on them is slow."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def subnormals_are_zero() -> Iterator[None]:
    """Within the context, this thread treats subnormal numbers as zero. Saturated units produce such numbers, and an operation on
    one takes about a hundred cycles.
    """
    before = flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushed() -> bool:
    """Whether the processor already treats subnormal numbers as zero in this thread."""
    return not bool(torch.full((1,), 1e-39) * 0.5 > 0)
