"""Lower bounds on the epsilon of a composition, against the closed form of Gaussian mechanisms."""

import numpy as np
import pytest

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.upper.pld import epsilon_at_least


@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-12, 1e-13, 1e-15, 1e-17, 0.0])
def test_a_composition_is_not_said_to_cost_more_than_its_closed_form_at_any_delta(delta):
    """n Gaussian mechanisms of mu = 1 / sqrt(n) are one of mu = 1. Its epsilon at 1e-10 is a bound at every smaller delta."""
    for count in (1, 100):
        found = epsilon_at_least(0.0, np.full(count, count**-0.5), 1.0, delta, 5e-4)
        assert found <= float(gaussian.epsilon_of(1.0, delta))
        assert found >= float(gaussian.epsilon_of(1.0, max(delta, 1e-10))) - 0.03
