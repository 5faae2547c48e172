"""The privacy cost of training several times on private data and releasing only the best training."""

import math

import dp_accounting as dp
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

# selection -> shape parameter of the random number of trainings; None if the number is fixed
SELECTIONS: dict[str, float | None] = {"fixed": None, "logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


def tuned(ledger: DpEvent, over: float, selection: str = "fixed") -> DpEvent:
    """The ledger of the best of several trainings, each of which runs `ledger` with different hyper-parameters.

    over: the number of trainings if selection is "fixed", otherwise the mean of a random number that the adversary does not see.
    The hyper-parameters must be drawn from a public list, and the score by which the best is chosen must be computed from the
    releases. A score on private validation data is a further release, which `ledger` must contain.

    With "fixed", all trainings compose. No smaller bound holds for every mechanism: suppose that the worse of two outcomes has
    the likelihood ratio e^epsilon. The best of k trainings has this outcome only if all k have it, so its ratio is e^(k epsilon).
    `rdp` and `exact` bound the other selections. Raises ValueError for over < 1, for a fixed number that is no whole number, and
    for an unknown selection.
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
