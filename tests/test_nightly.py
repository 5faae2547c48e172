"""The list of tests that only `make nightly` runs."""

import pytest

from .conftest import GONE


def test_nightly_txt_lists_tests_that_exist(pytestconfig: pytest.Config):
    assert not pytestconfig.stash[GONE]
