"""Certificates for paths past the noise to rows that other noise moves together.

A network with noisy weights that reads the exact graph gives each node an answer that noise moves. But it gives two nodes with
the same inputs the same answer, whatever the weights. A secret may decide whether two nodes have the same inputs. Then the event
that their rows differ has the probability 0 in one of two neighbouring graphs.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.random.streams import fold
from ...models.recorder.mechanisms.found import OtherMechanisms
from ..case import Case, offered
from ..key import Key
from ..mechanisms.absence import Incomparable, both
from ..mechanisms.inside import Inside
from ..mechanisms.past_noise import begun
from ..mechanisms.reading import far_across, with_other_values
from ..recorded.playing import Cell, Diverged, Play, play
from ..recorded.secrets.copies import Copies, copies
from ..recorded.study import History
from .certain_paths import CLEAR, REDRAWN, scripts
from .released_noise import PATHS, REPEATED, exact

RUNS = (1, 2, 3)  # numbers of the trainings with other seeds in the world in which the rows differ
EQUAL = Condition(
    "noise never tells the two rows apart where the nodes are the same",
    "checked",
    f"the rows stay equal with {len(RUNS)} other seeds, with other numbers for all draws, usual ones and numbers far outside of "
    f"their range, {REDRAWN} times, and with other noisy values, near and far",
)
DIFFER = proved("the rows differ where the nodes differ", f"they do so in {len(RUNS)} trainings with other seeds")


@dataclass(frozen=True)
class Apart:
    """Two rows of a released array that differ in one of two neighbouring graphs only."""

    cell: Cell
    found: Copies
    begun: str = ""

    def __str__(self) -> str:
        rows = f"rows {self.found.node} and {self.found.copy} of {self.cell}"
        if self.found.alike:
            text = f"{rows} are equal whatever is drawn, and {self.found.absent.secret} makes them differ"
        else:
            text = f"{rows} differ, and {self.found.absent.secret} makes them equal whatever is drawn"
        return f"{text}, on the graph in which node {self.found.copy} is a copy of node {self.found.node}{self.begun}"


def from_copies(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if the release tells two nodes with the same features and neighbours apart when a secret changes the
    neighbours or the features of one of them, although no noise ever does; None if this is not shown.
    """
    first, past = within.run, set(within.past) & set(offered(case.model))
    cells = [c for c, a in first.play.cells.items() if c.array in past and a.ndim and len(a) == first.worlds.graph.nodes]
    found = copies(first.study.whole, case.claim.unit, Key("copies")) if cells else None
    if found is None:
        return None
    with suppress(Incomparable, Diverged, OtherMechanisms):
        for cell in cells:
            if certain(first, found, cell):
                apart = Apart(cell, found, next((begun(first, absent) for absent in within.across[:1]), ""))
                return exact(np.inf, str(apart), PATHS, (REPEATED, EQUAL, DIFFER))
    return None


def certain(first: History, found: Copies, cell: Cell) -> bool:
    """Whether the rows of two nodes differ in one world, and no draw and no noisy value makes them differ in the other. Raises
    Incomparable, Diverged or OtherMechanisms if a run cannot be repeated.
    """
    here, there = both(first, found.absent)
    same, other = (here, there) if found.alike else (there, here)
    if not equal(same.play, cell, found) or equal(other.play, cell, found, CLEAR):
        return False
    if any(equal(run, cell, found, CLEAR) for run in trained(first, other)):
        return False
    return all(equal(run, cell, found) for run in chain(trained(first, same), redrawn(first, same), with_others(same)))


def trained(first: History, world: History) -> Iterator[Play]:
    """Trainings in the world of a run with other seeds, in which nothing is replaced."""
    for number in RUNS:
        seeds = np.array([fold(int(s), "copies", number) % 2**64 for s in world.worlds.seeds], dtype=np.uint64)
        yield play(first.study.model, dataclasses.replace(world.worlds, seeds=seeds))


def redrawn(first: History, world: History) -> Iterator[Play]:
    """Trainings in the world of a run with other numbers for all draws, near and far. Those that make other draws with these
    numbers, such as samples of another size, are left out. Raises Diverged if these are more than half.
    """
    tried = failed = 0
    for script in scripts(first):
        tried += 1
        try:
            yield play(first.study.model, dataclasses.replace(world.worlds, seeds=first.worlds.seeds), script=script)
        except Exception:  # a user's model may refuse other numbers with any exception
            failed += 1
    if 2 * failed > tried:
        raise Diverged("other numbers end the training")


def with_others(run: History) -> Iterator[Play]:
    """Runs in the world of a run with other noisy values, near and far. Raises Diverged if the training ends with them."""
    places = range(len(run.mechanisms))
    for again in chain(with_other_values(run, places), far_across(run, places)):
        if again is None:
            raise Diverged("other noisy values end the training")
        yield again.play


def equal(run: Play, cell: Cell, found: Copies, most: float = 0.0) -> bool:
    """Whether the rows of both nodes differ by rounding at most, or by at most `most` of the largest entry of the cell."""
    values = run.cells[cell]
    gap = np.abs(values[found.node] - values[found.copy])
    allowed = np.maximum(run.largest_places(cell)[[found.node, found.copy]].max(0), most * np.abs(values).max(initial=0))
    return bool((gap <= allowed).all())
