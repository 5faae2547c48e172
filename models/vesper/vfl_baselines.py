"""What VESPER compares itself with, as recipes of the same two parties under the same accounting."""

from __future__ import annotations

from typing import Any

from .vesper import Vesper


def gap_once(**fields: Any) -> Vesper:
    """GAP as its authors run it: an edge-free encoder, every hop summed over the whole graph and perturbed once.

    This is VESPER's own sound variant s1 with sums and a CONCAT decoder; an undirected edge costs sqrt(2), not 1.
    """
    return Vesper(**{"mode": "sound", "variant": "s1", "aggregator": "gin", "decoder": "concat", **fields})


def gap_resampled(**fields: Any) -> Vesper:
    """ "Corrected GAP": hops without weights over sampled neighbourhoods, perturbed anew for every batch.

    The paper charges each of these perturbations; real GAP makes one. Its encoder is trained without edges, so that the
    ledger is finite in both modes: batches that B knows, and one evaluation. mode "paper" prints Theorem 2.1.
    """
    return Vesper(**{"mode": "paper", "variant": "gap-resampled", "aggregator": "gin", **fields})


def vfgnn(**fields: Any) -> Vesper:
    """VFGNN as VESPER analyses it: layers without noise, and noise on the last layer's rows, which have length 1.

    sigma: noise std / (2 sqrt(tau)), tau = 2 (1 + D + … + D^(L-1)) rows that an edge may reach (Proposition 3). Its ledger
    promises nothing: the weights are trained through the private adjacency without noise.
    """
    return Vesper(**{"mode": "paper", "variant": "vfgnn", "aggregator": "gin", **fields})
