"""Compiles a function that only other compiled functions call: to LLVM's intermediate code, which they inline, and no further.

Numba would also optimise each such function by itself, generate machine code for it and a wrapper that Python can call. Nobody
uses these, and they take more than a third of the time of compilation.
"""

import ctypes
from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

# What a call from Python runs: it raises TypeError. It is a function of C without arguments, and ignores those that it gets.
REFUSE = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value


class Unfinished(JITCodeLibrary):
    """Intermediate code that is not optimised by itself and not given to LLVM's engine. The code that inlines it is."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweredOnly(NativeLowering):
    """Generates the intermediate code of a function, and tells Numba where the functions that call it find this code."""

    _name = "lowered_only"

    def run_pass(self, state: Any) -> bool:
        state.library = Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        super().run_pass(state)
        made = state.cr
        module, name = made.fndesc.lookup_module(), made.fndesc.qualname
        refused = _dynfunc.make_function(module, name, "Only compiled functions call this.", REFUSE, made.env, (state.library,))
        state.targetctx.insert_user_function(refused, made.fndesc, [state.library])
        state.cr = made._replace(cfunc=refused)
        return True


class Inlined(CompilerBase):
    """Numba's steps for a function, with `LoweredOnly` in place of the last one."""

    def define_pipelines(self) -> list[Any]:
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.passes = [(LoweredOnly if step is NativeLowering else step, text) for step, text in steps.passes]
        steps.finalize()
        return [steps]
