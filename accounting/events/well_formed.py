"""Checks the numbers in a ledger: noise is at least 0, probabilities are in [0, 1], counts are whole."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import attr
from dp_accounting import DpEvent

from ..arguments import is_finite, is_number, is_whole, shown

Rule: TypeAlias = tuple[Callable[[Any], bool], str]
NEAR_ONE = 1e-6  # how far rounding may move a sum of probabilities from 1


def is_distribution(values: Any) -> bool:
    """Whether a value is a list or tuple of probabilities that add up to one."""
    if not isinstance(values, list | tuple) or not all(is_number(p) and 0 <= p <= 1 for p in values):
        return False
    return abs(math.fsum(values) - 1) < NEAR_ONE


AMOUNT: Rule = (
    lambda value: is_finite(value) and value >= 0,
    "a finite number of at least 0. A mechanism without privacy is NonPrivateDpEvent()",
)
PROBABILITY: Rule = (lambda value: is_number(value) and 0 <= value <= 1, "a probability, in [0, 1]")
COUNT: Rule = (lambda value: is_whole(value) and value >= 0, "a whole number of at least 0")
DISTRIBUTION: Rule = (is_distribution, "a tuple of probabilities that add up to 1")
EVENT: Rule = (lambda value: isinstance(value, DpEvent), "a DpEvent, such as dp_accounting.GaussianDpEvent(sigma)")
EVENTS: Rule = (lambda value: isinstance(value, list | tuple), "a list of DpEvents")
# field of an event -> its rule; fields that are not listed belong to events that the accountants decline or check themselves
RULES: dict[str, Rule] = {
    **dict.fromkeys(("noise_multiplier", "noise_parameter", "standard_deviation"), AMOUNT),
    **dict.fromkeys(("epsilon", "rho", "xi"), AMOUNT),
    **dict.fromkeys(("sampling_probability",), PROBABILITY),
    **dict.fromkeys(("count", "num_buckets", "sample_size", "source_dataset_size"), COUNT),
    **dict.fromkeys(("upper", "lower", "probabilities", "sampling_probs"), DISTRIBUTION),
    "event": EVENT,
    "events": EVENTS,
}


def check_field(field: str, value: object, where: str = "") -> None:
    """Raises ValueError, which begins with `where`, if the value breaks the rule of its field in RULES. Other fields pass."""
    holds, words = RULES.get(field, (lambda _: True, ""))
    if not holds(value):
        raise ValueError(f"{where}{field}={shown(value)}: must be {words}.")


def check_ledger(ledger: object, name: str = "ledger") -> None:
    """Raises ValueError if `ledger` is no DpEvent, or if one of its events, at any depth, holds an impossible number."""
    holds, words = EVENT
    if not holds(ledger):
        raise ValueError(f"{name}={shown(ledger)}: must be {words}.")
    kind: Any = type(ledger)
    for field in attr.fields_dict(kind) if attr.has(kind) else ():
        value = getattr(ledger, field)
        check_field(field, value, f"{name}: {kind.__name__}: ")
        for part in value if field == "events" else (value,) if field == "event" else ():
            check_ledger(part, name)
