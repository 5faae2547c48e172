"""The loop over honest recipes, which two suites use."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "honest.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("honest", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["honest"] = module
    spec.loader.exec_module(module)
    return module
