"""The card for a README says every claim with its numbers, and cannot be broken by a name."""

from gnnaudit.accounting.claim import Unit
from gnnaudit.reports import results
from gnnaudit.reports.formats import card
from gnnaudit.reports.results import AccountRow, BoundRow, Results, Run

WHERE = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 4.0, "delta": 1e-5}
FOUND = {"audit": "game", "attack": "x", "shape": "any", "confidence": 0.95, "rounds": 9, "detectable_epsilon": 4.321}


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]


def test_a_card_has_one_row_for_each_claim(example_run):
    found = results.read(example_run)
    head, _, *rows = rows_of(card.to_markdown(found))
    claims = {(r.model, r.mode, r.epsilon) for r in found.of(BoundRow) if r.epsilon < float("inf")}
    assert len(rows) == len(claims) == 10
    assert {len(row) for row in rows} == {len(head)}


def test_a_card_rounds_a_lower_bound_down_and_what_would_be_noticed_up():
    bound = BoundRow(**WHERE, **FOUND, value=0.12399, verdict="not-refuted", notices=1.2, reach=4.321)
    account = AccountRow(**WHERE, accountant="exact", value=4.0, own=True)
    text = card.to_markdown(Results(run=Run(name="r", alpha=0.05), rows=(bound, account)))
    assert rows_of(text)[2][:7] == ["mine (own)", "a node with its edges", "4", "1e-05", "0.123", "4.33", "4"]
    assert "that of the model's own ledger, which its author declares" in text
    assert "never proves one" in text


def headline_of(*rows):
    return card.to_markdown(Results(run=Run(name="r"), rows=rows)).splitlines()[2]


def test_the_headline_names_each_claim_that_did_not_pass_and_calls_only_a_refuted_one_refuted():
    other = {**WHERE, "model": "other"}
    refuted = BoundRow(**WHERE, **FOUND, value=5.0, verdict="refuted", notices=1.2, reach=4.3)
    costly = AccountRow(**other, accountant="exact", value=5.0)
    weak = BoundRow(**WHERE, **FOUND, value=1.0, verdict="inconclusive", notices=9.0, reach=40.0)
    good = BoundRow(**other, **FOUND, value=1.0, verdict="not-refuted", notices=1.2, reach=4.3)
    mine, theirs = "mine (own) at ε = 4, δ = 1e-05", "other (own) at ε = 4, δ = 1e-05"
    assert headline_of(costly) == f"The ledger contradicts the code or its claim: {theirs}."
    both = f"1 of 2 claims is refuted: {mine}. The ledger of 1 of 2 claims contradicts the code or its claim: {theirs}."
    assert headline_of(refuted, costly) == both
    assert headline_of(weak) == f"The claim was not refuted, but its test is inconclusive: {mine}."
    untested = AccountRow(**WHERE, accountant="exact", value=3.0)
    assert headline_of(untested) == f"The claim was not refuted, because no audit tested it: {mine}."
    assert headline_of(weak, good) == f"None of the 2 claims was refuted; the tests of 1 are inconclusive: {mine}."


def test_a_name_cannot_end_a_cell():
    row = AccountRow(**{**WHERE, "model": "a|b\n<i>"}, accountant="exact", value=4.0)
    _, _, cells = rows_of(card.to_markdown(Results(run=Run(name="r"), rows=(row,))))
    assert (len(cells), cells[0]) == (8, "a\\|b &lt;i> (own)")


def test_a_name_becomes_no_markup_anywhere():
    """A card goes into a README, whose renderer may keep HTML."""
    bad = "<img src=x onerror=alert(1)>[x](javascript:alert(1))\n<script>"
    rows = (
        BoundRow(**{**WHERE, "model": bad}, **FOUND, value=5.0, verdict="refuted", notices=1.2, reach=4.3),
        AccountRow(**{**WHERE, "model": bad}, accountant="exact", value=4.0),
    )
    text = card.to_markdown(Results(run=Run(name=bad, data={"name": bad}, versions={"gnnaudit": bad}), rows=rows))
    assert text.count("&lt;script>") == 5  # headline, cell, note, version, graph
    assert "<" not in text
    assert "[" not in text.replace("\\[", "")
