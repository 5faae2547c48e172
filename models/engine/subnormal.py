"""Numbers too small for a processor's fast path, below 1e-38, counted as zero for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def subnormals_are_zero() -> Iterator[None]:
    """Within it, in this thread; afterwards as it was. Saturated units send such numbers, and each costs a hundred cycles."""
    before = flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushed() -> bool:
    """Whether this thread's processor counts them as zero already."""
    return not bool(torch.full((1,), 1e-39) * 0.5 > 0)
