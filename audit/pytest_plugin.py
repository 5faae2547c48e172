"""The pytest plugin: the fixture `assert_private`, the marker `privacy`, and one line for each audited claim at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest

from ..accounting.claim import Claim

if TYPE_CHECKING:
    from ..models.graph.graph import Graph
    from ..reports.results import Results

LINES = pytest.StashKey[list[str]]()
ALPHA = 1e-4  # small, because a test that runs with every commit must hardly ever fail by chance
USUAL: dict[str, Any] = {"alpha": ALPHA, "repeats": 1, "rounds": 20, "jobs": 1}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "privacy: audits a privacy claim; set on tests that use assert_private")
    config.stash[LINES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "assert_private" in getattr(item, "fixturenames", ()):
            item.add_marker("privacy")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[LINES]:
        terminalreporter.section("privacy audits")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


@pytest.fixture
def assert_private(request: pytest.FixtureRequest) -> Callable[..., Results]:
    """assert_private(train, claim): audits a training function or a model, and fails the test if the audit refutes the claim.

    train: a function (graph, seed) -> {"posteriors": (nodes, classes) natural logarithms}, or a model. claim: a `Claim`; None
    stands for the claim that the model states in its attribute `claim`. graph: a `Graph`, or the name of a data set. weak: "fail"
    or "pass", the outcome of a test whose audit was too weak to detect a violation. If a condition of the audit failed, for
    example because it found a path past the noise, the test fails in any case. Other options are those of `gnnaudit.audit`; here
    the defaults are alpha=1e-4, repeats=1, rounds=20 and jobs=1. Returns the results. A wrong argument fails the test with one
    line.
    """

    def check(
        train: Any,
        claim: Claim | None = None,
        graph: Graph | str = "campus:n=400",
        weak: Literal["fail", "pass"] = "fail",
        **options: Any,
    ) -> Results:
        try:
            if weak not in ("fail", "pass"):
                raise ValueError(f"weak={weak!r}: must be fail or pass.")
            found, line, may_pass = audited(train, claim, graph, options)
        except ValueError as wrong:
            raise pytest.fail.Exception(f"assert_private: {wrong}", pytrace=False) from None
        request.config.stash[LINES].append(f"{request.node.nodeid}: {line}")
        if found.run.exit_code == 1 or (found.run.exit_code == 3 and not (may_pass and weak == "pass")):
            way = ' (weak="pass" lets a claim pass that the audit is too weak to test)' if may_pass else ""
            pytest.fail(f"{line}{way}", pytrace=False)
        return found

    return check


def audited(train: Any, claim: Claim | None, graph: Graph | str, options: dict[str, Any]) -> tuple[Results, str, bool]:
    """The results, a line with the claim and its verdict, and whether the run is inconclusive because its tests are too weak."""
    from ..models.data.loading import load
    from ..reports.summary import claim_and_verdict, lines
    from .from_python import as_model, audit

    found = audit(
        as_model(train, claim, "train"), load(graph) if isinstance(graph, str) else graph, claim, **{**USUAL, **options}
    )
    claims = lines(found)
    weak = found.run.exit_code == 3 and bool(claims) and all(line.verdict.weak for line in claims if line.verdict.exit_code == 3)
    return found, "; ".join(map(claim_and_verdict, claims)), weak
