"""The epsilon of GAP, ProGAP and their baselines for a noise multiplier, as their theorems give it and as their code computes it.

sigma is the "noise scale" that both papers calibrate: noise std / claimed sensitivity, the same for every noisy aggregation and
for DP-SGD. epsilon is in nats. Sources: Sajadmanesh et al., USENIX Security 2023; Sajadmanesh and Gatica-Perez, WSDM 2024;
Daigavane et al. 2021; and their public code. In the formulas of GAP and ProGAP, K is the number of hops, T the number of steps
and q the sampling rate. `records` is the number of training nodes.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import hypergeom

from ...accounting.gaussian import epsilon_of

RdpCurve = Callable[[float], float]


def progap_edge_theorem(sigma: float, hops: int, delta: float) -> float:
    """ProGAP, theorem 4.1: K / (2 sigma^2) + sqrt(2 K ln(1/delta)) / sigma, for one DIRECTED edge."""
    return hops / (2 * sigma**2) + math.sqrt(2 * hops * math.log(1 / delta)) / sigma


def progap_edge_coded(sigma: float, hops: int, delta: float) -> float:
    """ProGAP's code at edge level, for ProGAP and for GAP: the epsilon of K Gaussians by RDP and `converted`."""
    return converted(lambda alpha: hops * alpha / (2 * sigma**2), delta)


def gap_edge_coded(sigma: float, hops: int, delta: float) -> float:
    """GAP's own code at edge level: the exact composition of K Gaussians."""
    return float(epsilon_of(math.sqrt(hops) / sigma, delta))


def progap_node_theorem(sigma: float, hops: int, records: int, batch: int, epochs: int, delta: float) -> float:
    """ProGAP, theorem 4.2: the minimum over integer alpha of (K+1) T R(alpha) + K alpha / (2 sigma^2) + ln(1/delta) / (alpha-1).

    A stage has T = floor(epochs records / batch) steps, at Poisson rate batch / records. The degree bound cancels.
    """
    rate, steps = batch / records, epochs * records // batch
    return min(
        (hops + 1) * steps * poisson_gaussian_rdp(alpha, rate, sigma)
        + hops * alpha / (2 * sigma**2)
        + math.log(1 / delta) / (alpha - 1)
        for alpha in range(2, 257)
    )


def progap_node_coded(sigma: float, hops: int, records: int, batch: int, epochs: int, delta: float) -> float:
    """ProGAP's code at node level: K Gaussians and (K+1) T Poisson-sampled Gaussians, by RDP over real alpha."""
    rate, steps = batch / records, epochs * records // batch
    return _node(sigma, hops, rate, (hops + 1) * steps, delta)


def gap_node_coded(sigma: float, hops: int, records: int, batch: int, encoder_epochs: int, epochs: int, delta: float) -> float:
    """GAP's code at node level: DP-SGD for the encoder, K Gaussians, DP-SGD for the classifier, by RDP over real alpha."""
    rate = batch / records
    return _node(sigma, hops, rate, encoder_epochs * records // batch + epochs * records // batch, delta)


def dp_mlp_coded(sigma: float, records: int, batch: int, epochs: int, delta: float) -> float:
    """The code of DP-MLP in both repositories: DP-SGD alone. ProGAP's DP-GNN prints the same number (see `dp_gnn_multi_term`)."""
    return _node(sigma, 0, batch / records, epochs * records // batch, delta)


def dp_gnn_multi_term(sigma: float, degree: int, records: int, batch: int, epochs: int, delta: float) -> float:
    """The epsilon that ProGAP's DP-GNN computes but does not print: T steps of `multi_term_rdp`, in which each node affects
    degree + 1 loss terms.
    """
    steps = epochs * records // batch
    return converted(lambda alpha: steps * multi_term_rdp(alpha, sigma, degree, records, batch), delta)


def poisson_gaussian_rdp(alpha: int, rate: float, sigma: float) -> float:
    """R(alpha), the RDP of one Poisson-sampled Gaussian at an integer order alpha, as in ProGAP's theorem 4.2:

    ln((1-q)^(alpha-1) (alpha q - q + 1) + sum over l >= 2 of C(alpha, l) (1-q)^(alpha-l) q^l e^(l(l-1)/(2 sigma^2))) / (alpha-1).
    """
    if rate == 1:
        return alpha / (2 * sigma**2)
    picked = np.arange(2, alpha + 1, dtype=np.float64)
    choose = gammaln(alpha + 1) - gammaln(picked + 1) - gammaln(alpha - picked + 1)
    keep = math.log1p(-rate)
    first = (alpha - 1) * keep + math.log(alpha * rate - rate + 1)
    terms = choose + (alpha - picked) * keep + picked * math.log(rate) + picked * (picked - 1) / (2 * sigma**2)
    return float(np.logaddexp.reduce(np.append(terms, first))) / (alpha - 1)


def multi_term_rdp(alpha: float, sigma: float, degree: int, records: int, batch: int) -> float:
    """The RDP of one step (Daigavane et al., theorem 1): ln E exp(alpha (alpha-1) rho^2 / (2 sigma^2 (D+1)^2)) / (alpha-1).

    D is `degree`. rho, the number of the node's D + 1 loss terms in the batch, is hypergeometric.
    """
    terms = degree + 1
    mechanism = np.arange(max(0, terms + batch - records), min(terms, batch) + 1)
    exponents = alpha * (alpha - 1) * (mechanism / terms) ** 2 / (2 * sigma**2)
    return float(np.logaddexp.reduce(hypergeom.logpmf(mechanism, records, terms, batch) + exponents)) / (alpha - 1)


def converted(rdp: RdpCurve, delta: float) -> float:
    """epsilon from the RDP curve R, by autodp's conversion: the minimum over real alpha > 1 of R(alpha) + ln((alpha-1)/alpha) -
    (ln delta + ln alpha)/(alpha-1), or 0 if that is negative.
    """

    def epsilon(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return max(0.0, rdp(alpha) + math.log((alpha - 1) / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1))

    coarse = min(np.linspace(-5, 8, 53), key=epsilon)
    found = minimize_scalar(epsilon, bounds=(coarse - 0.3, coarse + 0.3), method="bounded", options={"xatol": 1e-9})
    return float(min(found.fun, epsilon(coarse)))


def interpolated(rdp: Callable[[int], float]) -> RdpCurve:
    """An RDP curve for all real orders, by autodp's rule: (alpha-1) R(alpha) is linear between neighbouring integers, and R is
    constant below 2.
    """
    known: dict[int, float] = {}

    def at(alpha: int) -> float:
        if alpha not in known:
            known[alpha] = rdp(alpha)
        return known[alpha]

    def between(alpha: float) -> float:
        if alpha <= 2:
            return at(2)
        low = math.floor(alpha)
        share = alpha - low
        above = low * at(low + 1) if share else 0.0
        return ((1 - share) * (low - 1) * at(low) + share * above) / (alpha - 1)

    return between


def _node(sigma: float, hops: int, rate: float, steps: int, delta: float) -> float:
    sampled = interpolated(lambda alpha: poisson_gaussian_rdp(alpha, rate, sigma))
    return converted(lambda alpha: steps * sampled(alpha) + hops * alpha / (2 * sigma**2), delta)
