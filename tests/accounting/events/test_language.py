"""A ledger written as text, against the same ledger built by hand in dp_accounting."""

import math

import dp_accounting as dp
import pytest

from gnnaudit.accounting.events import PureDpEvent
from gnnaudit.accounting.events.language import ledger, number


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("gaussian(1.5)", dp.GaussianDpEvent(1.5)),
        ("2 * gaussian(sigma)", dp.SelfComposedDpEvent(dp.GaussianDpEvent(3.0), 2)),
        ("gaussian(sigma / sqrt(2) ** 2) * 3", dp.SelfComposedDpEvent(dp.GaussianDpEvent(3.0 / math.sqrt(2) ** 2), 3)),
        ("laplace(2) + gaussian(1)", dp.ComposedDpEvent([dp.LaplaceDpEvent(2.0), dp.GaussianDpEvent(1.0)])),
        ("compose(laplace(2), gaussian(1))", dp.ComposedDpEvent([dp.LaplaceDpEvent(2.0), dp.GaussianDpEvent(1.0)])),
        (
            "100 * poisson(0.01, gaussian(1))",
            dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 100),
        ),
        ("pure(0.5)", PureDpEvent(0.5)),
        ("randomized_response(1, 4)", dp.RandomizedResponseDpEvent(4 / (math.e + 3), 4)),
        ("gaussian(0)", dp.NonPrivateDpEvent()),
    ],
)
def test_a_text_is_the_event_that_it_names(text, event):
    assert ledger(text, {"sigma": 3.0}) == event


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("2 * gausian(1)", "Did you mean gaussian"),
        ("gaussian(tau)", "'tau' has no value"),
        ("gaussian()", "takes a number"),
        ("poisson(gaussian(1), 0.1)", "takes a number, a mechanism"),
        ("gaussian(1) - gaussian(1)", "can be added"),
        ("1.5 * gaussian(1)", "whole number"),
        ("(0.1 / 0) * gaussian(1)", "division by zero"),
        ("-1 * gaussian(1)", "at least 0"),
        ("gaussian(1/0)", "division by zero"),
        ("gaussian(-1)", "at least 0"),
        ("gaussian(10 ** 400)", "out of range|too large"),
        ("poisson(2, gaussian(1))", "probability"),
        ("3.7", "is the number 3.7"),
        ("__import__('os')", "no mechanism"),
        ("(1).real", "not allowed"),
        ("gaussian(sigma=1)", "not allowed"),
        ("gaussian('1')", "not allowed"),
        ("[gaussian(1)]", "not allowed"),
        ("gaussian(9**9**9)", "': Numerical result out of range"),
        ("(" * 500 + "1" + ")" * 500, "cannot be read"),
        ("1+" * 1500 + "1", "characters"),
    ],
)
def test_anything_else_is_refused_in_one_line(text, words):
    with pytest.raises(ValueError, match=words) as refusal:
        ledger(text, {"sigma": 3.0})
    assert "\n" not in str(refusal.value)


def test_numbers_are_read_by_the_same_rules():
    assert number("sqrt(2) * sigma", {"sigma": 3.0}) == pytest.approx(4.2426406871)
    with pytest.raises(ValueError, match="no finite number"):
        number("gaussian(1)", {})
