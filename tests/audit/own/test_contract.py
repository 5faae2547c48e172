"""The model contract catches each way of breaking it, and passes a model that keeps it."""

from dataclasses import dataclass, replace

import dp_accounting as dp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.cli.contract import show
from gnnaudit.audit.own.contract import CLAUSES, contract, tiny
from gnnaudit.models.base import Release
from gnnaudit.models.errors import is_deliberate
from gnnaudit.models.looped import Looped
from gnnaudit.models.random.streams import normal


@dataclass(frozen=True)
class Votes:
    """Every node's noisy count of its labelled neighbours by class: small, honest, private per undirected edge."""

    sigma: float = 1.0
    name: str = "votes"
    mode: str = "sound"
    unit: Unit = Unit.UNDIRECTED_EDGE
    releases: tuple[str, ...] = ("posteriors",)
    public: tuple[str, ...] = ("features, labels and the node set",)

    @property
    def ledger(self):
        return dp.GaussianDpEvent(float(self.sigma)) if self.sigma else dp.NonPrivateDpEvent()

    def with_noise(self, sigma):
        return replace(self, sigma=sigma)

    def printed(self, delta):
        return None

    def footprint(self, graph):
        return 8 * graph.nodes * graph.classes

    def counts(self, worlds):
        g = worlds.graph
        total = np.zeros((worlds.runs, g.nodes, g.classes))
        told = worlds.trained()
        for k, present in enumerate(worlds.edge_present()):
            for u, v in g.edges[:, present].T:
                total[k, v, g.y[u]] += told[k, u]
                total[k, u, g.y[v]] += told[k, v]
        return total

    def noise(self, worlds):
        return 2**0.5 * self.sigma * normal(worlds.seeds, (worlds.graph.nodes, worlds.graph.classes), "votes")

    def fit(self, worlds, device="cpu"):
        noisy = (self.counts(worlds) + self.noise(worlds))[:, worlds.watch]
        logs = noisy - np.logaddexp.reduce(noisy, axis=-1, keepdims=True)
        return Release({"posteriors": logs.astype(np.float32)}, worlds.watch)


class Averages(Votes):
    """A model whose runs read other runs of the batch."""

    def counts(self, worlds):
        return super().counts(worlds) + super().counts(worlds).mean(0)


class ForgetsEdgeMask(Votes):
    def counts(self, worlds):
        return super().counts(replace(worlds, edges=None))


class ForgetsLabelMask(Votes):
    def counts(self, worlds):
        return super().counts(replace(worlds, labels=None))


class FixedNoise(Votes):
    def noise(self, worlds):
        return super().noise(replace(worlds, seeds=np.zeros_like(worlds.seeds)))


class Forgetful(Votes):
    """Noise that does not depend on the seed."""

    def noise(self, worlds):
        return np.random.default_rng().standard_normal((worlds.runs, worlds.graph.nodes, worlds.graph.classes))


class OrderMatters(Votes):
    def counts(self, worlds):
        return super().counts(worlds) + np.eye(worlds.graph.classes)[0] * worlds.graph.edges[0, 0]


class ReadsName(Votes):
    def counts(self, worlds):
        return super().counts(worlds) + len(worlds.graph.name) * np.eye(worlds.graph.classes)[0]


class NeverSilent(Votes):
    @property
    def ledger(self):
        return dp.GaussianDpEvent(1.0)


class RunAxisLast(Votes):
    def fit(self, worlds, device="cpu"):
        release = super().fit(worlds)
        return replace(release, arrays={n: np.moveaxis(a, 0, -1) for n, a in release.arrays.items()})


FAULTS = {
    Averages: "other runs of a batch do not change a run",
    ForgetsEdgeMask: "a masked edge is an absent edge",
    ForgetsLabelMask: "a masked label is not trained on",
    FixedNoise: "another seed gives another release",
    Forgetful: "the same seed gives the same release",
    OrderMatters: "the order of the edges does not matter",
    ReadsName: "the name of the graph does not matter",
    NeverSilent: "a ledger without noise states no privacy",
    RunAxisLast: "releases what it declares",
}


def test_an_honest_model_keeps_every_clause():
    assert {c.name: c.failure for c in contract(Votes())} == dict.fromkeys(CLAUSES)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_broken_clause_is_named_with_its_smallest_example(fault):
    failure = {c.name: c.failure for c in contract(fault())}[FAULTS[fault]]
    assert failure is not None
    assert failure.startswith(("6 nodes", "12 nodes"))


def test_a_clause_that_says_nothing_of_a_model_is_not_said_to_hold(capsys):
    unasked = {c.name for c in contract(Looped(votes, events=dp.GaussianDpEvent(1.0))) if c.unasked}
    assert unasked == {"a ledger without noise states no privacy", "calibrated within the claim"}
    assert show(Looped(lambda graph, seed: votes(graph, seed)["posteriors"]), json=False) == 1
    told = capsys.readouterr().out
    assert third_column(told).count("returnedndarray") == 1
    assert "does not apply" in told  # its noise is fixed
    assert "nottested" in "".join(told.replace("│", "").split())  # a lambda cannot be sent to a new process


def third_column(table):
    """Its text without spaces: a terminal breaks lines anywhere."""
    cells = (line.split("│")[-2] for line in table.splitlines() if "│" in line)
    return "".join("".join(cells).split())


def votes(graph, seed):
    noisy = graph.adjacency() @ np.eye(graph.classes)[graph.y] + np.random.default_rng(seed).standard_normal((graph.nodes, 1))
    return {"posteriors": noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True)}


def test_a_failure_names_file_and_line_and_its_cause_once(capsys):
    def train(graph, seed):
        return graph.edge_list

    assert show(Looped(train), json=False) == 1
    printed = capsys.readouterr().out
    cells = third_column(printed)
    assert cells.count("AttributeError") == 1
    assert f"line{train.__code__.co_firstlineno + 1}:" in cells
    assert "9moreclausesfailforthesamereason" in cells


def test_a_mask_that_is_none_comes_with_the_way_to_the_edges(capsys):
    class Mine(Looped):
        def fit(self, worlds, device="cpu"):
            return worlds.removed(0).edges[0]

    assert show(Mine(print), json=False) == 1
    assert "worlds.removed(k).graph.edges" in capsys.readouterr().out


def refusing(fewest):
    """A model that refuses graphs of fewer nodes, by a ValueError of its own."""

    def train(graph, seed):
        if graph.nodes < fewest:
            raise ValueError(f"{graph.nodes} nodes are too few for ten batches")
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        noisy = graph.adjacency() @ np.eye(graph.classes)[graph.y] + noise
        return {"posteriors": noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True)}

    return Looped(train, events=dp.GaussianDpEvent(1.0))


def test_a_graph_that_a_model_refuses_fails_no_clause_if_it_accepts_another():
    assert not any(c.failure for c in contract(refusing(30)))


def test_a_model_that_refuses_every_test_graph_fails_with_its_reason():
    failures = [c.failure for c in contract(refusing(1000)) if c.failure]
    assert failures
    assert all("too few for ten batches" in failure for failure in failures)


def test_a_library_that_refuses_the_data_of_a_small_graph_fails_no_clause_and_the_sizes_that_hold_are_named():
    def train(graph, seed):
        fitted = LogisticRegression(max_iter=20).fit(np.asarray(graph.x)[graph.train], graph.y[graph.train])
        noise = np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        noisy = graph.adjacency() @ np.eye(graph.classes)[graph.y] + noise + 0.0 * fitted.predict_log_proba(graph.x)
        return {"posteriors": noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True)}

    checks = {c.name: c for c in contract(Looped(train, events=dp.GaussianDpEvent(1.0)))}
    assert not any(c.failure for c in checks.values())
    assert checks["a masked node is an absent node"].sizes == (12, 48)
    assert checks["a masked edge is an absent edge"].sizes == (6, 12, 48)


def test_an_error_of_a_library_is_no_refusal():
    def train(graph, seed):
        return {"posteriors": votes(graph, seed)["posteriors"] + (np.zeros(5) if graph.nodes < 30 else 0.0)}

    assert any("could not be broadcast" in (c.failure or "") for c in contract(Looped(train)))


def in_one_line(nodes):
    if nodes < 100: raise ValueError("too few")  # fmt: skip # noqa: E701


def over_lines(nodes):
    if nodes < 100:
        raise (
            ValueError("too few")
        )  # fmt: skip


def of_numpy(nodes):
    np.zeros(3)[: nodes // 100] += np.zeros(2)


@pytest.mark.parametrize(("refuses", "deliberate"), [(in_one_line, True), (over_lines, True), (of_numpy, False)])
def test_only_a_raise_statement_refuses_a_graph(refuses, deliberate):
    with pytest.raises(ValueError, match="too few" if deliberate else "broadcast") as fault:
        refuses(48)
    assert is_deliberate(fault.value) is deliberate


SIX = tiny(120, 5, 6)


def of_a_class(number, fewest=0):
    """A model that weighs the votes for the class with this number, and needs `fewest` training nodes of it."""

    def train(graph, seed):
        votes = graph.adjacency() @ np.eye(graph.classes)[graph.y]
        votes[:, number] *= 2
        if np.count_nonzero(graph.train & (graph.y == number)) < fewest:
            raise IndexError(number)
        noisy = votes + np.random.default_rng(seed).standard_normal(votes.shape)
        return {"posteriors": noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True)}

    return Looped(train, events=dp.GaussianDpEvent(1.0))


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_model_may_name_any_class_of_the_audited_graph(number):
    assert not any(c.failure for c in contract(of_a_class(number, fewest=1), SIX))


def test_a_model_that_names_a_class_that_no_graph_has_fails():
    assert {c.failure for c in contract(of_a_class(6), SIX) if c.failure}
    assert {c.failure for c in contract(of_a_class(5)) if c.failure}


def test_a_model_that_raises_an_error_on_a_graph_with_all_classes_fails():
    failures = [c.failure for c in contract(of_a_class(1, fewest=30), SIX) if c.failure]
    assert failures
    assert all(failure.startswith("48 nodes") for failure in failures)


@pytest.mark.parametrize(("fewest", "fails"), [(100, False), (121, True)])
def test_a_model_that_refuses_all_test_graphs_is_checked_on_the_audited_one(fewest, fails):
    checks = contract(refusing(fewest), SIX)
    assert any(c.failure for c in checks) is fails
    assert fails or {c.sizes for c in checks if c.how == "holds"} == {(120,)}
