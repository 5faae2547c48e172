"""Lets a training report the noise that it draws, the nodes that it samples, and every noisy value to a witness of the audit.

Without a witness nothing is recorded. With a witness, draws from `streams.stream` are recorded, also those of a user's model. A
user's model may report its samples and noisy values with `sampled`, `clean` and `released`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NOISE = ("standard_normal", "normal", "laplace", "gumbel")  # distributions that models use only for noise


class Witness(Protocol):
    """Receives the reports of a training.

    purpose: the name of the mechanism. values: arrays or tensors that together are one noisy value. They are not copies.
    """

    def drew(self, seed: int, path: tuple[int | str, ...], numbers: NDArray[Any]) -> None: ...

    def sampled(self, purpose: str, joined: NDArray[np.bool_]) -> None: ...

    def clean(self, purpose: str, values: Sequence[Any]) -> None: ...

    def released(self, purpose: str, values: Sequence[Any], scale: float, events: int, order: int) -> None:
        """May overwrite `values`; the model then continues with the new numbers."""
        ...


WITNESS: ContextVar[Witness | None] = ContextVar("listening", default=None)


@contextmanager
def witnessed_by(witness: Witness) -> Iterator[None]:
    """Within this context, models that this thread fits report to `witness`."""
    token = WITNESS.set(witness)
    try:
        yield
    finally:
        WITNESS.reset(token)


def sampled(purpose: str, joined: NDArray[np.bool_]) -> None:
    """Reports the sample before it is used. joined: (runs, candidates) bool; the witness may overwrite it."""
    witness = WITNESS.get()
    if witness is not None:
        witness.sampled(purpose, joined)


def clean(purpose: str, *values: Any) -> None:
    """Reports a value just before noise is added to it. values: its arrays or tensors, runs first."""
    witness = WITNESS.get()
    if witness is not None:
        witness.clean(purpose, values)


def released(purpose: str, *values: Any, scale: float, events: int = 1, order: int = 2) -> None:
    """Reports the value of the last `clean` after noise of this scale was added to every entry, before other code reads it.

    events: the number of mechanisms of the ledger in this value; if more than one, the axis after the runs counts them. order:
    the norm of the sensitivity, 2 for Gaussian noise and 1 for Laplace noise. The witness may overwrite the values.
    """
    witness = WITNESS.get()
    if witness is not None:
        witness.released(purpose, values, float(scale), events, order)


class Witnessed(np.random.Generator):
    """A generator that reports its noise to the witness that was active when the generator was made."""

    def __init__(self, bits: np.random.BitGenerator, witness: Witness, seed: int, path: tuple[int | str, ...]) -> None:
        super().__init__(bits)
        self.tell = lambda numbers: witness.drew(seed, path, np.asarray(numbers))

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in NOISE:
            return found

        def draw(*args: Any, **options: Any) -> Any:
            numbers = found(*args, **options)
            self.tell(numbers)
            return numbers

        return draw
