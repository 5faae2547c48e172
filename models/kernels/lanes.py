"""Vectors of numbers that a compiled loop keeps in registers, where a loop over arrays would write every sum to memory.

LLVM divides a vector among registers of any width, so that the same code serves every processor. The functions do not check
whether an array has the numbers that they read or write.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

WIDTH = 16  # numbers in a vector: two registers of AVX2; a divisor of layers.BLOCK
NUMBER, INDEX = ir.FloatType(), ir.IntType(32)
VECTOR = ir.VectorType(NUMBER, WIDTH)


class Lanes(types.Type):
    """Numba's type for WIDTH float32 numbers."""


LANES = Lanes("Lanes")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Tells Numba that LLVM holds Lanes as a vector."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def place(context: Any, builder: Any, kind: Any, array: Any, at: Any, what: Any) -> Any:
    """The address of number `at` of an array, for a value of the LLVM type `what`."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), what.as_pointer())


@intrinsic
def load(typing: Any, x: Any, at: Any) -> Any:
    """The numbers x[at : at + WIDTH]."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(place(context, builder, x, values[0], values[1], VECTOR), align=4)

    return LANES(x, types.intp), generate


@intrinsic
def store(typing: Any, lanes: Any, x: Any, at: Any) -> Any:
    """x[at : at + WIDTH] = lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[0], place(context, builder, x, values[1], values[2], VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(lanes, x, types.intp), generate


@intrinsic
def zeros(typing: Any) -> Any:
    """WIDTH zeros."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(VECTOR, [0.0] * WIDTH)

    return LANES(), generate


@intrinsic
def repeated(typing: Any, x: Any, at: Any) -> Any:
    """The number x[at], WIDTH times."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = builder.load(place(context, builder, x, values[0], values[1], NUMBER), align=4)
        empty = ir.Constant(VECTOR, ir.Undefined)
        first = builder.insert_element(empty, number, ir.Constant(INDEX, 0))
        return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INDEX, WIDTH), [0] * WIDTH))

    return LANES(x, types.intp), generate


@intrinsic
def plus(typing: Any, total: Any, a: Any, b: Any) -> Any:
    """total + a * b, lane by lane. Numba adds the flags of `compiled.FAST`, so that one instruction may do both."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(values[0], builder.fmul(*values[1:]))

    return LANES(total, a, b), generate


@intrinsic
def times(typing: Any, a: Any, b: Any) -> Any:
    """a * b, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fmul(*values)

    return LANES(a, b), generate


@intrinsic
def added(typing: Any, a: Any, b: Any) -> Any:
    """a + b, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(*values)

    return LANES(a, b), generate
