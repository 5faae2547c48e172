"""A user's function as a model."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import random
import re
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from gnnaudit import load
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.models.base import Model, Release
from gnnaudit.models.fitted import fitted
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.looped import Looped


async def later(graph: Graph, seed: int) -> dict[str, Any]:
    return {}


def in_parts(graph: Graph, seed: int) -> Iterator[dict[str, Any]]:
    yield {}


class Later:
    async def __call__(self, graph: Graph, seed: int) -> dict[str, Any]:
        return {}


def degrees(graph: Graph, seed: int) -> dict[str, Any]:
    """Tells the world apart: the degree of every node, its training bit and the seed."""
    return {"posteriors": np.stack([graph.degree, graph.train, np.full(graph.nodes, seed)], axis=1)}


class ChangesInPlace:
    """A model with a `fit` of its own, which changes what `change` changes."""

    name, mode, unit, releases, public = "mine", "sound", Unit.NODE, ("posteriors",), ()
    ledger = GaussianDpEvent(1.0)

    def __init__(self, change):
        self.change = change

    def with_noise(self, sigma):
        return self

    def printed(self, delta):
        return None

    def footprint(self, graph):
        return 1

    def fit(self, worlds, device="cpu"):
        self.change(worlds)
        shape = worlds.runs, worlds.watch.size, worlds.graph.classes
        return Release({"posteriors": np.full(shape, -np.log(worlds.graph.classes))}, worlds.watch)


def shifts_features(worlds):
    worlds.graph.x[:] += 1


def shifts_features_of_a_run(worlds):
    worlds.removed(0).graph.x[:] += 1


def shuffles_in_torch(worlds):
    worlds.graph.to_pyg().edge_index[0] += 1


def forgets_training_nodes(worlds):
    worlds.graph.train[:] = False


@pytest.mark.parametrize(
    ("change", "array"),
    [
        (shifts_features, "x"),
        (shifts_features_of_a_run, "x"),
        (shuffles_in_torch, "arcs"),
        (forgets_training_nodes, "train"),
    ],
)
def test_a_fit_that_changes_its_graph_in_place_is_refused_with_the_array_and_changes_no_other_run(graph, change, array):
    before = graph.digest
    with pytest.raises(ValueError, match=rf"^mine: fit changed graph\.{array} in place\. .* such as graph\.{array}\.copy\(\)"):
        fitted(ChangesInPlace(change), Worlds.of(graph, [1, 2]))
    assert dataclasses.replace(graph).digest == before
    np.testing.assert_array_equal(graph.arcs, dataclasses.replace(graph).arcs)


def test_a_fit_that_changes_copies_is_accepted(graph):
    release = fitted(ChangesInPlace(lambda worlds: worlds.removed(0).graph.train.fill(False)), Worlds.of(graph, [1, 2]))
    assert len(release) == 2


def test_every_run_gets_its_own_graph_and_seed(graph: Graph) -> None:
    edges = Mask(np.array([4]), np.array([[True], [False]]))
    nodes = Mask(np.array([7]), np.array([[False], [True]]))
    worlds = dataclasses.replace(Worlds.of(graph, [3, 2**63], np.array([7, 1, *graph.edges[:, 4]])), edges=edges, nodes=nodes)
    model = Looped(degrees)
    seen = model.fit(worlds)["posteriors"]
    assert isinstance(model, Model)
    assert seen.shape == (2, 4, 3)
    assert seen[0, 0, 0] == 0
    assert seen[0, 0, 1] == 0
    np.testing.assert_array_equal(seen[1, 2:, 0], graph.degree[graph.edges[:, 4]] - 1)
    np.testing.assert_array_equal(seen[:, 0, 2], np.array([3, 2**63], dtype=np.float32))


def test_sums_are_watched_along_their_second_axis(graph: Graph) -> None:
    def train(graph: Graph, seed: int) -> dict[str, Any]:
        return {"aggregates": np.tile(np.arange(graph.nodes)[None, :, None], (2, 1, 5))}

    sums = Looped(train, releases=("aggregates",)).fit(Worlds.of(graph, [1], np.array([9, 4])))["aggregates"]
    assert sums.shape == (1, 2, 2, 5)
    np.testing.assert_array_equal(sums[0, 1, :, 3], [9, 4])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"logits": np.zeros((40, 3))}, r"returned \['logits'\], not 'posteriors'"),
        ({"posteriors": np.zeros((39, 3))}, r"shape \(39, 3\); axis 0 must count 40 nodes"),
        ({"posteriors": np.full((40, 3), np.nan)}, "NaN"),
        ({"posteriors": np.full((40, 3), 1e300)}, "NaN or infinity"),
        ({0: 1.0, "logits": 2.0}, r"returned \[0, 'logits'\], not 'posteriors'"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(answer: dict[str, Any], words: str, graph: Graph) -> None:
    with pytest.raises(ValueError, match=words):
        Looped(lambda graph, seed: answer).fit(Worlds.of(graph, [1]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train": None}, "train=None: must be a function train(graph, seed)"),
        ({"train": int}, "train=<class 'int'>: must be a function"),
        ({"train": lambda graph: None}, "train(graph): must take a graph and a seed."),
        ({"train": lambda a, b, c: None}, "train(a, b, c): must take a graph and a seed."),
        ({"train": later}, "train=<function later"),
        ({"train": partial(later)}, "train=functools.partial(<function later"),
        ({"train": in_parts}, "train=<function in_parts"),
        ({"train": Later()}, "train=<"),
        ({"unit": "edge"}, "unit='edge': must be one of"),
        ({"releases": "posteriors"}, "releases='posteriors': must be a tuple of words"),
        ({"releases": ()}, "releases=(): must name the arrays"),
        ({"releases": ("",)}, "releases=('',): must be a tuple of words"),
        ({"max_degree": True}, "max_degree=True: must be a whole number"),
        ({"releases": ("a", "b", "a")}, "releases=('a', 'b', 'a'): names 'a' twice. Name it once."),
        ({"events": "gauss"}, "events='gauss': must be a DpEvent"),
        ({"events": 1.5}, "events=1.5: must be a DpEvent"),
        ({"events": GaussianDpEvent(-1.0)}, "events: GaussianDpEvent: noise_multiplier=-1.0"),
        ({"name": 3}, "name=3: must be a word"),
        ({"mode": "loud"}, "mode='loud': must be one of sound, paper."),
        ({"public": "x"}, "public='x': must be a tuple of words"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        Looped(**({"train": lambda graph, seed: {}} | change))


def test_a_unit_may_be_given_as_its_value() -> None:
    assert Looped(lambda graph, seed: {}, unit="node").unit is Unit.NODE


def test_a_graph_has_the_edge_index_of_pyg_and_names_its_fields_for_a_wrong_one(graph: Graph) -> None:
    assert np.array_equal(graph.edge_index, graph.to_pyg().edge_index.numpy())
    assert graph.edge_index.shape[1] == 2 * graph.edges.shape[1]
    with pytest.raises(AttributeError, match=r"a graph has no 'edge_indx'. Did you mean edge_index"):
        _ = graph.edge_indx
    assert pickle.loads(pickle.dumps(graph)).digest == graph.digest


def test_a_removed_run_has_its_edges_in_its_graph_and_no_masks(graph: Graph) -> None:
    worlds = dataclasses.replace(Worlds.of(graph, [3]), edges=Mask(np.array([4]), np.array([[False]])))
    alone = worlds.removed(0)
    assert alone.edges is alone.nodes is alone.labels is None
    assert np.array_equal(alone.graph.edges, np.delete(graph.edges, 4, axis=1))


def test_an_array_that_has_no_row_for_each_node_is_released_whole():
    graph = load("campus:n=120:degree=6")

    def train(graph, seed):
        weights = np.random.default_rng(seed).standard_normal((graph.dim, graph.classes))
        return {"posteriors": np.zeros((graph.nodes, graph.classes)), "weights": weights, "degrees": graph.degree, "loss": 0.5}

    model = Looped(train, releases=("posteriors", "weights", "degrees", "loss"))
    release = model.fit(Worlds(graph, np.arange(3, dtype=np.uint64), np.array([7, 2])))
    assert release["weights"].shape == (3, graph.dim, graph.classes)
    assert release["degrees"].tolist() == [graph.degree[[7, 2]].tolist()] * 3
    assert release["loss"].tolist() == [0.5] * 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"counts": np.zeros(3)}, r"train returned 'counts', which releases=\('posteriors',\) does not name"),
        ({"posteriors": np.zeros((120, 6)) + 1j}, "'posteriors' has type complex128; expected real numbers"),
        ({"posteriors": np.full((120, 6), "hi")}, "'posteriors' has type <U2; expected real numbers"),
        ({"posteriors": [[1.0], [1.0, 2.0]]}, "'posteriors' is no array of numbers"),
    ],
)
def test_what_the_audit_would_not_read_is_refused(more, said):
    model = Looped(lambda graph, seed: {"posteriors": np.zeros((120, 6))} | more)
    with pytest.raises(ValueError, match=said):
        model.fit(Worlds.of(load("campus:n=120:degree=6"), [0]))


def test_an_array_whose_shape_changes_between_runs_is_refused():
    graph = load("campus:n=120:degree=6")

    def train(graph, seed):
        return {"posteriors": np.zeros((graph.nodes, graph.classes)), "list": np.zeros(1 + seed)}

    with pytest.raises(ValueError, match=r"'list' has shapes \[\(1,\), \(2,\)\]; the shape must be the same in every run"):
        Looped(train, releases=("posteriors", "list")).fit(Worlds.of(graph, [0, 1]))


@pytest.mark.parametrize(
    ("module", "decorator", "unit"),
    [
        ("decorated_votes", "@Looped", Unit.UNDIRECTED_EDGE),
        ("decorated_with_arguments", "@Looped(unit='node', max_degree=8)", Unit.NODE),
    ],
)
def test_a_decorated_function_can_be_sent_to_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, decorator: str, unit: Unit
) -> None:
    """In its module the function's name is that of the model, so a pickle that looks for the function would find the model."""
    lines = ["from gnnaudit import Looped", decorator, "def votes(graph, seed):", "    return {'posteriors': seed}"]
    (tmp_path / f"{module}.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    votes = importlib.import_module(module).votes
    assert votes.unit is unit
    again = pickle.loads(pickle.dumps(votes))
    assert again == votes
    assert again.train is votes.train


def test_a_decorator_with_arguments_makes_the_same_model_as_a_call() -> None:
    assert Looped(unit="node", max_degree=8)(degrees) == Looped(degrees, unit=Unit.NODE, max_degree=8)
    with pytest.raises(ValueError, match="unit='edge': must be one of"):
        Looped(unit="edge")(degrees)
    with pytest.raises(TypeError, match="unitt"):
        Looped(unitt="node")(degrees)


def test_a_function_within_a_function_cannot_be_sent_to_a_worker() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="inner"):
        pickle.dumps(Looped(nested()))


def nested() -> Any:
    def inner(graph: Graph, seed: int) -> dict[str, Any]:
        return {"posteriors": seed}

    return inner


def test_the_unit_is_that_of_the_claim_and_another_one_is_refused() -> None:
    assert Looped(degrees, claim=Claim(1.0, 0.0, Unit.NODE)).unit is Unit.NODE
    assert Looped(degrees, unit=Unit.NODE, claim=Claim(1.0, 0.0, Unit.NODE)).unit is Unit.NODE
    with pytest.raises(ValueError, match="claim is about features, and unit=node: must be the same"):
        Looped(degrees, unit=Unit.NODE, claim=Claim(1.0, 0.0, Unit.FEATURES))
    with pytest.raises(ValueError, match=r"claim=1\.0: must be a Claim"):
        Looped(degrees, claim=1.0)  # type: ignore[arg-type]


def of_the_system(graph: Graph, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(secrets.randbits(128))
    numbers = [rng.random(), np.random.default_rng().random(), random.SystemRandom().random(), random.Random().random()]
    return {"numbers": np.array([*numbers, *secrets.token_bytes(4), *os.urandom(4), np.random.RandomState().rand()])}


def test_random_bytes_of_the_operating_system_follow_from_the_seed_within_a_training_alone(graph: Graph) -> None:
    model = Looped(of_the_system, releases=("numbers",))
    one, same, other = (model.fit(Worlds.of(graph, np.array([s], dtype=np.uint64)))["numbers"] for s in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.any(one[:, :4] == other[:, :4])
    before = of_the_system(graph, 3)["numbers"]
    assert not np.any(before[:4] == of_the_system(graph, 3)["numbers"][:4])


def test_a_global_generator_keeps_its_state_so_that_a_constant_seed_is_still_found(graph: Graph) -> None:
    """A file that seeds NumPy's generator once gives every process the same noise; the seed of a training must not hide this."""
    model, worlds = Looped(of_the_global_generator, releases=("numbers",)), Worlds.of(graph, np.array([3], dtype=np.uint64))
    np.random.seed(0)
    first = model.fit(worlds)["numbers"]
    np.random.seed(0)
    assert np.array_equal(model.fit(worlds)["numbers"], first)
    assert not np.array_equal(model.fit(worlds)["numbers"], first)


def of_the_global_generator(graph: Graph, seed: int) -> dict[str, Any]:
    return {"numbers": np.random.normal(size=4)}


def changing(graph: Graph, seed: int) -> dict[str, Any]:
    for array in (graph.x, graph.y, graph.edges, graph.train, graph.val, graph.test):
        array[...] = 0
    graph.to_pyg().x.add_(1.0)
    return {"numbers": graph.x.sum() + graph.y.sum()}


def test_a_function_that_changes_its_graph_in_place_changes_no_other_run_and_not_the_graph(graph: Graph) -> None:
    names = ("x", "y", "edges", "train", "val", "test")
    before = {name: getattr(graph, name).copy() for name in names}
    runs = Looped(changing, releases=("numbers",)).fit(Worlds.of(graph, np.arange(3, dtype=np.uint64)))["numbers"]
    assert np.array_equal(runs, [graph.x.size] * 3)
    assert all(np.array_equal(getattr(graph, name), before[name]) for name in names)


def assigning(graph: Graph, seed: int) -> dict[str, Any]:
    """The mistake under test: a type checker names it, too."""
    graph.x += 1  # type: ignore[misc]
    return {}


def test_a_function_that_assigns_a_field_of_its_graph_is_told_to_change_a_copy(graph: Graph) -> None:
    said = r"test_looped\.py, line \d+: FrozenInstanceError: cannot assign to field 'x'\. The object is frozen: change a copy"
    with pytest.raises(ValueError, match=said):
        fitted(Looped(assigning), Worlds.of(graph, np.array([3], dtype=np.uint64)))
