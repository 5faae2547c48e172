"""The privacy cost of training several times on private data and releasing only the best training."""

import math

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import rdp_privacy_accountant as library
from numpy.typing import NDArray

# selection -> shape parameter of the random number of trainings; None if the number is fixed
SELECTIONS: dict[str, float | None] = {"fixed": None, "logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


def tuned(ledger: DpEvent, over: float, selection: str = "fixed") -> DpEvent:
    """The ledger of the best of several trainings, each of which runs `ledger` with different hyper-parameters.

    over: the number of trainings if selection is "fixed", otherwise the mean of a random number that the adversary does not see.
    The hyper-parameters must be drawn from a public list, and the score by which the best is chosen must be computed from the
    releases. A score on private validation data is a further release, which `ledger` must contain.

    With "fixed", all trainings compose. No smaller bound holds for every mechanism: suppose that the worse of two outcomes has
    the likelihood ratio e^epsilon. The best of k trainings has this outcome only if all k have it, so its ratio is e^(k epsilon).
    `selected` describes the other selections. Raises ValueError for over < 1, for a fixed number that is no whole number, and for
    an unknown selection.
    """
    if selection not in SELECTIONS:
        raise ValueError(f"selection={selection!r}: must be one of {', '.join(SELECTIONS)}.")
    if not 1 <= over < math.inf:
        raise ValueError(f"tuned_over={over:g}: must be at least 1, the number of trainings on private data; 1 for no choice.")
    shape = SELECTIONS[selection]
    if shape is not None:
        return RepeatAndSelectDpEvent(ledger, float(over), shape)
    if over != int(over):
        raise ValueError(f"tuned_over={over:g}: a fixed number of trainings must be a whole number.")
    return ledger if over == 1 else dp.SelfComposedDpEvent(ledger, int(over))


def selected(
    rdp: NDArray[np.float64], orders: NDArray[np.float64], delta_of_one: NDArray[np.float64], mean: float, shape: float
) -> NDArray[np.float64]:
    """The Renyi curve of the best of K trainings, where K is random with this mean. All arrays: (orders,); divergences in nats.

    rdp: R(a) of one training. delta_of_one: its delta at epsilon = ln(1 + 1/(a-1)), for Poisson. Papernot and Steinke,
    "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022), for a > 1:

    - Truncated negative binomial of shape s and parameter g (theorem 2), P(K=k) proportional to (1-g)^k C(k+s-1, k), k >= 1: R(a)
      + ln(mean)/(a-1) + (1+s) min over b >= 1 of [(1 - 1/b) R(b) + ln(1/g)/b]. For a pure mechanism the limit of this bound is
      (2+s) epsilon. s = 1 is the geometric distribution with mean 1/g: stop after each training with probability g; the limit 3
      epsilon is that of Liu and Talwar 2019. s = 0 is the logarithmic distribution with mean (1/g - 1)/ln(1/g).
    - Poisson (theorem 6), where K = 0 is possible and releases nothing: R(a) + mean delta_of_one(a) + ln(mean)/(a-1).
    """
    if math.isinf(shape):
        return rdp + mean * delta_of_one + math.log(mean) / (orders - 1)
    stop = stopping(mean, shape)
    choice = (1 + shape) * np.min((1 - 1 / orders) * rdp + math.log(1 / stop) / orders)
    raised = rdp + math.log(mean) / (orders - 1) + choice
    return np.asarray(np.minimum.accumulate(raised[::-1])[::-1], dtype=np.float64)  # divergences grow with the order


def stopping(mean: float, shape: float) -> float:
    """The parameter g in (0, 1] of the truncated negative binomial distribution with this mean and shape, by bisection.

    mean(g) = s (1/g - 1)/(1 - g^s), and (1/g - 1)/ln(1/g) for s = 0. The result is rounded down, which raises the bound on
    epsilon, so the bound stays valid.
    """
    if mean == 1:
        return 1.0
    if shape == 1:
        return 1 / mean
    low, high = 0.0, 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        above = -shape * math.log(middle) if shape else 0.0
        share = -above / math.expm1(-above) if above else 1.0  # s ln(1/g) / (1 - g^s)
        low, high = (middle, high) if (1 / middle - 1) / -math.log(middle) * share >= mean else (low, middle)
    return low


def deltas(rdp: NDArray[np.float64], orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """An upper bound on delta at epsilon = ln(1 + 1/(a-1)) for every order a, by dp_accounting's conversion. -> (orders,)."""
    return np.array([library.compute_delta(orders, rdp, math.log1p(1 / (a - 1)))[0] for a in orders])
