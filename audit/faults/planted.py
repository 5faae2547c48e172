"""The planted faults, which the self-test must catch, and the honest models, which it must not refute."""

from ...models.baselines.edgerand import EdgeRand
from ...models.gap.progap import ProGap
from ...models.vesper.vesper import Vesper
from . import fault as base
from . import in_reports as reports
from .fault import DIRECTED_EDGE, EDGE, LOCAL, NODE, VOTES, Fault, of_own_noise
from .planted_reports import IN_REPORTS
from .planted_sums import IN_SUMS
from .planted_training import IN_TRAINING

FAULTS: tuple[Fault, ...] = (*IN_SUMS, *IN_TRAINING, *IN_REPORTS)
HONEST = (
    *(of_own_noise(base.gap, EDGE, "GAP, sound", audit) for audit in ("replay", "residual", "game", "differential", "account")),
    of_own_noise(base.gap_as_published, DIRECTED_EDGE, "GAP as published, for a directed edge", "game"),
    of_own_noise(base.gap_for_nodes, NODE, "GAP, sound, for a node", "differential"),
    of_own_noise(lambda f: ProGap(depth=2), EDGE, "ProGAP, sound", "differential"),
    of_own_noise(lambda f: Vesper(), EDGE, "VESPER, sound", "differential"),
    of_own_noise(base.mlp, NODE, "DP-MLP, sound", "differential"),
    of_own_noise(base.mlp, NODE, "DP-MLP, sound", "gradients"),
    of_own_noise(base.dpar, NODE, "DPAR, sound", "differential"),
    of_own_noise(base.privgnn(), NODE, "PrivGNN, sound", "differential"),
    of_own_noise(lambda f: EdgeRand(), EDGE, "EdgeRand, sound", "entries"),
    of_own_noise(lambda f: reports.TwoClassPate(queries=4), VOTES, "PATE, sound", "exact"),
    of_own_noise(base.lpgnn, LOCAL, "LPGNN, sound", "exact"),
    of_own_noise(base.lpgnn, LOCAL, "LPGNN, sound", "differential"),
)
