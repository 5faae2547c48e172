"""The audits by name: which cases each audit refuses, how many statistical tests it makes, and the function that runs it."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...accounting.claim import Unit
from ...reports.summary import UNITS
from ..case import EDGES, Case, Outcome, Setting
from ..channels import entries, exact, transcript, user_reports, votes
from ..mechanisms.overview.gate import disbelieved
from . import added_up, blackbox, blackbox_nodes, differential, distinguisher, edge_sums, gradients, node_stars, replay

UNLIMITED = "the claim is epsilon = inf, so there is nothing to test"
NODES, FEATURES = (Unit.NODE,), (Unit.FEATURES,)


@dataclass(frozen=True)
class Audit:
    """An entry of AUDITS. declines: gives the reason why the audit cannot test a case with a finite claim about one of its
    `units`, or None. play: runs the audit.

    units: which claims it tests. tests: the number of its statistical tests, each of which spends a share of alpha. masks:
    whether the audit removes units by masks; its bounds then assume that the model treats a masked unit as absent. trial_limited:
    whether the audit detects smaller violations with more rounds; see `second_look`. timed: whether the option `--minutes` limits
    its time. seldom: why a plan that names neither the audit nor a time limit leaves it out for a case, or None. last_resort:
    whether a plan that does not name the audit leaves it out if the other audits have decided the claim.
    """

    name: str
    tests: int
    declines: Callable[[Case], str | None]
    play: Callable[[Setting], Outcome]
    units: tuple[Unit, ...] = tuple(Unit)
    masks: bool = True
    trial_limited: bool = False
    timed: bool = False
    seldom: Callable[[Case], str | None] = lambda case: None
    last_resort: bool = False

    def refuses(self, case: Case) -> str | None:
        """Why it cannot audit a case, or None. No audit can test a claim without a limit."""
        if math.isinf(case.claim.epsilon):
            return UNLIMITED
        if case.claim.unit not in self.units:
            return f"not for claims about {UNITS[case.claim.unit]}"
        return self.declines(case)

    def run(self, setting: Setting) -> Outcome:
        """Runs the audit, and measures the seconds that it takes. Each test has the level `setting.alpha`.

        Raises ValueError if the recorded draws of a user's model do not confirm what the audit assumes, and if the model or the
        graph does not allow the audit.
        """
        started = time.perf_counter()
        if reason := disbelieved(self.name, setting):
            raise ValueError(f"it assumes Gaussian noise on sums over neighbours; {reason}")
        return dataclasses.replace(self.play(setting), seconds=time.perf_counter() - started)


def by_unit(of_edges: Callable[[Setting], Outcome], of_nodes: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
    """The function that calls `of_nodes` for a claim about nodes, and `of_edges` for any other claim."""
    return lambda setting: (of_nodes if setting.case.claim.unit is Unit.NODE else of_edges)(setting)


AUDITS: dict[str, Audit] = {
    "replay": Audit("replay", 0, replay.refuses, replay.play, EDGES + NODES),
    "differential": Audit("differential", 1, differential.refuses, differential.differential, masks=False),
    "exact": Audit("exact", 0, exact.refuses, exact.enumerate_channels),
    "residual": Audit("residual", 1, edge_sums.refuses, by_unit(edge_sums.weigh_noise, node_stars.weigh_star), EDGES + NODES),
    "game": Audit("game", 2, edge_sums.refuses, by_unit(edge_sums.play_sums, node_stars.play_stars), EDGES + NODES),
    "transcript": Audit("transcript", 1, transcript.refuses, transcript.play_messages, EDGES),
    "reports": Audit("reports", 1, user_reports.refuses, user_reports.play_reports, FEATURES, trial_limited=True),
    "entries": Audit("entries", 1, entries.refuses, entries.play_entries, EDGES, trial_limited=True),
    "votes": Audit("votes", 1, votes.refuses, votes.play_votes, NODES, trial_limited=True),
    "rows": Audit("rows", 1, node_stars.refuses_rows, node_stars.weigh_rows, NODES),
    "added-up": Audit("added-up", 1, added_up.refuses, added_up.add_up, NODES),
    "gradients": Audit("gradients", 1, gradients.refuses, gradients.play_gradients, NODES),
    "blackbox": Audit(
        "blackbox",
        2,
        blackbox.refuses,
        by_unit(blackbox.aligned_canaries, blackbox_nodes.aligned_nodes),
        EDGES + NODES,
        trial_limited=True,
        timed=True,
        seldom=blackbox.seldom_decides,
    ),
    "one-run": Audit("one-run", 2, blackbox.refuses, blackbox.one_run, EDGES + NODES),
    "distinguisher": Audit(
        "distinguisher",
        1,
        distinguisher.refuses,
        distinguisher.distinguish,
        masks=False,
        trial_limited=True,
        timed=True,
        seldom=distinguisher.seldom_decides,
        last_resort=True,
    ),
}
