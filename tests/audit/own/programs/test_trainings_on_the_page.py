"""How often a program is trained is what docs/own-program.md says."""

import re
import sys
from pathlib import Path

import pytest

from gnnaudit import Claim, Unit, audit, load
from gnnaudit.audit.own.programs.program import External

ROOT = Path(__file__).parents[4]
SAID = re.compile(
    r"With `noisy_votes.py` it trains (\d+) times if the claim holds \(ε = 3.31 at δ = 1e-6\), (\d+) times if the claim is "
    r"refuted \(ε = 1\), and (\d+) times if a claim about nodes is refuted"
)
COUNTING = """
import time
(Path(__file__).parent / f"call-{time.perf_counter_ns()}").touch()
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("place", "claim"),
    [(1, Claim(3.31, 1e-6)), (2, Claim(1.0, 1e-5)), (3, Claim(1.0, 1e-5, Unit.NODE))],
    ids=["not refuted", "refuted", "node"],
)
def test_the_trainings_of_the_example_are_as_many_as_the_page_says(place, claim, tmp_path):
    page = " ".join((ROOT / "docs" / "own-program.md").read_text().split())
    file = tmp_path / "noisy_votes.py"
    file.write_text((ROOT / "examples" / "external" / "noisy_votes.py").read_text() + COUNTING)
    program = External(f"{sys.executable} {file} {{worlds}} {{out}}")
    audit(program, load("campus:n=400"), claim, audits="differential", repeats=1, out=tmp_path / "out")
    trainings = len(list(tmp_path.glob("call-*"))) - 1  # one measures the accuracy
    assert trainings == pytest.approx(int(SAID.search(page)[place]), rel=0.1)
