"""How much of each system's claim its audits prove at 95 %, by what the adversary sees: the median of some audits a cell.

python benchmarks/tight.py [sums|messages|gradients|reports|nodes] [AUDITS]

Trials are coins; pairs and nodes that have no coin and are never there are not counted. An honest claim is refuted by one audit
in twenty at 95 %: how many were is told on stderr.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gnnaudit.accounting.calibrate import calibrate
from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.audit.audits import AUDITS
from gnnaudit.audit.case import Case
from gnnaudit.audit.executor import one_thread
from gnnaudit.audit.key import Key
from gnnaudit.audit.store import Store
from gnnaudit.models.datasets import load
from gnnaudit.models.dpar import Dpar
from gnnaudit.models.edgerand import EdgeRand
from gnnaudit.models.gap import Gap
from gnnaudit.models.lpgnn import Lpgnn
from gnnaudit.models.mlp import Mlp
from gnnaudit.models.privgnn import PrivGnn
from gnnaudit.models.progap import ProGap
from gnnaudit.models.vesper import Vesper

EPSILONS = (1.0, 2.0, 4.0, 8.0)
EDGE, NODE, LOCAL = (Unit.UNDIRECTED_EDGE, 1e-5), (Unit.NODE, 1e-4), (Unit.FEATURES, 0.0)
SMALL, LARGE = "campus:n=300", "campus:n=3000"
DEGREE = 100  # that a node may have, in public; none of the graphs in use at node level has more


def rows(part: str) -> Iterator[tuple]:
    """(what, recipe from the number of training nodes, unit and delta, audit, rounds, graph)."""
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


def main(part: str, audits: int) -> None:
    one_thread()
    print(f"| what is seen | {' | '.join(f'ε = {e:g}' for e in EPSILONS)} | CPU seconds |\n|---|{'---|' * (len(EPSILONS) + 1)}")
    for what, recipe, (unit, delta), audit, rounds, data in rows(part):
        graph, shares, clock = load(data), [], time.process_time()
        for epsilon in EPSILONS:
            claim = Claim(epsilon, delta, unit, Relation.REPLACE if unit is Unit.FEATURES else Relation.ADD_REMOVE)
            case = Case(calibrate(recipe(int(graph.train.sum())), claim), claim)
            found = []
            for draw in range(1 if audit in ("exact", "residual", "rows") else audits):  # those hardly scatter
                key = Key("tight", what, repr(epsilon), draw)
                with tempfile.TemporaryDirectory() as folder:
                    outcome = AUDITS[audit].run(case, graph, Store(Path(folder)), key, rounds, 0.05)
                found.append(outcome.bounds[0].epsilon / epsilon)
            shares.append(statistics.median(found))
            refuted = sum(f > 1 for f in found)
            told = f"{min(found):.3f} to {max(found):.3f} of {epsilon:g}, {refuted} of {len(found)} refuted"
            print(f"{what}: {told}, reach {outcome.bounds[0].reach:.3g}; {outcome.reach}", file=sys.stderr, flush=True)
        print(f"| {what} | {' | '.join(f'{s:.3f}' for s in shares)} | {time.process_time() - clock:.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", int(sys.argv[2]) if len(sys.argv) > 2 else 1)
