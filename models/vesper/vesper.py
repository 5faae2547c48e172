"""VESPER: message passing with noisy rows, trained by a party with the graph and a party with the labels (Wu et al. 2023).

Mode "paper" is the published system. Mode "sound" has three variants in which party A learns from released values only; see
party_a_sound.py. Variant "gap-resampled", in both modes, is a baseline of the paper with the same two parties.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base import Release
from ..graph.graph import Worlds
from ..random.streams import fold
from .channel import Recorder, in_one_process
from .parties import party_a, party_b, train
from .party_a_sound import Refresh
from .recipe import VesperRecipe

TOGETHER = 1 << 21  # about how many bytes the hidden rows of all runs that train together take; more do not fit the cache


@dataclass(frozen=True)
class Vesper(VesperRecipe):
    """`VesperRecipe` with `fit`, which runs the two parties in one process."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains a few runs at once, or one after the other in variants that train in batches.

        transcript: (K, messages, w, hidden) float32, the rows of the watched nodes that B receives, in the order sent. s1, s2,
        s3: layers 0 … `layers` of every pass (s2 and s3 only), then of the final rows. Rows that are sent while the parties learn
        are left out, because they are functions of the released sums, of layer 0 and of B's own gradients. Variants that train in
        batches: layers 1 … `layers` of every batch, zero for a node that is not in the batch, then of the evaluation.
        aggregates, inputs: (K, passes * layers, w, hidden) float32.

        Raises ValueError for a directed graph.
        """
        if worlds.graph.directed:
            raise ValueError(f"{worlds.graph.name} is directed: {self.name} protects undirected edges; load it undirected.")
        few = max(1, TOGETHER // (4 * self.hidden * max(1, worlds.graph.nodes))) if device == "cpu" else max(1, worlds.runs)
        size = 1 if self.batched else few
        return Release.join([play(self, worlds[k : k + size], device) for k in range(0, worlds.runs, size)])


def play(recipe: VesperRecipe, worlds: Worlds, device: str = "cpu") -> Release:
    """Trains the runs of these worlds together. Each party draws from its own seeds."""
    graph = worlds.graph
    device = "cpu" if recipe.batched else device  # small batches in sequence are not faster on an accelerator
    seeds_a, seeds_b = ([fold(int(s), "party", p) for s in worlds.seeds] for p in ("A", "B"))
    lists = None if recipe.batched else graph.incoming
    a = party_a(recipe, graph.x, graph.edges, worlds.edge_present(), seeds_a, worlds.watch, device=device, lists=lists)
    b = party_b(recipe, graph.y, graph.classes, worlds.trained(), seeds_b, device)
    recorded = "transcript" in recipe.releases
    kinds = ("BATCH", "FWD", "EVAL") if recipe.batched else ("EVAL",)
    channel = Recorder(in_one_process(a.answer), kinds if recorded else ())
    arrays: dict[str, NDArray[np.float32]] = {}
    decode = recorded or "posteriors" in recipe.releases
    train(recipe, b, channel, seeds_b, worlds.watch, decode)
    if decode:
        arrays["posteriors"] = b.posteriors(channel, worlds.watch)
    if recorded:
        arrays["transcript"] = _batches(recipe, channel, worlds.watch) if recipe.batched else _passes(recipe, channel)
    if isinstance(a.sender, Refresh) and a.sender.watched:
        for name, rows in zip(("inputs", "aggregates"), zip(*a.sender.watched, strict=True), strict=True):
            stacked = np.stack([r.cpu().numpy() for r in rows], axis=1)  # runs, messages, dim, watched
            arrays[name] = np.ascontiguousarray(stacked.swapaxes(2, 3))
    return Release({n: arrays[n] for n in recipe.releases}, worlds.watch, {"noise_std": recipe.noise_std})


def _passes(recipe: VesperRecipe, channel: Recorder) -> NDArray[np.float32]:
    """The watched rows of every pass, with the axis of nodes before that of dimensions. For s1, the first message is left out,
    because it holds the training rows.
    """
    passes = [payload for kind, payload in channel.messages if kind == "EVAL"]
    rows = np.concatenate(passes[1:] if recipe.variant == "s1" else passes, axis=1)
    return np.ascontiguousarray(rows.swapaxes(2, 3))


def _batches(recipe: VesperRecipe, channel: Recorder, watch: NDArray[np.int64]) -> NDArray[np.float32]:
    """The watched rows of every batch and of the evaluation; zero for a node that is not in the batch."""
    last = channel.messages[-1][1].swapaxes(2, 3)
    rows = np.zeros((1, recipe.passes + 1, *last.shape[1:]), dtype=np.float32)
    rows[:, -1] = last
    first = next(i for i, (kind, _) in enumerate(channel.messages) if kind == "BATCH")
    steps = [payload for _, payload in channel.messages[first:-1]]
    for step, (roots, sent) in enumerate(zip(steps[::2], steps[1::2], strict=True)):
        _, at, place = np.intersect1d(roots, watch, assume_unique=True, return_indices=True)
        rows[:, step, :, place] = sent[:, :, :, at].transpose(3, 0, 1, 2)
    return rows.reshape(1, -1, watch.size, recipe.hidden)
