"""Noise that the recorder lost: it was drawn, and no recorded sum of data and noise has all of it."""

from collections.abc import Collection

import numpy as np

from ....models.recorder.draws.draw import SHIFTED
from ...recorded.laws import NOTHING
from ...recorded.study import UNSEARCHED, History, Shifts, placed
from ..inside import moving
from ..reading import alike, redrawn, repeated
from ..unfollowed import strayed
from .added_noise import as_noise
from .steady import TESTED, Masks, changed_by, entries_of


def lost(first: History, moves: Shifts) -> str:
    """Why noise that the recorder lost may hide the moves, or "" if it does not.

    The recorder loses noise in operations that it does not follow, such as a product with a matrix. Then it does not know that
    this noise is later added to a value. The function repeats the run with other numbers for all lost noise, and keeps all noisy
    values. If the release changes, the lost noise may hide a move. Lost noise with fewer numbers than the smallest noisy value
    that moves cannot hide all of it, but a part of it if it is added to released values that have noise of their own: to those in
    which noise was found, and to those that `as_noise` finds. Weights of PyTorch layers are no noise.
    """
    sizes = [first.mechanisms[i].noisy.size for i in moving(first, moves)]
    noise = set(strayed(first))
    sources = (placed(first.study) if noise and first.study.unplaced == UNSEARCHED else first.study).sources
    for line, places in first.by_line(strayed(first, of_any_law=bool(sources))).items() if sizes else ():
        beside = (source for source in sources if any(at not in places for at, _ in source.block.parts))
        noisy = {source.cell for source in beside if source.cell in first.play.cells}  # an adversary may see some arrays alone
        own = [at for at in places if at in noise]
        few = sum(first.play.draws[at].values.size for at in own) < min(sizes)
        if few and not own and not noisy:
            continue
        other = repeated(first, {}, redrawn(first, places))
        if few:
            hides = other is not None and (
                any(not np.array_equal(first.play.cells[c], other.play.cells[c]) for c in noisy)
                or as_noise(first, moves, places, other)
            )
        else:
            hides = other is None or not alike(first, other.play)
        if hides:
            return (
                f"noise drawn at {line} changes the release in a way that the recorder does not follow, so it may hide a secret"
            )
    return ""


def mixed(first: History, moves: Shifts, sampled: Collection[int] = ()) -> str:
    """Why other draws may be noise on a value that a secret moves, before its recorded noise is added; "" if they are not.

    The function gives other numbers to all draws of any law that are not in a recorded mechanism, and keeps all noisy values. If
    a clean value changes where the secret moves it, these draws may be noise that hides the move. Weights of PyTorch layers are
    no noise. sampled: the positions of draws whose samples are accounted for.
    """
    places = [at for at in strayed(first, of_any_law=True) if at not in sampled]
    other = repeated(first, {}, redrawn(first, places)) if places else first
    lines = first.drawn_at(places)
    if other is None:
        return f"with other numbers drawn at {lines} the run has other mechanisms, or fails; these draws may hide a secret"
    for m, o, by in zip(first.mechanisms, other.mechanisms, moves, strict=True):
        if np.any((np.abs(m.over(o.clean - m.clean)) > NOTHING) & (np.abs(by) > NOTHING)):
            changes = f"change the value at {m.line} before its noise is added"
            return f"the draws at {lines} {changes}; they may be noise that hides a secret"
    return ""


def lost_noise(first: History, moves: Shifts, i: int) -> str:
    """The lines of normal or similar draws that may be more noise on the noisy value of a mechanism, which the recorder lost; ""
    if there are none.

    Such draws have as many numbers as the noisy value, or a multiple. They change every released number that shows the entries
    which move farthest, but not the value to which the mechanism adds its noise. All noisy values stay the same.
    """
    draws = enumerate(first.play.draws)
    noise = [
        at
        for at, d in draws
        if d.law in SHIFTED and d.values.size and not np.array_equal(d.values, first.study.others[0][at].values)
    ]
    mechanism = first.mechanisms[i]
    shown: list[Masks] | None = None
    for line, some in first.by_line(noise).items():
        if sum(first.play.draws[at].values.size for at in some) % max(1, int(mechanism.own.sum())):
            continue
        run = repeated(first, {}, redrawn(first, some))
        if run is None or not np.array_equal(run.mechanisms[i].clean, mechanism.clean):
            continue
        differ = {cell: run.play.cells[cell] != array for cell, array in first.play.cells.items()}
        if not any(mask.any() for mask in differ.values()):
            continue
        if shown is None:
            entries = list(entries_of(first, moves, i))[:TESTED]
            shown = [masks for entry in entries if (masks := changed_by(first, i, entry)) is not None]
        if all(not (masks[cell] & ~differ[cell]).any() for masks in shown for cell in differ):
            return line
    return ""
