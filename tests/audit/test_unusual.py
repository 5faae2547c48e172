"""Runs off the usual path: another plan in the same folder, models of one name, programs that fail, a graph with one edge."""

import dataclasses
import json
import re
import sys
import textwrap
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.planning.plan import read
from gnnaudit.audit.planning.planned_cases import cases, recipes
from gnnaudit.audit.run import run
from gnnaudit.models.data.loading import load

OWN = """
import numpy as np
from dataclasses import dataclass
from gnnaudit.accounting.claim import Unit
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.looped import Looped

@dataclass(frozen=True)
class Mine(Gap):
    epochs: int = 5

@dataclass(frozen=True)
class Target(Gap):
    name: str = "target"

def train(graph, seed):
    logs = np.full((graph.nodes, graph.classes), -np.log(graph.classes))
    sums = graph.adjacency() @ graph.x
    return {"posteriors": logs, "transcript": sums, "aggregates": sums[None], "inputs": graph.x[None]}

def only(*names):
    def some(graph, seed):
        return {name: array for name, array in train(graph, seed).items() if name in names}

    return Looped(some, releases=names, name="train")

talks = only("posteriors", "transcript")
sums = only("posteriors", "aggregates", "inputs")
elsewhere = Looped(train, name="../elsewhere")
usurper = Looped(train, name="dpar", unit=Unit.NODE)

class Refuses(Looped):
    def fit(self, worlds, device="cpu"):
        raise ValueError("no luck\\x1b[31m today")

refuses = Refuses(train)

def on_small_graphs(graph, seed):
    if graph.nodes > 100:
        raise ValueError("more than 100 nodes")
    return {"sums": np.random.default_rng(seed).normal(graph.x)}

refuses_large = Looped(on_small_graphs, releases=("sums",), unit=Unit.NODE)
"""
FEW = {"data": "campus:n=300", "epsilon": "2", "attacks": "none", "audits": "replay", "jobs": 1, "mlflow": "none", "seed": "x"}
FEW |= {"repeats": 2, "shadows": 2, "targets": 1, "rounds": 1}


@pytest.fixture
def own(tmp_path):
    """The address of a model in a file of the user's own, by name."""
    path = tmp_path / "models_of_ones_own.py"
    path.write_text(textwrap.dedent(OWN))
    return lambda name: f"{path}:{name}"


@pytest.fixture
def sparse(tmp_path):
    """Sixty nodes and one edge, as a file."""
    draw, part = np.random.default_rng(0), np.arange(60) % 4
    edges = np.array([[0], [1]])
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    x, both = draw.random((60, 5)).astype(np.float32), np.concatenate([edges, edges[::-1]], axis=1)
    np.savez(tmp_path / "sparse.npz", x=x, y=np.arange(60) % 3, edge_index=both, **masks)
    return str(tmp_path / "sparse.npz")


def ran(out, **options):
    """The exit code, the run and the rows of a run into `out`."""
    code = run(read(None, FEW | {"out": str(out)} | options), quiet=True)
    document = json.loads((out / "results.json").read_text())
    assert document["run"]["exit_code"] == code
    return code, document["run"], document["rows"]


@pytest.mark.nightly
def test_another_plan_in_the_same_folder_is_refused_and_with_fresh_leaves_nothing_of_the_first_in_the_report(tmp_path):
    out = tmp_path / "out"
    ran(out, models="gap,mlp", epsilon="1,2")
    (out / "figures" / "notes.txt").write_text("of the user's own")
    before = (out / "results.json").read_bytes(), (out / "plan.toml").read_bytes()
    with pytest.raises(ValueError, match="models is gap,mlp there and gap here; epsilon is 1,2 there and 4 here"):
        ran(out, models="gap", epsilon="4")
    assert before == ((out / "results.json").read_bytes(), (out / "plan.toml").read_bytes())
    ran(out, models="gap", epsilon="4", fresh=True)
    assert (out / "figures" / "notes.txt").exists()
    assert {p.name.split("-undirected")[0] for p in (out / "evidence").iterdir()} == {"gap-sound-4"}
    assert {p.stem for p in (out / "figures").glob("epsilon-*")} == {"epsilon-undirected-edge-4"}
    page = (out / "report.html").read_text()
    assert "gap (sound)" in page
    assert "mlp (sound)" not in page


def without_seconds(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize(
    "options",
    [
        {"param": ["gap.hops=1", "epochs=3"], "models": "gap,mlp"},
        {"model": "mine", "param": ["epochs=2"]},
        {"target": "program", "unit": "node", "audits": "one-run"},
        {"model": "mine", "models": "mlp", "preset": "ci", "audits": "replay"},
    ],
    ids=["params", "a model of one's own", "a program", "both, with a preset"],
)
@pytest.mark.nightly
def test_the_stored_plan_runs_what_was_run_and_nothing_else(tmp_path, own, options):
    program = "import numpy as np, sys; w = np.load(sys.argv[1] + '/worlds.npz'); y = np.load(sys.argv[1] + '/graph.npz')['y']"
    program += "; np.save(sys.argv[2] + '/posteriors.npy', np.ones((len(w['seeds']), len(w['watch']), y.max() + 1), np.float32))"
    named = {"mine": own("Mine"), "program": f'{sys.executable} -c "{program}" {{worlds}} {{out}}'}
    options = {name: named.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    first = ran(tmp_path / "first", **options)
    plan = read(tmp_path / "first" / "plan.toml", {"out": str(tmp_path / "again")})
    code = run(plan, quiet=True)
    document = json.loads((tmp_path / "again" / "results.json").read_text())
    assert (code, without_seconds(document["rows"])) == (first[0], without_seconds(first[2]))
    assert {row["kind"] for row in document["rows"]} >= {"utility"}


def test_a_program_claims_the_unit_of_the_plan(tmp_path):
    plan = read(None, FEW | {"target": f"{sys.executable} {{worlds}} {{out}}", "unit": "node"})
    made, _ = cases(plan, load("campus:n=300"), recipes(plan)[1])
    assert {(case.claim.unit, case.model.unit) for case in made} == {(Unit.NODE, Unit.NODE)}


def test_a_function_that_protects_another_unit_is_refused_with_the_call_to_write(tmp_path, own):
    plan = read(None, FEW | {"model": own("talks"), "unit": "node"})
    with pytest.raises(ValueError, match=r"Write Looped\(train, unit=Unit.NODE\)"):
        cases(plan, load("campus:n=300"), recipes(plan)[1])


def test_runs_without_a_folder_of_their_own_get_new_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = set()
    for _ in range(3):
        folders.add(folder := read(None, {}).out)
        folder.mkdir(parents=True)
    assert len(folders) == 3


def test_a_model_that_refuses_the_graph_is_unfinished_and_its_ledger_is_still_told(tmp_path, own):
    strong = {"models": "gap", "audits": "residual"}
    assert ran(tmp_path / "alone", **strong)[0] == 0
    code, told, rows = ran(tmp_path / "both", model=own("refuses"), **strong | {"models": "gap,train"})
    assert (code, told["verdict"]) == (3, "inconclusive; not tested: train")
    assert {r["kind"] for r in rows if r["model"] == "train"} == {"account", "skipped"}
    (fault,) = ET.parse(tmp_path / "both" / "junit.xml").getroot().iter("error")
    assert "no audit tested this claim: fit: " in fault.get("message")
    assert "no luck" in fault.text


def test_a_refusal_that_only_the_audits_meet_is_told_on_the_terminal(tmp_path, own):
    """The contract trains on a small graph, which the model accepts."""
    with pytest.raises(ValueError, match=r"nothing was tested.*models_of_ones_own.py, line \d+: ValueError: more than 100"):
        ran(tmp_path / "out", model=own("refuses_large"), audits="differential,replay")


def test_what_a_model_says_makes_no_broken_xml(tmp_path, own):
    with pytest.raises(ValueError, match="nothing was tested"):
        ran(tmp_path / "out", model=own("refuses"))
    reasons = [s.get("message") for s in ET.parse(tmp_path / "out" / "junit.xml").getroot().iter("skipped")]
    assert any(reason.endswith("no luck\N{REPLACEMENT CHARACTER}[31m today") for reason in reasons)


def test_audits_that_a_single_edge_is_too_few_for_take_no_others_with_them(tmp_path, sparse):
    _, _, rows = ran(tmp_path / "out", data=sparse, models="gap", audits="game,one-run,residual", attacks="edge-lira")
    bounds = [r for r in rows if r["kind"] == "bound"]
    assert "residual" in {r["audit"] for r in bounds}
    game = [(r["value"], r["verdict"]) for r in bounds if r["audit"] == "game"]
    assert set(game) == {(0.0, "inconclusive")}
    reasons = {r["what"]: r["reason"] for r in rows if r["kind"] == "skipped"}
    assert "1 units that could have a coin" in reasons["audit one-run"]
    assert "both members and non-members" in reasons["edge-lira against dropped"]


def test_a_second_look_that_fails_blames_nobody_and_is_listed(tmp_path, monkeypatch):
    honest = AUDITS["game"].play

    def once(setting):
        if "again" in setting.key.path:
            raise ValueError("no second look today")
        return honest(setting)

    monkeypatch.setitem(AUDITS, "game", dataclasses.replace(AUDITS["game"], play=once))
    common = {"models": "gap", "mode": "paper", "unit": "undirected-edge", "epsilon": "8", "audits": "game", "rounds": 4}
    code, told, rows = ran(tmp_path / "out", **common)
    assert (code, told["verdict"]) == (3, "inconclusive")
    assert {r["verdict"] for r in rows if r["kind"] == "bound"} >= {"refuted"}
    assert [r["reason"] for r in rows if r["kind"] == "skipped" and r["what"] == "audit game again"] == ["no second look today"]


@pytest.mark.parametrize("name", ["talks", "sums"])
def test_arrays_of_ones_own_under_names_of_the_harness_are_looked_at_or_refused_with_a_reason(tmp_path, own, name):
    code, _, rows = ran(tmp_path / "out", model=own(name), audits="replay,transcript,game,residual")
    assert code == 3
    reasons = {r["what"]: r["reason"] for r in rows if r["kind"] == "skipped"}
    if name == "talks":
        assert reasons["audit transcript"] == (
            "train does not declare NoisyMessages. A function cannot declare it. "
            "A model in a file declares it so: set `noisy_messages`, and release `transcript`."
        )
    else:
        assert "no recorded noise covers this change" in reasons["audit replay"]


def test_a_model_cannot_keep_its_runs_outside_of_the_folder(own):
    with pytest.raises(ValueError, match=r"'\.\./elsewhere', which is not a valid folder name"):
        recipes(read(None, {"model": own("elsewhere")}))


@pytest.mark.parametrize("name", ["a/b", "..", " ", "a\nb", "a\u202eb", "a" * 200])
@pytest.mark.parametrize("door", ["model", "target"])
def test_a_name_that_is_no_folder_is_refused_in_one_line(name, door, tmp_path):
    path = tmp_path / "named.py"
    path.write_text(f"{OWN}\nnamed = Looped(train, name={name!r})\n")
    declaration = tmp_path / "target.toml"
    command = f"{sys.executable} x {{worlds}} {{out}}"
    declaration.write_text(f"command = '{command}'\nunit = 'node'\nname = {json.dumps(name)}\n")
    given = {"model": f"{path}:named", "target": str(declaration)}
    with pytest.raises(ValueError, match="which is not a valid folder name") as fault:
        recipes(read(None, {door: given[door], "epsilon": "1"}))
    assert len(str(fault.value).splitlines()) == 1


def test_a_function_with_the_name_of_a_system_runs_under_the_name_that_the_refusal_gives(tmp_path):
    path = tmp_path / "same_name.py"
    path.write_text(f"{OWN}\ndef dpgnn(graph, seed):\n    return train(graph, seed)\n\nmodel = Looped(dpgnn)\n")
    with pytest.raises(ValueError, match="is called 'dpgnn', like a system of this package") as fault:
        recipes(read(None, {"model": f"{path}:model", "epsilon": "1"}))
    way = re.search(r"write Looped\(…, (name='.*')\)\.$", str(fault.value))
    path.write_text(path.read_text().replace("Looped(dpgnn)", f"Looped(dpgnn, {way[1]})"))
    assert list(recipes(read(None, {"model": f"{path}:model", "epsilon": "1"}))[1]) == ["own-dpgnn"]


def test_a_program_with_the_name_of_a_system_of_the_plan_is_named(tmp_path):
    declaration = tmp_path / "target.toml"
    declaration.write_text(f"command = '{sys.executable} x {{worlds}} {{out}}'\nunit = 'node'\nname = 'gap'\n")
    with pytest.raises(ValueError, match=r"^models=gap: your own model or program is called 'gap'"):
        recipes(read(None, {"target": str(declaration), "models": "gap", "epsilon": "1"}))


def test_two_models_of_one_name_are_refused(own):
    with pytest.raises(ValueError, match="is called 'target', like the program"):
        recipes(read(None, {"model": own("Target"), "target": f"{sys.executable} x {{worlds}} {{out}}"}))
    with pytest.raises(ValueError, match="is called 'gap', like a system"):
        recipes(read(None, {"model": own("Mine"), "models": "mlp,gap"}))
    with pytest.raises(ValueError, match="is called 'dpar', like a system of this package"):
        recipes(read(None, {"model": own("usurper")}))
    assert list(recipes(read(None, {"model": own("Mine")}))[1]) == ["gap"]  # which it is made of
    assert list(recipes(read(None, {"model": own("Mine"), "models": "mlp"}))[1]) == ["gap", "mlp"]


@pytest.mark.parametrize("options", [{"models": "gap,gap"}, {"epsilon": "2,2"}, {"audits": "game,replay,game"}])
def test_what_is_asked_for_twice_is_refused_by_its_name(options):
    ((_, value),) = options.items()
    with pytest.raises(ValueError, match=f"names {value.split(',')[0]} twice. Name it once"):
        read(None, options)


@pytest.mark.nightly
def test_a_batch_that_is_set_makes_node_level_possible_on_a_small_graph(sparse):
    """Thirty training nodes, of which the default batches of 256 cannot be drawn; epochs stay those of node level."""
    graph = load(sparse)
    plan = read(None, {"models": "gap", "unit": "node", "epsilon": "2", "param": ["batch=10"]})
    (case,), skips = cases(plan, graph, recipes(plan)[1])
    assert (case.model.batch, case.model.train_nodes, case.model.epochs, case.model.unit) == (10, 30, 10, Unit.NODE)
    assert skips == []
    own_epochs = read(None, {"models": "gap", "unit": "node", "epsilon": "2", "param": ["batch=10", "gap.epochs=3"]})
    assert cases(own_epochs, graph, recipes(own_epochs)[1])[0][0].model.epochs == 3
