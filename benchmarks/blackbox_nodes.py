"""How much of a node-level epsilon posteriors prove for one canary node, whose hundred neighbours the attack queries.

    python benchmarks/blackbox_nodes.py [--systems gap] [--epsilon 4,8] [--trainings 1000] [--train-nodes 4096]

The adversary chooses the graph except for the canary, which has as many neighbours as the recipe allows. Each training has only
one canary, because the model also trains on the canary, which affects all predictions. delta = 1e-5. Prints Markdown.
"""

import argparse
import time

import numpy as np

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.accounting.lower.guessed_coins import guessed
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.attacks.canary.fisher import log_likelihood_ratio
from gnnaudit.audit.audits.blackbox import odds
from gnnaudit.audit.games.game import Game, Seen
from gnnaudit.audit.instruments.reach import family
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph

DELTA, CHUNK = 1e-5, 25
# the number of features, and their size, so large that the encoder's biases do not make all rows alike
KINDS, LOUD = 24, 10.0
DEGREE = 100  # the public bound of the recipes
CELLS, POOL, RING = 50, 80, 32  # the number of pools, the nodes in a pool, and how many neighbours each has on either side
ANSWERING, JOINED, ASKED = 20, 4, 2  # queried nodes at each pool; of these, those with known senders, and with the canary
SENDERS = 16
SYSTEMS = {
    "gap": (lambda n: Gap(unit=Unit.NODE, train_nodes=n, epochs=10), 2),
    "progap-2": (lambda n: ProGap(unit=Unit.NODE, train_nodes=n, epochs=5, depth=2, base_layers=2), 2),
}


def crafted(train_nodes):
    """The graph, the canary, and three groups of queried nodes: the neighbours of the canary, references without a known sender,
    and references with known senders.

    Each queried node also has a pool of neighbours, which have other features than the canary and the known senders and keep the
    direction of the node's sum almost fixed. The canary and each known sender have a hundred queried nodes as neighbours.
    """
    singles = np.arange(train_nodes - 1) % KINDS
    cells = train_nodes - 1 + np.arange(CELLS * (POOL + ANSWERING)).reshape(CELLS, -1)
    pools, answering = cells[:, :POOL], cells[:, POOL:]
    asked, joined, bare = np.split(answering, [ASKED, ASKED + JOINED], axis=1)
    senders = cells.max() + 1 + np.arange(SENDERS * 2)
    canary = senders.max() + 1
    edges = [np.stack([pools, np.roll(pools, step, axis=1)]).reshape(2, -1) for step in range(1, RING + 1)]
    edges.append(np.stack([np.repeat(pools, ANSWERING, axis=1), np.tile(answering, POOL)]).reshape(2, -1))
    for group, half in zip((joined[: CELLS // 2], joined[CELLS // 2 :]), np.split(senders, 2), strict=True):
        edges.append(np.stack(np.meshgrid(group.ravel(), half)).reshape(2, -1))
    edges.append(np.stack([asked.ravel(), np.full(asked.size, canary)]))
    kinds = np.concatenate([singles, np.tile(np.repeat([0, 1], [POOL, ANSWERING]), CELLS), np.ones(SENDERS * 2 + 1, dtype=int)])
    train = np.arange(len(kinds)) < train_nodes - 1
    train[canary] = True
    x, nobody = LOUD * np.eye(KINDS, dtype=np.float32)[kinds], np.zeros(len(kinds), dtype=bool)
    graph = Graph(x, kinds, np.sort(np.concatenate(edges, axis=1), axis=0), train, nobody, ~train, classes=KINDS)
    return graph, int(canary), asked.ravel(), bare.ravel(), joined.ravel()


def row(name, epsilon, trainings, train_nodes):
    (recipe, hops), claim, clock = SYSTEMS[name], Claim(epsilon, DELTA, Unit.NODE), time.process_time()
    model = calibrate(recipe(train_nodes), claim)
    graph, canary, *nodes = crafted(train_nodes)
    key = Key("blackbox", "nodes", name, repr(epsilon))
    game, scores, bits = Game(graph, "node", np.array([canary]), key, watch=np.unique(np.concatenate(nodes))), [], []
    for start in range(0, 2 * trainings, CHUNK):
        part = game.rounds(min(start + CHUNK, 2 * trainings), start)
        seen = Seen(model.fit(part.worlds), part.challenge, part.bits)
        rows = zip(*(odds(seen, some) for some in nodes), strict=True)
        scores += [log_likelihood_ratio(*run, SENDERS).sum() for run in rows]
        bits.append(part.bits[:, 0])
    scores, bits = np.array(scores), np.concatenate(bits)
    apart = (scores[bits].mean() - scores[~bits].mean()) / np.sqrt((scores[bits].var() + scores[~bits].var()) / 2)
    mu = np.sqrt(hops) / model.sigma
    ceiling = float(epsilon_of(mu, DELTA))
    gate = guessed(scores, bits, claim, curve(model.ledger), family=family(model.ledger))
    seconds = time.process_time() - clock
    sums = f"{mu:.2f} | {ceiling:.2f} ({ceiling / epsilon:.2f}) | {apart:.2f} | {float(epsilon_of(max(apart, 0), DELTA)):.2f}"
    bound = f"{gate.trials[0]}, {gate.trials[1]} | {gate.epsilon:.2f} ({gate.epsilon / epsilon:.2f})"
    return f"| {name} | {epsilon:g} | {model.sigma:.2f} | {sums} | {bound} | {seconds:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="gap")
    parser.add_argument("--epsilon", default="4,8")
    parser.add_argument("--trainings", type=int, default=1000, help="in each world, about")
    parser.add_argument("--train-nodes", type=int, default=4096)
    options = parser.parse_args()
    one_thread()
    print("| system | ε | σ | μ of the sums | their ε | μ of the scores | its ε | trials | bound (share of ε) | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.systems.split(","):
        for epsilon in map(float, options.epsilon.split(",")):
            print(row(name, epsilon, options.trainings, options.train_nodes), flush=True)


if __name__ == "__main__":
    main()
