"""Every finding: its claim is refuted, its repaired counterpart is not, and an argued claim is never called refuted."""

import pytest

from gnnaudit.accounting.claim import Claim
from gnnaudit.audit.findings import certificate
from gnnaudit.audit.findings.finding import Result, run
from gnnaudit.audit.findings.systems import dpgnn, field_graphs, field_training, gap
from gnnaudit.audit.findings.systems.all_findings import FINDINGS
from gnnaudit.audit.key import Key

from ...nightly import nightly

PROVED = [name for name, f in FINDINGS.items() if f.proof != "argued"]
TRAINED = ("gap-best-epoch", "vesper-backward-state", "lpgnn-fair-coins")
SLOW = (
    *TRAINED,
    "dpar-cached-batches",
    "dpgnns-noise-without-clip",
    "privgnn-single-gnn",
    "gap-degree-cap",
    "dpar-row-sensitivity",
    "progap-undirected-edge",
    "privgnn-theorem-7",
    "privgnn-delta",
    "vesper-neighbour-substitution",
    "vesper-public-batches",
    "dpar-fixed-noise",
    "vesper-evaluation",
    "lpgnn-scaling",
    "eclipse-singular-vectors",
)
DRAWN = [n for n in PROVED if FINDINGS[n].proof == "experiment"] + [
    "privgnn-log-probabilities",
    "privgnn-shared-optimiser",
    "lpgnet-shared-noise",
    "seprivgemb-touched-rows",
    "dpdgc-normalisation-noop",
]


@pytest.mark.parametrize("name", nightly(*SLOW, among=PROVED))
def test_the_claim_is_refuted_and_its_repaired_counterpart_is_not(name):
    result = run(FINDINGS[name], Key("findings", "test"))
    assert result.verdict == "refuted"
    assert result.certificate.bound.epsilon > result.certificate.claim.epsilon
    assert result.certificate.bound.alpha <= 1e-3
    if result.repaired is not None:
        assert not result.repaired.bound.refuted  # a sound counterpart falls once in ten thousand honest runs


@pytest.mark.nightly
@pytest.mark.parametrize("name", DRAWN)
def test_the_same_holds_for_twenty_seeds(name):
    results = [run(FINDINGS[name], Key("findings", f"seed {i}")) for i in range(20)]
    assert sum(r.verdict == "refuted" for r in results) == 20
    assert sum(r.repaired is not None and r.repaired.bound.refuted for r in results) == 0  # 2 in 1,000 honest suites


def test_an_argued_claim_is_never_called_refuted():
    for f in FINDINGS.values():
        if f.proof == "argued":
            exceeded = certificate.computed(Claim(1.0, 0.0), 2.0, "", certificate.Figure("x", "y", {}))
            assert Result(f, exceeded, None, 0.0).verdict == "argued"


def test_two_routes_agree_where_a_new_finding_is_computed_from_a_law():
    for name in ("dpdgc-row-shift", "dpgnns-noise-without-clip", "blink-symrr-diagonal", "arr-density-chunk"):
        values = list(FINDINGS[name].published(Key("findings", "routes")).libraries.values())
        assert len(values) == 2
        assert values[0] == pytest.approx(values[1], rel=0.01)


def test_the_numbers_of_a_text_are_those_of_its_experiment():
    assert f"{gap.LEAVES} leaves and {gap.CAP + 1} hubs with D = {gap.CAP}" in FINDINGS["gap-degree-cap"].argument
    assert f"a public bound of {gap.LEAVES} edges per node" in FINDINGS["gap-degree-cap"].repair
    assert f"a star with {dpgnn.LEAVES} leaves and K = {dpgnn.CAP}" in FINDINGS["dpgnn-transposed-cap"].argument
    assert f"two nodes with {field_graphs.FRIENDS} friends" in FINDINGS["lpgnet-shared-noise"].argument
    assert f"a star with {field_training.DEGREE} leaves" in FINDINGS["dpdgc-node-sqrt"].argument
    assert f"n = {field_graphs.SIZE}" in FINDINGS["arr-density-chunk"].argument
    assert f"a star with {field_graphs.HUB} leaves" in FINDINGS["pushflow-max-degree"].argument
    printed = FINDINGS["dpgnns-noise-without-clip"].published(Key("findings", "text")).claim.epsilon
    assert FINDINGS["dpgnns-noise-without-clip"].printed == pytest.approx(printed, abs=0.005)
