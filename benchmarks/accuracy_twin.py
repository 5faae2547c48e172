"""Compares the accuracy of the engine with that of a twin: GAP and DP-MLP in plain PyTorch, one run after the other.

    python benchmarks/accuracy_twin.py FOLDER_WITH_FACEBOOK100 [--repeats 30] [--seed 1] [--only gap,mlp]

The graph is JohnsHopkins55, with the split and the noise of the official code. The twin draws from torch's global generator as
the official code does. With `--seed 12345 --repeats 3`, DP-MLP draws exactly the numbers of the official code's three runs.
Intervals are Student's 95 % intervals of the mean; the standard deviation of a single run is in brackets.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from accuracy import OFFICIAL, paper
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from training import UnitRows

from gnnaudit.accounting.claim import Unit
from gnnaudit.attacks.roc import half_width
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Graph, Worlds

HIDDEN, BATCH, CLIP, RATE, DEGREE = 16, 256, 1.0, 0.01, 100
DRAWN_BEFORE = 4544  # the number of labelled nodes. The official code first draws their random order, which gives the split


class Hops(nn.Module):
    """One layer for each hop, whose outputs are concatenated. (nodes, hops, units) -> (nodes, hops * units)"""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.LazyLinear(HIDDEN) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(x[..., hop, :]) for hop, layer in enumerate(self.layers)], -1)


def activated(private: bool, units: int = HIDDEN) -> list[nn.Module]:
    return [nn.SELU()] if private else [nn.BatchNorm1d(units), nn.SELU()]


class Twin:
    """A recipe of the engine, written as its authors write it. As in their code, its networks are reset before each run."""

    def __init__(self, recipe: Any, graph: Graph, seed: int) -> None:
        self.recipe, self.graph, self.private = recipe, graph, recipe.unit is Unit.NODE
        self.y = torch.from_numpy(graph.y)
        self.parts = [torch.from_numpy(np.flatnonzero(mask)) for mask in (graph.train, graph.val, graph.test)]
        self.x = torch.from_numpy(graph.x.toarray())
        first = [nn.LazyLinear(HIDDEN), *activated(self.private), nn.LazyLinear(HIDDEN)]
        head = nn.LazyLinear(graph.classes)
        self.encoder = nn.Sequential(*first, UnitRows())
        if recipe.name == "mlp":
            self.networks = [nn.Sequential(*first, *activated(self.private), head)]
        else:
            wide = HIDDEN * (recipe.hops + 1)
            trunk = UnitRows(), *activated(self.private, wide), nn.LazyLinear(graph.classes)
            encoded = nn.Sequential(self.encoder, *activated(self.private), head)
            self.networks = [encoded, nn.Sequential(Hops(recipe.hops + 1), *trunk)]
        self.cut = np.random.default_rng(seed)

    def run(self) -> float:
        """Trains once and returns the test accuracy, in percent."""
        for network in self.networks:
            for layer in network.modules():
                if isinstance(layer, nn.Linear | nn.BatchNorm1d) and not isinstance(layer, nn.LazyLinear):
                    layer.reset_parameters()
        self.fit(self.networks[0], self.x)
        if self.recipe.name == "mlp":
            return self.accuracy(self.networks[0], self.x, self.parts[2])
        with torch.no_grad():
            hops, sums = [self.encoder(self.x)], self.sums()
            for _ in range(self.recipe.hops):
                noise = torch.normal(0, self.recipe.noise_std, hops[0].shape) if self.recipe.sigma else 0
                hops.append(functional.normalize(torch.from_numpy(sums @ hops[-1].numpy()) + noise, dim=1))
        self.fit(self.networks[1], torch.stack(hops, 1))
        return self.accuracy(self.networks[1], torch.stack(hops, 1), self.parts[2])

    def sums(self) -> Any:
        """The adjacency. At node level, every node but the last sends to at most DEGREE others, and the last sends to none."""
        arcs = np.concatenate([self.graph.edges, self.graph.edges[::-1]], 1)
        senders = sp.csc_array((np.ones(arcs.shape[1], np.float32), arcs[::-1]), shape=(self.graph.nodes,) * 2)
        if not self.private:
            return senders.tocsr()
        columns = [senders.indices[senders.indptr[i] : senders.indptr[i + 1]] for i in range(self.graph.nodes - 1)]
        kept = [rows if rows.size <= DEGREE else self.cut.choice(rows, DEGREE, replace=False) for rows in columns]
        at = np.concatenate(kept), np.repeat(np.arange(self.graph.nodes - 1), [rows.size for rows in kept])
        return sp.csr_array((np.ones(at[0].size, np.float32), at), shape=(self.graph.nodes,) * 2)

    def fit(self, network: nn.Module, x: torch.Tensor) -> None:
        train, val, _ = self.parts
        optimizer, best, state = None, -1.0, {}
        for _ in range(self.recipe.epochs):
            network.train()
            for _ in range(len(train) // BATCH if self.private else 1):
                drawn = train[torch.rand(len(train)) < BATCH / len(train)] if self.private else train
                if optimizer is None:
                    network(x[drawn])
                    optimizer = torch.optim.Adam(network.parameters(), RATE)
                self.slopes(network, x[drawn], self.y[drawn])
                optimizer.step()
            if (accuracy := self.accuracy(network, x, val)) > best:
                best, state = accuracy, copy.deepcopy(network.state_dict())
        network.load_state_dict(state)
        network.eval()

    def slopes(self, network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
        network.zero_grad()
        if not self.private:
            functional.cross_entropy(network(x), y).backward()
            return
        numbers = {name: a.detach() for name, a in network.named_parameters()}

        def loss(numbers: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(functional_call(network, numbers, (x[None],)), y[None])

        each = vmap(grad(loss), (None, 0, 0))(numbers, x, y)
        norms = sum(a.flatten(1).square().sum(1) for a in each.values()).sqrt()
        scale = (CLIP / (norms + 1e-6)).clamp(max=1)
        for name, a in network.named_parameters():
            clipped = torch.einsum("n,n...->...", scale, each[name])
            a.grad = (clipped + torch.normal(0, self.recipe.sigma * CLIP, clipped.shape)) / BATCH

    def accuracy(self, network: nn.Module, x: torch.Tensor, nodes: torch.Tensor) -> float:
        network.eval()
        with torch.no_grad():
            return 100 * float((network(x[nodes]).argmax(1) == self.y[nodes]).float().mean())


def told(right: np.ndarray) -> str:
    spread = right.std(ddof=1)
    return f"{right.mean():.2f} ± {half_width(spread, right.size):.2f} ({spread:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="mlp,gap")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    name = "facebook100:JohnsHopkins55:min_class=150"
    graph, theirs = (load(name + prepared, data_dir=arguments.data_dir) for prepared in ("", ":prep=paper"))
    test = np.flatnonzero(graph.test)
    print("| recipe | ε | official, three repeats | twin | engine |\n|---|---|---|---|---|")
    for title, recipe, epsilon, sigma, official in OFFICIAL:
        if recipe.name not in arguments.only.split(",") or recipe.name not in ("mlp", "gap"):
            continue
        published = paper(recipe, sigma, graph)
        worlds = Worlds.of(graph, list(range(arguments.repeats)), test)
        ours = 100 * (published.fit(worlds)["posteriors"].argmax(2) == graph.y[test]).mean(1)
        torch.manual_seed(arguments.seed)
        torch.randperm(DRAWN_BEFORE)
        twin = Twin(published, theirs, arguments.seed)
        right = np.array([twin.run() for _ in range(arguments.repeats)])
        print(f"| {title} | {epsilon:g} | {official} | {told(right)} | {told(ours)} |", flush=True)


if __name__ == "__main__":
    main()
