"""A new system, attack, accountant, data set or audit is one entry in a table, and every command accepts it."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent

from gnnaudit.accounting.claim import Unit
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.upper.accountants import ACCOUNTANTS, Accountant
from gnnaudit.attacks.base import OneQuery, Untrained
from gnnaudit.attacks.links.similarity import LinkStealing
from gnnaudit.attacks.registry import ATTACKS
from gnnaudit.attacks.signals import logs
from gnnaudit.audit.audits.registry import AUDITS, Audit
from gnnaudit.audit.case import EDGES, Outcome, keeping
from gnnaudit.audit.cli import lists
from gnnaudit.audit.cli.data import list_data
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.instruments.reach import unknown
from gnnaudit.audit.planning.ledgers import accounted
from gnnaudit.audit.planning.plan import Plan
from gnnaudit.audit.run import run
from gnnaudit.models.base import Release
from gnnaudit.models.data.checks import Raw
from gnnaudit.models.data.known_sets import DATASETS, DataSet
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import System
from gnnaudit.models.random.streams import normal
from gnnaudit.models.systems import SYSTEMS
from gnnaudit.reports.formats import html


@dataclass(frozen=True)
class Degrees:
    """A system: class frequencies among each node's neighbours, with Gaussian noise."""

    sigma: float = 0.0
    mode: str = "sound"
    unit: Unit = Unit.UNDIRECTED_EDGE
    train_nodes: int = 0
    rows: int = 1
    name = "degrees"
    releases = ("posteriors",)
    public = ("features, labels, the node set and the split",)

    @property
    def ledger(self):
        return GaussianDpEvent(self.sigma) if self.sigma else NonPrivateDpEvent()

    def with_noise(self, sigma):
        return replace(self, sigma=float(sigma))

    def printed(self, delta):
        return 2 / self.sigma if self.mode == "paper" else None

    def theorem_epsilon(self, delta):
        return 4 / self.sigma

    def coded_epsilon(self, delta):
        return 3 / self.sigma

    def footprint(self, graph):
        return 64 * graph.nodes * graph.classes

    def fit(self, worlds, device="cpu"):
        graph = worlds.graph
        alone = [worlds.removed(run).graph for run in range(worlds.runs)]
        sums = np.stack([g.adjacency() @ np.eye(graph.classes)[g.y] for g in alone])
        noisy = sums + 2**0.5 * self.sigma * normal(worlds.seeds, sums.shape[1:], "degrees")
        logits = noisy - np.logaddexp.reduce(noisy, axis=-1, keepdims=True)
        return Release({"posteriors": logits[:, worlds.watch].astype(np.float32)}, worlds.watch)


def degrees(mode, facts, private):
    return Degrees(mode=mode)


@dataclass(frozen=True)
class Peak(Untrained):
    """An attack: the larger the greatest log-probability, the likelier a member."""

    query: str = "posteriors"
    name = "peak"
    kinds = ("node", "label")

    @property
    def needs(self):
        return (self.query,)

    def score(self, release, challenge):
        return logs(release, challenge.items, self.query).max(-1)


def margin():
    """The class of the attack in docs/adding.md."""
    code = (Path(__file__).parents[1] / "docs" / "adding.md").read_text()
    (shown,) = (block for block in re.findall(r"```python\n(.*?)```", code, re.S) if "class Margin" in block)
    names = {"dataclass": dataclass, "logs": logs, "np": np, "OneQuery": OneQuery, "Untrained": Untrained}
    exec(shown, names)
    return names["Margin"]


def ring(n=60):
    """A data set: a ring whose nodes tell their class, which is that of their place."""
    place = np.arange(n)
    return Raw(x=np.eye(3, dtype=np.float32)[place % 3], y=place % 3, edges=np.stack([place, (place + 1) % n]))


def refuses(case):
    return None if case.claim.unit in EDGES else f"hub edges are edges; the unit of this claim is {case.claim.unit}"


def hub_edge(setting):
    """The audit of docs/adding.md."""
    case, graph = setting.case, setting.graph
    edge = graph.degree[graph.edges].min(0).argmax()
    game = Game(graph, "edge", np.array([edge]), setting.key.fold("game"), watch=graph.edges[:, edge])
    read = ("posteriors",)  # computes and stores no other arrays
    seen = setting.store.fit(keeping(case.model, read), game, 50 * setting.rounds, read)
    scores = LinkStealing().score(seen.release, seen.challenge)
    bound = from_rounds(scores, seen.bits, case.claim, alpha=setting.alpha)
    reach = f"{len(seen)} rounds of the edge between the largest hubs"
    return Outcome("hub", (unknown(bound),), reach=reach, attack="link-stealing")


@pytest.fixture(autouse=True)
def added(monkeypatch, tmp_path):
    monkeypatch.setenv("GNNAUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(SYSTEMS, "degrees", System(degrees, "an edge", "posteriors", "here", node_level={"rows": 9}))
    monkeypatch.setitem(ATTACKS, "peak", Peak)
    monkeypatch.setitem(ATTACKS, "margin", margin())
    monkeypatch.setitem(ACCOUNTANTS, "ten", Accountant(lambda ledger, delta, relation: 10.0, "it always says ten"))
    monkeypatch.setitem(AUDITS, "hub", Audit("hub", 1, refuses, hub_edge))
    monkeypatch.setitem(DATASETS, "ring", DataSet("a ring", ring, "here", "none needed", options={"n": int}))


@pytest.mark.parametrize(
    ("command", "name"),
    [(lists.models, "degrees"), (lists.attacks, "peak"), (lists.audits, "hub"), (lists.accountants, "ten")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_list_shows_what_was_added(command, name, capsys):
    command(json=True)
    assert next(row for row in json.loads(capsys.readouterr().out) if row["name"] == name)


def test_the_list_of_data_sets_shows_the_new_one_and_its_name_loads(capsys):
    list_data(json=True)
    assert "ring" in [row["name"] for row in json.loads(capsys.readouterr().out)["data"]]
    assert load("ring:n=90").nodes == 90


def test_the_account_of_a_new_system_shows_its_paper_theorem_and_code_and_the_new_accountant():
    rows = accounted(Plan(models=("degrees",), mode="paper", epsilon=(1.0,)), load("ring"))["rows"]
    of = {row["accountant"]: row for row in rows}
    assert of["published"]["value"] == pytest.approx(1.0, rel=1e-3)
    assert of["published"]["theorem"] == 2 * of["published"]["value"]
    assert of["published"]["as_coded"] == 1.5 * of["published"]["value"]
    assert (of["ten"]["value"], of["ten"]["is_upper_bound"]) == (10.0, True)
    assert "it always says ten" in of["ten"]["note"]


def test_a_new_system_is_made_at_node_level_with_the_fields_of_its_entry():
    from gnnaudit.audit.planning.planned_cases import cases, recipes

    plan = Plan(models=("degrees",), unit="node", epsilon=(1.0,))
    (case,), _ = cases(plan, load("ring"), recipes(plan)[1])
    assert (case.model.unit, case.model.rows, case.model.train_nodes) == (Unit.NODE, 9, 45)


def test_a_run_uses_all_that_was_added(tmp_path, monkeypatch):
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    plan = {"data": "ring", "models": ("degrees",), "epsilon": (1.0,), "attacks": ("peak", "margin"), "audits": ("hub",)}
    few = {"repeats": 1, "shadows": 2, "targets": 1, "rounds": 1, "mlflow": "none", "jobs": 1, "out": tmp_path / "run"}
    run(Plan(**plan, **few), quiet=True)
    rows = json.loads((tmp_path / "run" / "results.json").read_text())["rows"]
    assert {row["model"] for row in rows} == {"degrees"}
    assert {"peak", "margin"} <= {row["attack"] for row in rows if row["kind"] == "attack"}
    assert [(row["audit"], row["attack"]) for row in rows if row["kind"] == "bound"] == [("hub", "link-stealing")]
    assert 10.0 in [row["value"] for row in rows if row["kind"] == "account" and row["accountant"] == "ten"]
