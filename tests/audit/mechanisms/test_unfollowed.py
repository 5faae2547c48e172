"""What a verdict says of draws that the recorder did not follow."""

import numpy as np

from gnnaudit.audit.mechanisms.unfollowed import not_followed
from gnnaudit.models.recorder import Draw


def test_draws_of_an_installed_package_get_advice_that_its_user_can_follow():
    numbers = np.zeros(3)
    own = not_followed([Draw("uniform", numbers, "mine.py, line 3")])
    installed = not_followed([Draw("uniform", numbers, "diffprivlib/mechanisms/laplace.py, line 146")] * 2)
    assert "np.where(random(n) < p, values, others)" in own
    assert installed.startswith("uniform random numbers of 2 draws at diffprivlib/mechanisms/laplace.py, line 146 may be noise")
    assert "np.where" not in installed
    assert "--audits distinguisher" in installed


def test_initial_weights_and_shuffles_are_not_named():
    assert not_followed([Draw("normal", np.zeros(3), "mine.py, line 3", weights=True)]) == ""
    assert not_followed([Draw("permutation", np.arange(3), "mine.py, line 3")]) == ""


def test_two_exponential_numbers_get_the_advice_that_makes_their_difference_noise():
    told = not_followed([Draw("exponential", np.ones(3), "mine.py, line 3")] * 2)
    assert told.startswith("exponential random numbers of 2 draws at mine.py, line 3 may be samples, noise or coins")
    assert "compute the difference before you add it to data, as in `counts + (a - b)`" in told
    assert "one rate" not in told
