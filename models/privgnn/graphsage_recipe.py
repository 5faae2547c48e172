"""The hyper-parameters of a GraphSAGE teacher or student."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Layers of `hidden` units with batch norm, ReLU and dropout, one of `classes` units; full-batch Adam on cross-entropy."""

    hidden: tuple[int, ...]
    classes: int
    epochs: int
    learning_rate: float = 0.01
    dropout: float = 0.5
