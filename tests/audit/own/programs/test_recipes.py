"""Recipes train a checkout of a public repository. A stand-in has the interface of the official GAP, and none of its code."""

import dataclasses
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from gnnaudit import load
from gnnaudit.audit.cli.main import app
from gnnaudit.audit.own.programs.declaration import declared
from gnnaudit.audit.own.programs.files import RECIPES, claim_of, recipe
from gnnaudit.audit.planning.plan import Plan, read
from gnnaudit.models.graph.graph import Worlds

STAND_IN = {
    "core/loggers.py": "class Logger:\n    @staticmethod\n    def setup(enabled, config): pass\n",
    "core/methods/node.py": """
import torch

class EdgePrivGAP:
    noise_scale = 1.529

    def __init__(self, num_classes, epsilon, device):
        self.classes, self.epsilon = num_classes, epsilon

    def _aggregate(self, x, adj_t):
        clean = adj_t.matmul(x)
        return clean + self.noise_scale * torch.randn_like(clean)

    def fit(self, data):
        x = torch.nn.functional.normalize(data.x.float())
        for _ in range(2):
            x = torch.nn.functional.normalize(self._aggregate(x, data.adj_t))
        self.scores = x[:, : self.classes]

    def predict(self):
        return self.scores
""",
}


@pytest.fixture
def checkout(tmp_path):
    for name, text in STAND_IN.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "repository"


def test_a_recipe_trains_the_checkout_and_reads_its_noisy_sums(checkout):
    graph = load("campus:n=160:degree=8")
    model = declared(recipe("gap"), checkout=checkout, python=sys.executable)
    release = model.fit(Worlds(graph, np.zeros(1, dtype=np.uint64), watch=np.arange(20)))
    assert release["aggregates"].shape == (1, 2, 20, graph.x.shape[1])
    assert release.public["noise_std"] == pytest.approx(1.529)
    rows = graph.x / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1e-12)
    noise = release["aggregates"][0, 0] - (graph.adjacency() @ rows)[:20]
    assert noise.std() == pytest.approx(1.529, rel=0.1)
    assert "repository, 2 files, sha256" in model.audited["checkout"]


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda p: p.stem)
def test_the_claim_of_a_recipe_is_that_of_the_plan_unless_another_is_given(path, checkout):
    plan = read(None, {"recipe": path.stem, "checkout": str(checkout)})
    stated = claim_of(path)
    assert (plan.epsilon, plan.delta, plan.unit) == ((stated["epsilon"],), stated["delta"], stated["unit"])
    assert plan.own_alone
    assert read(None, {"recipe": path.stem, "checkout": str(checkout), "epsilon": "1"}).epsilon == (1.0,)


def test_the_plan_of_a_recipe_replays_what_was_run(checkout, tmp_path):
    plan = read(None, {"recipe": "gap", "checkout": str(checkout), "python": sys.executable})
    (tmp_path / "plan.toml").write_text(plan.toml())
    again = read(tmp_path / "plan.toml", {})
    assert again.differences(plan) == {}
    assert isinstance(again, Plan)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recipe", "gpa", "--checkout", "."], "recipe=gpa: must be one of blink, dpdgc, gap, lpgnet, lpgnn, progap."),
        (["--recipe", "gap"], "recipe=gap: needs --checkout"),
        (["--recipe", "gap", "--checkout", "nowhere"], "no such folder"),
        (["--recipe", "gap", "--checkout", ".", "--target", "a.toml"], "Leave --target out."),
        (["--checkout", "."], "needs --recipe, or --target with a declaration."),
        (["--python", "python3", "--models", "gap"], "needs --recipe, or --target with a declaration."),
    ],
)
def test_what_lacks_its_other_half_is_refused_in_one_line(words, said):
    result = CliRunner().invoke(app, ["run", *words])
    assert said in str(result.exception)
    assert isinstance(result.exception, ValueError)


def test_a_claim_with_another_key_is_refused(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('command = "x {worlds} {out}"\nunit = "node"\n[claim]\nepsilom = 4\n')
    with pytest.raises(ValueError, match="must be a table with the keys epsilon, delta, unit"):
        claim_of(path)


def test_a_checkout_and_a_python_take_the_place_of_those_that_are_declared(checkout, tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('command = "{python} {checkout} {worlds} {out}"\nunit = "node"\ncheckout = "absent"\npython = "absent"\n')
    model = declared(path, checkout=checkout, python=sys.executable)
    assert model.command.startswith(f"{sys.executable} {checkout.resolve()} ")
    with pytest.raises(ValueError, match="checkout=absent: no such folder"):
        declared(path)
    assert dataclasses.replace(model).command == model.command
