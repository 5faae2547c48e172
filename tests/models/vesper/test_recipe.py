"""The baseline under VESPER's ledger, and what the published theorem prints for each recipe."""

import math
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.rdp import epsilon
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.vesper.channel import EMPTY, BudgetSpent, ask
from gnnaudit.models.vesper.parties import batches, train
from gnnaudit.models.vesper.vesper import Vesper

from ...nightly import nightly
from .test_protocol import SEEDS, parties
from .test_vesper import small_graph

# 2000 training nodes, batches of 64, fan-out 10, 20 epochs: 640 steps; delta = 1 / 5000 edges.
TOY = {"n_train": 2000, "batch_size": 64, "fan_out": 10, "epochs": 20}
DELTA = 2e-4
gap_resampled = partial(Vesper, mode="paper", variant="gap-resampled")


@pytest.mark.parametrize(
    ("layers", "sigma", "printed", "seen"),
    [(1, 20.0, 0.5002, 1.1081), *nightly((1, 10.0, 1.0940, 2.4610)), (2, 40.0, 3.5038, 2.3865)],
)
def test_the_published_theorem_prints_its_golden_values_and_known_batches_cost_more_where_sampling_helps(
    layers, sigma, printed, seen
):
    model = Vesper(mode="paper", layers=layers, sigma=sigma, **TOY)
    assert model.passes == 640
    assert model.printed(DELTA) == pytest.approx(printed, abs=6e-5)
    resampled = gap_resampled(layers=layers, sigma=2 * sigma, **TOY)  # half of its multiplier counts
    training, times = resampled.prices["BATCH"]
    assert epsilon(
        dp.SelfComposedDpEvent(training, times), DELTA, orders=tuple(float(a) for a in (*range(2, 65), 96, 128, 192, 256))
    ) == (pytest.approx(seen, abs=6e-5))


def test_inclusion_of_an_edge_has_its_golden_values():
    assert Vesper(mode="paper", layers=1, **TOY).rate == pytest.approx(1 - 1936 * 1935 / (2000 * 1999), rel=1e-12)
    assert Vesper(mode="paper", layers=2, **TOY).rate == pytest.approx(0.5129343914450802, rel=1e-9)
    assert Vesper(mode="paper", layers=3, **TOY).rate == pytest.approx(0.99953, abs=6e-6)


@pytest.mark.parametrize(("layers", "std"), [(1, 4.2561), (2, 6.0191)])
def test_hops_that_are_noised_once_need_their_golden_noise(layers, std):
    assert calibrate(Vesper(layers=layers), Claim(1.0, DELTA)).noise_std == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "std"), [(1.0, 26.918), (4.0, 8.224), (16.0, 2.7665)])
def test_a_refresh_at_every_epoch_needs_its_golden_noise(epsilon, std):
    model = Vesper(variant="s2", refreshes=20, epochs=20, layers=2)
    assert calibrate(model, Claim(epsilon, DELTA)).noise_std == pytest.approx(std, rel=2e-4)


@pytest.mark.parametrize(("layers", "sigma"), [(1, 10.8214), *nightly((2, 119.3574))])
def test_published_noise_has_its_golden_values_at_epsilon_one(layers, sigma):
    model = Vesper(mode="paper", layers=layers, **TOY)
    assert model.with_noise(sigma).printed(DELTA) == pytest.approx(1.0, abs=1e-4)
    assert model.with_noise(sigma * 0.999).printed(DELTA) > 1.0


def test_gap_resampled_promises_what_it_charges():
    assert math.isfinite(epsilon(gap_resampled(sigma=50.0, **TOY).ledger, DELTA))


def test_evaluation_is_charged_once_and_refused_after():
    model = gap_resampled(n_train=16, batch_size=8, epochs=2, hidden=4)
    a, b, channel = parties(model, small_graph())
    train(model, b, channel, SEEDS[1], EMPTY)
    b.posteriors(channel, np.arange(3))
    assert a.odometer.spent == model.ledger
    with pytest.raises(BudgetSpent, match="EVAL_REQ"):
        b.posteriors(channel, np.arange(3))


def test_a_node_is_in_no_more_batches_than_the_ledger_counts_where_training_nodes_are_fewer_than_promised():
    model = gap_resampled(n_train=160, batch_size=8, epochs=100, hidden=4)
    drawn = list(batches(model, np.arange(16), SEEDS[1][0]))
    joined = np.bincount(np.concatenate(drawn), minlength=16)
    assert len(drawn) == model.passes == 2000
    assert abs(joined.mean() - 100) < 5 * math.sqrt(100 / 16)  # 8 of 160 places, 2000 times; fails once in a million seeds
    assert np.isfinite(replace(model, epochs=1).fit(Worlds.of(small_graph(), [1]))["posteriors"]).all()  # some are empty
    exact = replace(model, n_train=16)
    for ours, published in zip(*(batches(m, np.arange(16), 3) for m in (exact, replace(exact, variant="pmp"))), strict=True):
        np.testing.assert_array_equal(ours, published)


def test_gap_resampled_learns_nothing_from_edges_at_party_a():
    graph = small_graph()
    less = replace(graph, edges=graph.edges[:, 1:])
    model = gap_resampled(n_train=16, batch_size=8, epochs=2, hidden=4)
    weights = []
    for g in (graph, less):
        a, b, channel = parties(model, g)
        train(model, b, channel, SEEDS[1], EMPTY)
        weights.append(np.concatenate([w.detach().numpy().ravel() for w in a.sender.learner.weights]))
    np.testing.assert_array_equal(*weights)
    _, _, channel = parties(model, graph)
    rows = ask(channel, "BATCH", np.arange(4), "FWD")
    with pytest.raises(ValueError, match="did not ask to learn"):
        ask(channel, "BWD", rows, "DONE")


def test_a_process_that_trains_imports_no_accounting_library(tmp_path):
    (tmp_path / "task").write_bytes(pickle.dumps((Vesper(n_train=16, sigma=1.0), Worlds.of(small_graph(), [0]))))
    code = (
        "import pathlib, pickle, sys\n"
        "model, worlds = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "model.fit(worlds)\n"
        "print('dp_accounting' in sys.modules)\n"
        "model.ledger\n"
        "print('dp_accounting' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code, tmp_path / "task"], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]
