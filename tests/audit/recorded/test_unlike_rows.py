"""Claims that hold only for rows of features like those of the graph say so: all rows of this graph have a length of 1."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.worlds import of_unlike_rows
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("thorough")
SIGMA, DELTA = 3.0, 1e-5
GRAPH = load("campus:n=120:degree=6")
GRAPH = dataclasses.replace(GRAPH, x=(GRAPH.x / np.linalg.norm(GRAPH.x, axis=1, keepdims=True)).astype(np.float32))
EPSILON = 1.001 * float(epsilon_of(1 / SIGMA, DELTA))


def clipped(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)


def of_sign(x):
    return np.sign(x) / np.sqrt(x.shape[1])


def checked(x):
    if np.linalg.norm(x, axis=1).max() > 1.001:
        raise ValueError("rows must have a length of at most 1")
    return x


def capped(x):
    return np.clip(x, -1, 1)


def shortened_above_two(x):
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(lengths > 2, x / np.maximum(lengths, 1e-9), x)


def verdict_on(change, tmp_path, epsilon=EPSILON):
    """The sentences about the data for which alone the verdict holds, of the sum of changed rows with noise for a length of 1."""

    def train(graph, seed):
        total = change(np.asarray(graph.x, dtype=np.float64)[graph.train]).sum(0)
        return {"total": total + SIGMA * np.random.default_rng(seed).standard_normal(total.shape)}

    return judged(train, tmp_path, epsilon)


def judged(train, tmp_path, epsilon=EPSILON):
    case = Case(
        Looped(train, releases=("total",), events=dp.GaussianDpEvent(SIGMA)), Claim(epsilon, DELTA, Unit.NODE, exposes=("total",))
    )
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rows"), 3, 1e-4)).bounds
    return any(b.refuted for b in bounds), {sentence for b in bounds for sentence in b.limits}


def limits(train, tmp_path):
    refuted, said = judged(train, tmp_path)
    assert not refuted
    return said


def clipped_without(column):
    """Rows that are divided by a length from which one column is left out."""

    def change(x):
        return x / np.maximum(np.linalg.norm(np.delete(x, column, axis=1), axis=1, keepdims=True), 1)

    return change


@pytest.mark.parametrize("column", [-1, 0])
def test_a_length_that_leaves_out_a_column_at_an_end_limits_the_verdict(column, tmp_path):
    refuted, (sentence,) = verdict_on(clipped_without(column), tmp_path)
    assert not refuted
    assert "one-hot" in sentence


@pytest.mark.parametrize("change", [np.asarray, capped, shortened_above_two, lambda x: np.maximum(x, 0)])
def test_rows_whose_length_the_code_does_not_bound_limit_the_verdict(change, tmp_path):
    refuted, said = verdict_on(change, tmp_path)
    assert not refuted
    (sentence,) = said
    assert sentence.startswith("this holds only for rows of features like those of your graph: with rows that are shorter, ")


@pytest.mark.parametrize("change", [clipped, of_sign, lambda x: clipped(capped(x)), lambda x: np.tanh(clipped(x)), checked])
def test_rows_whose_length_the_code_bounds_or_checks_do_not_limit_it(change, tmp_path):
    assert verdict_on(change, tmp_path) == (False, set())


def in_batches_of_six(graph):
    """The first gradient of a linear model, in batches that are each cut to a length of .4, in units of this length. A node that
    turns its batch round moves the sum by 2.
    """
    rows = clipped(np.asarray(graph.x, dtype=np.float64) * graph.train[:, None])
    each = np.einsum("nd,nc->ndc", rows, 1 / graph.classes - np.eye(graph.classes)[graph.y])
    batches = np.array_split(each, range(6, graph.nodes, 6))
    return clipped(np.array([batch.sum(0).ravel() / 0.4 for batch in batches])).sum(0)


@pytest.mark.usefixtures("built_graphs")
def test_gradients_that_are_cut_in_batches_limit_the_verdict_to_rows_that_do_not_cancel(tmp_path):
    def train(graph, seed):
        total = in_batches_of_six(graph)
        return {"total": total + SIGMA * np.random.default_rng(seed).standard_normal(total.shape)}

    (sentence,) = limits(train, tmp_path)
    assert "multiples of one row, long and short, in both directions, a secret costs ε = " in sentence
    assert ": the absence of node " in sentence


@pytest.mark.parametrize("noise", [0.0, *nightly(1000.0)])
def test_a_bound_that_an_exact_share_of_rows_adapts_limits_the_verdict_to_rows_that_do_not_change_it(noise, tmp_path):
    """All rows of this graph are longer than the first bound, as are most of the others, but not all."""

    def train(graph, seed):
        rows, draw = np.asarray(graph.x, dtype=np.float64)[graph.train], np.random.default_rng(seed)
        inside = (np.linalg.norm(rows, axis=1) < 0.5).sum() + noise * draw.standard_normal()
        bound = 0.5 * np.exp(-0.3 * (inside > 5) if noise else -inside / 100)
        total = (clipped(rows / bound) * bound).sum(0)
        return {"total": total + SIGMA * bound * draw.standard_normal(total.shape)}

    (sentence,) = limits(train, tmp_path) or ("",)
    assert ("changes the size or the kind of the noise" in sentence) is (noise == 0)


def test_a_refuted_claim_is_not_limited_too(tmp_path):
    assert verdict_on(np.asarray, tmp_path, 0.5 * EPSILON) == (True, set())


def test_the_other_rows_have_each_of_seven_kinds():
    other, longest = of_unlike_rows(GRAPH).x, np.linalg.norm(GRAPH.x, axis=1).max()
    lengths = np.linalg.norm(other, axis=1)
    for times in (0.1, 1.5, 16):
        assert np.isclose(lengths, times, rtol=1e-3).sum() == pytest.approx(GRAPH.nodes / 7, abs=1)
    assert (np.count_nonzero(other, axis=1) == 1).sum() >= GRAPH.nodes // 7
    assert np.all(np.isclose(other, longest, rtol=1e-3), axis=1).sum() == pytest.approx(GRAPH.nodes / 7, abs=1)
    assert (other.min(axis=1) < 0).sum() >= GRAPH.nodes // 7
