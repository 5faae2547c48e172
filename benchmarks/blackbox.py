"""How much of epsilon the black-box audit proves from posteriors alone, with canary edges in a crafted graph, delta = 1e-6.

    python benchmarks/blackbox.py [--systems gap,vesper,progap] [--epsilon 2,4,8] [--audits 5] [--trials 1000] [--canaries 40]

Prints Markdown, a row for every audit of about `trials` trials in each world. Columns: the difference of the mean scores of the
two worlds over their pooled standard deviation, as a share of the ledger's mu; the bounds at 95 % and their share of epsilon; and
the CPU seconds.
"""

import argparse
import time

import numpy as np

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.gaussian import mu_of
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.guessed_coins import guessed
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.audit.audits.blackbox import canary_game, canary_scores
from gnnaudit.audit.case import Case
from gnnaudit.audit.games.crafted_graph import crafted
from gnnaudit.audit.games.game import Seen
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.vesper.vesper import Vesper

DELTA = 1e-6
CHUNK = 25  # how many trainings run at once
SYSTEMS = {
    "gap": lambda: (Gap(), Unit.UNDIRECTED_EDGE),
    "gap-paper": lambda: (Gap(mode="paper"), Unit.DIRECTED_EDGE),
    "vesper": lambda: (Vesper(n_train=1), Unit.UNDIRECTED_EDGE),
    "progap-2": lambda: (ProGap(depth=2), Unit.UNDIRECTED_EDGE),
    "progap": lambda: (ProGap(), Unit.UNDIRECTED_EDGE),
    "progap-paper": lambda: (ProGap(mode="paper"), Unit.DIRECTED_EDGE),
}


def played(case, made, key, rounds):
    """The scores and bits of `rounds` rounds of the game, (rounds, canaries) each."""
    game, scores, bits = canary_game(case, made, key), [], []
    for start in range(0, rounds, CHUNK):
        part = game.rounds(min(start + CHUNK, rounds), start)
        seen = Seen(case.model.fit(part.worlds), part.challenge, part.bits)
        scores.append(canary_scores(seen, made))
        bits.append(part.bits)
    return np.concatenate(scores), np.concatenate(bits)


def row(name, epsilon, canaries, trials, seed):
    recipe, unit = SYSTEMS[name]()
    claim = Claim(epsilon, DELTA, unit)
    case, made, clock = Case(calibrate(recipe, claim), claim), crafted(canaries), time.process_time()
    rounds = -(-2 * trials // canaries)
    scores, bits = played(case, made, Key("blackbox", name, repr(epsilon), canaries, seed), rounds)
    seconds = time.process_time() - clock
    ins, outs = scores[bits], scores[~bits]
    share = (ins.mean() - outs.mean()) / np.sqrt((ins.var() + outs.var()) / 2) / float(mu_of(epsilon, DELTA))
    gate = guessed(scores, bits, claim, curve(case.model.ledger))
    free = from_rounds(scores, bits, claim)
    counts = f"{rounds} x {canaries} | {gate.trials[0]}, {gate.trials[1]}"
    bounds = f"{gate.epsilon:.2f} ({gate.epsilon / epsilon:.2f}) | {free.epsilon:.2f} ({free.epsilon / epsilon:.2f})"
    return f"| {name} | {epsilon:g} | {counts} | {share:.2f} | {bounds} | {'yes' if gate.refuted else 'no'} | {seconds:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="gap,vesper,progap")
    parser.add_argument("--epsilon", default="2,4,8")
    parser.add_argument("--audits", type=int, default=5)
    parser.add_argument("--trials", type=int, default=1000, help="in each world, about")
    parser.add_argument("--canaries", type=int, default=40, help="in one training")
    options = parser.parse_args()
    one_thread()
    print(
        "| system | ε | trainings x canaries | trials | share of μ | ledger's curve (share of ε) | any shape | refuted | CPU s |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.systems.split(","):
        for epsilon in map(float, options.epsilon.split(",")):
            for seed in range(options.audits):
                print(row(name, epsilon, options.canaries, options.trials, seed), flush=True)


if __name__ == "__main__":
    main()
