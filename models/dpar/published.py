"""The epsilon that DPAR's public code prints, formula by formula (Zhang et al., WWW 2024, arXiv 2210.04442).

The code prints two figures and never adds them: one for the M noisy PageRank rows, at delta 2 q M times the delta of a row, and
one for DP-SGD, at delta = 1e-3. It multiplies both by the node sampling rate q, although the true epsilon after sampling is
larger: see `closed_forms.amplified`. In the formulas, C is the clipping norm, N the number of records and B the batch size.
"""

import math

from scipy.optimize import brentq

from ...accounting.upper.libraries import sampled_gaussian_rdp


def gaussian_row_epsilon(sigma: float, clip: float, delta: float) -> float:
    """DP-APPR-GM, one row: the classical Gaussian bound sqrt(2 ln(1.25/delta)) C / sigma. The code uses it for epsilon above 1
    too, where it does not hold.

    sigma is the noise std, as in the code. The code takes C as the sensitivity; the true sensitivity is sqrt(2) C.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) * clip / sigma  # scan: intended


def exponential_row_epsilon(epsilon: float, picks: int, delta: float, values: float = -1.0) -> float:
    """DP-APPR-EM, one row: `picks` picks of `epsilon` each, and the picked values with Laplace noise.

    values: the epsilon of the values; 0 if they are not released. -1, the default of the code, means that they cost as much as
    the picks.
    """
    advanced = picks * epsilon * math.expm1(epsilon) / (math.exp(epsilon) + 1) + epsilon * math.sqrt(
        2 * picks * math.log(1 / delta)
    )
    selection = min(picks * epsilon, advanced)
    return selection + (selection if values == -1 else values)


def rows_epsilon(row: float, rows: int, delta: float) -> float:
    """The epsilon that the code computes for all M = `rows` rows at 2 M delta, if each costs `row` at delta. It is the solution e
    of e / (2 sqrt(M ln(exp(1) + e / (2 M delta)))) = row (Kairouz, Oh and Viswanath, corollary).

    The result is a loose upper bound if `row` is below 0.9. For a larger `row` it is no upper bound.
    """
    total = 2 * rows * delta

    def excess(x: float) -> float:
        return x / (2 * math.sqrt(rows * math.log(math.e + x / total))) - row

    high = 1.0
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-13, rtol=1e-14))


def page_rank_printed(row: float, rows: int, delta: float, rate: float) -> tuple[float, float]:
    """The (epsilon, delta) that the code prints for the PageRank rows. It multiplies both by the node sampling rate."""
    return rate * rows_epsilon(row, rows, delta), rate * 2 * rows * delta


def dp_sgd_unamplified(sigma: float, records: int, batch: int, epochs: int, rate: float, delta: float = 1e-3) -> float:
    """The epsilon that the code multiplies by q: that of epochs * ceil(N/B) Poisson-sampled steps at delta / q, by RDP with the
    conversion epsilon = R(alpha) - ln(delta) / (alpha - 1).
    """
    steps = epochs * math.ceil(records / batch)
    orders = (*(1 + x / 10 for x in range(1, 100)), *(float(a) for a in range(12, 64)))
    rdp = sampled_gaussian_rdp(batch / records, sigma, orders)
    return min(steps * float(r) - math.log(min(delta / rate, 1.0)) / (a - 1) for r, a in zip(rdp, orders, strict=True))


def dp_sgd_printed(sigma: float, records: int, batch: int, epochs: int, rate: float, delta: float = 1e-3) -> float:
    """The epsilon that the code prints for DP-SGD: q times the result of `dp_sgd_unamplified`. The correct value is ln(1 + q
    (e^epsilon - 1)).
    """
    return rate * dp_sgd_unamplified(sigma, records, batch, epochs, rate, delta)
