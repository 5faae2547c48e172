"""The compiled kernel for DP-SGD on short lists of nodes. It computes everything between the two products with the features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..kernels import compiled

if TYPE_CHECKING:
    from torch import Tensor


def clipped(
    clip: float,
    before: Tensor,
    kept: Tensor | None,
    alive: Tensor,
    counted: Tensor,
    index: Tensor,
    labels: Tensor,
    weights: Tensor,
    gram: Tensor,
    second: Tensor,
) -> tuple[Tensor, Tensor] | None:
    """For each run, the clipped gradient with respect to `before`, (K, rows, hidden), and with respect to `second`. None if the
    kernel cannot be used. The arguments are those of `list_gradients.clipped_rows`; kept: None without dropout.

    before: (K, rows, hidden). kept: the same, or None. alive, counted: (K, rows). index: (K, rows, entries) int64. labels: (K,
    rows) int64. weights: (K, rows, entries). gram: (K, rows, entries, entries). second: (K, hidden, classes). All except index
    and labels are float32.
    """
    if before.device.type != "cpu" or not compiled.used():
        return None
    from ..kernels import list_gradients

    into, slope = torch.empty(before.shape), torch.empty(second.shape)
    factors = before.new_empty((*before.shape[:2], 0)) if kept is None else kept
    parts = (before, factors, alive, counted, index, labels, weights, gram, second, into, slope)
    list_gradients.clipped_rows(np.float32(clip), *(part.contiguous().numpy() for part in parts))
    return into, slope
