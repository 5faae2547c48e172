"""What a claim may hold."""

import math
import re

import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim, Relation, Unit


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": -1}, "epsilon=-1: must be a number of at least 0"),
        ({"epsilon": math.nan}, "epsilon=nan: must be"),
        ({"epsilon": "1"}, "epsilon='1': must be"),
        ({"epsilon": None}, "epsilon=None: must be"),
        ({"epsilon": True}, "epsilon=True: must be"),
        ({"epsilon": [1, 2]}, "epsilon=[1, 2]: must be"),
        ({"delta": 1}, "delta=1: must be in [0, 1)"),
        ({"delta": "x"}, "delta='x': must be in [0, 1)"),
        ({"unit": "edge"}, "unit='edge': must be one of directed-edge, undirected-edge, node, features."),
        ({"unit": None}, "unit=None: must be one of"),
        ({"relation": "x"}, "relation='x': must be one of add-remove, replace."),
        ({"exposes": "posteriors"}, "exposes='posteriors': must be a tuple of words"),
        ({"exposes": ()}, "exposes=(): must name what the adversary sees"),
        ({"exposes": (1,)}, "exposes=(1,): must be a tuple of words"),
        ({"tuned_over": 0}, "tuned_over=0: must be a whole number"),
        ({"tuned_over": 1.5}, "tuned_over=1.5: must be a whole number"),
        ({"tuned_over": math.inf}, "tuned_over=inf: must be a whole number"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_in_one_line(change, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        Claim(**({"epsilon": 1.0, "delta": 1e-5} | change))


def test_values_of_enumerations_and_numbers_of_numpy_are_converted():
    claim = Claim(np.float32(1), 0, unit="node", relation="replace", exposes=["votes"], tuned_over=np.int64(2))
    assert claim == Claim(1.0, 0.0, Unit.NODE, Relation.REPLACE, ("votes",), 2)
    assert claim.unit is Unit.NODE
    assert hash(claim)
