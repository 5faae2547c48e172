"""Every number of every recipe has a range, which holds its usual value and refuses what is not a number."""

import dataclasses
import math

import pytest

from gnnaudit.models.facts import Facts
from gnnaudit.models.ranges import RANGES, check_range
from gnnaudit.models.systems import SYSTEMS

FACTS = Facts(3000, 1500, 5, 20, 9000, False)


def numbers():
    for name, system in SYSTEMS.items():
        for mode in ("paper", "sound"):
            recipe = system.make(mode, FACTS, True)
            for field in dataclasses.fields(recipe):
                value = getattr(recipe, field.name)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield name, field.name, value


def test_every_number_of_every_recipe_has_a_range_that_holds_its_usual_value():
    found = list(numbers())
    assert len(found) > 100
    assert [(name, field, value) for name, field, value in found if field not in RANGES or value not in RANGES[field]] == []


@pytest.mark.parametrize("field", RANGES)
def test_no_range_holds_what_is_no_number(field):
    for value in (math.nan, -math.inf, 10**30):
        if field not in ("feature_budget", "label_budget") or value != 10**30:  # without a limit: inf sends the truth
            with pytest.raises(ValueError, match=rf"{field}=.*: must be in .* The usual value is 7"):
                check_range(field, value, 7)


def test_the_message_says_whether_the_ends_belong_to_the_range():
    with pytest.raises(ValueError, match=r"dropout=1.0: must be in \[0, 1\)"):
        check_range("dropout", 1.0, 0.5)
    with pytest.raises(ValueError, match=r"rate=0: must be in \(0, 1\]"):
        check_range("rate", 0, 0.3)
