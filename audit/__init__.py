"""The package that runs audits: keys, games, audits, storage and the command line. No other package imports it.

`gnnaudit.audit(model, graph, claim=None, out=None, **options)` audits a model; `help(gnnaudit.audit.__call__)` describes it.

Used elsewhere: key.Key, case.Case, case.Setting, case.Outcome, case.offered, case.keeping, case.EDGES.
"""

import sys
from inspect import signature
from types import ModuleType
from typing import Any

WAY = "Write audit(model, graph, claim): the graph comes second, the claim third, and all else by name, such as out=FOLDER."


class _Callable(ModuleType):
    """The type of this package as a module. A call of the package calls `audit` of from_python.py, which has the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """audit(model, graph, claim=None, out=None, **options): audits a model against a claim on a graph, and returns what
        results.json holds. Raises TypeError, which says what to write instead, for arguments in another order or number.

        `from gnnaudit.audit.from_python import audit; help(audit)` describes the arguments, the options and the errors.
        """
        from .from_python import audit

        try:
            signature(audit).bind(*arguments, **options)
        except TypeError as fault:
            raise TypeError(f"audit: {fault}. {WAY}") from None
        return audit(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
