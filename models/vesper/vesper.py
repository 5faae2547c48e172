"""VESPER: message passing with noisy rows, trained by a party with the graph and a party with the labels (Wu et al. 2023).

Mode "paper" is what was published, mode "sound" three variants whose party A learns from released values only; see `refresh`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Release
from .in_one_process import play
from .recipe import VesperRecipe

if TYPE_CHECKING:
    from ..graph.graph import Worlds


@dataclass(frozen=True)
class Vesper(VesperRecipe):
    """The recipe, trained by two parties in one process."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains all runs at once; in variants with batches one after the other. The parties talk over a channel in this process.

        transcript: (K, messages, w, hidden) float32, what B sees of the watched nodes, in the order sent. s1, s2, s3: layer 0 …
        layers of every pass (s2, s3), then of the final rows; the rows sent while learning in between are functions of
        the released sums, of layer 0 and of B's own gradients. In batches: layer 1 … layers (vfgnn: the last one) of every
        batch, zero where the node is no root, then of the evaluation. aggregates, inputs: (K, passes * layers, w, hidden).
        """
        if worlds.graph.directed:
            raise ValueError(f"{worlds.graph.name} is directed: {self.name} protects undirected edges; load it undirected.")
        size = 1 if self.batched else worlds.runs
        return Release.join([play(self, worlds[k : k + size], device) for k in range(0, worlds.runs, size)])
