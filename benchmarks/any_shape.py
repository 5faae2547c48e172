"""What the bound for any shape proves from the scores of the optimal attack on a Gaussian mechanism, with fair coins.

    python benchmarks/any_shape.py [--audits 401] [--rows 1000 10000] [--delta 1e-5] [--tests 1] [--first 0]

Prints Markdown, a row for each number of rows: the median bound over epsilon at epsilon = 1, 2, 4 and 8, its 95 % interval
(order statistics), and the smallest and the largest bound; then the limit of all rules that are valid for every mechanism.
A bound holds at 95 %, divided by the number of tests. --first: the seed of the first audit, for fresh seeds.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import special

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.score_law import PLAYED
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.coins_of_rounds import coins_of_rounds
from gnnaudit.accounting.lower.guessing import most_provable

EPSILONS = (1.0, 2.0, 4.0, 8.0)


def share(claim: Claim, rows: int, alpha: float, seed: int) -> float:
    """The bound of one audit over epsilon; 0 if the coins select too few rounds for a bound."""
    random, mu = np.random.default_rng([seed, rows, int(claim.epsilon)]), float(gaussian.mu_of_claim(claim))
    bits = random.random(rows) < 0.5
    scores = random.standard_normal(rows) + mu * bits
    found = coins_of_rounds(scores, bits, claim, alpha, rounds=PLAYED, seed=seed)
    return found.epsilon / claim.epsilon if found else 0.0


def cell(claim: Claim, rows: int, alpha: float, seeds: range) -> str:
    shares = np.sort([share(claim, rows, alpha, seed) for seed in seeds])
    outside = int(special.bdtrik(0.025, len(shares), 0.5))  # audits below and above the interval of the median
    low, high = shares[outside], shares[-1 - outside]
    return f"{np.median(shares):.3f} ({low:.3f}-{high:.3f}; {shares[0]:.2f}-{shares[-1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=401)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--tests", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    alpha, seeds = 0.05 / asked.tests, range(asked.first, asked.first + asked.audits)
    print("| rows | | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |\n" + "|---" * (2 + len(EPSILONS)) + "|")
    for rows in asked.rows:
        proved = [cell(Claim(epsilon, asked.delta), rows, alpha, seeds) for epsilon in EPSILONS]
        limits = [f"{most_provable(epsilon, asked.delta, rows, alpha) / epsilon:.3f}" for epsilon in EPSILONS]
        print(f"| {rows:,} | proved | {' | '.join(proved)} |\n| {rows:,} | limit | {' | '.join(limits)} |", flush=True)


if __name__ == "__main__":
    main()
