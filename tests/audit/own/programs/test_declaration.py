"""A program with a declaration: its claim is held against closed forms, and what is written wrongly is refused in one line."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

from gnnaudit import Claim, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.cli import main
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.declaration import declared
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.graph.graph import Worlds

from ....nightly import nightly

EXAMPLE = Path(__file__).parents[4] / "examples" / "external" / "two_hops.py"
DELTA = 1e-5


def epsilon_of_mu(mu):
    """The epsilon of a Gaussian mechanism whose sensitivity is mu noise stds."""
    return get_epsilon_gaussian(1 / mu, DELTA)


def sigma_for(epsilon, moved):
    """The noise std at which a release that moves by `moved` has this epsilon."""
    return moved * get_sigma_gaussian(epsilon, DELTA)


def declaration(folder, sigma, body=None, **keys):
    """A declaration of the program of two hops, of which `body` (a pair of texts) is exchanged."""
    text = EXAMPLE.read_text()
    if body is not None:
        assert body[0] in text
        text = text.replace(*body)
    (folder / "two_hops.py").write_text(text)
    table = {
        "command": "{python} two_hops.py {worlds} {out} {sigma}",
        "unit": "directed-edge",
        "ledger": "2 * gaussian(sigma)",
        "noise_std": "sigma",
        "releases": ["posteriors", "aggregates", "inputs"],
    } | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]
    path = folder / "gap.toml"
    path.write_text("\n".join([*lines, "[values]", f"sigma = {sigma!r}", ""]))
    return path


@pytest.fixture
def command(monkeypatch):
    """The exit code of `audit` with these words."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["audit", *words])
        monkeypatch.setattr(main.signal, "signal", lambda *_: None)  # this process keeps its own
        with pytest.raises(SystemExit) as end:
            main.main()
        return end.value.code

    return run


def studied(path, audit, tmp_path, claim=None, rounds=3):
    """The bounds of one audit of a declared program on a small graph."""
    case = Case(declared(path), claim or Claim(4.0, DELTA, Unit.UNDIRECTED_EDGE))
    assert AUDITS[audit].refuses(case) is None
    return (
        AUDITS[audit]
        .run(Setting(case, load("campus:n=160:degree=8"), Store(tmp_path / "store"), Key("test"), rounds, 1e-4))
        .bounds
    )


def test_a_ledger_for_directed_edges_is_refuted_for_undirected_ones_at_the_closed_form(tmp_path):
    sigma = sigma_for(4.0, math.sqrt(2))  # two hops, each moved by 1
    truth = epsilon_of_mu(math.sqrt(2) * math.sqrt(2) / sigma)  # two hops, each moved by the square root of two
    (bound,) = studied(declaration(tmp_path, sigma), "replay", tmp_path)
    assert bound.refuted
    assert truth - 1e-2 < bound.epsilon <= truth
    assert truth > 5.8


@pytest.mark.nightly
def test_the_honest_twin_is_not_refuted_by_any_audit_of_sums(tmp_path):
    path = declaration(tmp_path, sigma_for(4.0, 2.0), unit="undirected-edge", ledger="2 * gaussian(sigma / sqrt(2))")
    for audit in ("replay", "residual", "game"):
        assert not any(bound.refuted for bound in studied(path, audit, tmp_path))


def test_residuals_alone_refute_the_ledger_for_directed_edges(tmp_path):
    (bound,) = studied(declaration(tmp_path, sigma_for(4.0, math.sqrt(2))), "residual", tmp_path)
    assert bound.refuted
    assert bound.epsilon > 5


@pytest.mark.nightly
def test_noise_that_depends_on_the_graph_is_no_violation(tmp_path):
    body = ("run.generator()", "np.random.default_rng([run.seed, run.edge_index.size])")
    path = declaration(tmp_path, sigma_for(4.0, 2.0), body, ledger="2 * gaussian(sigma / sqrt(2))")
    assert not any(bound.refuted for bound in studied(path, "replay", tmp_path))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (("sigma * rng.standard_normal(total.shape)", "2 * sigma * rng.standard_normal(total.shape)"), "noise_std says 1.5"),
        (("total + sigma", "3 * np.cbrt(total) + sigma"), "standard deviation of|Gaussian noise"),
        *nightly(
            (("rng.standard_normal(total.shape)", "rng.laplace(size=total.shape)"), "standard deviation of 2.1|Gaussian noise")
        ),
    ],
)
def test_replay_says_nothing_of_sums_that_are_not_what_was_declared(tmp_path, body, words):
    with pytest.raises(ValueError, match=words):
        studied(declaration(tmp_path, 1.5, body), "replay", tmp_path)


def test_half_of_the_declared_noise_is_seen_in_the_residuals(tmp_path):
    body = ("sigma * rng.standard_normal", "0.5 * sigma * rng.standard_normal")
    path = declaration(tmp_path, sigma_for(4.0, 2.0), body, unit="undirected-edge", ledger="2 * gaussian(sigma / sqrt(2))")
    (bound,) = studied(path, "residual", tmp_path)
    truth = epsilon_of_mu(2 * 2.0 / sigma_for(4.0, 2.0))
    assert 4 < truth * 0.8 < bound.epsilon <= truth


@pytest.mark.nightly
def test_a_program_may_state_its_noise_itself(tmp_path):
    path = declaration(tmp_path, 1.5, ("inputs=inputs)", "inputs=inputs, noise_std=float(sys.argv[3]))"), noise_std=None)
    (bound,) = studied(path, "replay", tmp_path)
    assert bound.epsilon == pytest.approx(epsilon_of_mu(2 / 1.5), abs=1e-2)
    with pytest.raises(ValueError, match=r"noise_std\.npy: missing; .* Or set noise_std"):
        studied(declaration(tmp_path, 1.6, noise_std=None), "replay", tmp_path)


def test_what_is_declared_must_be_written(tmp_path):
    path = declaration(tmp_path, 1.5, (", aggregates=sums, inputs=inputs", ""))
    with pytest.raises(ValueError, match=r"aggregates\.npy: missing; the declaration says"):
        studied(path, "replay", tmp_path)


def test_a_checkout_of_something_else_is_named(tmp_path):
    (tmp_path / "other").mkdir()
    imports = ("import numpy as np", "import nowhere\nimport numpy as np")
    command = "{python} two_hops.py {worlds} {out} {sigma} {checkout}"
    path = declaration(tmp_path, 1.5, imports, source="github:a/b@1", command=command)
    graph = load("campus:n=160:degree=8")
    worlds = Worlds(graph, np.zeros(1, dtype=np.uint64), watch=np.arange(graph.nodes))
    with pytest.raises(ValueError, match=r"No module named 'nowhere'\. --checkout must be a copy of github:a/b@1, and --python"):
        declared(path, checkout=tmp_path / "other").fit(worlds)


def test_another_program_has_another_digest(tmp_path):
    before = declared(declaration(tmp_path, 1.5))
    after = declared(declaration(tmp_path, 1.5, ("HOPS = 2", "HOPS = 1")))
    assert before.digest != after.digest
    assert before.audited["declaration"] == after.audited["declaration"]
    assert before.audited["program"] != after.audited["program"]


def test_a_declaration_with_a_claim_need_not_name_the_unit_twice(tmp_path):
    command = '"python x.py {worlds} {out}"'
    path = tmp_path / "own.toml"
    path.write_text(f"command = {command}\n[claim]\nepsilon = 1\nunit = 'node'\n")
    assert declared(path).unit is Unit.NODE
    path.write_text(f"command = {command}\nunit = 'features'\n[claim]\nepsilon = 1\nunit = 'node'\n")
    assert declared(path).unit is Unit.FEATURES


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"command": None}, r'command: missing\. Write a line such as command = "python train\.py {worlds} {out}"'),
        ({"unit": None}, 'unit: missing. Write a line such as unit = "undirected-edge"'),
        ({"unit": "edges"}, "unit='edges': must be one of"),
        ({"command": "two_hops"}, "must contain {worlds}"),
        ({"command": "a 'b {worlds} {out}"}, "command=.*: No closing quotation"),
        (
            {"command": "two_hops {worlds} {out} {checkout}"},
            r"takes the place of \{checkout\}\. Give the folder with --checkout DIR",
        ),
        ({"command": "two_hops {worlds} {out} {rounds}"}, r"takes the place of \{rounds\}\. Give rounds a number in \[values\]"),
        ({"ledger": "2 * gaussian(tau)"}, "'tau' has no value"),
        ({"ledger": 3}, "ledger=3: must be a text"),
        ({"noise_std": "-sigma"}, "noise_std=-sigma: must be above 0"),
        ({"noise_std": True}, "noise_std=True: must be a number"),
        ({"releases": ["posterior"]}, "releases='posterior': must be among"),
        ({"releases": ["posteriors", "inputs"]}, "name both or neither"),
        ({"releases": "posteriors"}, "must be a list"),
        ({"releases": []}, r"releases=\[\]: must name what the program releases"),
        ({"relases": ["posteriors"]}, "no such key. Did you mean releases"),
        ({"checkout": "nowhere"}, "checkout=nowhere: no such folder"),
        ({"requires": ["no-such-package-here"]}, "has not got it. Install it there"),
        ({"requires": ["numpy==0.1"]}, "requires=numpy==0.1: .* has "),
        ({"requires": ["numpy"], "command": "python two_hops.py {worlds} {out}"}, "requires: needs a command that begins with"),
        ({"python": "/no/such/python", "requires": ["numpy"]}, "python=/no/such/python: cannot be asked"),
    ],
)
def test_a_wrong_declaration_is_one_line_and_exit_code_2(tmp_path, command, keys, words):
    path = declaration(tmp_path, 1.5, **keys)
    with pytest.raises(ValueError, match=words) as refusal:
        declared(path)
    assert "\n" not in str(refusal.value)
    assert str(path) in str(refusal.value) or "{worlds}" in words
    assert command("run", "--target", str(path), "--out", str(tmp_path / "out")) == 2


@pytest.mark.parametrize("content", [b"command =", b"\xff\xfe", None])
def test_a_file_that_is_no_declaration_is_refused(tmp_path, content):
    path = tmp_path / "gap.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not a TOML file|no such file"):
        declared(path)


@pytest.mark.nightly
def test_a_run_says_what_was_audited_and_its_plan_repeats_it(tmp_path, command):
    sigma, out = sigma_for(4.0, math.sqrt(2)), tmp_path / "run"
    path = declaration(tmp_path, sigma, requires=["numpy"], source="github:somebody/gap@1234567")
    words = f"--epsilon 4 --delta {DELTA} --unit undirected-edge --seed a --data campus:n=160:degree=8 --attacks none"
    words += f" --audits replay --mlflow none --repeats 1 --jobs 1 --target {path} --out {out}"
    assert command("run", *words.split()) == 1
    run = json.loads((out / "results.json").read_text())["run"]
    (evidence,) = [e for f in (out / "evidence").glob("*replay*.json") if (e := json.loads(f.read_text()))]
    about = run["audited"]["target"]
    assert about == evidence["audited"] == json.loads((out / "spec.json").read_text())["audited"]["target"]
    assert about["declaration"].startswith("gap.toml, sha256 ")
    assert about["source"] == "github:somebody/gap@1234567"
    assert about["packages"] == f"numpy {np.__version__}"
    assert about["program"] in (out / "report.html").read_text()
    assert "models" not in (out / "plan.toml").read_text()
    assert sys.executable not in (out / "report.html").read_text()
