"""Modules that every worker needs. The process from which workers are forked imports them once."""

from __future__ import annotations

import torch  # noqa: F401

from ...models.kernels import compiled

if compiled.used():
    from ...models.kernels import mlp  # noqa: F401
