"""Programs that declare nothing are recorded in a Python of their own, and their mechanisms are held against closed forms."""

import ast
import dataclasses
import math
import sys
from pathlib import Path

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

from gnnaudit import Claim, Looped, Unit, load, models
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms import loud_secrets
from gnnaudit.audit.mechanisms.inside import Inside
from gnnaudit.audit.mechanisms.overview.observed import observe
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own.programs.declaration import Declared
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.own.programs.recording import Request
from gnnaudit.audit.own_bounds.within_run import from_mechanisms
from gnnaudit.audit.recorded.playing import play
from gnnaudit.audit.recorded.study import study
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.capabilities import FEW
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.recorder.files import load as load_recording
from gnnaudit.reports.evidence import judge

DELTA = 1e-5
GRAPH = load("campus:n=160:degree=8")
GAP = """
import sys
import numpy as np
g, w = (dict(np.load(sys.argv[1] + "/" + name)) for name in ("graph.npz", "worlds.npz"))
rng = np.random.default_rng(int(w["seeds"][0]))
send, receive = g["edge_index"]
unit = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
h = [unit(g["x"].astype(float))]
for hop in range(2):
    clean = np.zeros_like(h[-1])
    np.add.at(clean, receive, h[-1][send])
    h.append(unit(clean + SIGMA * rng.standard_normal(clean.shape)))  # the sum
seen = np.hstack([rows[:, :8] for rows in h])
scores = np.exp(seen @ rng.standard_normal((24, int(g["y"].max()) + 1)))
np.save(sys.argv[2] + "/posteriors.npy", (scores / scores.sum(1, keepdims=True))[None])
"""


# what GAP's ledger asks for at epsilon 4: two directed edges, each of sensitivity 1
CHARGED = 2**0.5 * get_sigma_gaussian(4.0, DELTA)


def studied(folder, sigma=CHARGED, *changes, unit=Unit.UNDIRECTED_EDGE):
    """The bound and the observed ledger of a program, with some texts exchanged."""
    model = program(folder, sigma, changes, unit)
    case = Case(model, Claim(4.0, DELTA, unit))
    runs = Recorded(case, GRAPH, Key("t"))
    bound = from_mechanisms(case, runs.inside) if isinstance(runs.inside, Inside) else None
    return bound, observe(runs)


def program(folder, sigma, changes, unit=Unit.UNDIRECTED_EDGE):
    text = GAP.replace("SIGMA", repr(sigma))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "gap.py").write_text(text)
    return External(f"{sys.executable} {folder}/gap.py {{worlds}} {{out}}", unit)


def line_of(text):
    return next(n for n, line in enumerate(GAP.splitlines(), 1) if text in line)


TRAINED = (  # 8 features, all columns shown, and a classifier that is fitted to them
    ('g["x"].astype(float)', 'g["x"].astype(float)[:, :8]'),
    ("rows[:, :8]", "rows"),
    (
        'rng.standard_normal((24, int(g["y"].max()) + 1))',
        '(5 * np.linalg.solve(seen.T @ seen + np.eye(24), seen.T @ np.eye(int(g["y"].max()) + 1)[g["y"]]))',
    ),
)


@pytest.mark.nightly
def test_gap_that_declares_nothing_is_refuted_by_the_directions_of_its_rows(tmp_path):
    bound, _ = studied(tmp_path, CHARGED, *TRAINED)
    whole = get_epsilon_gaussian(CHARGED / 2, DELTA)  # of the rows themselves
    assert bound.refuted
    assert 4.0 < bound.epsilon < whole
    assert "shows directions alone" in bound.method
    assert not studied(tmp_path, CHARGED * 2**0.5, *TRAINED)[0].refuted


@pytest.mark.nightly
def test_gap_whose_ledger_charges_directed_edges_is_refuted_if_it_declares_a_ledger(tmp_path):
    """Its posteriors are fixed functions of 8 of 64 columns, so without a ledger the verdict is inconclusive."""
    bound, observed = studied(tmp_path)
    assert not bound.refuted
    assert "shows only part of the noisy value" in bound.method
    program = External(f"{sys.executable} {tmp_path}/gap.py {{worlds}} {{out}}")
    declared = Declared(program.command, charged="2 * gaussian(sigma)", values=(("sigma", CHARGED),))
    case = Case(declared, Claim(4.0, DELTA))
    runs = Recorded(case, GRAPH, Key("t"))
    bound, observed = from_mechanisms(case, runs.inside), observe(runs)
    exact = get_epsilon_gaussian(CHARGED / 2, DELTA)  # an undirected edge moves two sums by the square root of two each
    assert exact > 5.9
    assert bound.refuted
    assert exact * 0.999 < bound.epsilon <= exact
    assert f"gap.py, line {line_of('# the sum')}" in bound.method
    assert [c.how for c in bound.conditions if "sees" in c.what] == ["granted"]
    assert [m.scale[0] for m in observed.mechanisms] == pytest.approx([CHARGED] * 2)
    assert observed.costs == pytest.approx(exact, rel=1e-3)
    assert [(r.array, r.how) for r in observed.released] == [("posteriors", "computed")]
    assert observed.doubts == ()


def test_its_honest_twin_is_not_refuted_and_a_larger_epsilon_would_have_been_noticed(tmp_path):
    bound, observed = studied(tmp_path, CHARGED * 2**0.5)
    assert not bound.refuted
    assert observed.costs == pytest.approx(4.0, rel=1e-3)
    assert 3.99 < bound.reach < 4.02


@pytest.mark.parametrize(("seeds", "known"), [("len(send)", False), ("7", True)])
def test_weights_that_the_number_of_edges_seeds_are_a_path_past_the_noise(seeds, known, tmp_path):
    change = ("rng.standard_normal((24,", f"np.random.default_rng({seeds}).standard_normal((24,")
    bound, observed = studied(tmp_path, CHARGED * 2**0.5, change)
    assert not bound.refuted
    assert math.isfinite(bound.reach) is known
    assert any("although every noisy value is the same" in text for text in observed.doubts) is not known


def test_the_verdict_on_a_program_says_that_unusual_nodes_were_not_examined(tmp_path):
    """A program is recorded on the given graph alone, which may lack the node on which it leaks."""
    case = Case(program(tmp_path, CHARGED * 2**0.5, ()), Claim(4.0, DELTA, Unit.UNDIRECTED_EDGE))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("t"), 1, 1e-4)).bounds
    verdict = judge(case.claim, (), bounds)
    assert verdict.kind == "not-refuted"
    assert verdict.sentence.endswith("an empty class, were not examined, because a program is recorded on your graph alone")


@pytest.mark.parametrize(("seed", "said"), [('int(w["seeds"][0])', True), ('[int(w["seeds"][0]), 1]', False)])
def test_the_verdict_on_a_program_that_makes_two_draws_of_the_same_bits_is_inconclusive(seed, said, tmp_path):
    """Weights of another law, from a second generator: with the same seed, they tell the noise."""
    again = ("rng.standard_normal((24", f"np.random.default_rng({seed}).laplace(size=(24")
    case = Case(program(tmp_path, CHARGED * 2**0.5, (again,)), Claim(4.0, DELTA, Unit.UNDIRECTED_EDGE))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("bits"), 1, 1e-4)).bounds
    verdict = judge(case.claim, (), bounds)
    assert not any(bound.refuted for bound in bounds)
    assert ("are made of the same random bits" in verdict.sentence) == said
    assert (verdict.kind == "inconclusive") == said


@pytest.mark.nightly
def test_noise_from_a_constant_seed_is_an_infinite_epsilon_and_its_line_is_named(tmp_path):
    bound, observed = studied(tmp_path, 5.0, ('int(w["seeds"][0])', "7"))
    assert bound.refuted
    assert math.isinf(bound.epsilon)
    assert f"the noise of gap.py, line {line_of('# the sum')} is the same for two seeds" in bound.method
    assert {m.note.partition(":")[0] for m in observed.mechanisms} == {"the same for two seeds"}


@pytest.mark.nightly
def test_noise_that_is_used_twice_is_an_infinite_epsilon(tmp_path):
    again = ("SIGMA".replace("SIGMA", "5.0 * rng"), "5.0 * np.random.default_rng(int(w['seeds'][0]))")
    bound, _ = studied(tmp_path, 5.0, again)
    assert math.isinf(bound.epsilon)
    assert "their difference depends on the secret and has no noise" in bound.method


@pytest.mark.nightly
def test_a_secret_sample_may_hide_a_move_so_nothing_is_refuted(tmp_path):
    some = ("clean = np.zeros_like(h[-1])", "clean = np.zeros_like(h[-1]); h[-1] = h[-1] * (rng.permutation(160) < 80)[:, None]")
    bound, observed = studied(tmp_path, 0.5, some)
    assert not bound.refuted
    assert bound.epsilon == 0
    assert "may hide a secret" in bound.failed[0]
    assert len(observed.mechanisms) == 2


@pytest.mark.nightly
def test_a_hop_that_the_release_does_not_depend_on_does_not_count(tmp_path):
    bound, observed = studied(tmp_path, CHARGED, ("rows in h]", "rows in (h[0], h[1], h[1])]"))
    one_hop = get_epsilon_gaussian(CHARGED / 2**0.5, DELTA)
    assert bound.epsilon == pytest.approx(one_hop, rel=1e-3)
    assert len(observed.mechanisms) == 2


@pytest.mark.nightly
def test_a_path_past_the_mechanisms_is_named(tmp_path):
    _, observed = studied(
        tmp_path, CHARGED, ("seen @ rng", "seen * (1 + 1e-3 * np.bincount(receive, minlength=160)[:, None]) @ rng")
    )
    assert [r.how for r in observed.released] == ["not known"]
    assert "although every noisy value is the same" in observed.doubts[0]


ENTROPY = ('int(w["seeds"][0])', "")
GLOBAL = ('np.random.default_rng(int(w["seeds"][0]))', "np.random")
CHILD = ("import numpy as np", "import subprocess, numpy as np")
ELSEWHERE = (
    'int(w["seeds"][0])',
    'int(subprocess.check_output([sys.executable, "-c", "print(__import__(\\"secrets\\").randbits(60))"]))',
)

FORK = ("import numpy as np", "import os, numpy as np; r, w_ = os.pipe()")
FORKED = (
    'int(w["seeds"][0])',
    '(os.fork() == 0 and (os.write(w_, b"%020d" % __import__("time").time_ns()), os._exit(0))) or int(os.read(r, 20))',
)


LISTENS = ("1.0 * rng", "(2.0 if 'recorder' in type(rng).__module__ else 1.0) * rng")


def study_after(folder, *changes):
    """The study of the program, with some texts exchanged."""
    return study(program(folder, 1.0, changes), GRAPH, Key("t"))


def test_noise_from_a_constant_seed_is_found_and_its_line_is_named(tmp_path):
    made = study_after(tmp_path, ('int(w["seeds"][0])', "7"))
    assert made.doubt == ""
    noise = {at for at, draw in enumerate(made.base.draws) if f"gap.py, line {line_of('# the sum')}" in draw.line}
    assert len(noise) == 2
    assert noise <= made.constant


@pytest.mark.parametrize("change", [ENTROPY, GLOBAL])
def test_noise_of_the_operating_system_is_repeated_as_that_of_a_seed(change, tmp_path):
    """The program ignores its seed; its recorded runs get other random bytes for each seed."""
    made = study_after(tmp_path, change)
    assert made.doubt == ""
    assert not made.constant
    assert [m.law for m in made.histories[0][2]] == ["normal"] * 2


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ((CHILD, ELSEWHERE), "the program starts another Python process, whose draws are not recorded"),
        ((FORK, FORKED), "a child process, a thread, the clock or "),
        ((ENTROPY, LISTENS), "a child process, a thread, the clock or "),
    ],
)
def test_a_release_that_changes_without_the_recorder_although_the_random_bytes_are_the_same_is_doubted(changes, cause, tmp_path):
    """The first two programs draw in another process, the third one adds more noise while it is recorded."""
    doubt = study_after(tmp_path, *changes).doubt
    assert doubt.startswith(f"the release changes when the run is recorded or repeated with the same seed: {cause}")


def test_of_a_program_without_noise_the_report_does_not_say_that_no_secret_changes_its_release(tmp_path):
    """Coins from a constant seed choose edges; the recorder finds no noise that is added to data, so nothing is repeated."""
    change = ("clean + SIGMA * rng.standard_normal(clean.shape)", "clean * (np.random.default_rng(0).random(clean.shape) < 0.9)")
    (tmp_path / "gap.py").write_text(GAP.replace(*change))
    case = Case(External(f"{sys.executable} {tmp_path}/gap.py {{worlds}} {{out}}"), Claim(4.0, DELTA))
    (released,) = observe(Recorded(case, GRAPH, Key("t"))).released
    assert (released.how, released.detail) == ("not known", "no recorded noise is added to data, so no secret was removed")


def test_recording_changes_nothing_that_is_released(tmp_path):
    (tmp_path / "gap.py").write_text(GAP.replace("SIGMA", "1.0"))
    model = External(f"{sys.executable} {tmp_path}/gap.py {{worlds}} {{out}}")
    worlds = Worlds.of(GRAPH, np.array([5], dtype=np.uint64))
    (cell,) = (recorded := play(model, worlds)).cells
    assert np.array_equal(recorded.cells[cell], model.fit(worlds)["posteriors"][0])
    assert [d.law for d in recorded.draws] == ["normal"] * 3


def test_an_error_within_a_recorded_operation_names_the_line_of_the_program(tmp_path):
    (tmp_path / "mine.py").write_text("import torch\nnoise = torch.randn(6)\nprint(noise + torch.ones(5))\n")
    model = External(f"{sys.executable} {tmp_path}/mine.py {{worlds}} {{out}}")
    with pytest.raises(ValueError, match=r"mine\.py, line 3: RuntimeError: The size of tensor a") as failed:
        play(model, Worlds.of(GRAPH, np.array([5], dtype=np.uint64)))
    assert "recorder" not in str(failed.value)


def test_a_program_that_is_not_python_is_said_to_be_unheard(tmp_path):
    (tmp_path / "gap.py").write_text(GAP.replace("SIGMA", "1.0"))
    command = f"{sys.executable} -I {tmp_path}/gap.py {{worlds}} {{out}}"  # isolated: PYTHONPATH is ignored
    case = Case(External(command), Claim(4.0, DELTA))
    runs = Recorded(case, GRAPH, Key("t"))
    assert "nothing was recorded" in runs.inside
    assert any("nothing was recorded" in doubt for doubt in observe(runs).doubts)


@pytest.mark.nightly
def test_what_draws_elsewhere_is_said(tmp_path):
    for change in (
        ("import sys", "import sys, subprocess\nsubprocess.run([sys.executable, '-c', 'import random'])"),
        ("import sys", "import sys, types\nsys.modules['jax'] = types.ModuleType('jax')\nimport jax"),
    ):
        _, observed = studied(tmp_path, CHARGED, change)
        assert any("not recorded" in doubt for doubt in observed.doubts)


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "recording.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match="not a recording"):
        load_recording(tmp_path / "recording.npz", 1 << 20)
    np.savez(tmp_path / "large.npz", a=np.zeros(1000))
    with pytest.raises(ValueError, match="holds more than"):
        load_recording(tmp_path / "large.npz", 1000)


def test_the_recorder_is_written_for_python_3_9_with_numpy_alone():
    folder = Path(models.__file__).parent / "recorder"
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        at_the_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in at_the_top:
            names = (
                [a.name for a in node.names] if isinstance(node, ast.Import) else ([node.module or ""] if not node.level else [])
            )
            assert all(name.partition(".")[0] in {*sys.stdlib_module_names, "numpy"} for name in names), (file, names)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for call in calls:
            assert not (
                isinstance(call.func, ast.Name) and call.func.id == "zip" and any(k.arg == "strict" for k in call.keywords)
            )


@pytest.mark.parametrize(("imports", "told"), [("import drawing", False), ("def never():\n    from jax import random", True)])
def test_a_package_with_generators_that_are_not_recorded_counts_if_the_program_itself_imports_it(
    imports, told, tmp_path, monkeypatch
):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "jax.py").write_text("")
    (library / "drawing.py").write_text("import jax\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    (tmp_path / "gap.py").write_text(f"import drawing\n{imports}\n{GAP.replace('SIGMA', '2.0')}")
    model = External(f"{sys.executable} {tmp_path}/gap.py {{worlds}} {{out}}")
    notes = play(model, Worlds.of(GRAPH, np.array([1], dtype=np.uint64))).notes
    assert any("the program imports jax" in note for note in notes) == told


class Slow(Looped):
    """A function that is audited with as few trainings as a program."""

    effort = FEW


@pytest.mark.parametrize(("seconds", "searched"), [(120.0, True), (0.0, False)])
def test_the_edges_of_one_row_that_counts_threefold_are_found_unless_time_is_over(seconds, searched, monkeypatch):
    """One row of 160 multiplies its sum by 3. Two directed edges in both hops then cost about 6.9 in place of 4."""
    monkeypatch.setattr(loud_secrets, "SECONDS", seconds)
    row = int(np.argsort(GRAPH.degree)[len(GRAPH.degree) // 2])

    def train(graph, seed):
        rng, adjacency = np.random.default_rng(seed), graph.adjacency()
        h = [graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)]
        for _ in range(2):
            clean = adjacency @ h[-1]
            clean[row] *= 3
            noisy = clean + CHARGED * rng.standard_normal(clean.shape)
            h.append(noisy / np.linalg.norm(noisy, axis=1, keepdims=True))
        scores = np.hstack([rows[:, :8] for rows in h]) @ rng.standard_normal((24, graph.classes))
        return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}

    within = Recorded(Case(Slow(train), Claim(4.0, DELTA)), GRAPH, Key("t")).inside
    assert within.searched == searched
    found = max(float(np.linalg.norm(each)) for _, each in within.moves)
    assert (found > 1.5 * 2 / CHARGED) == searched


def test_the_posteriors_of_one_run_need_no_axis_of_runs(tmp_path):
    without = GAP.replace("SIGMA", "2.0").replace(
        "(scores / scores.sum(1, keepdims=True))[None]", "scores / scores.sum(1, keepdims=True)"
    )
    releases = []
    for name, text in (("with", GAP.replace("SIGMA", "2.0")), ("without", without)):
        (tmp_path / f"{name}.py").write_text(text)
        model = External(f"{sys.executable} {tmp_path}/{name}.py {{worlds}} {{out}}")
        releases.append(model.fit(Worlds.of(GRAPH, np.array([1], dtype=np.uint64)))["posteriors"])
    assert without != GAP.replace("SIGMA", "2.0")
    np.testing.assert_array_equal(*releases)


SAMPLED = """
import sys
import numpy as np
g, w = (dict(np.load(sys.argv[1] + "/" + name)) for name in ("graph.npz", "worlds.npz"))
rng = np.random.default_rng(int(w["seeds"][0]))
x, t = g["x"].astype(float), np.eye(int(g["classes"]))[g["y"]]
weights = np.zeros((x.shape[1], t.shape[1]))
for _ in range(3):
    batch = BATCH
    scores = np.exp(x @ weights)
    r = scores / scores.sum(1, keepdims=True) - t
    r /= np.maximum(np.linalg.norm(r, axis=1) * np.linalg.norm(x, axis=1), 1e-9)[:, None]
    weights -= x[batch].T @ r[batch] + rng.normal(0.0, 1.0, weights.shape)
scores = np.exp(x @ weights - (x @ weights).max(1, keepdims=True))
np.save(sys.argv[2] + "/posteriors.npy", (scores / scores.sum(1, keepdims=True))[None])
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("sigma", "refuted"), [(1.0, False), (0.5, True)])
@pytest.mark.parametrize(
    "batch",
    [
        '(rng.random(len(x)) < 0.1) & g["train_mask"]',
        'np.flatnonzero(g["train_mask"])[rng.random(g["train_mask"].sum()) < 0.1]',
    ],
)
def test_secret_samples_of_a_program_are_followed_as_those_of_a_function(batch, sigma, refuted, tmp_path):
    ledger = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)), 3)
    claim = Claim(1.05 * dp.pld.PLDAccountant().compose(ledger).get_epsilon(1e-4), 1e-4, Unit.NODE)
    program = SAMPLED.replace("BATCH", batch).replace("rng.normal(0.0, 1.0", f"rng.normal(0.0, {sigma}")
    (tmp_path / "sampled.py").write_text(program)
    command = f"{sys.executable} {tmp_path}/sampled.py {{worlds}} {{out}}"
    model = Declared(command, Unit.NODE, charged="3 * poisson(0.1, gaussian(1.0))")
    (bound,) = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("t"), alpha=0.05)).bounds
    assert bound.refuted == refuted
    assert bound.reach < 1.2 * claim.epsilon
    assert refuted or bound.epsilon > 0.8 * claim.epsilon


COUNTS = """
import sys
import numpy as np
g, w = (dict(np.load(sys.argv[1] + "/" + name)) for name in ("graph.npz", "worlds.npz"))
send, receive = g["edge_index"]
counts = np.zeros((len(g["y"]), int(g["classes"])))
np.add.at(counts, (receive, g["y"][send]), 1.0)
noise = np.random.default_rng(int(w["seeds"][0])).normal(0.0, 2.0, counts.shape)
noise[ROWS] = 0.0
scores = np.exp((counts + noise) / 10)
np.save(sys.argv[2] + "/posteriors.npy", (scores / scores.sum(1, keepdims=True))[None])
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rows", "epsilon"), [("::5", math.inf), ("len(noise):", get_epsilon_gaussian((2 / (1 - 1 / GRAPH.classes)) ** 0.5, DELTA))]
)
def test_a_program_that_adds_no_noise_to_some_rows_is_refuted_without_limit(rows, epsilon, tmp_path):
    """With noise on all rows it costs what differences within rows show."""
    (tmp_path / "counts.py").write_text(COUNTS.replace("ROWS", rows))
    case = Case(External(f"{sys.executable} {tmp_path}/counts.py {{worlds}} {{out}}"), Claim(4.0, DELTA))
    bound, *_ = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("t"), alpha=0.05)).bounds
    assert bound.refuted == math.isinf(epsilon)
    assert bound.epsilon == pytest.approx(epsilon, rel=1e-3)


THREADS = """
import sys, threading, time
from pathlib import Path
import numpy as np
g, w = (dict(np.load(sys.argv[1] + "/" + name)) for name in ("graph.npz", "worlds.npz"))
runs = len(list(Path(__file__).parent.glob("run-*")))
Path(__file__).with_name(f"run-{runs}").touch()
late = (runs + 1) // 2 % 2  # two runs in one order, the next two in the other
noise = {}

def draw(number):
    time.sleep(0.2 * (number == late))
    noise[number] = np.random.default_rng([int(w["seeds"][0]), number]).standard_normal(len(g["y"]) + number)

workers = [threading.Thread(target=draw, args=(i,)) for i in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
scores = np.exp(np.outer(noise[0], np.arange(int(g["classes"]))))
np.save(sys.argv[2] + "/posteriors.npy", (scores / scores.sum(1, keepdims=True))[None])
"""


def test_a_program_whose_threads_draw_in_another_order_in_each_run_is_told_so(tmp_path):
    file = tmp_path / "threads.py"
    file.write_text(THREADS)
    case = Case(External(f"{sys.executable} {file} {{worlds}} {{out}}"), Claim(4.0, DELTA))
    told = Recorded(case, GRAPH, Key("t")).inside
    assert "numbers are drawn outside of the main thread" in told
    assert "so recorded draws cannot be replayed" in told


SIZED = """
import sys
import numpy as np
import torch
g, w = (dict(np.load(sys.argv[1] + "/" + name)) for name in ("graph.npz", "worlds.npz"))
torch.manual_seed(int(w["seeds"][0]) % 2**63)
size = 1 + int(g["train_mask"].sum())
noise = DRAW
scores = np.exp(np.outer(np.ones(len(g["y"])), np.arange(int(g["classes"]))) * float(noise.sum()))
np.save(sys.argv[2] + "/posteriors.npy", (scores / scores.sum(1, keepdims=True))[None])
"""


@pytest.mark.parametrize(
    "draw", ["torch.rand(size)", "torch.empty(size).normal_()", "torch.dropout(torch.ones(size), 0.5, True)"]
)
def test_a_pytorch_program_that_draws_as_many_numbers_as_data_say_departs_in_a_world_without_a_node_and_does_not_fail(
    draw, tmp_path
):
    file = tmp_path / "sized.py"
    file.write_text(SIZED.replace("DRAW", draw))
    model = External(f"{sys.executable} {file} {{worlds}} {{out}}", Unit.NODE, record=False)  # which does not fork
    graph, absent = tiny(20), tiny(20).train.nonzero()[0][0]
    worlds = [
        Worlds(dataclasses.replace(graph, train=graph.train & keep), seeds=np.array([7], np.uint64), watch=np.arange(graph.nodes))
        for keep in (True, np.arange(graph.nodes) != absent)
    ]
    _, first = model.recorded(worlds[0], Request())
    release, other = model.recorded(worlds[1], Request(draws=first.draws, mechanisms=first.mechanisms))
    assert other.diverged == "sized.py, line 8"
    assert not release.arrays
