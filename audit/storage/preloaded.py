"""Imports the modules that every worker needs, once, in the process from which workers are forked."""

from __future__ import annotations

import torch  # noqa: F401

from ...models.kernels import compiled

if compiled.used():
    from ...models.kernels import mlp  # noqa: F401
