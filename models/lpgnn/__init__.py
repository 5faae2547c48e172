"""LPGNN: every user perturbs its own features and label before it sends them."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .lpgnn import Lpgnn

__getattr__ = lazily(__name__, Lpgnn="lpgnn")
