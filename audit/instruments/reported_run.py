"""Records the samples, draws and noisy values of one run. It can also replace samples and noisy values by those of another run,
for example to repeat that run without a secret.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.base import Model, Release
from ...models.graph.graph import Worlds
from ...models.random.witness import witnessed_by

# (purpose, number of earlier samples, number of candidates) -> which candidates join the sample, (candidates,) bool; None keeps
# the sample that the model drew
Coins = Callable[[str, int, int], "NDArray[np.bool_] | None"]
# (purpose, number of candidates) -> positions of the candidates that are forced into every sample; None forces none
Join = Callable[[str, int], "NDArray[np.int64] | None"]


@dataclass(frozen=True, eq=False)
class Noisy:
    """One noisy value of one run. shapes: of its parts. clean, noisy: the entries of all parts, flat, before and after noise is
    added. scale, events, order: as the model reported them, see `witness`.
    """

    purpose: str
    shapes: tuple[tuple[int, ...], ...]
    clean: NDArray[np.float64]
    noisy: NDArray[np.float64]
    scale: float
    events: int
    order: int

    @property
    def residuals(self) -> NDArray[np.float64]:
        """The noise that was added, in units of its stated scale."""
        return (self.noisy - self.clean) / self.scale

    def first(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The first part of `clean` or `noisy`, in its own shape."""
        return numbers[: int(np.prod(self.shapes[0]))].reshape(self.shapes[0])


class Diverged(Exception):
    """The run does not repeat the run that it should repeat. The message is the purpose of the first value that differs."""


@dataclass(eq=False)
class Record:
    """The record of one run. script: the noisy values of another run, which replace those of this run.

    join: gives the candidates that are forced into every sample. coins: gives samples that replace those of this run. releases:
    the noisy values, in order. samples: purpose -> the samples, each (candidates,) bool. draws: the number of drawn values, and
    the first eight of them.
    """

    script: Sequence[Noisy] | None = None
    join: Join | None = None
    coins: Coins | None = None
    releases: list[Noisy] = field(default_factory=list)
    samples: dict[str, list[NDArray[np.bool_]]] = field(default_factory=lambda: defaultdict(list))
    draws: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    _clean: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def drew(self, seed: int, path: tuple[int | str, ...], numbers: NDArray[Any]) -> None:
        self.draws.append((numbers.size, numbers.ravel()[:8].astype(np.float64)))

    def sampled(self, purpose: str, joined: NDArray[np.bool_]) -> None:
        places = self.join(purpose, joined.shape[1]) if self.join else None
        drawn = self.coins(purpose, len(self.samples[purpose]), joined.shape[1]) if self.coins else None
        if drawn is not None:
            joined[:] = drawn
        if places is not None:
            joined[:, places] = True
        self.samples[purpose].append(joined[0].copy())

    def clean(self, purpose: str, values: Sequence[Any]) -> None:
        self._clean[purpose] = flat(values)

    def released(self, purpose: str, values: Sequence[Any], scale: float, events: int, order: int) -> None:
        shapes, at = tuple(tuple(v.shape) for v in values), len(self.releases)
        self.releases.append(Noisy(purpose, shapes, self._clean.pop(purpose), flat(values), scale, events, order))
        if self.script is None:
            return
        if at >= len(self.script) or (self.script[at].purpose, self.script[at].shapes) != (purpose, shapes):
            raise Diverged(purpose)
        overwrite(values, self.script[at].noisy)


def recorded(
    model: Model,
    worlds: Worlds,
    device: str = "cpu",
    script: Sequence[Noisy] | None = None,
    join: Join | None = None,
    coins: Coins | None = None,
) -> tuple[Release, Record]:
    """Trains one run and returns its release and its record. Raises Diverged if its values differ from `script` in number,
    purpose or shape.
    """
    record = Record(script, join, coins)
    with witnessed_by(record):
        release = model.fit(worlds, device)
    if script is not None and len(record.releases) < len(script):
        raise Diverged(script[len(record.releases)].purpose)
    return release, record


def flat(values: Sequence[Any]) -> NDArray[np.float64]:
    """Copies of all entries of some arrays or tensors, one after the other, as float64."""
    return np.concatenate([np.asarray(v.cpu() if hasattr(v, "cpu") else v, dtype=np.float64).ravel() for v in values])


def overwrite(values: Sequence[Any], numbers: NDArray[np.float64]) -> None:
    first = 0
    for value in values:
        size = int(np.prod(value.shape))
        part = numbers[first : first + size].reshape(value.shape)
        value[...] = part if isinstance(value, np.ndarray) else value.new_tensor(part)
        first += size
