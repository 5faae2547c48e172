"""LPGNN: every user perturbs the own features and label before sending them."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .lpgnn import Lpgnn

__getattr__ = lazily(__name__, Lpgnn="lpgnn")
