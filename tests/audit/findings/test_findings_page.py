"""The HTML page: the worst first, each finding searchable and explained, and a letter for each."""

import re

import pytest

from gnnaudit.audit.findings import page
from gnnaudit.audit.findings.finding import run
from gnnaudit.audit.findings.systems.all_findings import FINDINGS
from gnnaudit.audit.key import Key

SHOWN = ("blink-two-lists", "blink-symrr-diagonal", "linkteller-edgerand", "dpdgc-row-shift")


@pytest.fixture(scope="module")
def results():
    return [run(FINDINGS[name], Key("findings", "page")) for name in SHOWN]


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    out = tmp_path_factory.mktemp("findings")
    page.write(results, page.document([page.row(result) for result in results], "page"), out)
    return out


def test_the_worst_stands_first_and_what_is_argued_last(written):
    html = (written / "findings.html").read_text()
    assert re.findall(r'<section class="finding" id="([\w-]+)"', html) == [
        "linkteller-edgerand",  # infinite
        "dpdgc-row-shift",  # hundreds of times the claim
        "blink-symrr-diagonal",  # twice the claim
        "blink-two-lists",  # argued
    ]


def test_each_row_and_section_carries_the_words_that_the_search_reads(written):
    texts = re.findall(r'data-text="([^"]*)"', (written / "findings.html").read_text())
    assert len(texts) == 2 * len(SHOWN)
    assert sum("dpdgc" in text for text in texts) == 2
    assert sum("s&amp;p 2022" in text for text in texts) == 2


def test_each_letter_names_source_command_and_repair(written):
    for name in SHOWN:
        letter, f = (written / "letters" / f"{name}.md").read_text(), FINDINGS[name]
        for said in (f.plain, f.claim, f.source, f.remains, f"audit findings {name}", f.repair[1:]):
            assert said in letter, (name, said)
    assert "--checkout" in (written / "letters" / "blink-symrr-diagonal.md").read_text()
    assert "No experiment was run" in (written / "letters" / "blink-two-lists.md").read_text()


def test_no_finding_is_explained_with_a_symbol():
    """Readers who know nothing of the field read this paragraph first."""
    for f in FINDINGS.values():
        assert not re.search(r"epsilon|delta|sigma|sqrt|L1|L2|SGD|\d{3,}", f.plain), f.id
        assert 60 < len(f.plain) < 320, f.id
