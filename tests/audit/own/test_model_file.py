"""Ways to load a user's own model: programs, and classes in a file."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import EDGES, Case
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.model_file import checked, load_model, own_models
from gnnaudit.audit.own.programs.declaration import declared
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.storage.store import identity
from gnnaudit.models.capabilities import NoisySums, lacks
from gnnaudit.models.errors import Stopped
from gnnaudit.models.looped import Looped

from ...nightly import nightly

EXAMPLE = Path(__file__).parents[3] / "examples" / "external" / "noisy_votes.py"


def program(tmp_path, body):
    """A target that runs `body` with `graph`, `worlds` and the folder `out` at hand."""
    path = tmp_path / "program.py"
    path.write_text(
        "import sys, numpy as np\nfrom pathlib import Path\n"
        "graph = dict(np.load(Path(sys.argv[1]) / 'graph.npz')); worlds = dict(np.load(Path(sys.argv[1]) / 'worlds.npz'))\n"
        f"out = Path(sys.argv[2])\n{body}\n"
    )
    return External(f"{sys.executable} {path} {{worlds}} {{out}}")


@pytest.mark.parametrize("kind", ["edge", *nightly("label", "node")])
def test_a_program_sees_the_same_world_as_one_from_which_the_absent_was_removed(graph, kind):
    model = External(f"{sys.executable} {EXAMPLE} {{worlds}} {{out}}")
    rounds = Game(graph, kind, np.flatnonzero(graph.train)[:8], Key("door")).rounds(3)
    release = model.fit(rounds.worlds)
    np.testing.assert_allclose(np.exp(release["posteriors"]).sum(-1), 1, atol=1e-5)
    for run in range(3):
        alone = model.fit(rounds.worlds.removed(run))
        np.testing.assert_allclose(release["posteriors"][run], alone["posteriors"][0], atol=1e-6)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('no luck today')", "no luck today"),
        ("pass", r"posteriors.npy: missing; expected shape \(1, 40, 3\)"),
        (
            "np.save(out / 'posteriors.npy', np.ones((1, 40)))",
            r"shape \(1, 40\) of float64; expected real numbers of shape \(1, 40, 3\)",
        ),
        ("np.save(out / 'posteriors.npy', np.full((1, 40, 3), np.nan))", "NaN"),
        ("np.save(out / 'posteriors.npy', -np.ones((1, 40, 3)))", "negative"),
        ("np.save(out / 'posteriors.npy', np.array([{}], dtype=object), allow_pickle=True)", "not a NumPy array without objects"),
        ("(out / 'posteriors.npy').write_bytes(b'half')", "not a NumPy array"),
        ("np.save(out / 'posteriors.npy', np.full((1, 40, 3), 0.3 + 0.1j))", "of complex128; expected real numbers"),
        ("np.save(out / 'posteriors.npy', np.ones((1, 40, 3), 'm8[s]'))", "expected real numbers"),
        ("import os; os.mkfifo(out / 'posteriors.npy')", "posteriors.npy: missing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"was killed by signal 9 \(SIGKILL\)"),
        ("sys.stderr.buffer.write(b'\\xff\\x1b[31m\\0no\\r\\n\\n'); sys.exit(3)", "exit code 3: \ufffd \\[31m no$"),
    ],
)
def test_what_a_program_did_wrong_is_named(tmp_path, graph, body, words):
    worlds = Game(graph, "edge", np.arange(4), Key("door")).rounds(2).worlds
    with pytest.raises(ValueError, match=words):
        program(tmp_path, body).fit(worlds)


def test_a_program_may_say_what_it_likes(tmp_path, graph):
    worlds = Game(graph, "edge", np.arange(4), Key("door")).rounds(2).worlds
    says = "sys.stdout.buffer.write(b'\\xff\\xfe' * 10**6); np.save(out / 'posteriors.npy', np.ones((1, 40, 3)))"
    assert np.allclose(np.exp(program(tmp_path, says).fit(worlds)["posteriors"]), 1 / 3)


def test_a_command_without_its_folders_or_program_is_refused(graph):
    with pytest.raises(ValueError, match="out"):
        External("python train.py {worlds}")
    worlds = Game(graph, "edge", np.arange(4), Key("door")).rounds(2).worlds
    with pytest.raises(ValueError, match="cannot be started"):
        External("/no/such/program {worlds} {out}").fit(worlds)


@pytest.mark.parametrize(("address", "words"), [("mine.py", "FILE.py:Name"), ("none.py:Mine", "does not exist")])
def test_addresses_of_models_are_checked(address, words):
    with pytest.raises(ValueError, match=words):
        load_model(address)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import no_such_module", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(0)", "line 2: SystemExit: 0"),
        ("x = 1\ndef f(:", ": line 2: SyntaxError: invalid syntax"),
        ("class Odd(BaseException):\n  pass\nraise Odd('no')", "line 3: Odd: no"),
        ("class Mine:\n  def __init__(self):\n    raise KeyError('k')", "line 3: KeyError: 'k'"),
    ],
)
def test_a_file_that_fails_is_named_with_its_line(tmp_path, body, said):
    path = tmp_path / "failing.py"
    path.write_text(body)
    with pytest.raises(ValueError, match=said) as fault:
        own_models(None, f"{path}:Mine")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("name", ["random", "wave", "numpy", "gnnaudit"])
def test_a_file_that_hides_a_module_is_refused_and_hides_nothing(tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text("class Mine: pass")
    before = sys.modules.get(name)
    with pytest.raises(ValueError, match=f"the file has the name of the module {name}, which it would hide. Rename it."):
        own_models(None, f"{path}:Mine")
    assert sys.modules.get(name) is before


def test_files_of_one_name_in_two_folders_are_both_loaded(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "my_model.py").write_text(f"Mine = '{folder}'")
        assert load_model(f"{tmp_path / folder / 'my_model.py'}:Mine") == folder


def test_an_interrupted_import_names_the_file(tmp_path):
    path = tmp_path / "interrupted.py"
    path.write_text("raise KeyboardInterrupt")
    with pytest.raises(Stopped, match=r"interrupted\.py"):
        own_models(None, f"{path}:Mine")


def test_a_class_that_is_no_model_is_told_what_it_lacks(tmp_path):
    path = tmp_path / "almost_a_model.py"
    path.write_text("class Mine:\n    name = 'mine'\n    mode = 'sound'\n")
    with pytest.raises(ValueError, match="lacks unit, releases"):
        own_models(None, f"{path}:Mine")


@pytest.mark.parametrize(
    ("line", "said"),
    [("return self.absent", "AttributeError: 'Mine' object has no attribute 'absent'"), ("return {}['k']", "KeyError: 'k'")],
)
def test_a_property_that_raises_is_not_called_missing(tmp_path, line, said):
    path = tmp_path / "raises.py"
    path.write_text(
        "from gnnaudit import Looped\nclass Mine(Looped):\n    @property\n    def ledger(self):\n"
        f"        {line}\nmodel = Mine(print, name='mine')\n"
    )
    with pytest.raises(ValueError, match=r"`ledger` raises: .*raises.py, line 5: ") as fault:
        own_models(None, f"{path}:model")
    assert said in str(fault.value)
    assert "lacks" not in str(fault.value)


def test_a_capability_whose_attribute_raises_is_not_called_undeclared():
    class Sums(Looped):
        @property
        def offers(self):
            return self.absent

    assert "no attribute 'absent'" in (why := lacks(Sums(print), NoisySums))
    assert why.startswith("`offers` of print raises: ")
    assert "does not declare" in lacks(Looped(print), NoisySums)


def test_a_plain_function_and_an_unknown_unit_are_told_the_way_out(tmp_path):
    path = tmp_path / "nearly.py"
    path.write_text(
        "from gnnaudit.models.looped import Looped\ndef train(graph, seed): ...\n"
        "model = Looped(train)\nobject.__setattr__(model, 'unit', 'friendship')"
    )
    with pytest.raises(ValueError, match=r"Looped\(train\)"):
        own_models(None, f"{path}:train")
    with pytest.raises(ValueError, match=r"unit='friendship': must be one of directed-edge"):
        own_models(None, f"{path}:model")


def test_the_example_model_keeps_the_contract():
    from gnnaudit.audit.own.contract import contract

    model = load_model(f"{EXAMPLE.parents[1] / 'own_model.py'}:Votes")()
    assert [c for c in contract(model) if c.failure] == []


FUNCTION = """
import numpy as np
from gnnaudit.models.looped import Looped

def train(graph, seed):
    return {"posteriors": np.full((graph.nodes, graph.classes), -np.log(graph.classes))}

fixed = Looped(train)
def make():
    return Looped(train)
def needs(something):
    return Looped(train)
"""


def test_a_model_is_found_as_itself_or_as_what_makes_it(tmp_path):
    path = tmp_path / "a_function.py"
    path.write_text(FUNCTION)
    for name in ("fixed", "make"):
        assert list(own_models(None, f"{path}:{name}")) == ["train"]
    with pytest.raises(ValueError, match="cannot be constructed without arguments"):
        own_models(None, f"{path}:needs")


def test_a_model_whose_noise_is_its_own_is_audited_as_it_is(tmp_path, graph):
    from gnnaudit.audit.own.contract import contract
    from gnnaudit.audit.planning.plan import Plan
    from gnnaudit.audit.planning.planned_cases import cases, recipes

    path = tmp_path / "another_function.py"
    path.write_text(FUNCTION)
    plan = Plan(model=f"{path}:make", epsilon=(1.0,))
    made, skips = cases(plan, graph, recipes(plan)[1])
    assert ([c.model.name for c in made], skips) == (["train"], [])
    failed = [c.name for c in contract(made[0].model) if c.failure]
    assert failed == ["another seed gives another release"]  # it draws nothing, so only that clause can fail


def test_parts_of_an_edited_model_or_program_are_not_reused(tmp_path, graph):
    game = Game(graph, "edge", np.arange(4), Key("door"))

    def name(noise):
        path = tmp_path / "edited.py"
        path.write_text(FUNCTION.replace("-np.log", f"{noise} - np.log"))
        return identity(load_model(f"{path}:fixed"), game), identity(External(f"python {path} {{worlds}} {{out}}"), game)

    first, again, changed = name(1), name(1), name(2)
    assert first == again
    assert all(a != b for a, b in zip(first, changed, strict=True))


def test_a_model_without_noise_is_audited_where_nothing_is_claimed_and_skipped_elsewhere(graph):
    from gnnaudit.audit.planning.plan import Plan
    from gnnaudit.audit.planning.planned_cases import cases, recipes

    plan = Plan(models=("gcn",), epsilon=(1.0, float("inf")))
    made, skips = cases(plan, graph, recipes(plan)[1])
    assert ([c.claim.epsilon for c in made], [s.epsilon for s in skips]) == ([float("inf")], [1.0])


@pytest.mark.parametrize(("row", "unit"), [("undirected or directed edge", u) for u in EDGES] + [("node", Unit.NODE)])
def test_the_page_says_which_audits_each_door_gets_for_each_unit(row, unit):
    page = (Path(__file__).parents[3] / "docs" / "own-model.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith(f"| {row} |"))
    doors = External(f"{sys.executable} {{worlds}} {{out}}", unit), Looped(print, unit=unit)
    program, function = (line.split("|")[column] for column in (2, 4))
    for model, cell in zip(doors, (program.partition(";")[0], function.partition(";")[0]), strict=True):
        case = Case(model, Claim(1.0, 1e-5, unit, exposes=model.releases))
        runs = {name for name, audit in AUDITS.items() if audit.refuses(case) is None}
        assert runs == {name.strip() for name in cell.split(",")}


def test_a_file_that_changes_within_one_second_is_read_anew(tmp_path, monkeypatch):
    """Python's own cache would return the first version: the size and the second of the change are the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "changes.py"
    for value in (1, 2):
        file.write_text(f"value = {value}\n")
        os.utime(file, (10**9, 10**9))
        assert load_model(f"{file}:value") == value


@pytest.mark.parametrize(
    ("base", "line", "said"),
    [
        ("Looped", "max_degree = -1", "max_degree=-1: must be a whole number of at least 0"),
        ("Looped", "offers = 'posteriors'", "offers='posteriors': must be a tuple of words"),
        ("Looped", "keep = 3", "keep=3: must be a tuple of words"),
        ("Looped", "effort = 'much'", "effort='much': must be a gnnaudit.Effort"),
        ("Votes", "max_degree = 2.5", "max_degree=2.5: must be a whole number"),
        ("Votes", "claim = 3", "claim=3: must be a gnnaudit.Claim"),
        ("Votes", "claim = Claim(float('inf'), 0.0)", "claim: epsilon=inf: claims nothing"),
        ("Votes", "offers = ('posteriors', 'posteriors')", "names 'posteriors' twice"),
        ("Votes", "releases = ('posteriors', 'posteriors')", "names 'posteriors' twice"),
        ("Votes", "releases = ()", "releases=(): must be names of arrays"),
        ("Votes", "public = None", "public=None: must be a tuple of words"),
        ("Votes", "ledger = dp.GaussianDpEvent(-1.0)", "ledger: GaussianDpEvent: noise_multiplier=-1.0"),
        ("Votes", "with_noise = lambda self, sigma: None", "with_noise(1.0) returns None: must be a model"),
        ("Votes", "with_noise = lambda self, sigma: {}['x']", "with_noise(1.0) raises: "),
        ("Votes", "with_noise = lambda self, sigma: exit(0)", "with_noise(1.0) raises: "),
        ("Votes", "fit = lambda self, worlds: None", "fit: must be a method, called as fit(worlds, device)."),
        ("Votes", "fit = 3", "fit: must be a method"),
        ("Votes", "footprint = lambda self: 1", "footprint: must be a method, called as footprint(graph)."),
        ("Votes", "printed = lambda self, delta: 'much'", "printed(1e-05) returns 'much': must be None or a number"),
        ("Votes", "printed = lambda self, delta: float('nan')", "printed(1e-05) returns nan"),
        ("Votes", "printed = lambda self, delta: 1 / 0", "printed(1e-05) raises: "),
        ("Votes", "effort = Effort(secrets=-1)", "secrets=-1: must be a whole number of at least 0"),
        ("Votes", "effort = Effort(entries='x')", "entries='x': must be a whole number"),
        ("Votes", "effort = Effort(probes=3)", "probes=3: must be two whole numbers"),
        ("Votes", "claim = Claim(1.0, 0.0, relation='replace')", "claim: relation=replace"),
        ("Votes", "claim = property(lambda self: {}['x'])", "`claim` raises"),
        ("Votes", "max_degree, effort, claim = 8, Effort(thorough=False), Claim(1.0, 0.0)", None),
    ],
)
def test_an_attribute_of_another_type_is_refused_when_the_model_is_loaded(tmp_path, base, line, said):
    made = "Mine()" if base == "Votes" else "Mine(lambda graph, seed: {})"
    text = (EXAMPLE.parents[1] / "own_model.py").read_text()
    text += f"\nfrom gnnaudit import Claim, Effort, Looped\nclass Mine({base}):\n    {line}\nmodel = {made}\n"
    (tmp_path / "own_optional.py").write_text(text)
    if said is None:
        assert list(own_models(None, f"{tmp_path / 'own_optional.py'}:model")) == ["votes"]
        return
    with pytest.raises(ValueError, match=re.escape(said)):
        own_models(None, f"{tmp_path / 'own_optional.py'}:model")


def test_a_function_in_place_of_a_model_is_told_of_looped():
    with pytest.raises(ValueError, match=r"lacks name, .* A function train\(graph, seed\) becomes a model by Looped\(train\)\."):
        checked(lambda graph, seed: {}, "model")


@pytest.mark.parametrize(
    ("audit", "unit", "said"),
    [
        (
            "residual",
            Unit.UNDIRECTED_EDGE,
            'in the TOML file of --target: write aggregates.npy and inputs.npy, and set `releases = ["',
        ),
        (
            "replay",
            Unit.UNDIRECTED_EDGE,
            "releases no sums from which the noise could be subtracted. target does not declare NoisySums",
        ),
        ("votes", Unit.NODE, "A program cannot declare it."),
        ("replay", Unit.NODE, "the audit 'differential' repeats a recorded training without one node"),
        ("added-up", Unit.NODE, "the audit 'differential' adds up the moves that it records"),
        ("differential", Unit.NODE, "Leave out --no-record"),
    ],
)
def test_an_audit_that_skips_a_program_says_how_a_program_declares_what_is_missing_or_which_audit_takes_its_place(
    audit, unit, said
):
    program = External(f"{sys.executable} {{worlds}} {{out}}", unit=unit, record=False)
    assert said in (AUDITS[audit].refuses(Case(program, Claim(1.0, 1e-5, unit))) or "")


def test_what_the_refusal_tells_a_program_to_write_makes_the_audit_apply(tmp_path):
    lines = "command = 'true {worlds} {out}'\nunit = 'directed-edge'\nledger = 'gaussian(2)'\nnoise_std = 2\n"
    (tmp_path / "program.toml").write_text(f'{lines}releases = ["posteriors", "aggregates", "inputs"]\n')
    case = Case(declared(tmp_path / "program.toml"), Claim(1.0, 1e-5, Unit.DIRECTED_EDGE))
    assert [AUDITS[name].refuses(case) for name in ("residual", "game", "replay")] == [None] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from gnnaudit import Looped\ntrain = lambda graph, seed: {}\nmine = Looped(train)\nclass Other(Looped): pass",
            "mine, Other.",
        ),
        ("x = 1", "Nothing in it has a method `fit`."),
    ],
)
def test_a_mistyped_name_is_told_which_models_the_file_has(text, said, tmp_path):
    (tmp_path / "file_of_models.py").write_text(text)
    with pytest.raises(ValueError, match="no such object") as wrong:
        load_model(f"{tmp_path / 'file_of_models.py'}:min")
    assert str(wrong.value).endswith(said)
