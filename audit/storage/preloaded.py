"""What every worker needs, imported once by the process that workers are forked from."""

from __future__ import annotations

import torch  # noqa: F401

from ...models.kernels import compiled

if compiled.used():
    from ...models.kernels import mlp  # noqa: F401
