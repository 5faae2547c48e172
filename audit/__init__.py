"""Runs audits: keys, games, audits, storage and the command line. Only the command line and `gnnaudit.audit` import it.

`gnnaudit.audit(model, graph, claim, out=None, **options)` audits a model; `help(gnnaudit.audit.from_python.audit)` describes it.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Calling the package calls the function `gnnaudit.audit(model, graph, claim)`, because users know both by this name."""

    def __call__(self, model: Any, graph: Any, claim: Any, **options: Any) -> Any:
        from .from_python import audit

        return audit(model, graph, claim, **options)


sys.modules[__name__].__class__ = _Callable
