"""The table of layers says "tested" only of what a bound of this run could have contradicted."""

import math

import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.accounting.upper.accountants import NO_LEDGER
from gnnaudit.reports.layers import layers
from gnnaudit.reports.results import AccountRow, BoundRow, Results, Run
from gnnaudit.reports.summary import lines

NODE = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0, "delta": 1e-5}


def told(*rows, **run):
    """Layer -> (status, words) of a run with these rows."""
    found = Results(run=Run(name="a run", **run), rows=rows)
    return {
        layer.name: (layer.status, layer.words)
        for layer in layers(found, [c for c in lines(found) if math.isfinite(c.key.epsilon)])
    }


def account(value=1.0, accountant="dp_accounting-pld", **row):
    return AccountRow(**(NODE | row), accountant=accountant, value=value)


def bound(audit, withdrawn=None, verdict="not-refuted", **row):
    reach = {"reach": 1.2, "detectable_epsilon": 1.2, "notices": 1.2} if verdict == "not-refuted" else {}
    common = {"attack": "a", "shape": "exact", "value": 0.5, "confidence": 0.95, "rounds": 10, "exposes": ["posteriors"]}
    return BoundRow(**(NODE | row), audit=audit, withdrawn=withdrawn, verdict=verdict, **common, **reach)


def test_a_ledger_alone_is_an_argument_and_no_test():
    found = told(account())
    assert {status for status, _ in found.values()} == {"argued", "assumed", "not looked at"}
    assert found["Composition"][0] == "argued"
    assert "dp_accounting-pld" in found["Composition"][1]
    assert found["Mechanisms and sensitivity"][1] == "No audit of mechanisms gave a bound."


def test_without_a_ledger_composition_is_assumed():
    assert told(account(value=None))["Composition"][0] == "assumed"


@pytest.mark.parametrize(
    ("audit", "tested"),
    [
        ("replay", {"Mechanisms and sensitivity", "Composition"}),
        ("blackbox", set()),
        ("differential", {"Mechanisms and sensitivity"}),
        ("gradients", {"Mechanisms and sensitivity", "Composition"}),
        ("distinguisher", {"Composition"}),
    ],
)
def test_each_audit_tests_its_layers_and_no_other(audit, tested):
    found = told(account(), bound(audit))
    of_layers = {"Mechanisms and sensitivity", "Composition"}
    assert {name for name in of_layers if found[name][0] == "tested"} == tested
    assert found["Sampling"][0] == ("partly tested" if audit == "gradients" else "argued")
    assert found["Randomness and floating point"][0] == ("partly tested" if audit == "differential" else "assumed")


def test_without_a_ledger_nothing_argues_for_mechanisms_and_samples():
    """The status "argued" means that the model's own statements support a layer, and this model states nothing."""
    silent = [account(value=None, unsupported=NO_LEDGER), bound("distinguisher", verdict="inconclusive")]
    other = [account(value=None, unsupported="the ledger counts another unit"), silent[1]]
    for layer in ("Mechanisms and sensitivity", "Sampling"):
        assert told(*silent)[layer][0] == "assumed"
        assert told(*other)[layer][0] == "argued"


def test_the_audits_of_the_composition_are_named_and_others_are_not():
    strong = told(account(), bound("distinguisher"), bound("one-run"))["Composition"][1]
    assert strong.endswith("gave a bound for the claim: distinguisher.")
    assert "No audit that tests the composition gave a bound." in told(account(), bound("one-run"))["Composition"][1]


@pytest.mark.parametrize(("value", "status"), [(0.5, "partly tested"), (math.inf, "assumed")])
def test_recorded_mechanisms_of_ones_own_model_are_composed_unless_a_path_passes_them(value, status):
    refuted = bound("differential", verdict="refuted").model_copy(update={"value": value})
    rows = account(value=None, unsupported=NO_LEDGER, own=True), refuted
    found, words = told(*rows, observed=[OBSERVED | {"mechanisms": [{}, {}]}])["Composition"]
    assert found == status
    assert words.endswith("composed the recorded mechanisms of the claim.") is (status == "partly tested")
    assert told(*rows)["Composition"][0] == "assumed"


def test_a_bound_that_was_withdrawn_tests_nothing():
    assert told(account(), bound("replay", withdrawn=3.0, verdict="inconclusive"))["Mechanisms and sensitivity"][0] == "argued"


SILENT = {"value": 0.0, "verdict": "inconclusive", "reach": math.inf, "notices": math.inf, "detectable_epsilon": None}
FAILED = {"conditions": [{"what": "the release is covered", "how": "failed", "detail": "random numbers that were not recorded"}]}
OBSERVED = {"model": "mine", "mode": "own", "unit": "node", "epsilon": 1.0}


@pytest.mark.parametrize("nothing", [SILENT, FAILED, SILENT | FAILED, {"attack": "seeds"}])
def test_a_bound_that_could_contradict_nothing_tests_no_mechanism_and_no_noise(nothing):
    said = told(account(own=True), bound("differential").model_copy(update=nothing), observed=[OBSERVED | {"mechanisms": [{}]}])
    assert said["Mechanisms and sensitivity"] == ("argued", "No audit of mechanisms gave a bound.")
    status, words = said["Randomness and floating point"]
    assert status == "assumed"
    assert "For the claim, the audit differential recorded noise, but gave no bound that counts." in words


def test_where_nothing_was_recorded_the_report_says_so():
    assert "No audit recorded the source, size and freshness of the noise." in told(account())["Randomness and floating point"][1]


@pytest.mark.parametrize(("mechanisms", "status"), [([], "assumed"), ([{}], "partly tested")])
def test_the_noise_of_ones_own_model_is_tested_only_where_some_was_recorded(mechanisms, status):
    said = told(account(own=True), bound("differential"), observed=[OBSERVED | {"mechanisms": mechanisms}])
    assert said["Randomness and floating point"][0] == status


def test_the_tool_claims_to_seed_the_noise_of_its_own_systems_only():
    seed = "seeded by a key of 256 bits from the operating system, which stands in a file. More"
    key = "a key of 256 bits from the operating system"
    own = told(account(own=True), seed=seed)["Randomness and floating point"][1]
    assert own.startswith(f"Each training of a user's own model or program got a seed that was made from {key}. The audit ")
    assert "would test whether other seeds give other noise; it gave a bound for no claim." in own
    assert "Noise of this package's systems" not in own
    assert (
        "it gave a bound for the claim."
        in told(account(own=True), bound("differential"), seed=seed)["Randomness and floating point"][1]
    )
    built_in = told(account(), seed=seed)["Randomness and floating point"][1]
    assert built_in.startswith(f"Noise of this package's systems was seeded by {key}, which stands in a file. ")
    assert "own model" not in built_in


def test_a_bound_of_zero_does_not_test_the_relation():
    nothing = bound("replay").model_copy(update={"value": 0.0})
    assert told(account(), nothing)["Neighbouring relation"][0] == "assumed"
    assert told(account(), bound("replay"))["Neighbouring relation"][0] == "tested"


def test_composition_is_tested_in_full_only_beside_an_accountant():
    alone = told(account(value=None), bound("replay", verdict="refuted"))["Composition"]
    assert alone[0] == "partly tested"
    assert alone[1].startswith("No accountant gives an upper bound. Audits of whole releases")
    assert alone[1].endswith("gave a bound for the claim: replay.")
    assert told(account(), bound("replay"))["Composition"][0] == "tested"


def test_every_layer_links_to_a_section():
    found = Results(run=Run(name="a run"), rows=(account(), bound("replay")))
    assert all(layer.link for layer in layers(found, lines(found)))


def test_one_claim_of_two_is_partly_tested():
    found = told(account(), account(epsilon=8.0), bound("replay"))
    assert found["Mechanisms and sensitivity"][0] == "partly tested"
    assert found["Mechanisms and sensitivity"][1] == "Audits of mechanisms gave a bound for 1 of 2 claims: replay."


def test_side_channels_and_access_are_never_looked_at():
    found = told(account(), *(bound(audit) for audit in ("replay", "differential", "gradients", "exact")))
    assert {name for name, (status, _) in found.items() if status == "not looked at"} == {
        "Side channels",
        "Data collection and access",
    }
