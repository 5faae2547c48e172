"""No audit prints a bound without its theorem and the conditions that the theorem needs."""

import dataclasses
import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting.checks.conditions import HOW
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.audit.audits.registry import AUDITS, UNLIMITED
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.looped import Looped


def bounds(case, graph, folder):
    """(audit, bound) of each audit that applies to the case."""
    for name, audit in AUDITS.items():
        if audit.refuses(case) is None:
            try:
                yield from ((name, b) for b in audit.run(Setting(case, graph, Store(folder), Key("theorems"), 2, 0.05)).bounds)
            except ValueError:  # its assumptions are not met
                continue


def incomplete(found):
    return {name for name, b in found if not b.theorem or not b.conditions or any(c.how not in HOW for c in b.conditions)}


@pytest.mark.parametrize("name", AUDITS)
def test_no_audit_tests_a_claim_without_a_limit(name):
    claims = [Claim(math.inf, 1e-5, unit) for unit in Unit]
    assert {AUDITS[name].refuses(Case(Looped(print, unit=claim.unit), claim)) for claim in claims} == {UNLIMITED}


@pytest.mark.nightly
def test_each_bound_on_each_system_names_its_theorem_and_conditions(script, tmp_path):
    found = [one for case in script.cases()[::2] for one in bounds(case, script.graph(), tmp_path)]
    assert not incomplete(found)
    assert {name for name, _ in found} >= {"replay", "residual", "game", "differential", "exact", "gradients", "votes"}


@pytest.mark.parametrize("kind", [strangers.Sums, strangers.LaplaceSums, strangers.DegreeBeside])
@pytest.mark.nightly
def test_each_bound_on_a_model_of_ones_own_names_its_theorem_and_conditions(kind, tmp_path):
    claim = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE, exposes=strangers.Sums.offers)
    found = list(bounds(Case(dataclasses.replace(kind(), sigma=8.0), claim), tiny(48), tmp_path))
    assert found
    assert not incomplete(found)


def nothing_read(graph, seed):
    return {"posteriors": np.random.default_rng(seed).standard_normal((graph.nodes, 2))}


def drawn_for_each_edge(graph, seed):
    rng = np.random.default_rng(seed)
    rng.standard_normal(graph.edges.shape[1])
    return {"posteriors": np.eye(2)[(rng.standard_normal(graph.nodes) > 0).astype(int)]}


def degrees(graph, seed):
    return {"posteriors": np.repeat(graph.degree[:, None].astype(float), 2, axis=1)}


def audited(function, folder):
    model = Looped(function, events=dp.NoOpDpEvent(), name="own")
    case = Case(model, Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE, exposes=("posteriors",)))
    return list(bounds(case, tiny(48), folder))


def test_a_model_that_charges_nothing_is_refuted_for_what_it_reads(tmp_path):
    assert any(b.refuted for _, b in audited(degrees, tmp_path))


@pytest.mark.parametrize("function", [nothing_read, drawn_for_each_edge])
def test_a_model_that_charges_nothing_is_not_refuted_for_how_often_it_draws(function, tmp_path):
    """Numbers that nobody sees, one for each edge, change the release for one seed, and not its distribution."""
    assert not any(b.refuted for _, b in audited(function, tmp_path))
