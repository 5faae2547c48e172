"""Examinations of users' models: certificates where no noise covers a secret, none elsewhere, and exact moves."""

import dataclasses

import numpy as np
import pytest

from gnnaudit import Looped
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import mu_of_claim
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.gate import disbelieved
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded, recorded
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own_bounds.released_noise import from_release
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

CLAIM = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE, exposes=strangers.Sums.offers)
GRAPH = tiny(48)
CERTAIN = (
    *strangers.HEARD,
    strangers.LaplaceSums,
    strangers.GeometricCounts,
    *strangers.INFINITE,
    strangers.QuietSecondHop,
    strangers.WithoutHubs,
    strangers.GeometricForOneCount,
)
UNKNOWN = [k for k in (*strangers.HONEST, *strangers.FAULTY) if k not in CERTAIN]


class StudentT(strangers.Sums):
    def noise(self, seed, shape, hop):
        return 3 * self.std * np.random.default_rng([int(seed), hop]).standard_t(5, size=shape)


def setting(model, tmp_path, claim=CLAIM) -> Setting:
    return Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("heard"))


def calibrated(kind):
    """Two hops calibrated to the claim's mu, before the fault is added."""
    return kind(sigma=2**0.5 / mu_of_claim(CLAIM))


def test_audits_of_one_study_share_the_recorded_runs_and_two_studies_with_other_keys_do_not(tmp_path):
    model = strangers.Sums()
    first, other = (dataclasses.replace(setting(model, tmp_path), key=Key(name), shared={}) for name in ("one", "two"))
    again = dataclasses.replace(first, key=Key("one", "again"))
    assert recorded(again) is recorded(first)
    assert recorded(other) is not recorded(first)
    seeds = [recorded(one).study.whole.seeds.tolist() for one in (first, again, other)]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize("kind", nightly(*strangers.HEARD[2:], among=strangers.HEARD))
def test_of_an_honest_model_every_draw_is_found_and_the_move_is_what_its_ledger_says(kind, tmp_path):
    model = calibrated(kind)
    found = Recorded(Case(model, CLAIM), GRAPH, Key("heard")).examination
    assert found.fault == ""
    assert dict(found.doubts) == {}
    assert found.noisy == ("aggregates",)
    assert max(m.euclidean for m in found.moves) == pytest.approx(mu_of_claim(CLAIM), rel=1e-4)
    outcome = from_release(setting(model, tmp_path))
    assert not any(b.refuted for b in outcome.bounds)
    assert min(b.notices for b in outcome.bounds) < 1.001
    assert set(outcome.covers) == set(model.offers)


@pytest.mark.parametrize(
    "kind", nightly(strangers.LonelyRows, strangers.PopularRows, strangers.EveryOtherColumn, among=strangers.INFINITE)
)
def test_what_no_noise_covers_is_an_infinite_epsilon(kind, tmp_path):
    (bound,) = from_release(setting(calibrated(kind), tmp_path)).bounds
    assert bound.refuted
    assert np.isinf(bound.epsilon)
    assert "no noise of their own covers these entries" in bound.method


@pytest.mark.parametrize("kind", [*UNKNOWN[:3], *nightly(*UNKNOWN[3:])])
def test_where_nothing_is_certain_nothing_is_refuted_and_no_reach_is_claimed_of_posteriors(kind, tmp_path):
    outcome = from_release(setting(calibrated(kind), tmp_path))
    assert not any(b.refuted for b in outcome.bounds)
    assert "posteriors" not in outcome.covers or all(np.isinf(b.notices) for b in outcome.bounds)
    assert "this audit cannot judge" in outcome.reach or outcome.reach.startswith("nothing is stated: ")


def test_noise_that_is_too_small_on_one_hop_is_refuted_with_the_exact_epsilon(tmp_path):
    bound = from_release(setting(calibrated(strangers.QuietSecondHop), tmp_path)).bounds[0]
    assert bound.refuted
    assert 4 < bound.epsilon < np.inf


def test_a_law_other_than_the_ledgers_is_not_judged(tmp_path):
    outcome = from_release(setting(calibrated(StudentT), tmp_path))
    assert outcome.covers == {}
    assert "student-t" in outcome.reach
    assert not any(b.refuted for b in outcome.bounds)


def test_laplace_noise_is_held_against_the_laplace_curve(tmp_path):
    claim = dataclasses.replace(CLAIM, epsilon=1.0, delta=0.0)
    honest = from_release(setting(strangers.LaplaceSums(), tmp_path, claim))
    assert not any(b.refuted for b in honest.bounds)
    quiet = strangers.LaplaceSums(sigma=0.05)
    assert from_release(setting(quiet, tmp_path, claim)).bounds[0].refuted


@pytest.mark.nightly
def test_an_audit_that_assumes_gaussian_sums_is_believed_where_they_were_heard_and_nowhere_else(tmp_path):
    assert disbelieved("residual", setting(calibrated(strangers.Sums), tmp_path)) is None
    assert disbelieved("blackbox", setting(calibrated(strangers.Rounded), tmp_path)) is None
    for kind in (strangers.Rounded, strangers.LaplaceSums, strangers.NoiseByDegree, strangers.ConstantSeed, StudentT):
        assert disbelieved("residual", setting(calibrated(kind), tmp_path)) is not None


def of_indices(graph, seed):
    """Counts of classes among sampled nodes, whose places are drawn: other numbers are no places and end the training."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, graph.nodes, graph.nodes * graph.classes)
    counts = np.bincount(graph.y[places], minlength=graph.classes)[None].repeat(graph.nodes, 0)
    return {"posteriors": np.log((counts + 1.0) / (counts + 1.0).sum(1, keepdims=True))}


def test_a_model_that_refuses_other_numbers_ends_no_audit(tmp_path):
    case = Case(Looped(of_indices), Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE))
    outcome = from_release(Setting(case, GRAPH, Store(tmp_path), Key("indices"), 3, 1e-4))
    assert not any(b.refuted for b in outcome.bounds)
