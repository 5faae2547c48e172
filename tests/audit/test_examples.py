"""The examples do what they say: programs treat a masked edge as absent, and the epsilon that Opacus prints is about rows."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from gnnaudit import load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.graph.graph import Mask, Worlds

from ..nightly import nightly

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.mark.parametrize("program", ["noisy_votes.py", *nightly("noisy_gcn.py")])
def test_an_example_program_draws_from_its_seeds_and_reads_the_masks(program, graph):
    external = External(f"{sys.executable} {EXAMPLES / 'external' / program} {{worlds}} {{out}}")
    rows = np.arange(graph.nodes)
    seeds = np.array([5, 5, 6], dtype=np.uint64)
    there = np.array([[True], [False], [True]])
    told = external.fit(Worlds(graph, seeds, rows, edges=Mask(np.array([3]), there)))["posteriors"]
    without = dataclasses.replace(graph, edges=np.delete(graph.edges, 3, axis=1))
    alone = external.fit(Worlds(without, seeds[:1], rows))["posteriors"]
    assert np.allclose(told[1], alone[0], atol=1e-5)
    assert not np.allclose(told[0], told[1], atol=1e-3)  # the edge matters
    assert not np.allclose(told[0], told[2], atol=1e-3)  # and so does the seed
    assert np.allclose(np.exp(told).sum(-1), 1, atol=1e-5)


@pytest.fixture(scope="module")
def opacus():
    import audit_opacus_gnn

    return audit_opacus_gnn


@pytest.mark.filterwarnings("ignore")
def test_what_opacus_prints_holds_for_a_row_and_not_for_a_node(opacus, capsys):
    row, node, repaired = opacus.main(trainings=2)
    assert (row.refuted, node.refuted, repaired.refuted) == (False, True, False)  # an honest claim is refuted in 5 % of seeds
    accountant = RdpAccountant()
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(opacus.user.SIGMA), opacus.user.STEPS))
    printed = accountant.get_epsilon(opacus.user.DELTA)
    assert f"epsilon = {printed:.2f}" in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("noise", [1.0, 0.6])
def test_a_function_that_trains_with_opacus_costs_what_the_accountant_says(noise, tmp_path, monkeypatch):
    import opacus_function

    monkeypatch.setattr(opacus_function, "NOISE", noise * opacus_function.NOISE)
    model, graph = opacus_function.model, load("campus:n=120:degree=6")
    step = PoissonSampledDpEvent(1 / opacus_function.BATCHES, GaussianDpEvent(opacus_function.NOISE))
    truth = PLDAccountant().compose(SelfComposedDpEvent(step, opacus_function.BATCHES * opacus_function.EPOCHS))
    found = AUDITS["differential"].run(Setting(Case(model, model.claim), graph, Store(tmp_path), Key("opacus"), 2, 1e-4))
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert bound.refuted == (noise < 1)
    assert 0.95 * truth.get_epsilon(1e-5) < bound.epsilon <= truth.get_epsilon(1e-5) * (1 + 1e-3)


def clipped_sum(x, recorded, y, rows, weights):
    """The sum that DP-SGD adds noise to, by the closed form of a linear layer's gradient: (p - y) times its input."""
    both = np.concatenate([x, recorded], axis=1)[rows]
    logits = both @ weights.T
    p = np.exp(logits - logits.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True) - np.eye(weights.shape[0])[y[rows]]
    each = p[:, :, None] * both[:, None, :]
    norms = np.sqrt((each**2).sum((1, 2)))
    return (each / np.maximum(norms, 1.0)[:, None, None]).sum(0)


def test_a_node_moves_the_clipped_sum_by_no_more_than_its_claim_says(opacus, graph):
    rng = np.random.default_rng(0)
    x, arcs, y, rows, canaries = opacus.planted(graph, rng)
    weights = rng.normal(size=(3, 2 * x.shape[1]))
    moved = []
    for node in [*rng.choice(np.flatnonzero(graph.train), 15, replace=False), *canaries[:5]]:
        left = arcs[:, ~(arcs == node).any(0)]
        sums = [
            clipped_sum(x, opacus.user.means(x, a), y, r, weights) for a, r in ((arcs, rows), (left, np.setdiff1d(rows, [node])))
        ]
        moved.append(float(np.linalg.norm(sums[0] - sums[1])))
    assert max(moved) <= 2 * opacus.SENDS + 1
    assert max(moved) > 2  # and by more than the one clip that Opacus counts
