"""The package that runs audits: keys, games, audits, storage and the command line. No other package imports it.

`gnnaudit.audit(model, graph, claim=None, out=None, **options)` audits a model; `help(gnnaudit.audit.__call__)` describes it.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The type of this package as a module. A call of the package calls `audit` of from_python.py, which has the same name."""

    def __call__(self, model: Any, graph: Any, claim: Any = None, **options: Any) -> Any:
        """Audits a model against a claim on a graph, and returns what results.json holds.

        `from gnnaudit.audit.from_python import audit; help(audit)` describes the arguments, the options and the errors.
        """
        from .from_python import audit

        return audit(model, graph, claim, **options)


sys.modules[__name__].__class__ = _Callable
