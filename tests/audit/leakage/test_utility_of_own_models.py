"""The accuracy of a user's own model is measured in worlds that look like those of an audit."""

import numpy as np

from gnnaudit.accounting.claim import Claim
from gnnaudit.audit.case import Case
from gnnaudit.audit.faults.strangers import Sums
from gnnaudit.audit.key import Key
from gnnaudit.audit.leakage.utility import utility
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap

WORLDS = []


class Watches(Sums):
    def fit(self, worlds, device="cpu"):
        WORLDS.append(worlds)
        return super().fit(worlds, device)


def test_a_model_of_ones_own_sees_coins_and_all_rows_when_its_accuracy_is_measured(tmp_path):
    WORLDS.clear()
    graph = tiny(48)
    rows = utility(Case(Watches(), Claim(1.0, 1e-6)), graph, Store(tmp_path), Key("utility"), 4)
    present = np.concatenate([w.edge_present() for w in WORLDS])
    assert not present.all()
    assert all(np.array_equal(w.watch, np.arange(graph.nodes)) for w in WORLDS)
    assert 0 <= rows[0].value <= 1
    assert rows[0].runs == 4


def test_a_system_of_this_package_is_measured_on_the_whole_graph(tmp_path, monkeypatch):
    seen = []
    fit = Gap.fit
    monkeypatch.setattr(Gap, "fit", lambda self, worlds, device="cpu": seen.append(worlds) or fit(self, worlds, device))
    utility(Case(Gap(sigma=1.0), Claim(1.0, 1e-6)), tiny(48), Store(tmp_path), Key("utility"), 2)
    assert seen
    assert all(w.edge_present().all() for w in seen)
