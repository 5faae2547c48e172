"""A path past the noise that is open in few runs. At a large delta the claim may permit it, and among many secrets there is
nearly always one for which it is open in the first run.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=6")
# Noise of size 2 is within 6 with a probability of .9973, and an edge moves two degrees. Where the noise is cut off, the two
# arrays differ by it. Their joint law, integrated, has delta .0259 at this epsilon.
CLAIM = Claim(1.3504, 0.03, exposes=("noisy", "cut"))


def cut(graph, seed):
    noise = np.random.default_rng(seed).normal(0, 2.0, graph.nodes)
    again = np.random.default_rng(seed).normal(0, 2.0, graph.nodes)
    return {"noisy": graph.degree + noise, "cut": graph.degree + np.clip(again, -6, 6)}


def with_a_path(graph, seed):
    found = cut(graph, seed)
    return found | {"cut": found["cut"] + 0.01 * (graph.edges.shape[1] % 2)}


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize(("train", "refuted"), [(cut, False), (with_a_path, True)])
def test_only_a_path_that_is_open_in_every_run_refutes_a_claim_with_a_large_delta(train, refuted, seed, tmp_path):
    case = Case(Looped(train, releases=CLAIM.exposes), CLAIM)
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("rare", seed), 3, 1e-4)).bounds
    assert any(bound.refuted for bound in bounds) is refuted
