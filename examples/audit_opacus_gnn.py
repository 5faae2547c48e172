"""An audit of examples/opacus_gnn.py from its trained weights alone: what Opacus prints holds for a row, and not for a node.

    python examples/audit_opacus_gnn.py

Opacus clips the gradient of every row of the batch, so its epsilon is about one row: whether a node's label was trained on. A
node with its edges is more than its row: up to SENDS others hear its features, and their rows change too. Its own row moves the
sum by one clip, each of theirs by two at most, 2 SENDS + 1 in all; with noise for that many the claim holds for a node.

The game: canary nodes, each with a feature of its own, each with a coin in every training. Nobody else touches the weights of
that feature, so the canaries of one training are independent rounds. A canary sends to SENDS nodes that hear nobody else.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import mu_of
from gnnaudit.accounting.lower.bounds import lower
from gnnaudit.accounting.upper.tradeoff import gaussian
from gnnaudit.models.data.loading import load

sys.path.insert(0, str(Path(__file__).parent))
import opacus_gnn as user

SENDS = 3  # every node sends to so many others at most; to whom is its own data, and nobody chooses again when a node goes
CANARIES = 100
LOUD = 2.0  # size of a canary's feature: its gradients are always clipped


def planted(graph, rng):
    """The graph with canaries beside it: x, arcs, y, the rows to train on, and the canaries' ids."""
    n, k = graph.nodes, CANARIES
    order = rng.permutation(graph.arcs.shape[1])
    send, receive = graph.arcs[:, order[np.argsort(graph.arcs[0, order], kind="stable")]]
    kept = np.arange(send.size) - np.searchsorted(send, send) < SENDS
    canaries, hearers = n + np.arange(k), n + k + np.arange(SENDS * k)
    x = np.zeros((n + (1 + SENDS) * k, graph.dim + k), dtype=np.float32)
    x[:n, : graph.dim] = graph.x
    x[canaries, graph.dim + np.arange(k)] = LOUD
    y = np.concatenate([graph.y, np.zeros((1 + SENDS) * k, dtype=np.int64)])
    arcs = np.hstack([[send[kept], receive[kept]], [np.repeat(canaries, SENDS), hearers]])
    return x, arcs, y, np.concatenate([np.flatnonzero(graph.train), canaries, hearers]), canaries


def scores(network, secret):
    """(canaries,): how far the weights of each canary's feature lean to its class. secret "node": those that others hear, too."""
    own, heard = (layer.weight.detach().numpy()[:, -CANARIES:] for layer in (network.own, network.heard))
    lean_own, lean_heard = (w[0] - w[1:].mean(0) for w in (own, heard))
    return lean_own + SENDS * lean_heard if secret == "node" else lean_own


def play(graph, secret, noise, trainings, seed):
    """Scores and bits, (trainings, canaries); the epsilon that Opacus prints; the accuracy on test nodes.

    secret: what a coin decides. "row": whether a canary is trained on. "node": whether it is there at all.
    """
    rng = np.random.default_rng(seed)
    x, arcs, y, rows, canaries = planted(graph, rng)
    seen, bits, right = [], [], []
    for _ in range(trainings):
        there = rng.random(CANARIES) < 0.5
        gone = canaries[~there]
        part = arcs[:, ~np.isin(arcs[0], gone)] if secret == "node" else arcs
        network, epsilon = user.train(x, part, y, np.setdiff1d(rows, gone), int(rng.integers(2**63)), noise)
        seen.append(scores(network, secret))
        bits.append(there)
        guess = user.predict(network, x, part)[: graph.nodes]
        right.append((guess == graph.y)[graph.test].mean())
    return np.array(seen), np.array(bits), epsilon, float(np.mean(right))


def main(trainings=20):
    """Prints three verdicts and returns their bounds."""
    graph, bounds = load("campus:n=1000"), []
    for whom, secret, noise in (
        ("a row of the batch", "row", 1),
        ("a node with its edges", "node", 1),
        (f"a node, noise times {2 * SENDS + 1}", "node", 2 * SENDS + 1),
    ):
        seen, bits, epsilon, accuracy = play(graph, secret, noise, trainings, seed=1)
        if not bounds:
            claim = Claim(epsilon, user.DELTA, Unit.NODE, exposes=("weights",))
            print(f"Opacus prints epsilon = {epsilon:.2f} at delta = {user.DELTA:g}. Does it hold for ...")
        curve = gaussian(float(mu_of(claim.epsilon, claim.delta)))
        bounds.append(lower(seen, bits, claim, shape="ledger", ledger_curve=curve))
        verdict = "refuted" if bounds[-1].refuted else "not refuted"
        print(f"{whom:25} {verdict:13} {bounds[-1]}; test accuracy {100 * accuracy:.0f} %")
    return bounds


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=UserWarning)  # Opacus: this noise is for measurements; torch: hooks
    main()
