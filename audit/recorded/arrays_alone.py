"""A run of which the adversary sees some of the released arrays alone. Whoever sees the whole release can leave out others."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from dp_accounting import DpEvent

from ...accounting.claim import Unit
from ...models.base import Model, Release
from ...models.capabilities import Effort, RunsElsewhere, effort
from ...models.graph.graph import Graph, Worlds
from .playing import Play
from .study import History


@dataclass(frozen=True)
class Alone:
    """The model, which releases the arrays `releases` alone, and no public number."""

    model: Model
    releases: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def mode(self) -> str:
        return self.model.mode

    @property
    def unit(self) -> Unit:
        return self.model.unit

    @property
    def public(self) -> tuple[str, ...]:
        return self.model.public

    @property
    def ledger(self) -> DpEvent:
        return self.model.ledger

    @property
    def effort(self) -> Effort:
        return effort(self.model)

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, model=self.model.with_noise(sigma))

    def printed(self, delta: float) -> float | None:
        return self.model.printed(delta)

    def footprint(self, graph: Graph) -> int:
        return self.model.footprint(graph)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return self.left(self.model.fit(worlds, device=device))

    def left(self, release: Release) -> Release:
        """What is left of a release of the whole model."""
        return dataclasses.replace(release.only(self.releases), public={})


@dataclass(frozen=True)
class AloneElsewhere(Alone):
    """As `Alone`, for a model whose trainings run outside this process."""

    @property
    def record(self) -> bool:
        assert isinstance(self.model, RunsElsewhere)
        return self.model.record

    def recorded(self, world: Worlds, request: Any) -> tuple[Release, Any]:
        assert isinstance(self.model, RunsElsewhere)
        release, recording = self.model.recorded(world, request)
        return self.left(release), recording

    def held(self, world: Worlds) -> int | None:
        assert isinstance(self.model, RunsElsewhere)
        return self.model.held(world)


def only(first: History, arrays: Sequence[str]) -> History:
    """The run and its study, of which the adversary sees the released `arrays` alone. No training takes place."""
    made = first.study
    model = (AloneElsewhere if isinstance(made.model, RunsElsewhere) else Alone)(made.model, tuple(arrays))

    def seen(play: Play) -> Play:
        kept = {cell: numbers for cell, numbers in play.cells.items() if not cell.public and cell.array in arrays}
        return dataclasses.replace(play, cells=kept)

    histories = tuple((worlds, seen(play), mechanisms) for worlds, play, mechanisms in made.histories)
    left = dataclasses.replace(made, model=model, base=seen(made.base), histories=histories)
    return dataclasses.replace(first, study=left, play=seen(first.play))
