"""Fields of the models that a user sets: NAME=VALUE for every model that has it, MODEL.NAME=VALUE for one."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any


def adjusted(model: Any, name: str, params: Iterable[str], defaults: Mapping[str, Any]) -> tuple[Any, set[str]]:
    """The recipe called `name` with its fields set, those of `defaults` that no param sets too, and which of `params` it took.

    Raises ValueError for a malformed pair, for the noise itself, and where the recipe refuses the value.
    """
    fields = {f.name for f in dataclasses.fields(model)} if dataclasses.is_dataclass(model) else set()
    pairs = [(text, *pair(text)) for text in params]
    taken = [(text, field, value) for text, owner, field, value in pairs if field in fields and owner in ("", name)]
    chosen = {**defaults, **{field: value for _, field, value in taken}}
    try:
        return dataclasses.replace(model, **chosen) if chosen else model, {text for text, *_ in taken}
    except TypeError:
        told = ", ".join(f"{field}={value!r} (by default {getattr(model, field)!r})" for _, field, value in taken)
        raise ValueError(f"param: {name} does not take {told}. Give a value of the same kind.") from None


def pair(text: str) -> tuple[str, str, Any]:
    """(model or "", field, value)"""
    path, equals, value = text.partition("=")
    owner, _, field = path.rpartition(".")
    if not (field and equals):
        raise ValueError(f"param={text!r}: must be NAME=VALUE, e.g. hops=3.")
    if field == "sigma":
        raise ValueError("sigma: the noise is what --epsilon calibrates; give --epsilon instead.")
    try:
        return owner, field, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return owner, field, value
