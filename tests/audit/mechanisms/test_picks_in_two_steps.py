"""For a claim about nodes, a world with another row of an absent node lies two steps away. How far one of the two steps changes a
pick, such as the index of the largest of several noisy counts, is not known.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH = load("campus:n=120:degree=6")
CLAIM = 1.0  # for noise of scale 1, if one node changes one count by 1


def commonest(counted, scale):
    """The commonest class among some nodes. A node that goes lowers one count, which changes the index by 1 / scale nats."""

    def train(graph, seed):
        counts = np.bincount(graph.y[getattr(graph, counted)], minlength=graph.classes)
        return {"best": np.array([np.argmax(counts + np.random.default_rng(seed).laplace(0.0, scale, graph.classes))])}

    return train


def audited(train, tmp_path, key="picks"):
    model = Looped(train, unit=Unit.NODE, releases=("best",), events=PureDpEvent(CLAIM), claim=Claim(CLAIM, 0.0, Unit.NODE))
    return AUDITS["differential"].run(Setting(Case(model, model.claim), GRAPH, Store(tmp_path), Key(key), 3, 1e-4))


@pytest.mark.parametrize("key", range(3))
def test_a_noisy_commonest_class_of_validation_nodes_is_not_refuted(key, tmp_path):
    assert not any(bound.refuted for bound in audited(commonest("val", 1.0), tmp_path, f"picks {key}").bounds)


def test_with_too_little_noise_it_has_no_support(tmp_path):
    found = audited(commonest("val", 0.3), tmp_path)
    assert found.covers == {}


def test_with_too_little_noise_that_of_training_nodes_is_refuted(tmp_path):
    assert any(bound.refuted for bound in audited(commonest("train", 0.3), tmp_path).bounds)
