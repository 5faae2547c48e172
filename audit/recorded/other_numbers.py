"""Replaces the draws of a study that are no noise by other numbers, to show that nothing but noise hides a secret."""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.recorder import Draw
from ...models.recorder.script import alike
from .playing import Cell, Diverged, play
from .study import Study

Floats = NDArray[np.float64]

HARD, MORE = 6, 32  # replacements of all draws by `tried_hard`, and by `tried_harder` before a proof
ENDLESS = ("exponential", "geometric", "poisson", "gamma", "chisquare", "weibull", "pareto")  # laws from 0 without end
FAR = 1000.0  # in units of the noise: large enough to dominate any sum, clipping or comparison


def tried_hard(made: Study, cell: Cell | None) -> Iterator[tuple[dict[int, NDArray[Any]], list[tuple[Any, Floats]]]]:
    """Yields six replacements of all free draws and of loose numbers, each with large changes of the noise on `cell`.

    Two replacements take the draws of other seeds. Two take the ends of the ranges of the draws, and two take numbers far
    outside the usual range, where the law of a draw has such numbers. A draw that can affect entries of the cell should change
    them in one of the six. Each noise number on the cell changes in both directions, because a run may clip on one side. Each
    item is (position of a draw -> new numbers, [(block, changes)]).
    """
    rng = np.random.default_rng(1)
    own = [] if cell is None else made.on(cell)
    draws, signs, loose = made.base.draws, [np.zeros(0)] * len(own), made.loose
    for number in range(HARD):
        instead: dict[int, NDArray[Any]] = {}
        for at in (*made.free, *loose):
            d, redrawn = draws[at], made.others[number % len(made.others)][at]
            if number in (2, 3) and d.bounded and d.values.dtype.kind in "iufb":
                instead[at] = np.full_like(d.values, d.lowest if number == 2 else d.top)
            elif number in (4, 5) and d.spread:
                instead[at] = (redrawn.values + FAR * d.scale * rng.choice([-1, 1], size=d.values.shape)).astype(d.values.dtype)
            elif alike(d, redrawn):
                instead[at] = redrawn.values
        instead |= {at: np.where(loose[at], instead[at], draws[at].values) for at in loose.keys() & instead.keys()}
        signs = [-old if number % 2 else rng.choice([-1.0, 1.0], size=s.block.size) for s, old in zip(own, signs, strict=True)]
        far = [(s.block, FAR * sign * (1 + rng.random(s.block.size))) for s, sign in zip(own, signs, strict=True)]
        yield instead, far


def tried_harder(made: Study, cell: Cell) -> Iterator[tuple[dict[int, NDArray[Any]], list[tuple[Any, Floats]]]]:
    """As `tried_hard`, MORE times: each number of a free draw is replaced on its own, so that any of several noisy values may be
    the largest, and each may be on either side of a bar.

    An entry that noise decides between two values keeps its value in all of them with a probability of about 2^-MORE. A few
    replacements are no proof: noise of a usual size often leaves the index of a maximum as it is.
    """
    rng, own, loose, draws = np.random.default_rng(2), made.on(cell), made.loose, made.base.draws
    replaced = [at for at in (*made.free, *loose) if draws[at].values.dtype.kind in "iufb"]
    others = [at for at in replaced if not has_far_numbers(draws[at])]
    for _ in range(MORE):
        share, fresh = rng.random(), made.others[0]
        if others:
            seed = made.whole.seeds ^ np.uint64(rng.integers(1, 1 << 62))
            fresh = play(made.model, dataclasses.replace(made.whole, seeds=seed)).draws
        instead = {
            at: far_numbers(draws[at], rng.random(draws[at].values.shape) < share, rng) for at in replaced if at not in others
        }
        instead |= {at: fresh[at].values for at in others if at < len(fresh) and alike(draws[at], fresh[at])}
        instead |= {at: np.where(loose[at], instead[at], draws[at].values) for at in loose.keys() & instead.keys()}
        signs = [np.where(rng.random(s.block.size) < share, 1.0, -1.0) for s in own]
        yield instead, [(s.block, FAR ** rng.random(s.block.size) * sign) for s, sign in zip(own, signs, strict=True)]


def has_far_numbers(draw: Draw) -> bool:
    """Whether `far_numbers` can replace the numbers of a draw."""
    return bool(draw.spread or draw.bounded or draw.law in ENDLESS or (draw.among and draw.chances is not None))


def far_numbers(draw: Draw, up: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[Any]:
    """Numbers that the law of a draw allows, most of them far from its middle. up: which of them are large."""
    old, shape = draw.values, draw.values.shape
    if draw.among and draw.chances is not None:
        possible = np.broadcast_to(draw.chances > 0, (*shape, len(draw.among)))
        new = np.array(draw.among)[np.where(possible, rng.random(possible.shape), -1.0).argmax(-1)]
    elif draw.spread:
        new = old + draw.scale * np.where(up, 1, -1) * FAR ** rng.random(shape)
    elif draw.law in ENDLESS:
        new = np.where(up, old * FAR ** rng.random(shape), old)
        new = np.ceil(new) if old.dtype.kind in "iu" else new
    else:
        between = draw.lowest + (draw.top - draw.lowest) * rng.random(shape)
        new = np.where(rng.random(shape) < 0.5, between, np.where(up, draw.top, draw.lowest))
        new = np.round(new) if old.dtype.kind in "iu" else new
    return np.asarray(new).astype(old.dtype)


def withstands(made: Study, common: Collection[int]) -> bool:
    """Whether the noisy cells stay the same when the free draws and loose numbers are replaced. If so, the recorded noise is all
    of their noise. common: the positions of free draws that are known to be noise of these cells.
    """
    if not set(made.free) - set(common) and not made.loose:
        return True
    cells = {s.cell for s in made.sources}
    for replaced, _ in tried_hard(made, None):
        instead = {at: numbers for at, numbers in replaced.items() if at not in common}
        try:
            after = play(made.model, made.whole, instead, made.base.draws)
        except (Diverged, ValueError, ArithmeticError):
            return False
        if any(not (np.abs(after.cells[c] - made.base.cells[c]) <= made.slack[c]).all() for c in cells):
            return False
    return True
