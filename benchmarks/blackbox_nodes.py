"""How much of a node-level epsilon posteriors prove, with canary nodes in a crafted graph, delta = 1e-5.

    python benchmarks/blackbox_nodes.py [--systems gap,progap,dpar] [--epsilon 8] [--trainings 20,100] [--audits 5] [--noise 1]
        [--canaries neighbours,feature]

Prints Markdown, a row for each design of canaries and number of trainings: medians over the audits, with minimum and maximum.
Columns: the difference of the mean scores of the two worlds over their pooled standard deviation, and the epsilon of a Gaussian
mechanism of this mu; the bounds at 95 %; and the CPU seconds of an audit. noise: the factor by which all noise is too small. The
graph has as many training nodes as `campus`, for which the systems are calibrated.
"""

import argparse
import dataclasses
import itertools
import time

import numpy as np

from gnnaudit import load
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.accounting.lower.guessed_coins import guessed
from gnnaudit.accounting.lower.one_run import steinke
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.audit.audits.blackbox import CANARIES
from gnnaudit.audit.audits.blackbox_nodes import DEGREE, apart, of_features, of_neighbours
from gnnaudit.audit.games.game import Seen
from gnnaudit.audit.instruments.reach import family
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.facts import Facts
from gnnaudit.models.systems import SYSTEMS, at_unit

DELTA, CHUNK = 1e-5, 10
DESIGNS = {"neighbours": of_neighbours, "feature": of_features}


def played(model, design, key, trainings):
    """The scores and bits of `trainings` trainings, (trainings, canaries) each."""
    game, scores, bits = design.game(key), [], []
    for start in range(0, trainings, CHUNK):
        part = game.rounds(min(start + CHUNK, trainings), start)
        scores.append(design.score(Seen(model.fit(part.worlds), part.challenge, part.bits)))
        bits.append(part.bits)
    return np.concatenate(scores), np.concatenate(bits)


def measured(scores, bits, claim, shaped, members, seed):
    """Mu of the scores, its epsilon, and the two bounds: by the ledger's curve and for any shape."""
    mu = apart(scores, bits)
    bound = guessed(scores, bits, claim, shaped, family=members)
    return mu, float(epsilon_of(max(mu, 0.0), DELTA)), bound.epsilon, steinke(scores, bits, claim, seed=seed).epsilon


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="gap,progap,dpar")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--trainings", default="20,100")
    parser.add_argument("--audits", type=int, default=5)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--canaries", default=",".join(DESIGNS))
    options = parser.parse_args()
    one_thread()
    facts, claim = Facts.of(load("campus")), Claim(options.epsilon, DELTA, Unit.NODE)
    print("| system | canaries | trainings | μ of the scores | its ε | bound, shape of the ledger | bound, any shape | CPU s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.systems.split(","):
        recipe = SYSTEMS[name].make("sound", facts, True)
        model = calibrate(dataclasses.replace(recipe, **at_unit(recipe, Unit.NODE, facts)), claim)
        shaped, members = curve(model.ledger), family(model.ledger)
        degree = getattr(model, "max_degree", DEGREE)
        designs = (DESIGNS[kind](CANARIES, degree, facts.train) for kind in options.canaries.split(","))
        for design, trainings in itertools.product(designs, map(int, options.trainings.split(","))):
            clock, found = time.process_time(), []
            for seed in range(options.audits):
                key = Key("blackbox", "nodes", name, repr(options.epsilon), trainings, seed)
                scores, bits = played(model.with_noise(model.sigma / options.noise), design, key, trainings)
                found.append(measured(scores, bits, claim, shaped, members, seed))
            seconds = (time.process_time() - clock) / options.audits
            cells = (f"{np.median(x):.2f} ({min(x):.2f}-{max(x):.2f})" for x in zip(*found, strict=True))
            print(f"| {name} | {design.name} | {trainings} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
