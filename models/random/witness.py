"""What a training really does, told to an auditor who listens: the noise it draws, whom it samples, every noisy value.

Nobody listens in an ordinary run, and then nothing is recorded. A model of one's own that draws from `noise.stream` is heard
drawing; it may tell more by the same three calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOISE = ("standard_normal", "normal", "laplace", "gumbel")  # no model draws these for anything else


class Witness(Protocol):
    """values: arrays or tensors that together are one release, in the order of their parts. They are the model's own."""

    def drew(self, seed: int, path: tuple[int | str, ...], numbers: NDArray[Any]) -> None: ...

    def sampled(self, purpose: str, joined: NDArray[np.bool_]) -> None: ...

    def clean(self, purpose: str, values: Sequence[Any]) -> None: ...

    def released(self, purpose: str, values: Sequence[Any], scale: float, events: int, order: int) -> None:
        """May write other numbers over `values`, which the model then goes on with."""
        ...


LISTENING: ContextVar[Witness | None] = ContextVar("listening", default=None)


@contextmanager
def heard_by(witness: Witness) -> Iterator[None]:
    """Models that are fitted within this context, in this thread, are heard by `witness`."""
    token = LISTENING.set(witness)
    try:
        yield
    finally:
        LISTENING.reset(token)


def sampled(purpose: str, joined: NDArray[np.bool_]) -> None:
    """Who was drawn, (runs, candidates) bool, where it is used."""
    witness = LISTENING.get()
    if witness is not None:
        witness.sampled(purpose, joined)


def clean(purpose: str, *values: Any) -> None:
    """What is about to get noise, before any is added."""
    witness = LISTENING.get()
    if witness is not None:
        witness.clean(purpose, values)


def released(purpose: str, *values: Any, scale: float, events: int = 1, order: int = 2) -> None:
    """The same with noise of this scale on every entry, before anything else reads it.

    events: how many mechanisms of the ledger this is; with more than one, each is a row of the axis after the runs. order: the
    norm of the sensitivity, 2 for Gaussian noise, 1 for Laplace noise on shares that add up to one.
    """
    witness = LISTENING.get()
    if witness is not None:
        witness.released(purpose, values, float(scale), events, order)


class Heard(np.random.Generator):
    """A generator whose noise is told to the witness that listened when it was made."""

    def __init__(self, bits: np.random.BitGenerator, witness: Witness, seed: int, path: tuple[int | str, ...]) -> None:
        super().__init__(bits)
        self._told = lambda numbers: witness.drew(seed, path, np.asarray(numbers))

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in NOISE:
            return found

        def draw(*args: Any, **options: Any) -> Any:
            numbers = found(*args, **options)
            self._told(numbers)
            return numbers

        return draw
