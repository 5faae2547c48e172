"""Compares the engine and the bounds with alternatives on this machine: Opacus, PyTorch Geometric, and public audit formulas.

    python benchmarks/alternatives.py [--jax PYTHON] [--audits 41] [--only dpsgd,shadows,formulas]

Times are CPU seconds of one thread; measurements that are compared alternate. PYTHON is an interpreter with jax_privacy 2.0.0,
which gnnaudit does not need: `python -m venv jaxenv && jaxenv/bin/pip install jax_privacy==2.0.0`. Without it, the rows of
jax_privacy are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measured import cpu_seconds
from numpy.typing import NDArray

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.detection.error_rates import epsilon_of_rates, mu_of_rates, rate_at_most
from gnnaudit.accounting.lower.one_run import canaries, mahloujifar, steinke
from gnnaudit.accounting.upper import tradeoff
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.data.loading import load
from gnnaudit.models.engine.dpsgd import Private, train_privately
from gnnaudit.models.engine.features import Shared
from gnnaudit.models.engine.network import Network, Rows, draw
from gnnaudit.models.gap.gap import mlp
from gnnaudit.models.graph.graph import Graph, Worlds

DELTA, ALPHA = 1e-5, 0.05
TRIALS, EPSILONS = (1_000, 10_000), (1.0, 2.0, 4.0, 8.0)
HIDDEN, BATCH = 16, 256
Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

JAX = """
import json, sys, time
import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor
file, delta, alpha = np.load(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
found = {}
for scores, bits in zip(file["scores"], file["bits"]):
    for name in ("epsilon_clopper_pearson", "epsilon_from_gdp", "epsilon_one_run_fdp", "epsilon_one_run"):
        start = time.process_time()
        value = getattr(CanaryScoreAuditor(scores[bits], scores[~bits]), name)(alpha, delta)
        found.setdefault(name, []).append((float(value), time.process_time() - start))
json.dump(found, sys.stdout)
"""


def opacus(x: torch.Tensor, y: torch.Tensor, classes: int, epochs: int) -> None:
    """DP-SGD as in the documentation of Opacus: PrivacyEngine, its Poisson loader, one model."""
    from opacus import PrivacyEngine

    widths = (x.shape[1], HIDDEN, HIDDEN, classes)
    inner = torch.nn.Sequential(torch.nn.Linear(*widths[:2]), torch.nn.SELU(), torch.nn.Linear(*widths[1:3]), torch.nn.SELU())
    net = torch.nn.Sequential(*inner, torch.nn.Linear(*widths[2:]))
    adam = torch.optim.Adam(net.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH)
    made = PrivacyEngine().make_private(module=net, optimizer=adam, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
    for _ in range(epochs):
        for inputs, labels in made[2]:
            made[1].zero_grad()
            torch.nn.functional.cross_entropy(made[0](inputs), labels).backward()
            made[1].step()


def dpsgd(graph: Graph, epochs: int = 20) -> None:
    nodes = graph.train.nonzero()[0]
    features = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x
    x, y = torch.from_numpy(features[nodes]), torch.from_numpy(graph.y[nodes])
    network = Network((mlp([graph.dim, HIDDEN, HIDDEN, graph.classes], Unit.NODE),), (), graph.classes)
    rows, steps = Rows([Shared(graph.x, nodes)], y), len(nodes) // BATCH
    how = Private(sigma=1.0, rate=BATCH / len(nodes), batch=BATCH, epochs=epochs, steps=steps)

    def ours(runs: int) -> None:
        seeds = np.arange(runs, dtype=np.uint64)
        train_privately(network, draw(network.layers, seeds, "b"), rows, nodes, graph.nodes, seeds, "b", how)

    opacus(x, y, graph.classes, 1)
    ours(1)
    print("| DP-SGD, 3-layer MLP, batches of 256 | CPU ms a step | times faster |\n|---|---|---|")
    for runs in (1, 8, 32):
        theirs = cpu_seconds(lambda: opacus(x, y, graph.classes, epochs), 2) / (epochs * -(-len(nodes) // BATCH))
        own = cpu_seconds(lambda runs=runs: ours(runs), 2) / (epochs * steps * runs)
        print(f"| {runs} at once, Opacus' loop {1000 * theirs:.2f} | {1000 * own:.3f} | {theirs / own:.1f} |", flush=True)


def shadow(graph: Graph, model: Gnn) -> None:
    """Trains one shadow model as PyTorch Geometric's examples do."""
    from torch_geometric.nn import GCNConv

    x, y, arcs = torch.from_numpy(graph.x), torch.from_numpy(graph.y), torch.from_numpy(graph.arcs)
    trained, drop = torch.from_numpy(graph.train), torch.nn.functional.dropout
    first, second = GCNConv(graph.dim, model.hidden, cached=True), GCNConv(model.hidden, graph.classes, cached=True)
    adam = torch.optim.Adam([*first.parameters(), *second.parameters()], model.learning_rate, weight_decay=model.weight_decay)
    for _ in range(model.epochs):
        adam.zero_grad()
        logits = second(drop(first(x, arcs).relu(), model.dropout), arcs)
        torch.nn.functional.cross_entropy(logits[trained], y[trained]).backward()
        adam.step()


def shadows(graph: Graph, runs: int = 16) -> None:
    model = Gnn(epochs=100)
    worlds = Worlds.of(graph, list(range(runs)))
    shadow(graph, model)
    print("| GCN, 2 layers of 64, 100 epochs | CPU s a shadow | times faster |\n|---|---|---|")
    for _ in range(2):
        theirs, own = cpu_seconds(lambda: shadow(graph, model)), cpu_seconds(lambda: model.fit(worlds)) / runs
        print(f"| {runs} at once, PyTorch Geometric one by one {theirs:.2f} | {own:.2f} | {theirs / own:.1f} |", flush=True)


def rates(scores: Array, bits: Flags) -> tuple[Array, Array, int, int]:
    """The numbers of false positives and false negatives at every threshold, and the numbers of trials of world 0 and world 1."""
    order = np.argsort(-scores)
    ones = np.concatenate([[0], np.cumsum(bits[order])])
    return np.arange(len(scores) + 1) - ones, bits.sum() - ones, int((~bits).sum()), int(bits.sum())


def best_threshold(scores: Array, bits: Flags) -> float:
    """The largest Clopper-Pearson bound of any threshold, as in PrivacyGuard, bb-audit-dpsgd and TensorFlow Privacy."""
    fp, fn, outs, ins = rates(scores, bits)
    a, b = rate_at_most(fp, outs, ALPHA / 2), rate_at_most(fn, ins, ALPHA / 2)
    return float(epsilon_of_rates(a, b, DELTA).max())


def best_gaussian(scores: Array, bits: Flags) -> float:
    """`best_threshold` by the mu of a Gaussian mechanism, as in bb-audit-dpsgd (Annamalai and De Cristofaro 2024)."""
    fp, fn, outs, ins = rates(scores, bits)
    mu = mu_of_rates(rate_at_most(fp, outs, ALPHA), rate_at_most(fn, ins, ALPHA)).max()
    return float(gaussian.epsilon_of(max(mu, 0.0), DELTA))


def credible(scores: Array, bits: Flags) -> float:
    """The lower end of a credible interval under Jeffreys priors (Zanella-Béguelin et al. 2023), at the best threshold."""
    fp, fn, outs, ins = rates(scores, bits)
    at = int(epsilon_of_rates(rate_at_most(fp, outs, ALPHA / 2), rate_at_most(fn, ins, ALPHA / 2), DELTA).argmax())
    draws = np.random.default_rng(0)
    a = draws.beta(fp[at] + 0.5, outs - fp[at] + 0.5, 100_000)
    b = draws.beta(fn[at] + 0.5, ins - fn[at] + 0.5, 100_000)
    return float(np.quantile(epsilon_of_rates(a, b, DELTA), ALPHA))


def jax_privacy(python: str, scores: Array, bits: Flags) -> dict[str, list[tuple[float, float]]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scores.npz"
        np.savez(file, scores=scores, bits=bits)
        done = subprocess.run([python, "-c", JAX, str(file), str(DELTA), str(ALPHA)], capture_output=True, text=True, check=True)
    return {f"jax_privacy {name}": values for name, values in json.loads(done.stdout).items()}


def formulas(audits: int, python: str | None) -> None:
    """Prints the bounds of several formulas on the epsilon of a Gaussian mechanism, from the scores of the optimal attack."""
    print("| rule | scores | ε | median bound / ε | audits above ε | CPU ms |\n|---|---|---|---|---|---|")
    for trials, epsilon in itertools.product(TRIALS, EPSILONS):
        mu, claim = float(gaussian.mu_of(epsilon, DELTA)), Claim(epsilon, DELTA)
        curve, random = tradeoff.gaussian(mu), np.random.default_rng(int(epsilon))
        bits = random.random((audits, trials)) < 0.5
        scores = mu * random.standard_normal((audits, trials)) + mu * mu * (bits - 0.5)
        rules: dict[str, Callable[[Array, Flags], float]] = {
            "ours, likelihood ratio": lambda s, b, c=claim, k=curve: canaries(s[None], b[None], c, k)[0].epsilon,
            "ours, shape of the ledger": lambda s, b, c=claim, k=curve: (
                from_rounds(s, b, c, shape="ledger", ledger_curve=k).epsilon
            ),
            "ours, any shape": lambda s, b, c=claim: from_rounds(s, b, c).epsilon,
            "Mahloujifar et al. 2024, ours": lambda s, b, c=claim, k=curve: mahloujifar(s, b, c, k).epsilon,
            "Steinke et al. 2023, ours": lambda s, b, c=claim: steinke(s, b, c).epsilon,
            "Clopper-Pearson, best threshold": best_threshold,
            "Gaussian of Clopper-Pearson, best threshold": best_gaussian,
            "credible interval, best threshold": credible,
        }
        found = {name: [timed(rule, s, b) for s, b in zip(scores, bits, strict=True)] for name, rule in rules.items()}
        found |= jax_privacy(python, scores, bits) if python else {}
        for name, values in found.items():
            bounds = [bound for bound, _ in values]
            above, took = sum(bound > epsilon for bound in bounds), 1000 * statistics.median(t for _, t in values)
            of_epsilon = np.median(bounds) / epsilon
            print(f"| {name} | {trials:,} | {epsilon:g} | {of_epsilon:.3f} | {above} of {audits} | {took:.1f} |", flush=True)


def timed(rule: Callable[[Array, Flags], float], scores: Array, bits: Flags) -> tuple[float, float]:
    start = time.thread_time()
    return rule(scores, bits), time.thread_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", help="an interpreter that has jax_privacy")
    parser.add_argument("--audits", type=int, default=41)
    parser.add_argument("--only", default="dpsgd,shadows,formulas")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    graph = load("campus:n=2000")
    if "dpsgd" in asked.only:
        dpsgd(graph)
    if "shadows" in asked.only:
        shadows(graph)
    if "formulas" in asked.only:
        formulas(asked.audits, asked.jax)


if __name__ == "__main__":
    main()
