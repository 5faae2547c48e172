"""Both parties of a recipe in one process, and what party B has seen at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base import Release
from ..random.streams import fold
from .channel import Recorder, in_one_process
from .parties import party_a, party_b, train
from .party_a_sound import Refresh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..graph.graph import Worlds
    from .recipe import VesperRecipe


def play(recipe: VesperRecipe, worlds: Worlds, device: str = "cpu") -> Release:
    """Trains the runs of these worlds together. Each party draws from seeds of its own."""
    graph = worlds.graph
    device = "cpu" if recipe.batched else device  # one small batch after the other gains nothing elsewhere
    seeds_a, seeds_b = ([fold(int(s), "party", p) for s in worlds.seeds] for p in ("A", "B"))
    lists = None if recipe.batched else graph.incoming
    a = party_a(recipe, graph.x, graph.edges, worlds.edge_present(), seeds_a, worlds.watch, device=device, lists=lists)
    b = party_b(recipe, graph.y, graph.classes, worlds.trained(), seeds_b, device)
    recorded = "transcript" in recipe.releases
    kinds = ("BATCH", "FWD", "EVAL") if recipe.batched else ("EVAL",)
    channel = Recorder(in_one_process(a.answer), kinds if recorded else ())
    arrays: dict[str, NDArray[np.float32]] = {}
    if recorded or "posteriors" in recipe.releases:
        train(recipe, b, channel, seeds_b, worlds.watch)
        arrays["posteriors"] = b.posteriors(channel, worlds.watch)
    else:
        train(recipe, b, channel, seeds_b, worlds.watch, decode=False)
    if recorded:
        collect = _batches if recipe.batched else _passes
        arrays["transcript"] = collect(recipe, channel, worlds.watch)
    if isinstance(a.sender, Refresh) and a.sender.watched:
        for name, rows in zip(("inputs", "aggregates"), zip(*a.sender.watched, strict=True), strict=True):
            stacked = np.stack([r.cpu().numpy() for r in rows], axis=1)  # runs, messages, dim, watched
            arrays[name] = np.ascontiguousarray(stacked.swapaxes(2, 3))
    return Release({n: arrays[n] for n in recipe.releases}, worlds.watch, {"noise_std": recipe.noise_std})


def _passes(recipe: VesperRecipe, channel: Recorder, watch: NDArray[np.int64]) -> NDArray[np.float32]:
    """The watched rows of every pass, rows before dimensions. s1 begins with the training rows of its only pass."""
    seen = [payload for kind, payload in channel.seen if kind == "EVAL"]
    rows = np.concatenate(seen[1:] if recipe.variant == "s1" else seen, axis=1)
    return np.ascontiguousarray(rows.swapaxes(2, 3))


def _batches(recipe: VesperRecipe, channel: Recorder, watch: NDArray[np.int64]) -> NDArray[np.float32]:
    """The watched rows of every batch, zero where a node is no root, and of the evaluation."""
    last = channel.seen[-1][1].swapaxes(2, 3)
    rows = np.zeros((1, recipe.passes + 1, *last.shape[1:]), dtype=np.float32)
    rows[:, -1] = last
    first = next(i for i, (kind, _) in enumerate(channel.seen) if kind == "BATCH")
    steps = [payload for _, payload in channel.seen[first:-1]]
    for step, (roots, sent) in enumerate(zip(steps[::2], steps[1::2], strict=True)):
        _, at, place = np.intersect1d(roots, watch, assume_unique=True, return_indices=True)
        rows[:, step, :, place] = sent[:, :, :, at].transpose(3, 0, 1, 2)
    return rows.reshape(1, -1, watch.size, recipe.hidden)
