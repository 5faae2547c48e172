"""Which ledgers mean something."""

import math
import re

import dp_accounting as dp
import pytest

from gnnaudit.accounting.events import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent
from gnnaudit.accounting.events.well_formed import check_ledger

NOISE = dp.GaussianDpEvent(1.0)


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        (None, "ledger=None: must be a DpEvent"),
        (dp.GaussianDpEvent, "ledger=<class"),
        (dp.GaussianDpEvent(-1.0), "ledger: GaussianDpEvent: noise_multiplier=-1.0: must be a finite number of at least 0."),
        (dp.LaplaceDpEvent(math.nan), "ledger: LaplaceDpEvent: noise_multiplier=nan"),
        (dp.GaussianDpEvent("1"), "ledger: GaussianDpEvent: noise_multiplier='1'"),
        (BoundedRangeDpEvent(math.inf), "ledger: BoundedRangeDpEvent: epsilon=inf"),
        (dp.PoissonSampledDpEvent(1.5, NOISE), "ledger: PoissonSampledDpEvent: sampling_probability=1.5: must be a probability"),
        (dp.SelfComposedDpEvent(NOISE, 2.5), "ledger: SelfComposedDpEvent: count=2.5: must be a whole number"),
        (dp.SelfComposedDpEvent(3, 2), "ledger: SelfComposedDpEvent: event=3: must be a DpEvent"),
        (dp.ComposedDpEvent([NOISE, dp.SelfComposedDpEvent(dp.LaplaceDpEvent(-2), 3)]), "ledger: LaplaceDpEvent"),
        (dp.ComposedDpEvent([NOISE, 3]), "ledger=3: must be a DpEvent"),
        (FiniteDpEvent((0.5, 0.4), (0.5, 0.5)), "ledger: FiniteDpEvent: upper=(0.5, 0.4): must be a tuple of probabilities"),
        (VisibleMixtureDpEvent((0.5, 0.5), (NOISE, None)), "ledger=None"),
    ],
)
def test_the_part_of_a_ledger_that_is_impossible_is_named(ledger, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        check_ledger(ledger)


@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "x", None, True])
def test_a_pure_mechanism_has_a_finite_epsilon_of_at_least_0(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon=.*: must be a finite number of at least 0"):
        PureDpEvent(epsilon)
    assert PureDpEvent(0.0).epsilon == 0


@pytest.mark.parametrize("ledger", [dp.NoOpDpEvent(), dp.NonPrivateDpEvent(), dp.UnsupportedDpEvent(), dp.DpEvent(), NOISE])
def test_ledgers_without_wrong_numbers_pass(ledger):
    check_ledger(dp.ComposedDpEvent([dp.SelfComposedDpEvent(ledger, 2), dp.PoissonSampledDpEvent(0.5, ledger)]))
