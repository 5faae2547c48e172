"""The allowed range of every number in a recipe: from the smallest meaningful value to the largest that a machine can train."""

import math
from typing import NamedTuple


class Range(NamedTuple):
    """least <= value <= most. above: `least` itself is excluded. below: `most` itself is excluded."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or math.isnan(value):
            return False
        high_enough = value > self.least if self.above else value >= self.least
        return high_enough and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        return f"{'(' if self.above else '['}{self.least:g}, {self.most:g}{')' if self.below or self.most == math.inf else ']'}"


LAYERS, WIDTH, STEPS = Range(1, 100), Range(1, 65536), Range(1, 10**6)
NONE_OR_MORE, COUNT = Range(0, 100), Range(1, 10**9)
SHARE, PART = Range(0, 1, above=True), Range(0, 1, below=True)  # a chance above 0; a share below 1
RATE, SIZE = Range(0, 100, above=True), Range(0, 10**9)

RANGES: dict[str, Range] = {
    **dict.fromkeys(("base_layers", "encoder_layers", "layers", "heads", "last_heads"), LAYERS),
    **dict.fromkeys(("depth", "hops", "feature_steps", "label_steps", "smoothing"), NONE_OR_MORE),
    "hidden": WIDTH,
    **dict.fromkeys(("epochs", "student_epochs", "refreshes"), STEPS),
    **dict.fromkeys(
        ("batch_size", "cap", "fan_out", "max_degree", "neighbours", "picks", "queries", "sources", "n_train"), COUNT
    ),
    # 0 means none, or a number that follows from the graph
    **dict.fromkeys(("batch", "train_nodes", "nodes", "classes", "floor"), SIZE),
    **dict.fromkeys(("dropout", "input_dropout"), PART),
    **dict.fromkeys(("rate", "node_rate", "edge_sampling", "teleport"), SHARE),
    "feature_share": Range(0, 1),
    "learning_rate": RATE,
    **dict.fromkeys(("clip", "source_clip", "source_sigma"), Range(0, 10**9, above=True)),
    "sigma": Range(0, 2.0**60),
    **dict.fromkeys(("feature_budget", "label_budget"), Range(0, math.inf)),
    **dict.fromkeys(("low", "high"), Range(-(10**9), 10**9)),
    "threshold": Range(0, 1),
    "weight_decay": Range(0, 100),
    "public_seed": Range(0, 2**64 - 1),
}


def check_range(field: str, value: object, usual: object) -> None:
    """Raises ValueError, with the value, the range and the usual value, if a number is out of the range of its field."""
    allowed = RANGES.get(field)
    if allowed is not None and isinstance(value, int | float) and value not in allowed:
        raise ValueError(f"{field}={value}: must be in {allowed}. The usual value is {usual}.")
