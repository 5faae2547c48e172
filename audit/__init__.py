"""Keys, games, audits, storage, runs and the command line. Nothing but the command line and `gnnaudit.audit` imports this."""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The package is also the function `gnnaudit.audit(model, graph, claim)`: both bear the name that their users know."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from .from_python import audit

        return audit(*args, **options)


sys.modules[__name__].__class__ = _Callable
