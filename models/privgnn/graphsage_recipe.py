"""The hyper-parameters of a GraphSAGE teacher or student."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Layers of `hidden` units with batch norm, ReLU and dropout, and one of `classes`. Trained by full-batch Adam."""

    hidden: tuple[int, ...]
    classes: int
    epochs: int
    learning_rate: float = 0.01
    dropout: float = 0.5
