"""The arrays that an audit reports as read are exactly those that it asked the model to keep."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.edge_sums import quantiles
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting, offered
from gnnaudit.audit.key import Key
from gnnaudit.audit.run import evidence as told_of
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.reports import results

from ..nightly import nightly


@pytest.fixture(scope="module")
def edge_case():
    own = Claim(4.0, 1e-6, Unit.UNDIRECTED_EDGE)
    return Case(calibrate(Gap(), own), dataclasses.replace(own, exposes=offered(Gap())))


@pytest.mark.parametrize("audit", ["residual", "game", "one-run", *nightly("blackbox")])
def test_an_audit_read_the_arrays_that_it_asked_for(audit, edge_case, tmp_path, monkeypatch):
    kept, parts = [], Store.parts
    monkeypatch.setattr(Store, "parts", lambda store, model, *others: kept.append(model.keep) or parts(store, model, *others))
    outcome = AUDITS[audit].run(Setting(edge_case, load("campus:n=300"), Store(tmp_path), Key("read"), 1, 0.01))
    assert set(outcome.read) == {name for names in kept for name in names} < set(edge_case.claim.exposes)


def test_the_row_of_a_bound_exposes_what_was_read_and_the_claim_what_could_be(edge_case, tmp_path):
    from gnnaudit.audit.planning.plan import Plan

    outcome = AUDITS["replay"].run(Setting(edge_case, load("campus:n=300"), Store(tmp_path), Key("read"), 1, 0.01))
    found = told_of(edge_case, outcome, (), Plan())
    (row,) = results.bound_rows(found, 1.5)
    assert row.exposes == ["aggregates", "inputs"]
    assert found.claim.exposes == offered(Gap())


def test_enumerated_channels_are_those_of_what_users_send(tmp_path):
    claim = Claim(1.0, 0.0, Unit.FEATURES)
    case = Case(calibrate(Lpgnn(), claim), claim)
    outcome = AUDITS["exact"].run(Setting(case, load("campus:n=300"), Store(tmp_path), Key("read"), 1, 0.01))
    assert set(outcome.read) == {"reports", "label_reports"}


@pytest.mark.parametrize("sd", [1.0, 0.5])
def test_quantiles_of_residuals_lie_on_a_line_whose_slope_is_their_size(sd):
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000) * sd  # quantiles replace a sample
    told = quantiles(grid.reshape(1, 2, 100, 100))
    inner = np.abs(told["expected"]) < 2  # where the grid's points are at most 1 / (20,000 * 0.054) = 0.001 apart
    assert np.abs(told["observed"] - sd * told["expected"])[inner].max() < 0.001
    assert told["count"] == 20_000
