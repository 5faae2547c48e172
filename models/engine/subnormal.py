"""A context in which the processor treats subnormal numbers (below 1e-38) as zero, because it computes with them slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def subnormals_are_zero() -> Iterator[None]:
    """Treats subnormal numbers as zero within the context, in this thread, and restores the setting afterwards. Saturated units
    produce subnormal numbers, and an operation on one costs a hundred cycles.
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
