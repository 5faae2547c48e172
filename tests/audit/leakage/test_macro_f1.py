"""The F1 score of a run is that of scikit-learn."""

import numpy as np
from sklearn.metrics import f1_score

from gnnaudit.audit.leakage.utility import macro_f1


def test_the_mean_f1_score_of_all_classes_is_that_of_scikit_learn():
    """Also of classes that only one of the two arrays has."""
    draw = np.random.default_rng(0)
    for size in range(1, 60):
        guess, truth = draw.integers(draw.integers(1, 9), size=size), draw.integers(draw.integers(1, 9), size=size)
        assert macro_f1(guess, truth) == f1_score(truth, guess, average="macro", zero_division=0.0)
