"""A choice that only many secrets together change is followed to one secret: among graphs that lack more and more of them, there
are two neighbouring ones with different choices.
"""

import math

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
DELTA = 1e-5
EPSILON = 1.001 * float(epsilon_of(math.sqrt(3.0), DELTA))  # three noisy sums, each of which one node moves by 1 at noise 1


def rows_of(graph):
    x = np.asarray(graph.x, dtype=float)
    return x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))


def candidates(graph, rng, noise=1.0):
    z, hot = rows_of(graph), np.eye(graph.classes)[graph.y] * graph.train[:, None]
    sums = [hot.T @ (z * np.sign(np.arange(z.shape[1]) % (k + 2) - 0.5)) for k in range(3)]
    return np.stack([s + noise * rng.standard_normal(s.shape) for s in sums])


def right(graph, runs):
    """How many validation nodes each candidate classifies correctly."""
    guesses = np.einsum("nd,kcd->knc", rows_of(graph), runs).argmax(2)
    return (guesses == graph.y)[:, graph.val].sum(1)


def best_of_exact_counts(graph, seed):
    runs = candidates(graph, np.random.default_rng(seed))
    return {"runs": runs, "best": np.array([right(graph, runs).argmax()])}


def best_of_noisy_counts(graph, seed):
    rng = np.random.default_rng(seed)
    runs = candidates(graph, rng, noise=2.0)
    counts = right(graph, runs) + 4.0 * rng.standard_normal(3)
    return {"runs": runs, "counts": counts, "best": np.array([counts.argmax()])}


def calibrated(graph, seed):
    """A temperature that fits the validation labels best. For nearly all rows it is the highest of the grid."""
    z, hot = rows_of(graph), np.eye(graph.classes)[graph.y] * graph.train[:, None]
    weights = hot.T @ z + 2.0 * np.random.default_rng(seed).standard_normal((graph.classes, z.shape[1]))
    scores, grid = (z @ weights.T)[graph.val], np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    own = scores[np.arange(len(scores)), graph.y[graph.val]]
    losses = [(np.log(np.exp(scores / t).sum(1)) - own / t).sum() for t in grid]
    return {"weights": weights, "temperature": np.array([grid[int(np.argmin(losses))]])}


def audited(train, arrays, claim, tmp_path):
    case = Case(Looped(train, releases=arrays, unit=claim.unit), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("many"), 3, 1e-4))


def refuted(found):
    return any(bound.refuted for bound in found.bounds)


@pytest.mark.parametrize("delta", [DELTA, *nightly(1e-3)])
def test_the_best_of_several_noisy_models_by_exact_validation_counts_is_refuted(delta, tmp_path):
    found = audited(best_of_exact_counts, ("runs", "best"), Claim(EPSILON, delta, Unit.NODE), tmp_path)
    bound = next(bound for bound in found.bounds if bound.refuted)
    assert math.isinf(bound.epsilon)
    assert "changes 1 entry of 'best' although every noisy value is the same" in bound.method


def test_the_best_by_noisy_validation_counts_is_not_refuted(tmp_path):
    claim = Claim(EPSILON, DELTA, Unit.NODE)  # a training node costs less than half of it, and no validation node moves a sum
    assert not refuted(audited(best_of_noisy_counts, ("runs", "counts", "best"), claim, tmp_path))


@pytest.mark.usefixtures("built_graphs")
@pytest.mark.parametrize("unit", [Unit.FEATURES, *nightly(Unit.NODE)])
def test_a_choice_that_one_validation_node_decides_where_all_others_are_equal_is_refuted(unit, tmp_path):
    assert refuted(audited(calibrated, ("weights", "temperature"), Claim(EPSILON, DELTA, unit), tmp_path))
