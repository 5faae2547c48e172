"""How much of each system's claim its audits prove at 95 %, for each view of the adversary: the median share of epsilon.

    python benchmarks/tight.py [PART] [AUDITS] [--only "GAP, sums"] [--epsilon 1,2] [--first 0]

PART is sums, messages, gradients, reports or nodes; without PART, the script runs all of them. With PART = ideal, it trains
nothing, and assumes that the best attack on the ledger of DP-SGD makes its median number of errors.

Trials are secret bits; decoys are not counted. With six audits or more, brackets hold an interval of the median at 95 % or more.
At 95 %, one audit in twenty refutes an honest claim; stderr shows how many did.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scipy.stats import binom

from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.lower.detection.families import Family
from gnnaudit.accounting.lower.rank_test import best_place, chance_of_so_few
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.instruments.reach import family
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.data.loading import load
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.vesper.vesper import Vesper

EPSILONS = (1.0, 2.0, 4.0, 8.0)
EDGE, NODE, LOCAL = (Unit.UNDIRECTED_EDGE, 1e-5), (Unit.NODE, 1e-4), (Unit.FEATURES, 0.0)
SMALL, LARGE = "campus:n=300", "campus:n=3000"
DEGREE = 100  # the public bound on the degree of a node, which no graph used at node level exceeds


def rows(part: str) -> Iterator[tuple]:
    """The rows of a part: name, function from the number of training nodes to the recipe, (unit, delta), audit, rounds, graph."""
    if part in ("", "sums"):
        yield "GAP, sums, 10,000 trials", lambda n: Gap(), EDGE, "game", 10, LARGE
        yield "GAP, sums, residuals of one run", lambda n: Gap(), EDGE, "residual", 1, LARGE
        yield "ProGAP, sums, 10,000 trials", lambda n: ProGap(), EDGE, "game", 10, LARGE
        yield "VESPER s1, sums, 10,000 trials", lambda n: Vesper(), EDGE, "game", 10, LARGE
        yield "VESPER s2, sums, 10,000 trials", lambda n: Vesper(variant="s2"), EDGE, "game", 10, LARGE
    if part in ("", "messages"):
        yield "VESPER s1, messages, 10,000 trials", lambda n: Vesper(), EDGE, "transcript", 10, SMALL
    if part in ("", "gradients"):
        yield "DPAR, gradients alone, 10,000 trials", lambda n: Dpar(train_nodes=n, sources=0), NODE, "gradients", 50, SMALL
        yield "DPAR, gradients beside lists, 10,000 trials", lambda n: Dpar(train_nodes=n), NODE, "gradients", 50, SMALL
        yield "DP-SGD, linear, gradients, 10,000 trials", lambda n: dp_mlp(n, 1), NODE, "gradients", 50, SMALL
        yield "DP-SGD, linear, gradients, 50,000 trials", lambda n: dp_mlp(n, 1), NODE, "gradients", 250, SMALL
        yield "DP-MLP of three layers, gradients, 10,000 trials", lambda n: dp_mlp(n, 3), NODE, "gradients", 50, SMALL
    if part in ("", "reports"):
        yield "LPGNN, reports, 10,000 trials", lambda n: Lpgnn(), LOCAL, "reports", 10, SMALL
        yield "LPGNN, channels", lambda n: Lpgnn(), LOCAL, "exact", 1, SMALL
        yield "PrivGNN, votes, 10,000 trials", lambda n: PrivGnn(classes=6, queries=50), NODE, "votes", 10, SMALL
        yield "PrivGNN, 50 votes, exact", lambda n: PrivGnn(classes=6, queries=50), NODE, "exact", 1, SMALL
        yield "EdgeRand, one entry and the density", lambda n: EdgeRand(), EDGE, "exact", 1, SMALL
    if part in ("", "nodes"):
        yield "GAP, sums of nodes, 10,000 trials", lambda n: at_node(Gap, n, epochs=10), NODE, "game", 200, SMALL
        yield "GAP, sums of nodes, residuals of one run", lambda n: at_node(Gap, n, epochs=10), NODE, "residual", 1, SMALL
        yield "ProGAP, sums of nodes, residuals of one run", lambda n: at_node(ProGap, n, epochs=5), NODE, "residual", 1, SMALL
        yield "DPAR, PageRank rows of one draw", lambda n: Dpar(train_nodes=n), NODE, "rows", 1, SMALL


def dp_mlp(nodes: int, layers: int) -> Mlp:
    return Mlp(layers=layers, unit=Unit.NODE, train_nodes=nodes, batch=50, epochs=10)


def at_node(kind: type, nodes: int, epochs: int) -> Gap | ProGap:
    return kind(unit=Unit.NODE, train_nodes=nodes, batch=50, epochs=epochs, max_degree=DEGREE)


def ideal(epsilons: list[float]) -> None:
    """Prints the rank gate's bound from 5,000 trials in each world on the ledger's curve, for several numbers of decoys."""
    nodes = int(load(SMALL).train.sum())
    for each in (0, 2, 10, 10**5):
        shares = []
        for epsilon in epsilons:
            claim = Claim(epsilon, NODE[1], NODE[0])
            ledger, trials = calibrate(dp_mlp(nodes, 1), claim).ledger, (5000 + 10_000 * each, 5000)
            attained = curve(ledger)
            place = best_place(attained.beta, trials[0])
            missed = int(trials[1] * attained.beta(place / trials[0]))
            proved = partial(chance_of_so_few, missed, place, trials)
            members = Family(attained, family(ledger))
            shares.append(members.epsilon(lambda member, proved=proved: proved(member.beta) <= 0.05, claim.delta) / epsilon)
        print(f"| DP-SGD, linear, ideal, 10,000 trials, {each} decoys a coin | {' | '.join(f'{s:.3f}' for s in shares)} | |")


def with_interval(found: list[float]) -> str:
    """The sample median, and, with at least six values, two order statistics between which the median of the distribution lies at
    95 % or more (David and Nagaraja 2003, section 7.1).
    """
    below, size = int(binom.ppf(0.025, len(found), 0.5)), len(found)  # P(binomial < below) is at most 0.025
    middle = f"{statistics.median(found):.3f}"
    return f"{middle} ({sorted(found)[below - 1]:.3f}-{sorted(found)[size - below]:.3f})" if below else middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("audits", nargs="?", type=int, default=1)
    parser.add_argument("--only", action="append", help="start of the names of the rows to run; repeatable")
    parser.add_argument("--epsilon", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--first", type=int, default=0, help="number of the first audit; another number gives fresh coins")
    options = parser.parse_args()
    one_thread()
    epsilons = [float(e) for e in options.epsilon.split(",")]
    print(f"| what is seen | {' | '.join(f'ε = {e:g}' for e in epsilons)} | CPU seconds |\n|---|{'---|' * (len(epsilons) + 1)}")
    if options.part == "ideal":
        ideal(epsilons)
        return
    for what, recipe, (unit, delta), audit, rounds, data in rows(options.part):
        if not what.startswith(tuple(options.only or [""])):
            continue
        graph, cells, clock = load(data), [], time.process_time()
        for epsilon in epsilons:
            claim = Claim(epsilon, delta, unit, Relation.REPLACE if unit is Unit.FEATURES else Relation.ADD_REMOVE)
            case = Case(calibrate(recipe(int(graph.train.sum())), claim), claim)
            found = []
            audits = 1 if audit in ("exact", "residual", "rows") else options.audits  # these bounds hardly vary
            for draw in range(options.first, options.first + audits):
                key = Key("tight", what, repr(epsilon), draw)
                with tempfile.TemporaryDirectory() as folder:
                    outcome = AUDITS[audit].run(Setting(case, graph, Store(Path(folder)), key, rounds, 0.05))
                found.append(outcome.bounds[0].epsilon / epsilon)
            cells.append(with_interval(found))
            refuted = sum(f > 1 for f in found)
            told = f"{min(found):.3f} to {max(found):.3f} of {epsilon:g}, {refuted} of {len(found)} refuted"
            print(f"{what}: {told}, reach {outcome.bounds[0].reach:.3g}; {outcome.reach}", file=sys.stderr, flush=True)
        print(f"| {what} | {' | '.join(cells)} | {time.process_time() - clock:.0f} |", flush=True)


if __name__ == "__main__":
    main()
