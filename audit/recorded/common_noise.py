"""Normal numbers that are added to many entries of the release at once, such as one number for all rows: entries have this noise
in common.

A number of this kind reaches the release beside the noise that each entry has for itself. How far it moves each entry along the
released history is measured as for a secret: the number changes, and the entries' own noise is adjusted until the release is
the same. Both kinds of noise together are normal, with a covariance that follows from these moves. In units of the own noise, a
move w of the means then costs as much as the move sqrt(w (I + B'B)^-1 w) under independent noise, where the rows of B are the
moves by the common numbers.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Worlds
from .forcing import Forced, forced
from .playing import Diverged
from .secrets.worlds import Absence
from .sources import laid_out
from .study import Study, close

Floats = NDArray[np.float64]

MOST = 64  # largest number of common numbers, because each costs a few runs
LINEAR = 1e-3  # relative: by how much the move by several numbers may differ from the sum of their moves
SIZES = (1.0, 8.0, -8.0)  # changes of all numbers together, in units of their scale; a number may be clipped at usual sizes
SHOWN = 1e-2  # if less of the squared norm of a move is left beside the common noise, rounding decides how much it is


@dataclass(frozen=True, eq=False)
class Common:
    """places: the positions of the draws whose numbers entries have in common. moves: (numbers, entries of all sources), how far
    a change of each number by one unit of its scale moves each entry, in units of the entry's own noise.
    """

    places: frozenset[int]
    moves: Floats

    def left(self, move: Floats, shown: Floats) -> float:
        """The part of the squared norm of a move that the common noise does not hide; 0 if this part is too small to be known.
        move: (entries,), in units of the own noise. shown: (entries,), 0 for entries that are not released, and 1 for others.
        """
        moves, whole = self.moves * shown, float(move @ move)
        seen = moves @ move
        left = whole - float(seen @ np.linalg.solve(np.eye(len(moves)) + moves @ moves.T, seen))
        return left if left >= SHOWN * whole else 0.0


def common(made: Study) -> Common | None:
    """The normal numbers that entries of the release have in common, if the noise of all sources is normal; else None.

    None too if there are more than MOST numbers, if one of them changes the release in a way that no other noise of its entries
    does, or if their moves do not add up, also where the numbers are large.
    """
    draws = made.base.draws
    places = [at for at in made.free if draws[at].law == "normal" and draws[at].spread and not draws[at].weights]
    sizes = [draws[at].values.size for at in places]
    if not places or not made.sources or any(s.block.law != "normal" for s in made.sources) or sum(sizes) > MOST:
        return None
    changes = [size * _unequal(sum(sizes)) for size in SIZES]
    found: list[Floats] = []
    for change in (*changes, *np.eye(sum(sizes))):
        run = _moved(made, places, change)
        if run is None or not (found or run.any()):
            return None
        found.append(run)
    moves: Floats = np.array(found[len(SIZES) :])
    for change, run in zip(changes, found, strict=False):
        if np.abs(run - change @ moves).max() > LINEAR * np.abs(change @ moves).max():
            return None
    return Common(frozenset(places), moves)


def reweighted(made: Study, shared: Common, absent: Absence, other: Forced) -> str:
    """A sentence if a secret changes how far common numbers move the entries; "" if not. The secret then changes the covariance
    of the noise, and the move of the means does not determine epsilon. Own rows of absent nodes do not count. other: the run
    without the secret.
    """
    change = _unequal(len(shared.moves))
    run = _moved(made, sorted(shared.places), change, absent.worlds)
    if run is None:
        return f"{absent.secret} changes the noise that entries of the release have in common"
    expected = change @ shared.moves
    gaps = np.abs(run - np.concatenate(other.shifts) - expected)
    ends = np.cumsum([shift.size for shift in other.shifts])[:-1]
    for source, numbers in zip(made.sources, np.split(gaps, ends), strict=True):
        rows = laid_out(numbers, source.factor.shape, source.across)
        if absent.hidden is not None and rows.shape[:1] == (made.whole.graph.nodes,):
            rows = np.delete(rows, absent.hidden, axis=0)
        if rows.max(initial=0.0) > LINEAR * np.abs(expected).max():
            return f"{absent.secret} changes the weight of noise that entries of {source.cell} have in common"
    return ""


def _unequal(numbers: int) -> Floats:
    """Changes of several numbers at once, of sizes 1 to 2 and both signs, so that swapped weights give another sum."""
    rng = np.random.default_rng(0)
    return rng.choice([-1.0, 1.0], numbers) * (1 + rng.random(numbers))


def _moved(made: Study, places: Sequence[int], by: Floats, worlds: Worlds | None = None) -> Floats | None:
    """How far the entries move if the numbers of the draws at `places` change, in units of the entries' own noise; None if the
    release then differs, whatever the own noise is. by: the change of each number in units of its scale. worlds: by default the
    whole graph; in a world without secrets, their moves are included, and the release is not compared.
    """
    draws, sizes = list(made.base.draws), [made.base.draws[at].values.size for at in places]
    for at, change in zip(places, np.split(by, np.cumsum(sizes)[:-1]), strict=True):
        draw = draws[at]
        values = draw.values + (np.asarray(draw.scale) * change.reshape(draw.values.shape)).astype(draw.values.dtype)
        draws[at] = dataclasses.replace(draw, values=values)
    base = dataclasses.replace(made.base, draws=draws)
    try:
        run = forced(made, worlds or made.whole, base)
    except (Diverged, ValueError, ArithmeticError):
        return None
    return np.concatenate(run.shifts) if worlds is not None or close(made.base, run.play) else None
