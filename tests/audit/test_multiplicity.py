"""Alpha is divided over all tests before the first one."""

import pytest

from gnnaudit.accounting.lower.bounds import divide


def test_the_looks_of_a_plan_share_alpha():
    assert divide(0.05, 10) == pytest.approx(0.005)
    assert divide(0.05, 1) == 0.05
    with pytest.raises(ValueError, match="tests=0"):
        divide(0.05, 0)
    for alpha in (0.0, 1.0, 2.0):
        with pytest.raises(ValueError, match=f"alpha={alpha}"):
            divide(alpha, 1)
