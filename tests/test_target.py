"""The program's side of `--target`: one file that needs NumPy alone, imported or copied, and says where a release is wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnnaudit import load, target
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs import program
from gnnaudit.audit.own.programs.program import External

FILE = Path(target.__file__)
PROGRAM = External(f"{sys.executable} train.py {{worlds}} {{out}}")
FILL = "p = np.full((run.nodes, run.classes), 1 / run.classes)"


def write_worlds(worlds, folder):
    """Several runs in one call, each with its masks, also of edges. The tool itself writes one run, and no mask of edges."""
    g, there = worlds.graph, worlds.edge_present()
    masks = {"train_mask": g.train, "val_mask": g.val, "test_mask": g.test}
    np.savez(folder / "graph.npz", x=g.x, y=g.y, edge_index=g.arcs, **masks)
    parts = {"seeds": worlds.seeds, "watch": worlds.watch, "edge_mask": np.packbits(np.tile(there, 2), axis=1)}
    for name in ("node", "label"):
        if (mask := getattr(worlds, f"{name}s")) is not None:
            parts[f"{name}_mask"] = np.packbits(mask.dense(g.nodes), axis=1)
    np.savez(folder / "worlds.npz", **parts)


@pytest.fixture
def worlds():
    graph = load("campus:n=160:degree=8")
    return Game(graph, "edge", np.arange(30), Key("target")).rounds(2).worlds


def carried_out(tmp_path, worlds, body, head="import numpy as np\nfrom target import target"):
    """The program `body` (of one run), with a copy of the file beside it and nothing of the package in reach."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    write_worlds(worlds, tmp_path / "in")
    shutil.copy(FILE, tmp_path / "target.py")
    script = tmp_path / "train.py"
    script.write_text(f"{head}\nwith target() as runs:\n    for run in runs:\n        " + body.replace("\n", "\n        "))
    words = [sys.executable, "-P", str(script), str(tmp_path / "in"), str(tmp_path / "out")]
    return subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)


def test_the_file_imports_numpy_and_the_standard_library_alone(tmp_path, worlds):
    body = (
        f"{FILL}\nrun.seed_everything()\nrun.release(p)\nimport json, sys\njson.dump(sorted(sys.modules), open('modules', 'w'))"
    )
    done = carried_out(tmp_path, worlds, body)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in json.loads((tmp_path / "out" / "modules").read_text())}
    assert not loaded & {"gnnaudit", "torch", "scipy", "torch_geometric", "pandas"}
    assert PROGRAM.read(tmp_path / "out", worlds)["posteriors"].shape == (2, worlds.watch.size, worlds.graph.classes)


@pytest.mark.parametrize(("path", "told"), [("config.yaml", True), ("missing.yaml", False)])
def test_a_relative_path_that_exists_where_the_program_began_is_explained(tmp_path, worlds, path, told):
    (tmp_path / "config.yaml").write_text("")
    done = carried_out(tmp_path, worlds, f"open({path!r})")
    assert done.returncode == 1
    assert f"FileNotFoundError: [Errno 2] No such file or directory{' in ' if told else ': '}" in done.stderr
    assert (f"{tmp_path / 'out'}, the working directory of trainings. Give an absolute path: {path!r}" in done.stderr) == told


def test_importing_it_from_the_package_loads_nothing_but_numpy():
    code = (
        "import sys; before = set(sys.modules); import gnnaudit.target; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "pydantic", "dp_accounting"} & set(json.loads(done.stdout.replace("'", '"')))


@pytest.mark.parametrize("kind", ["edge", "node", "label"])
def test_what_a_run_lacks_is_gone(tmp_path, kind):
    graph = load("campus:n=160:degree=8")
    rounds = Game(graph, kind, np.flatnonzero(graph.train)[:20], Key("gone")).rounds(2).worlds
    write_worlds(rounds, tmp_path)
    for k, run in enumerate(target.read(tmp_path)):
        there = rounds.removed(k).graph
        assert {tuple(a) for a in run.edge_index.T} == {tuple(a) for a in there.arcs.T}
        assert np.array_equal(run.train_mask, there.train)
        assert run.seed == int(rounds.seeds[k])


def test_validation_is_never_empty(tmp_path, worlds):
    write_worlds(worlds, tmp_path)
    with np.load(tmp_path / "graph.npz") as file:
        graph = dict(file)
    np.savez(tmp_path / "graph.npz", **{**graph, "val_mask": np.zeros(160, dtype=bool)})
    assert all(np.array_equal(run.val_mask, run.train_mask) and run.val_mask.any() for run in target.read(tmp_path))


def test_seeds_are_within_the_range_of_every_library(tmp_path, worlds):
    run = target.read(_written(tmp_path, worlds))[0]
    drawn = []
    for seed in (2**64 - 1, 2**32, 2**64 - 1, 0):
        run.seed = seed
        assert run.seed_everything() == seed
        drawn.append((np.random.random(), __import__("random").random()))
    assert drawn[0] == drawn[2]
    assert len(set(drawn)) == 3
    import torch

    run.seed = 2**64 - 1
    run.seed_everything()
    first = torch.rand(1)
    run.seed_everything()
    assert torch.equal(first, torch.rand(1))


def _written(folder, worlds):
    write_worlds(worlds, folder)
    return folder


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("run.release(np.ones((3, 2)))", "run 0: 'posteriors' has shape (3, 2); expected (160, 6), a row for a node."),
        (f"{FILL}\nrun.release(np.log(p))", "run 0: 'posteriors' holds negative numbers; give probabilities"),
        (f"{FILL}\nrun.release(p * np.nan)", "run 0: 'posteriors' holds NaN or infinity in 960 places."),
        (f"{FILL}\nrun.release(p * 0)", "run 0: 'posteriors' holds a row of zeros"),
        (f"{FILL}\nrun.release([['a']])", "run 0: 'posteriors' holds <U1; expected real numbers."),
        (f"{FILL}\nrun.release(p); run.release(p)", "run 0: releases twice"),
        (f"{FILL}\nrun.release(p, aggregates=[run.x])", "run 0: releases one of 'aggregates' and 'inputs'"),
        (
            f"{FILL}\nrun.release(p, aggregates=run.x, inputs=[run.x])",
            "'aggregates' has shape (160, 64); expected (hops, 160, columns)",
        ),
        (f"{FILL}\nrun.release(p, aggregates=[run.x[:, :3]], inputs=[run.x])", "a sum of rows has as many columns as a row"),
        (f"{FILL}\nrun.release(p, noise_std=0)", "run 0: noise_std=0.0: must be a finite number above 0."),
        (f"{FILL}\nrun.release(p, vote=p)", "run 0: has no place for 'vote'"),
        ("pass", "run 0: released nothing"),
        (f"{FILL}\nrun.release(p, **({{}} if run.number else {{'votes': p}}))", "run 1: released ['posteriors'], and run 0"),
        (
            "run.seed_everything()\nimport sys, types; sys.modules['torch'] = types.ModuleType('torch')\nrun.release(0)",
            "imported PyTorch after",
        ),
    ],
)
def test_a_wrong_release_is_named_where_it_is_made(tmp_path, worlds, body, words):
    done = carried_out(tmp_path, worlds, body)
    assert done.returncode == 1
    assert words in done.stderr.strip().splitlines()[-1]
    assert not list((tmp_path / "out").glob("*.npy"))


def test_a_command_without_folders_says_how_it_is_called(tmp_path):
    (tmp_path / "target.py").write_text(FILE.read_text())
    code = "from target import target\nwith target(): pass"
    found = os.environ | {"PYTHONPATH": str(tmp_path)}  # also where PYTHONSAFEPATH keeps the current folder out
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=found)
    assert done.returncode == 1
    assert "WORLDS OUT" in done.stderr


def test_pytorch_geometric_gets_the_same_graph(tmp_path, worlds):
    pytest.importorskip("torch_geometric")
    run = target.read(_written(tmp_path, worlds))[0]
    data = run.data()
    assert data.num_nodes == run.nodes
    assert np.array_equal(data.edge_index.numpy(), run.edge_index)


@pytest.mark.parametrize(("kind", "masks"), [("edge", []), ("node", ["node_mask"]), ("label", ["label_mask"])])
def test_the_program_gets_a_graph_without_what_is_absent_and_a_mask_of_nodes_or_labels_alone(kind, masks, tmp_path):
    """As the table in docs/own-program.md says. The rows of an absent node stay."""
    graph = load("campus:n=160:degree=8")
    items = np.arange(30) if kind == "edge" else np.flatnonzero(graph.train)[:30]
    world = Game(graph, kind, items, Key("target")).rounds(1).worlds
    program.write_worlds(world, tmp_path)
    given, parts = (dict(np.load(tmp_path / name)) for name in ("graph.npz", "worlds.npz"))
    assert sorted(parts) == sorted(["seeds", "watch", *masks])
    gone = items[~getattr(world, f"{kind}s").present[0]]
    assert gone.size
    if kind == "edge":
        assert given["edge_index"].shape[1] == 2 * (graph.edges.shape[1] - gone.size)
        return
    assert not given["train_mask"][gone].any()
    assert np.isin(given["edge_index"], gone).any() == (kind == "label")
    assert np.array_equal(given["x"], graph.x)
    (mask,) = masks
    assert np.array_equal(np.flatnonzero(np.unpackbits(parts[mask], axis=1, count=graph.nodes)[0] == 0), gone)
