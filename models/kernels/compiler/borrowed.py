"""Arrays to which Numba does not count references. It counts those to every array of a named tuple whenever a function gets the
tuple, which can take longer than the loops of the function.
"""

from typing import Any

from numba import types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic


@intrinsic
def borrowed(typing: Any, of: Any) -> Any:
    """The same named tuple on the same memory, without counts. The caller keeps the memory alive."""

    def uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            for at, part in enumerate(kind.types):
                one = uncounted(context, builder, part, builder.extract_value(value, at))
                value = builder.insert_value(value, one, at)
        if not isinstance(kind, types.Array):
            return value
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = context.get_constant_null(types.MemInfoPointer(types.voidptr))
        return array._getvalue()

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return impl_ret_untracked(context, builder, of, uncounted(context, builder, of, values[0]))

    return of(of), generate
