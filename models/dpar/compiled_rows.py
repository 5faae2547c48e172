"""DP-SGD on short lists of nodes in the compiled kernel, which computes everything between the two products with the features."""

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
    """For each run the gradient with respect to the first layer's sums, (K, rows, hidden), and with respect to the second layer's
    weights. None if there is no kernel.

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
