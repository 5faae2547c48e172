"""Where the black-box audit loses information about a canary edge: between sums and posteriors, or when it learns a discriminant.

    python benchmarks/blackbox_loss.py [--systems gap,vesper,progap] [--epsilon 2,8] [--trainings 4]

Every training is done with and without the canary edges at the same noise, which gives their exact effect. One linear
discriminant takes this effect from half of the canaries. Another discriminant learns the effect from reference nodes, as the
audit does. Both score the other half of the canaries. Prints Markdown: for each discriminant, the difference of the mean scores
of the two worlds in standard deviations, as a share of the ledger's mu; delta = 1e-6.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
from blackbox import DELTA, SYSTEMS

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.gaussian import mu_of
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.attacks.canary.fisher import log_likelihood_ratio
from gnnaudit.audit.audits.blackbox import odds
from gnnaudit.audit.games.crafted_graph import ENDS, STRONG, crafted
from gnnaudit.audit.games.game import Seen
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.graph.graph import Mask, Worlds

CANARIES = 120


def sums(release, nodes):
    """(runs, nodes, hops x dim): the noisy sums of all hops, concatenated."""
    rows = release["aggregates"][:, :, np.searchsorted(release.watch, nodes)].astype(np.float64)
    return rows.swapaxes(1, 2).reshape(len(rows), len(nodes), -1)


def posteriors(release, nodes):
    return odds(Seen(release, None, None), nodes)


def apart(read, without, with_edges, made, bare):
    """(runs, 2): the distance of the worlds in standard deviations, by the discriminant that knows the effect and the learned."""
    ends, half, moved, squares = made.graph.edges[:, made.canaries], CANARIES // 2, 0.0, 0.0
    for side in (0, 1):
        a, b = read(without, ends[side]), read(with_edges, ends[side])
        others, references = read(without, bare[side].ravel()), [read(without, n[side]) for n in (made.bare, made.joined)]
        told_of, left = np.split(others, 2, axis=1)
        step = (b - a)[:, :half].mean(axis=1, keepdims=True)
        gains, spreads = [], []
        for rows, edges in (([told_of, told_of + step], 1), (references, STRONG)):
            told = [
                [log_likelihood_ratio(x, *known, edges) for x, *known in zip(some, *rows, strict=True)]
                for some in (a[:, half:], b[:, half:], left)
            ]
            gains.append(np.mean(told[1], axis=1) - np.mean(told[0], axis=1))
            spreads.append(np.var(told[2], axis=1))
        moved, squares = moved + np.array(gains), squares + np.array(spreads)
    return (moved / np.sqrt(squares)).T


def row(name, epsilon, trainings):
    recipe, unit = SYSTEMS[name]()
    model, made, clock = calibrate(recipe, Claim(epsilon, DELTA, unit)), crafted(CANARIES), time.process_time()
    bare = made.graph.edges[:, made.canaries][..., None] + np.arange(
        1, ENDS // 2
    )  # references near the ends of a canary, without its edge
    watch = np.unique(np.concatenate([n.ravel() for n in (made.graph.edges[:, made.canaries], bare, made.bare, made.joined)]))
    worlds = Worlds(made.graph, Key("blackbox", "loss", name, repr(epsilon)).seeds(0, trainings), watch)
    seen = [
        replace(model, keep=("posteriors", "aggregates")).fit(
            replace(worlds, edges=Mask(made.canaries, np.full((trainings, CANARIES), there)))
        )
        for there in (False, True)
    ]
    shares = [apart(read, *seen, made, bare).mean(axis=0) / float(mu_of(epsilon, DELTA)) for read in (sums, posteriors)]
    cells = " | ".join(f"{share:.2f}" for pair in shares for share in pair)
    return f"| {name} | {epsilon:g} | {cells} | {time.process_time() - clock:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="gap,vesper,progap")
    parser.add_argument("--epsilon", default="2,8")
    parser.add_argument("--trainings", type=int, default=4)
    options = parser.parse_args()
    one_thread()
    print("| system | ε | sums, known | sums, learned | posteriors, known | posteriors, learned | CPU s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in options.systems.split(","):
        for epsilon in map(float, options.epsilon.split(",")):
            print(row(name, epsilon, options.trainings), flush=True)


if __name__ == "__main__":
    main()
