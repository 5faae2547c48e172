"""Dropout of PyTorch: all masks of a run, but for small ones, follow from one recorded number, its key.

Trainings with early stopping take as many masks as they have epochs, and other noise gives another number of epochs. If each mask
was a draw, no run could be repeated with the draws of a shorter one. A run with the same key has the same masks, as far as it
goes, and a run with another key has others. So whoever replaces draws by others, to show that they hide nothing, replaces the
masks too. If a mask has a row for each training node, each node keeps its row in a graph without other nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..draws.draw import Active, Diverged, Draw, Recorder, calling_line, numbers_of

SMALL = 8  # a mask of at most so many numbers is a draw of its own, because it may decide whether noise is added
KEYS = 2**62  # number of keys; a draw of so many values counts as a seed
Mask = tuple[tuple[int, ...], float]  # shape, of which the first entry is -1 for training nodes; and the probability of a zero


@dataclass(eq=False)
class Masks:
    """The masks of one run. script: the draws of the run that this one repeats. nodes: number of nodes of the graph; 0 if it is
    not known. key: None before the first mask. taken: the masks so far. repeated: those of the repeated run, if it has this key.
    """

    script: Sequence[Draw] = ()
    nodes: int = 0
    key: int | None = None
    taken: list[Mask] = field(default_factory=list)
    repeated: Sequence[Mask] = ()

    def take(self, shape: tuple[int, ...], share: float, line: str) -> int:
        """The seed of the next mask. Raises Diverged if it differs in shape or share from that of the run that this one repeats:
        its entries would belong to other data.
        """
        number = len(self.taken)
        if number < len(self.repeated) and self.repeated[number] != (shape, share):
            raise Diverged(line)
        self.taken.append((shape, share))
        return int.from_bytes(hashlib.blake2b(f"{self.key} {number}".encode(), digest_size=8).digest(), "little")


def draw_key(recorder: Recorder, masks: Masks) -> None:
    """Draws the key from PyTorch's generator, as the program would draw the first mask, and records it."""
    import torch

    at, number = len(recorder.draws), numbers_of(torch.randint(KEYS, (1,)))
    instead = recorder.record(Draw("randint", number, calling_line(), masks=masks.taken))
    masks.key = int((number if instead is None else instead)[0])
    earlier = masks.script[at] if at < len(masks.script) else None
    if earlier is not None and earlier.masks is not None and int(earlier.values[0]) == masks.key:
        masks.repeated = tuple(earlier.masks)


@cache
def with_a_key(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `torch.nn.functional.dropout`, for recordings that have `masks`."""
    import torch
    from torch._C._functorch import is_batchedtensor

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        recorder = Active.recorder
        masks = None if recorder is None or recorder.inside else recorder.masks
        if masks is None or not training or not 0 < p < 1 or is_batchedtensor(input) or input.numel() <= SMALL:
            return plain(input, p, training, inplace)
        assert recorder is not None
        recorder.inside = True
        try:
            if masks.key is None:
                draw_key(recorder, masks)
            by_node = recorder.trained is not None and masks.nodes and input.shape[:1] == (len(recorder.trained),)
            inner = tuple(input.shape[1:])
            seed = masks.take((-1, *inner) if by_node else tuple(input.shape), float(p), calling_line())
            generator = torch.Generator().manual_seed(seed)
            kept = torch.empty((masks.nodes, *inner) if by_node else input.shape, dtype=input.dtype)
            kept = kept.bernoulli_(1 - p, generator=generator).div_(1 - p)
            kept = kept[torch.from_numpy(recorder.trained)] if by_node else kept
        finally:
            recorder.inside = False
        return input.mul_(kept.to(input.device)) if inplace else input * kept.to(input.device)

    return dropout
