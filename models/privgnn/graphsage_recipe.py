"""The hyper-parameters of a GraphSAGE teacher or student."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """A network has layers of `hidden` units with batch norm, ReLU and dropout, then one layer of `classes` units. It is trained
    by full-batch Adam on the cross-entropy.
    """

    hidden: tuple[int, ...]
    classes: int
    epochs: int
    learning_rate: float = 0.01
    dropout: float = 0.5
