"""The counted mechanisms agree with the ledger, recording changes nothing, and a repetition moves the means as expected."""

import dataclasses
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.events.counts import Charged, charged
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.differential import differential, executed, refuses
from gnnaudit.audit.audits.differential import tested as what_was_tested
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults.in_training import FaultyTraining
from gnnaudit.audit.instruments.repetition import MARGIN, NO_NODE, moved
from gnnaudit.audit.instruments.reported_run import Diverged, Noisy, recorded
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.data.loading import load
from gnnaudit.models.engine import dpsgd
from gnnaudit.models.facts import Facts
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph.graph import Mask, Worlds
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.systems import SYSTEMS

from ...nightly import nightly

SMALL = {
    "gap": {},
    "progap": {"depth": 2, "epochs": 10},
    "vesper": {"epochs": 10},
    "dpar": {"epochs": 5},
    "privgnn": {"queries": 8, "epochs": 5},
}


@cache
def campus():
    return load("campus:n=300")


@cache
def recipe(name, unit=None):
    facts = Facts.of(campus())
    fields = SMALL[name]
    if unit is not None:
        sizes = {"train_nodes": facts.train, "batch": 45, "max_degree": facts.nodes, "epochs": 4}
        fields = {**SYSTEMS[name].node_level} | sizes | {"unit": unit}
    made = dataclasses.replace(SYSTEMS[name].make("sound", facts, True), **fields)
    return calibrate(made, Claim(4.0, 1e-5, made.unit))


CASES = [(name, None) for name in SMALL] + [("gap", Unit.NODE), ("progap", Unit.NODE)]


@pytest.mark.parametrize(("name", "unit"), nightly(("progap", Unit.NODE), among=CASES))
def test_as_many_mechanisms_run_as_the_ledger_composes(name, unit):
    model = recipe(name, unit)
    _, record = recorded(model, Worlds.of(campus(), [3]))
    ledger = charged(model.ledger)
    assert executed(record, ledger) == (ledger.plain, ledger.steps)
    assert sum(size for size, _ in record.draws) == sum(r.noisy.size for r in record.releases) > 0


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_recording_changes_nothing(name, unit):
    model, worlds = recipe(name, unit), Worlds.of(campus(), [3])
    alone, (release, _) = model.fit(worlds), recorded(model, worlds)
    for array in alone.arrays:
        np.testing.assert_array_equal(alone[array], release[array])


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_the_residuals_that_are_heard_are_normal_or_laplace_of_the_stated_scale(name, unit):
    _, record = recorded(recipe(name, unit), Worlds.of(campus(), [3]))
    for order, spread in ((2, lambda r: np.sqrt((r**2).mean())), (1, lambda r: np.abs(r).mean())):
        noise = [r.residuals for r in record.releases if r.order == order]
        if noise:
            r = np.concatenate(noise)
            assert abs(spread(r) - 1) < 5 / np.sqrt(r.size)  # five standard errors or more


def test_a_node_moves_a_sum_of_gradients_by_the_clipping_norm_at_most_and_nearly_so():
    model = calibrate(Mlp(unit=Unit.NODE, train_nodes=225, batch=45, epochs=4, clip=0.1), Claim(4.0, 1e-5, Unit.NODE))
    whole = Worlds.of(campus(), [3])
    node = int(np.flatnonzero(campus().train)[0])
    _, first = recorded(model, whole)
    absent = dataclasses.replace(whole, nodes=Mask(np.array([node]), np.zeros((1, 1), dtype=bool)))
    _, again = recorded(model, absent, script=first.releases)
    moves = [np.linalg.norm(a.clean - b.clean) for a, b in zip(first.releases, again.releases, strict=True)]
    place = int((np.flatnonzero(campus().train) == node).argmax())
    joined = [bool(batch[place]) for batch in first.samples["mlp"]]
    np.testing.assert_allclose(moves, np.where(joined, 0.1, 0.0), atol=1e-4)  # every gradient is longer than 0.1


def test_a_run_that_leaves_its_script_is_told():
    _, record = recorded(calibrate(Gap(hops=3), Claim(4.0, 1e-6)), Worlds.of(campus(), [3]))
    with pytest.raises(Diverged):
        recorded(Gap(hops=2, sigma=1.0), Worlds.of(campus(), [3]), script=record.releases)


def test_a_batch_counts_only_for_those_who_are_in_it_where_nothing_is_amplified():
    """Fixed batches, four epochs: four mechanisms on all records, for any number of batches."""
    model = Mlp(unit=Unit.NODE, train_nodes=225, batch=45, epochs=4, sigma=1.0)
    _, record = recorded(model, Worlds.of(campus(), [3]))
    partition = np.arange(225) % 5 == np.arange(20)[:, None] % 5
    record.samples["mlp"] = list(partition)
    unamplified = dataclasses.replace(charged(model.ledger), plain=4, steps=0)
    assert executed(record, unamplified) == (4, 0)


def test_a_model_that_tells_nothing_is_neither_refuted_nor_passed(tmp_path):
    """A user's recipe whose noise comes from another generator."""
    honest = calibrate(Gap(), Claim(4.0, 1e-6))

    class Silent(Gap):
        def fit(self, worlds, device="cpu"):
            return dataclasses.replace(self, sigma=0.0).with_noise(0.0).fit_without_noise(worlds)

        def fit_without_noise(self, worlds):
            return Gap(sigma=0.0).fit(worlds)

    case = Case(Silent(sigma=honest.sigma), Claim(4.0, 1e-6))
    outcome = differential(Setting(case, campus(), Store(Path(tmp_path)), Key("x"), 1, 1e-4))
    assert [b.refuted for b in outcome.bounds] == [False]
    assert outcome.bounds[0].notices == float("inf")
    assert "reports nothing" in outcome.reach


def test_it_says_why_it_cannot_look():
    assert "no mechanism that could be counted" in refuses(Case(Mlp(), Claim(4.0, 1e-6)))
    assert "about a directed edge" in refuses(Case(Gap(mode="paper", sigma=1.0), Claim(4.0, 1e-6)))
    assert refuses(Case(PrivGnn(sigma=1.0), Claim(4.0, 1e-5, Unit.NODE))) is None


@dataclasses.dataclass(frozen=True)
class Weaker(FaultyTraining):
    """Adds `share` of the noise that it states."""

    share: float = 1.0

    def change(self):
        honest = dpsgd.add_noise
        return {"add_noise": lambda gradients, random, std: honest(gradients, random, self.share * std)}


@pytest.mark.nightly
def test_noise_that_is_too_small_by_what_it_notices_is_caught_nine_times_out_of_ten(tmp_path):
    """At a power of 0.9 fewer than 30 of 40 seeds are caught once in a thousand times. Every gradient is longer than the clipping
    norm, so that one node moves a sum by all of it."""
    claim, graph = Claim(4.0, 1e-5, Unit.NODE), tiny(48)
    fields = {"unit": Unit.NODE, "train_nodes": 32, "batch": 16, "epochs": 2, "clip": 1e-3, "hidden": 4}
    honest = calibrate(Mlp(**fields), claim)

    def look(share, seed):
        model = Weaker(sigma=honest.sigma, share=share, **fields)
        return differential(Setting(Case(model, claim), graph, Store(Path(tmp_path)), Key(seed), 1, 1e-3)).bounds[1]

    notices = look(1.0, "first").notices
    assert 1.05 < notices < 1.5
    caught = sum(look(1 / notices, seed).refuted for seed in range(40))
    assert caught >= 30
    assert sum(look(1.0, seed).refuted for seed in range(40)) <= 1  # 0.04 expected


def test_rounding_of_large_sums_is_no_move_and_a_move_of_small_ones_is():
    """A sum of ten thousand has a rounding error of up to 5e-4; the ledger's noise covers a move of 1."""
    ledger = Charged(plain=1, plain_multiplier=1.0)
    one_more = np.zeros(100)
    one_more[0] = 1.0
    for size, over in ((1e4, False), (1.0, True)):
        clean = np.full(100, size)
        rounded = np.where(np.arange(100) % 2, size * 3e-8, -size * 3e-8)
        told = [Noisy("sum", ((1, 100),), c, c, 1.0, 1, 2) for c in (clean, clean + 1.001 * one_more + rounded)]
        assert (moved(*told, ledger, NO_NODE, 100) > 1 + MARGIN) is over


def test_noise_that_is_no_number_is_no_noise():
    case = Case(recipe("gap"), Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE))
    assert what_was_tested(case, [0.5, math.nan, 0.2], 1e-4, 2.0).refuted
    assert not what_was_tested(case, [0.5, 0.2], 1e-4, 2.0).refuted


def test_what_would_have_been_noticed_is_the_epsilon_of_that_much_less_noise():
    model = calibrate(Gap(), Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE))
    bound = what_was_tested(Case(model, Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE)), [0.5], 1e-4, 1.2)
    # Two hops of two rows each: one Gaussian of noise multiplier noise_std / 2.
    assert bound.reach == pytest.approx(get_epsilon_gaussian(model.noise_std / 2 / 1.2, 1e-5), rel=1e-6)
    assert what_was_tested(Case(model, Claim(4.0, 1e-5)), [0.5], 1e-4, math.inf).reach == math.inf
