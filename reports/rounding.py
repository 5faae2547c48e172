"""Numbers as text: lower bounds are rounded down, upper bounds up."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

DIGITS = 8  # most that are shown; `SLACK` would change further ones
SLACK = 1e-9  # relative tolerance, so that a rounding error of floating point does not change the last digit


def down(value: float, digits: int = 3, beyond: float = math.inf) -> str:
    """A lower bound, rounded towards zero to the given number of significant digits; to more if it exceeds the limit `beyond` and
    would be shown as no larger.
    """
    shown = _round(value * (1 + SLACK), digits, ROUND_FLOOR)
    hidden = float(shown) <= beyond < value and digits < DIGITS
    return down(value, digits + 1, beyond) if hidden else shown


def up(value: float, digits: int = 4) -> str:
    """An upper bound, rounded away from zero to the given number of significant digits."""
    return _round(value * (1 - SLACK), digits, ROUND_CEILING)


def percent(share: float) -> str:
    """A confidence in percent, never rounded up: 0.95 is "95 %", 0.9999992 is "99.99992 %"."""
    if share >= 1:
        return "100 %"
    digits = max(1, math.ceil(-math.log10(1 - share) - SLACK) - 1)
    floored = math.floor(100 * share * 10**digits * (1 + 1e-12)) / 10**digits
    return f"{floored:.{digits}f}".rstrip("0").rstrip(".") + " %"


def several(number: int, word: str, words: str = "") -> str:
    """A number of things in words, such as "1 round", "3 rounds", or "2 entries" if the plural `words` is given."""
    return f"{number} {word if number == 1 else words or f'{word}s'}"


def multiple(factor: float, of: str) -> str:
    """A multiple of a quantity in words, such as "0.53 times the scale", or "the scale" for a factor that is shown as 1."""
    shown = f"{factor:.4g}"
    return of if shown == "1" else f"{shown} times {of}"


def as_far(factor: float) -> str:
    """The comparison of two moves in words, such as "0.53 times as far as", or "as far as" for a factor that is shown as 1."""
    return multiple(factor, "as far as")


def at_least(epsilon: float, alpha: float, shape: str, assumed: tuple[str, ...] = (), beyond: float = math.inf) -> str:
    """A lower bound with "at least", its confidence, shape and assumptions, as in "at least 4.97 (95 %, shape of the ledger)".
    beyond: as for `down`.
    """
    from ..accounting.lower.bounds import surety

    seen = "infinite" if math.isinf(epsilon) else f"at least {down(epsilon, beyond=beyond)}"
    return f"{seen} ({surety(percent(1 - alpha), shape, assumed)})"


def _round(value: float, digits: int, towards: str) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{float(Context(prec=digits, rounding=towards).create_decimal_from_float(value)):.{digits}g}"
