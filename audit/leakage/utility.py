"""Utility: accuracy and macro F1 on the test nodes."""

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from ...reports.results import UtilityRow
from ..case import Case, keeping
from ..games.game import Game
from ..key import Key
from ..own.model_file import is_built_in
from ..storage.store import Store

COINS = 8  # number of edges with a coin, if the model is a user's own


def utility(case: Case, graph: Graph, store: Store, key: Key, repeats: int) -> list[UtilityRow]:
    """Accuracy and macro F1 on the test nodes: means over `repeats` trainings with Student's 95 % interval.

    A user's own model gets worlds as in an audit, with a coin on a few edges and the rows of all nodes released. Otherwise it
    could tell from its input that only its accuracy is measured. Built-in models train on the whole graph.
    """
    test = np.flatnonzero(graph.test)
    own = not is_built_in(case.model)
    key = key.fold("utility")
    edges = graph.edges.shape[1]
    few = key.fold("coins").generator().choice(edges, min(COINS, edges // 2), replace=False) if own else []
    game = Game(graph, "edge", np.sort(np.asarray(few, dtype=np.int64)), key, watch=None if own else test)
    seen = store.fit(keeping(case.model, ("posteriors",)), game, repeats, ("posteriors",))
    posteriors = seen.release["posteriors"]
    guess = (posteriors[:, test] if own else posteriors).argmax(-1)
    truth = graph.y[test]
    figures = {"accuracy": (guess == truth).mean(1), "macro_f1": np.array([macro_f1(g, truth) for g in guess])}
    sigma = float(getattr(case.model, "sigma", 0.0))
    return [
        UtilityRow(**case.where, metric=metric, split="test", value=float(v.mean()), ci95=interval(v), runs=repeats, sigma=sigma)
        for metric, v in figures.items()
    ]


def macro_f1(guess: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """The mean of the F1 scores of all classes that occur in `guess` or `truth`. (scikit-learn's takes 0.4 s to import.)"""
    kinds = np.union1d(guess, truth)[:, None]
    named, members = guess == kinds, truth == kinds
    return float((2 * (named & members).sum(1) / (named.sum(1) + members.sum(1))).mean())


def interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean of (runs,) values in [0, 1]; None for a single value."""
    from ...attacks.roc import half_width

    if len(values) < 2:
        return None
    half = half_width(values.std(ddof=1), len(values))
    return max(0.0, float(values.mean()) - half), min(1.0, float(values.mean()) + half)
