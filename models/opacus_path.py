"""DP-SGD through Opacus itself, one run at a time, for networks that the engine cannot express."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .noise import fold, stream
from .shared import Shared

if TYPE_CHECKING:
    from .dpsgd import Private
    from .graph import Graph


def by_opacus(build: Callable[[Graph], torch.nn.Module], how: Private) -> Callable[[Graph, int], dict[str, Any]]:
    """A function for Looped: trains build(graph), a module from features to logits, by DP-Adam on Poisson batches.

    The ledger is that of events.dp_sgd(how.sigma, how.rate, how.epochs x how.steps). Layers that mix nodes, such as batch norm,
    are refused by Opacus.
    """

    def train(graph: Graph, seed: int) -> dict[str, Any]:
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer

        with torch.random.fork_rng(devices=[]):  # modules draw their first numbers from the global stream, which stays as it was
            torch.random.default_generator.manual_seed(fold(seed, "start") % 2**63)
            module = build(graph)
        private = GradSampleModule(module)
        optimizer = DPOptimizer(
            torch.optim.Adam(private.parameters(), how.learning_rate),
            noise_multiplier=how.sigma,
            max_grad_norm=how.clip,
            expected_batch_size=how.batch,
            generator=torch.Generator().manual_seed(fold(seed, "gradient") % 2**63),
        )
        x = Shared(graph.x, np.arange(graph.nodes)).dense
        y, draws = torch.from_numpy(graph.y), stream(seed, "batch")
        for _ in range(how.epochs * how.steps):
            drawn = torch.from_numpy(draws.random(graph.nodes) < how.rate) & torch.from_numpy(graph.train)
            optimizer.zero_grad()
            if not drawn.any():  # a batch without nodes is a step of noise, which Opacus wants to be told
                for parameter in private.parameters():
                    parameter.grad_sample = parameter.new_zeros(1, *parameter.shape)
            else:
                torch.nn.functional.cross_entropy(private(x[drawn]), y[drawn]).backward()
            optimizer.step()
        module.eval()
        with torch.no_grad():
            return {"posteriors": torch.log_softmax(module(x), 1).numpy()}

    return train
