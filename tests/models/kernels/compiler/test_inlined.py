"""Functions that only compiled functions call: what they compute there, and what Numba does not make of them."""

from typing import Any

import pytest

numba = pytest.importorskip("numba")

from gnnaudit.models.kernels.compiler.compiled import helper, plain  # noqa: E402


@helper
def root(square: float) -> float:
    if square < 0:
        return -1.0
    return square**0.5


@helper
def length(x: float, y: float = 0.0) -> float:
    return root(x * x + y * y)


@plain("float64(float64, float64)")
def lengths(x: float, y: float) -> Any:
    return length(x, y) + length(x) + root(-1.0)


def test_functions_that_inline_one_another_compute_what_python_does() -> None:
    assert lengths(3.0, 4.0) == 5 + 3 - 1


@pytest.mark.parametrize("arguments", [(9.0,), (9,), (1, 2, 3)])
def test_a_call_from_python_raises_an_error_and_does_not_crash(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        root(*arguments)


def test_the_engine_gets_machine_code_of_the_function_that_python_calls_alone() -> None:
    def known(function: Any) -> bool:
        (found,) = (made for made in function.overloads.values() if made.signature.args[0] == numba.float64)
        return bool(found.library.codegen._engine.is_symbol_defined(found.fndesc.llvm_func_name))

    assert known(lengths)
    assert not known(root)
