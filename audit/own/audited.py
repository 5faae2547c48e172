"""The files of a user's own model or program, with their hashes. With them the report says what was audited."""

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from ...models.base import Model
from .model_file import is_built_in
from .programs.files import hashed


def audited(model: Model) -> dict[str, str]:
    """Name of a part -> its files and their hash, or its version. Empty for built-in systems."""
    if (files := getattr(model, "audited", None)) is not None:
        return dict(files)
    if is_built_in(model):
        return {}
    parts = (type(model), _function(getattr(model, "train", None)))
    files = (getattr(sys.modules.get(getattr(part, "__module__", "")), "__file__", None) for part in parts)
    own = [Path(f) for f in files if f and not Path(f).is_relative_to(Path(__file__).parents[2])]
    return {"model": f"{own[-1].name}, {hashed(own[-1:])}"} if own else {}


def _function(train: Any) -> Any:
    """The function below partial arguments and decorators, or the class of a callable object. It knows the file of its code."""
    while isinstance(train, functools.partial):
        train = train.func
    train = inspect.unwrap(train) if callable(train) else train
    return train if inspect.isroutine(train) else type(train)
