"""What torch trains although compiled loops are used is noted, with the reason, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

from gnnaudit import Claim, Unit, calibrate, load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph import memory_mapped
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.vesper.vesper import Vesper

pytestmark = pytest.mark.skipif(not compiled.found(), reason="Numba is not installed or switched off")


@pytest.fixture(scope="module")
def graph():
    return load("campus:n=300")


def noted(model, graph):
    with compiled.noting() as found:
        model.fit(Worlds.of(graph, [1], np.arange(20)))
    return found


def lpgnn(backbone):
    return Lpgnn(epochs=2, feature_budget=1.0, label_budget=1.0, backbone=backbone)


def test_nothing_is_noted_if_compiled_loops_train_all(graph):
    for model in (calibrate(Gap(epochs=2), Claim(2.0, 1e-5)), Mlp(epochs=2), lpgnn("sage"), Vesper(variant="s1", epochs=2)):
        assert noted(model, graph) == set()


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_a_backbone_without_a_compiled_loop_is_noted(graph, backbone):
    assert noted(lpgnn(backbone), graph) == {f"backbone {backbone}: no compiled loop has it"}


def test_a_decoder_without_a_compiled_loop_is_noted(graph):
    assert noted(Vesper(variant="s1", epochs=2, decoder="gru"), graph) == {"decoder gru: no compiled loop has it"}


def test_mapped_and_wide_dense_features_are_noted(graph, tmp_path):
    mapped = memory_mapped.write(graph, tmp_path / "mapped")
    assert noted(Mlp(epochs=2), mapped) == {"perceptron: dense features in a mapped file"}
    assert noted(Mlp(epochs=2), replace(graph, x=np.tile(graph.x, (1, 5)))) == {"perceptron: more than 256 dense features"}


def test_a_private_perceptron_on_mapped_features_is_noted(graph, tmp_path):
    mapped = memory_mapped.write(graph, tmp_path / "mapped")
    private = Mlp(mode="sound", unit=Unit.NODE, epochs=2, batch=32, train_nodes=int(graph.train.sum()))
    model = calibrate(private, Claim(4.0, 1e-3, Unit.NODE))
    assert noted(model, mapped) == {"perceptron: dense features in a mapped file"}


def test_torch_alone_is_the_path_and_is_not_noted_again(graph):
    with compiled.unused():
        assert noted(lpgnn("gcn"), graph) == set()
