"""Audits examples/opacus_gnn.py from its trained weights: the epsilon that Opacus prints holds for a row, but not for a node.

    python examples/audit_opacus_gnn.py

Opacus clips the gradient of every row of the batch. Its epsilon therefore protects one row: whether a node's label was used for
training. A node with its edges affects more than its own row: up to SENDS other nodes receive its features, and their rows change
too. The node's own row changes the sum of the clipped gradients by at most one clipping norm. The row of each receiver changes
the sum by at most two clipping norms. In total the sum changes by at most 2 SENDS + 1 clipping norms. If the noise is that many
times larger, the claim holds for a node.

The script plays a game with canary nodes. Each canary has a feature that no other node has, and is present in every training with
probability 1/2. No other node changes the weights of that feature, so the canaries of one training are independent rounds. A
canary sends to SENDS nodes that receive from no other node.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import opacus_gnn as user  # first: it sets the number of threads, before anything else imports torch

from gnnaudit import Claim, Unit, gaussian_curve, load, lower

SENDS = 3  # a node sends to at most this many nodes; its choice of receivers does not depend on other nodes
CANARIES = 100
LOUD = 2.0  # size of a canary's feature, large enough that its gradients are always clipped


def planted(graph, rng):
    """Adds canaries beside the graph. Returns x, arcs, y, the rows to train on, and the ids of the canaries."""
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
    """(canaries,): how far the weights of each canary's feature favour class 0, the canary's class. secret: if it is "node", the
    weights of the receivers' rows count too.
    """
    own, recorded = (layer.weight.detach().numpy()[:, -CANARIES:] for layer in (network.own, network.recorded))
    lean_own, lean_heard = (w[0] - w[1:].mean(0) for w in (own, recorded))
    return lean_own + SENDS * lean_heard if secret == "node" else lean_own


def play(graph, secret, noise, trainings, seed):
    """Scores and bits, (trainings, canaries); the epsilon that Opacus prints; the accuracy on test nodes.

    secret: what the bit of a canary decides. "row": whether the model trains on the canary. "node": whether the canary exists.
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
    """Prints three verdicts and returns the three bounds."""
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
        curve = gaussian_curve(claim)
        bounds.append(lower(seen, bits, claim, shape="ledger", ledger_curve=curve))
        verdict = "refuted" if bounds[-1].refuted else "not refuted"
        print(f"{whom:25} {verdict:13} {bounds[-1]}; test accuracy {100 * accuracy:.0f} %")
    return bounds


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=UserWarning)  # Opacus warns of noise that is for measurements; torch of hooks
    main()
