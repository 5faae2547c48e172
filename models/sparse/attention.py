"""Attention over the arcs into each node, in blocks of receivers, so that no array has a row for every arc of a large graph."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .neighbour_sums import Bags, mapped

NUMBERS = 1 << 20  # largest size of an array with a row for every arc of a block, unless one node alone has more arcs


def attention(sent: Tensor, fro: Tensor, to: Tensor, receive: Tensor) -> Tensor:
    """For every head and receiver, the mean of `sent` over the arcs into the receiver, weighted by a softmax of LeakyReLU(to +
    fro).

    sent: (arcs, heads, units), the rows of each arc's sender. fro: (arcs, heads), the scores of the senders. to: (receivers,
    heads), the scores of the receivers. receive: (arcs,), the receiver of each arc. Returns (receivers, heads, units).
    """
    logit = functional.leaky_relu(to[receive] + fro, 0.2)
    top = to.detach().scatter_reduce(0, receive[:, None].expand_as(logit), logit.detach(), "amax", include_self=False)
    weight = (logit - top[receive]).exp()
    share = weight / torch.zeros_like(to).index_add(0, receive, weight)[receive]
    return sent.new_zeros(*to.shape, sent.shape[2]).index_add(0, receive, share[:, :, None] * sent)


def attend(rows: Tensor, to: Tensor, fro: Tensor, bags: Bags) -> Tensor:
    """`attention` on the neighbour lists of a whole graph, with a self loop at every node.

    rows: (nodes, heads, units). to, fro: (nodes, heads), the scores of a node as receiver and as sender. Returns (nodes, heads,
    units).
    """
    if len(bags.lists.senders) + len(rows) <= NUMBERS // rows[0].numel():
        send, receive, _ = next(blocks(bags, rows))
        return attention(rows[send], fro[send], to, receive)
    out: Tensor = Attend.apply(rows, to, fro, bags)
    return out


def blocks(bags: Bags, rows: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """For each block of consecutive receivers: the senders and the receivers of their arcs and self loops, (arcs,) each, and the
    slice of nodes. Receivers are numbered from the first node of the block.
    """
    starts, device = bags.lists.starts, rows.device
    ends = starts[1:] + np.arange(1, len(starts))  # arcs and self loops up to each node
    first, nodes, most = 0, len(rows), NUMBERS // rows[0].numel()
    while first < nodes:
        begun = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, begun + most, side="right")))
        own = torch.arange(first, stop)
        counts = torch.from_numpy(np.diff(starts[first : stop + 1]))
        send = torch.cat([mapped(bags.lists.senders[starts[first] : starts[stop]]).long(), own])
        receive = torch.cat([torch.repeat_interleave(own - first, counts), own - first])
        yield send.to(device), receive.to(device), slice(first, stop)
        first = stop


class Attend(torch.autograd.Function):
    """`attend`, one block of receivers at a time. The backward pass recomputes each block."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, to: Tensor, fro: Tensor, bags: Bags) -> Tensor:
        ctx.save_for_backward(rows, to, fro)
        ctx.bags, out = bags, torch.empty_like(rows, memory_format=torch.contiguous_format)
        for send, receive, own in blocks(bags, rows):
            out[own] = attention(rows[send], fro[send], to[own], receive)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, to, fro = ctx.saved_tensors
        totals = tuple(torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (rows, fro, to))
        for send, receive, own in blocks(ctx.bags, rows):
            sent, its, here = parts = [part.detach().requires_grad_() for part in (rows[send], fro[send], to[own])]
            with torch.enable_grad():
                out = attention(sent, its, here, receive)
            found = torch.autograd.grad(out, parts, grads[0][own])
            for total, where, part in zip(totals, (send, send, torch.arange(own.start, own.stop)), found, strict=True):
                total.index_add_(0, where.to(total.device), part)
        return totals[0], totals[2], totals[1], None
