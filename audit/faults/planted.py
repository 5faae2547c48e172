"""The planted faults, which the self-test must catch, and the honest models, which it must not refute."""

from __future__ import annotations

from ...models.baselines.edgerand import EdgeRand
from ...models.gap.progap import ProGap
from ...models.vesper.vesper import Vesper
from . import fault as base
from . import in_reports as reports
from .fault import DIRECTED_EDGE, EDGE, LOCAL, NODE, VOTES, Fault, calibrated
from .planted_reports import IN_REPORTS
from .planted_sums import IN_SUMS
from .planted_training import IN_TRAINING

FAULTS: tuple[Fault, ...] = (*IN_SUMS, *IN_TRAINING, *IN_REPORTS)
HONEST = (
    Fault("GAP, sound", calibrated(base.gap, EDGE), EDGE, "replay"),
    Fault("GAP, sound", calibrated(base.gap, EDGE), EDGE, "residual"),
    Fault("GAP, sound", calibrated(base.gap, EDGE), EDGE, "game"),
    Fault("GAP, sound", calibrated(base.gap, EDGE), EDGE, "differential"),
    Fault("GAP, sound", calibrated(base.gap, EDGE), EDGE, "account"),
    Fault("GAP as published, for a directed edge", calibrated(base.gap_as_published, DIRECTED_EDGE), DIRECTED_EDGE, "game"),
    Fault("GAP, sound, for a node", calibrated(base.gap_for_nodes, NODE), NODE, "differential"),
    Fault("ProGAP, sound", calibrated(lambda f: ProGap(depth=2), EDGE), EDGE, "differential"),
    Fault("VESPER, sound", calibrated(lambda f: Vesper(), EDGE), EDGE, "differential"),
    Fault("DP-MLP, sound", calibrated(base.mlp, NODE), NODE, "differential"),
    Fault("DP-MLP, sound", calibrated(base.mlp, NODE), NODE, "gradients"),
    Fault("DPAR, sound", calibrated(base.dpar, NODE), NODE, "differential"),
    Fault("PrivGNN, sound", calibrated(base.privgnn(), NODE), NODE, "differential"),
    Fault("EdgeRand, sound", calibrated(lambda f: EdgeRand(), EDGE), EDGE, "entries"),
    Fault("PATE, sound", calibrated(lambda f: reports.TwoClassPate(queries=4), VOTES), VOTES, "exact"),
    Fault("LPGNN, sound", calibrated(base.lpgnn, LOCAL), LOCAL, "exact"),
    Fault("LPGNN, sound", calibrated(base.lpgnn, LOCAL), LOCAL, "differential"),
)
