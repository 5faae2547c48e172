"""How reliably the tool distinguishes wrong from right claims of GAP and ProGAP on undirected edges, over many seeds.

    python benchmarks/verdicts.py [--data NAME] [--data-dir DIR] [--seeds 20] [--honest 200]

Prints Markdown: the share of seeds that refute GAP as published (epsilon = 4 for a directed edge) under a claim on undirected
edges, with one run of at most 1,000 canaries; the share of seeds that refute the sound recipes; and the share of epsilon that
10,000 canary trials prove.
"""

import argparse
import time

import numpy as np

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.one_run import canaries
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.attacks.canary.gaussian_ratio import LikelihoodRatio
from gnnaudit.audit.case import keeping
from gnnaudit.audit.games.game import Game, matching
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap

DELTA = 1e-6


def bound(model, graph, claim, key, trials, alpha):
    """The bound of the canary game with `trials` canary trials in total, over as many runs as these trials need."""
    items = matching(graph, min(1000, trials), key.fold("canaries"))
    game = Game(graph, "edge", items, key.fold("game"))
    rounds = game.rounds(max(1, round(trials / len(items))))
    release = keeping(model, ("aggregates", "inputs")).fit(rounds.worlds)
    scores = LikelihoodRatio().score(release, rounds.challenge)
    return canaries(scores, rounds.bits, claim, curve(model.ledger), alpha)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="campus")
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--honest", type=int, default=200)
    options = parser.parse_args()
    one_thread()
    graph = load(options.data, options.data_dir)
    print(f"On {options.data}: {graph.nodes} nodes, {graph.edges.shape[1]} edges.\n")

    paper = calibrate(Gap(mode="paper"), Claim(4.0, DELTA, Unit.DIRECTED_EDGE))
    claim = Claim(4.0, DELTA, Unit.UNDIRECTED_EDGE)
    clock = time.perf_counter()
    found = [bound(paper, graph, claim, Key("paper", s), 1000, 0.05) for s in range(options.seeds)]
    each = (time.perf_counter() - clock) / options.seeds
    values = np.array([b.epsilon for b in found])
    print("| recipe | claim | canaries | seeds | refuted | lower bound at 95 %, median (least-most) | seconds each |")
    print("|---|---|---|---|---|---|---|")
    spread = f"{np.median(values):.2f} ({values.min():.2f}-{values.max():.2f})"
    refuted = sum(b.refuted for b in found)
    print(f"| gap paper | 4, undirected | {sum(found[0].trials)} | {options.seeds} | {refuted} | {spread} | {each:.1f} |")
    for recipe in (Gap(), ProGap()):
        model = calibrate(recipe, claim)
        clock = time.perf_counter()
        honest = [bound(model, graph, claim, Key("honest", s), 1000, 1e-4) for s in range(options.honest)]
        each = (time.perf_counter() - clock) / options.honest
        values = np.array([b.epsilon for b in honest])
        spread = f"{np.median(values):.2f} ({values.min():.2f}-{values.max():.2f}), at 99.99 %"
        refuted = sum(b.refuted for b in honest)
        who = f"{recipe.name} sound | 4, undirected | {sum(honest[0].trials)}"
        print(f"| {who} | {options.honest} | {refuted} | {spread} | {each:.1f} |", flush=True)

    print("\n| epsilon | bound / epsilon at 10,000 canary trials, gap sound, 95 %: median over seeds |\n|---|---|")
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        claim = Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE)
        model = calibrate(Gap(), claim)
        shares = [bound(model, graph, claim, Key("tight", s), 10_000, 0.05).epsilon / epsilon for s in range(options.seeds)]
        print(f"| {epsilon:g} | {np.median(shares):.3f} |", flush=True)


if __name__ == "__main__":
    main()
