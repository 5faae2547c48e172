"""How much of the epsilon of a Gaussian mechanism each bound proves: medians over simulated audits with the optimal attack.

delta = 1e-5.

python benchmarks/tightness.py
"""

import numpy as np

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.anytime import anytime
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.one_run import canaries, mahloujifar, steinke
from gnnaudit.accounting.lower.residuals import factorised
from gnnaudit.accounting.upper import tradeoff

DELTA, AUDITS, EPSILONS = 1e-5, 21, (1, 2, 4, 8)


def main() -> None:
    print(f"| bound | {' | '.join(f'ε = {e}' for e in EPSILONS)} |\n|---|{'---|' * len(EPSILONS)}")
    rows: dict[str, list[float]] = {}
    for e in EPSILONS:
        mu, claim, draw = float(gaussian.mu_of(e, DELTA)), Claim(e, DELTA), np.random.default_rng(e)
        curve, found = tradeoff.gaussian(mu), {}
        for _ in range(AUDITS):
            for m, name in ((10_000, "10,000 trials"), (1000, "1000 canaries in one run")):
                bits = draw.random((1, m)) < 0.5
                scores = mu * draw.standard_normal((1, m)) + mu * mu * (bits - 0.5)
                options = {"shape": "ledger", "ledger_curve": curve}
                found.setdefault(f"{name}, likelihood ratio", []).append(canaries(scores, bits, claim, curve)[0].epsilon)
                found.setdefault(f"{name}, e-process", []).append(anytime(scores, bits, claim, curve, sd=mu).epsilon)
                found.setdefault(f"{name}, profile gate", []).append(from_rounds(scores, bits, claim, **options).epsilon)
                found.setdefault(f"{name}, any shape", []).append(from_rounds(scores, bits, claim).epsilon)
                found.setdefault(f"{name}, Mahloujifar", []).append(mahloujifar(scores, bits, claim, curve).epsilon)
                found.setdefault(f"{name}, Steinke", []).append(steinke(scores, bits, claim).epsilon)
            moves = np.full((1, 2, 25), mu / np.sqrt(50))
            found.setdefault("100,000 residuals, factorised", []).append(
                factorised(draw.standard_normal((1, 2, 2000, 25)), moves, claim).epsilon
            )
        for name, values in found.items():
            rows.setdefault(name, []).append(float(np.median(values)) / e)
    for m, name in ((10_000, "10,000 trials"), (1000, "1000 canaries in one run")):
        mus = [float(gaussian.mu_of(e, DELTA)) for e in EPSILONS]
        usual = gaussian.epsilon_of(gaussian.mu_lower(mus, 1.0, m // 2, m // 2, 0.05), DELTA)
        rows[f"{name}, likelihood ratio for the median sample"] = list(usual / np.array(EPSILONS))
    for name, shares in rows.items():
        print(f"| {name} | {' | '.join(f'{s:.3f}' for s in shares)} |")


if __name__ == "__main__":
    main()
