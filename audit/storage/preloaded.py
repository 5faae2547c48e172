"""Imports the modules that every worker needs, once, in the process from which workers are forked."""

import importlib

from ...models.kernels.compiler import compiled
from .garbage import collect_rarely

collect_rarely()
importlib.import_module("torch")
if compiled.used():
    importlib.import_module("...models.kernels.mlp", __package__)
