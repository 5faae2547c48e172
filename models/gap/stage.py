"""Trains one network of a recipe: at edge level on all training nodes at once, at node level by DP-SGD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...accounting.claim import Unit
from ..engine.dpsgd import Private, train_privately
from ..engine.network import Network, Parts, Weights
from ..engine.training import train

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ..engine.run_batches import RunGroup
    from .common import NodeRecipe


def train_stage(
    recipe: NodeRecipe, group: RunGroup, network: Network, parts: Parts, inputs: Sequence[Tensor | None], purpose: str
) -> Weights:
    """Trains a network of a recipe. inputs: for each branch (runs, all nodes, units), or None for the features. purpose: the name
    of the random streams.

    At edge level labels are public, so both modes keep the epoch with the highest accuracy on the validation nodes. At node level
    only mode "paper" does so, as the released code does. Its ledger does not charge for that choice.
    """
    chooses = group.nodes["check"].size and (recipe.unit is not Unit.NODE or recipe.mode == "paper")
    check = group.rows("check", inputs) if chooses else None
    rows = group.rows("train", inputs)
    if recipe.unit is not Unit.NODE:
        return train(network, parts, rows, recipe.epochs, recipe.learning_rate, check)
    worlds, how = group.worlds, private(recipe, recipe.sigma)
    return train_privately(network, parts, rows, group.nodes["train"], worlds.graph.nodes, worlds.seeds, purpose, how, check)


def private(recipe: NodeRecipe, sigma: float, **more: Any) -> Private:
    """How DP-SGD trains a network of the recipe. sigma, more: as in `Private`."""
    return Private(
        sigma=sigma,
        rate=recipe.batch / recipe.train_nodes,
        batch=recipe.batch,
        epochs=recipe.epochs,
        steps=recipe.train_nodes // recipe.batch,
        clip=recipe.clip,
        learning_rate=recipe.learning_rate,
        **more,
    )


def ledger(recipe: NodeRecipe, hops: int, stages: int) -> DpEvent:
    """The ledger of `hops` noisy aggregations and, at node level, of the DP-SGD steps of `stages` trainings."""
    from dp_accounting import NonPrivateDpEvent

    from ...accounting.events.mechanisms import composed, dp_sgd, gaussian_hops

    if not recipe.sigma:
        return NonPrivateDpEvent()
    if recipe.unit is not Unit.NODE:
        return gaussian_hops(recipe.sigma, hops)
    steps = stages * recipe.epochs * (recipe.train_nodes // recipe.batch)
    return composed(gaussian_hops(recipe.sigma, hops), dp_sgd(recipe.sigma, recipe.batch / recipe.train_nodes, steps))
