"""Learns from pilot rounds to tell two worlds apart by the released numbers, and chooses the threshold of the guesses.

DP-Sniper (Bichsel et al. 2021) attacks so: a classifier that has learned well orders releases by their likelihood ratio. A bad
classifier only makes the bound smaller.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..accounting.lower.detection.error_rates import Rule, epsilon_of_rates, rate_at_most, rule_from_pilot

Floats = NDArray[np.float64]
SUMS, SINGLE = 2, 64  # features: sums of all numbers, and numbers that the classifiers read one by one
FOLDS, BINS, TREES, LEAF = 5, 12, 50, 5
SHRINKAGE = 1e-6  # so little that noise which several numbers share cancels
FAR = 1e6  # in standard deviations; numbers farther away count as so far


@dataclass(frozen=True, eq=False)
class Guesser:
    """A classifier and a threshold. score: maps released numbers, (rounds, numbers), to scores, (rounds,); higher means world 1.

    worth: how large a bound the pilot lets expect (nats), and the AUC. Both come from rounds that neither trained the classifier
    nor chose the threshold.
    """

    score: Callable[[Floats], Floats]
    rule: Rule
    worth: tuple[float, float]


def learned(x: Floats, bits: NDArray[np.bool_], moves: Floats, delta: float, alpha: float, seed: int) -> Guesser:
    """The best of three classifiers: the linear discriminant, naive Bayes, and a random forest.

    x: (rounds, numbers), those that move farthest first. bits: (rounds,), True for world 1; each world needs FOLDS rounds. moves:
    (numbers,), by how much the secret moves the numbers if the noise stays the same. delta, alpha: of the bound.
    """
    read = _reader(x, moves)
    features = read(x)
    found = (_judged(model, read, features, bits, delta, alpha) for model in _classifiers(features, seed))
    return max(found, key=lambda guesser: guesser.worth)


def _reader(x: Floats, moves: Floats) -> Callable[[Floats], Floats]:
    """Maps released numbers to features: two weighted sums of all numbers, and the SINGLE that move farthest.

    The sums are, up to a factor, the log-likelihood ratios of independent normal and of independent Laplace noise.
    """
    middle = np.median(x, axis=0)
    sd = np.maximum(x.std(axis=0), 1e-9 * (1 + np.abs(middle)))
    steps = moves / sd

    def features(x: Floats) -> Floats:
        away = np.clip((x - middle) / sd, -FAR, FAR)
        laplace = np.clip(away * np.sign(steps), -np.abs(steps) / 2, np.abs(steps) / 2).sum(axis=1)
        return np.column_stack([away @ steps, laplace, away[:, :SINGLE]])

    return features


def _classifiers(features: Floats, seed: int) -> list[Any]:
    """Untrained classifiers. Naive Bayes counts how often a number falls into each of its BINS, or on their borders: released
    values may be discrete.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    borders = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in features.T[SUMS:]]

    def binned(rows: Floats) -> NDArray[np.int64]:
        columns = zip(borders, rows.T[SUMS:], strict=True)
        return np.column_stack([np.searchsorted(b, c) + np.searchsorted(b, c, side="right") for b, c in columns])

    return [
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINKAGE)),
        make_pipeline(FunctionTransformer(binned), CategoricalNB(min_categories=2 * BINS)),
        RandomForestClassifier(TREES, min_samples_leaf=LEAF, random_state=seed % 2**32),
    ]


def _judged(
    model: Any, read: Callable[[Floats], Floats], features: Floats, bits: NDArray[np.bool_], delta: float, alpha: float
) -> Guesser:
    """The classifier after training on all pilot rounds, with a threshold and what it is worth."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    method = "decision_function" if hasattr(model, "decision_function") else "predict_proba"
    scores = _one_column(cross_val_predict(model, features, bits, cv=FOLDS, method=method))

    def rule(part: NDArray[np.bool_]) -> Rule:
        zeros, ones = scores[part & ~bits], scores[part & bits]
        found = rule_from_pilot(zeros, ones, (len(zeros), len(ones)), alpha, lambda a, b: epsilon_of_rates(a, b, delta))
        assert found is not None
        above = found.sign * scores[part]
        above = above[above > found.threshold]
        # in the middle of a gap: the scores of the classifier that is trained on all rounds differ a little
        return Rule((found.threshold + float(above.min())) / 2, found.sign) if above.size else found

    one = np.where(bits, np.cumsum(bits), np.cumsum(~bits)) % 2 == 0  # half of each world
    errors = np.sum([rule(~part).errors(scores[part & ~bits], scores[part & bits]) for part in (one, ~one)], axis=0)
    false_positive, false_negative = rate_at_most(errors, [int((~bits).sum()), int(bits.sum())], alpha / 2)
    worth = float(epsilon_of_rates(false_positive, false_negative, delta)), float(roc_auc_score(bits, scores))
    trained = model.fit(features, bits)
    return Guesser(lambda x: _one_column(getattr(trained, method)(read(x))), rule(np.ones(len(bits), dtype=bool)), worth)


def _one_column(scores: Floats) -> Floats:
    """The scores of world 1, from those of a classifier: one for each round, or the probabilities of both worlds."""
    return scores if scores.ndim == 1 else scores[:, 1]
