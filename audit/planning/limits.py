"""Upper bounds on the numbers that a user may give, far above useful values. Beyond them computations overflow or never end."""

import math
import re
from typing import Any

MOST = 10**6  # largest number of trainings of each kind, and of minutes
MOST_JOBS = 4096
MOST_FACTOR = 1000  # of the noise; larger violations are not searched for (accounting.lower.power.MOST_KAPPA)
MOST_SEED = 2**64 - 1
MOST_EPSILON = 100  # nats; exp(epsilon) and the searches for the noise overflow at a few hundred
TOO_LARGE = f"must be at most {MOST_EPSILON} nats, or inf for no claim"


def budget(epsilon: float) -> float:
    """The epsilon itself. Raises ValueError if it is finite and above MOST_EPSILON; the caller adds the name of the option."""
    if MOST_EPSILON < epsilon < math.inf:
        raise ValueError(TOO_LARGE)
    return epsilon


def not_overflowing(text: Any) -> Any:
    """The value itself. Raises ValueError for the text of a finite number, such as 1e309, that overflows to infinity."""
    if isinstance(text, str) and "inf" not in text.lower() and is_infinite(text):
        raise ValueError(TOO_LARGE)
    return text


def is_infinite(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


REWORDED = {  # how a message of pydantic ends -> in plain words; Typer's messages are those of pydantic
    r"a valid integer.*": "a whole number",
    r"a valid number.*": "a number",
    r"greater than or equal to ": "at least ",
    r"less than or equal to ": "at most ",
    r"greater than ": "above ",
    r"less than ": "below ",
}


def in_words(message: str) -> str:
    """A message of pydantic about a value, such as "Input should be greater than 0", in plain words: "must be above 0"."""
    begun, _, wanted = message.partition("nput should be ")
    if begun not in ("I", "i") or not wanted:
        return message
    for pattern, words in REWORDED.items():
        wanted = re.sub(f"^{pattern}", words, wanted)
    return f"must be {wanted}"
