"""Models per CPU second: compares the K-run engine with autograd one run at a time, with Opacus, and with the machine's GEMM.

    python benchmarks/training.py FOLDER_WITH_FACEBOOK100 [--runs 1,8,64,256] [--only dense,node,edge]

All figures are CPU seconds of one thread. The official code was measured at about 1 (GAP) and 6 (ProGAP) CPU seconds for each
training. The twin is the same recipe as its authors write it: torch.nn, autograd and torch.optim, one run after the other. Engine
and twin alternate, so that other work on the machine slows both. "shared": runs with a public seed, which train the network that
reads no edges only once.
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
from dataclasses import replace

import numpy as np
import torch
from measured import cpu_seconds
from torch import nn
from torch.nn import functional

from gnnaudit.models.data.loading import load
from gnnaudit.models.engine.dpsgd import Private, train_privately
from gnnaudit.models.engine.features import Shared
from gnnaudit.models.engine.network import Network, Rows, draw
from gnnaudit.models.engine.training import train
from gnnaudit.models.gap.gap import Gap, mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.sparse.neighbour_sums import Aggregation

HIDDEN = 16


class UnitRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.normalize(x, dim=-1)


class Stacked(nn.Module):
    """A network with one branch for each input, and a trunk on the concatenated outputs of the branches."""

    def __init__(self, branches: list[nn.Module], trunk: nn.Module) -> None:
        super().__init__()
        self.branches, self.trunk = nn.ModuleList(branches), trunk

    def forward(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        return self.trunk(torch.cat([b(x) for b, x in zip(self.branches, inputs, strict=True)], 1))


def fit(model: nn.Module, inputs: list[torch.Tensor], graph: Graph, epochs: int = 100) -> None:
    train_nodes, val = torch.from_numpy(graph.train), torch.from_numpy(graph.val)
    y, optimizer, best = torch.from_numpy(graph.y), torch.optim.Adam(model.parameters(), 0.01), -1.0
    state = copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model([x[train_nodes] for x in inputs]), y[train_nodes]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = float((model([x[val] for x in inputs]).argmax(1) == y[val]).float().mean())
        if accuracy > best:
            best, state = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    model.eval()


def norm_act(units: int) -> list[nn.Module]:
    return [nn.BatchNorm1d(units), nn.SELU()]


def twin_gap(graph: Graph, x: torch.Tensor, sums: Aggregation) -> None:
    encoder = nn.Sequential(nn.Linear(graph.dim, HIDDEN), *norm_act(HIDDEN), nn.Linear(HIDDEN, HIDDEN), UnitRows())
    fit(Stacked([encoder], nn.Sequential(*norm_act(HIDDEN), nn.Linear(HIDDEN, graph.classes))), [x], graph)
    with torch.no_grad():
        z = [encoder(x)]
        for _ in range(2):
            z.append(functional.normalize(sums(z[-1][None])[0] + 5.97 * torch.randn(graph.nodes, HIDDEN), dim=1))
    trunk = nn.Sequential(UnitRows(), *norm_act(3 * HIDDEN), nn.Linear(3 * HIDDEN, graph.classes))
    fit(Stacked([nn.Linear(HIDDEN, HIDDEN) for _ in range(3)], trunk), z, graph)


def twin_progap(graph: Graph, x: torch.Tensor, sums: Aggregation) -> None:
    inputs, bases = [x], []
    for stage in range(6):
        bases.append(nn.Sequential(nn.Linear(inputs[-1].shape[1], HIDDEN), nn.SELU(), nn.BatchNorm1d(HIDDEN)))
        head = nn.Sequential(UnitRows(), nn.Linear(HIDDEN * (stage + 1), graph.classes))
        fit(Stacked(bases, head), inputs, graph)
        with torch.no_grad():
            rows = functional.normalize(bases[-1](inputs[-1]), dim=1)
            inputs.append(sums(rows[None])[0] + 10.13 * torch.randn(graph.nodes, HIDDEN))


def edge_level(graph: Graph, runs: list[int]) -> None:
    """Measures GAP and ProGAP, and then both with the network that reads no edges trained once for all runs."""
    x, sums = torch.from_numpy(graph.x.toarray()), Aggregation.of(Worlds.of(graph, [0]))
    print("| recipe | runs | CPU s a model | models per CPU s | times the official code | times the twin | peak memory |")
    print("|---|---|---|---|---|---|---|")
    for model, twin, official in (
        (Gap(sigma=5.97, mode="paper"), twin_gap, 1),
        (ProGap(sigma=10.13, mode="paper"), twin_progap, 6),
    ):
        alone = cpu_seconds(lambda twin=twin: twin(graph, x, sums))
        print(f"| {model.name}, twin | 1 | {alone:.3f} | {1 / alone:.2f} | {official / alone:.1f} | 1.0 | |", flush=True)
        few = [count for count in runs if count < 256]
        plans = [(model.name, model, count) for count in runs]
        plans += [(f"{model.name}, shared", replace(model, public_seed=1), count) for count in few]
        for name, recipe, count in plans:
            worlds = Worlds.of(graph, list(range(count)))
            each = cpu_seconds(lambda recipe=recipe, worlds=worlds: recipe.fit(worlds), 3 if count == 1 else 1) / count
            if count == 8:
                alone = (alone + cpu_seconds(lambda twin=twin: twin(graph, x, sums))) / 2
            speed = f"{1 / each:.2f} | {official / each:.1f} | {alone / each:.1f}"
            print(f"| {name} | {count} | {each:.3f} | {speed} | {peak()} MiB |", flush=True)


def peak() -> int:
    """The peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def opacus_loop(x: torch.Tensor, y: torch.Tensor, steps: int, batch: int) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.SELU(), nn.Linear(HIDDEN, HIDDEN), nn.SELU(), nn.Linear(HIDDEN, 6))
    wrapped = GradSampleModule(model)
    adam = torch.optim.Adam(wrapped.parameters(), 0.01)
    optimizer = DPOptimizer(adam, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=batch)
    for _ in range(steps):
        drawn = torch.rand(len(x)) < batch / len(x)
        optimizer.zero_grad()
        functional.cross_entropy(wrapped(x[drawn]), y[drawn]).backward()
        optimizer.step()


def node_level(graph: Graph, runs: list[int], steps: int = 120, batch: int = 256) -> None:
    from gnnaudit.accounting.claim import Unit

    nodes = graph.train.nonzero()[0]
    x, y = torch.from_numpy(graph.x.toarray()[nodes]), torch.from_numpy(graph.y[nodes])
    network = Network((mlp([graph.dim, HIDDEN, HIDDEN, 6], Unit.NODE),), (), 6)
    rows = Rows([Shared(graph.x, nodes)], y)
    how = Private(sigma=1.0, rate=batch / len(nodes), batch=batch, epochs=1, steps=steps)
    opacus_loop(x, y, 2, batch)
    before = cpu_seconds(lambda: opacus_loop(x, y, steps, batch), 2) / steps
    print("| DP-SGD on an MLP | runs | CPU ms a step | times Opacus | peak memory |\n|---|---|---|---|---|")
    print(f"| Opacus' own loop | 1 | {1000 * before:.2f} | 1.0 | |")
    for count in runs:
        seeds = np.arange(count, dtype=np.uint64)
        each = cpu_seconds(lambda s=seeds: train_privately(
            network, draw(network.layers, s, "b"), rows, nodes, graph.nodes, s, "b", how), 2) / steps / count  # fmt: skip
        before = (before + cpu_seconds(lambda: opacus_loop(x, y, steps, batch)) / steps) / 2
        print(f"| engine | {count} | {1000 * each:.3f} | {before / each:.1f} | {peak()} MiB |", flush=True)


def dense_rate(nodes: int = 4000, dim: int = 500, hidden: int = 64, runs: int = 4, epochs: int = 10) -> None:
    """The share of the machine's GEMM rate that whole training steps reach when features are dense."""
    from gnnaudit.accounting.claim import Unit

    random = np.random.default_rng(0)
    a, b = (torch.randn(2000, 2000) for _ in range(2))
    x = random.standard_normal((nodes, dim)).astype(np.float32)
    rows = Rows([Shared(x, np.arange(nodes))], torch.arange(nodes) % 6)
    network = Network((mlp([dim, hidden, 6], Unit.UNDIRECTED_EDGE),), (), 6)
    parts = draw(network.layers, np.arange(runs, dtype=np.uint64), "b")
    spent = cpu_seconds(lambda: train(network, parts, rows, epochs, 0.01), 5)
    rate = 2 * 2000**3 / cpu_seconds(lambda: a @ b, 10)
    done = epochs * runs * nodes * (4 * dim * hidden + 6 * hidden * 6)
    print(f"dense: {done / spent / 1e9:.1f} of {rate / 1e9:.1f} GF/s, {100 * done / spent / rate:.0f} %", flush=True)


def dense_models(graph: Graph, dim: int = 64) -> None:
    """Measures GAP and ProGAP with and without the compiled kernel, on random projections of the one-hot features."""
    projection = np.random.default_rng(0).standard_normal((graph.dim, dim)) / np.sqrt(graph.dim)
    worlds = Worlds.of(replace(graph, x=(graph.x @ projection).astype(np.float32)), [0])
    for model in (Gap(sigma=5.97, mode="paper"), ProGap(sigma=10.13, mode="paper")):
        fast = cpu_seconds(lambda model=model: model.fit(worlds), 3)
        with compiled.unused():
            slow = cpu_seconds(lambda model=model: model.fit(worlds), 2)
        print(f"{model.name}, {dim} dense features: {fast:.3f} CPU s a model, {slow:.3f} by the layers in torch", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("--runs", default="1,8,64,256")
    parser.add_argument("--only", default="edge,node,dense")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {compiled.path()}, {compiled.instruction_set()}\n")
    graph = load("facebook100:JohnsHopkins55:min_class=150", data_dir=arguments.data_dir)
    runs = [int(r) for r in arguments.runs.split(",")]
    if "dense" in arguments.only:
        dense_rate()
        dense_models(graph)
    if "node" in arguments.only:
        node_level(graph, runs)
    if "edge" in arguments.only:
        edge_level(graph, runs)


if __name__ == "__main__":
    main()
