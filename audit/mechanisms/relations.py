"""Tests how the noisy values of a run depend on one another: whether the run uses only their sum, whether they move in
proportion, and whether the release shows noise besides a noisy value.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ..recorded.study import History, Shifts, close
from .reading import alike, elsewhere, redrawn, repeated, same_means

SMALL = 1e-3  # in units of the scale: a change whose effect is nearly linear
ALIKE = 1e-2  # relative tolerance of `proportional`
REPEATED = 1e-4  # in units of the scale: tolerance between two moves that count as equal
SAME = 1e-6  # relative tolerance between the sizes of the noise with and without the secret
NEXT = range(-3, 3)  # released numbers, in sorted order, among which `in_full` searches for a noisy number
OWN_WEIGHTS = "; if it is the initial weights of a training, a secret may change this training past all other noise"
LINES = 8  # largest number of lines that `_shows` tests one by one


def sums(first: History, again: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yields groups of mechanisms whose noisy values the run uses only in their sum. All mechanisms of a group are on one line of
    code and have normal noise.

    The test changes all noisy values of a group at once, by random amounts. The values are terms of a sum if amounts that add up
    to 0 change nothing else. They are also terms of a sum if each amount changes only the clean value of the next term, by the
    same amount, as in a running sum.
    """
    lines: dict[object, list[int]] = {}
    for i, m in enumerate(first.mechanisms):
        if i not in again and m.law == "normal":
            lines.setdefault((m.line, m.clean.shape), []).append(i)
    random = np.random.default_rng(0)
    for group in (tuple(places) for places in lines.values() if len(places) > 1):
        terms = [first.mechanisms[k] for k in group]
        covered = np.logical_and.reduce([m.covered for m in terms])
        amounts = [np.where(covered, m.scale * random.standard_normal(m.clean.shape), 0.0) for m in terms[:-1]]
        zero = np.zeros(covered.shape)
        as_terms = _changes(first, group, (*amounts, -np.sum(amounts, axis=0)), (zero,) * len(group))
        if as_terms or _changes(first, group, (*amounts, zero), (zero, *amounts)):
            yield group


def added_only(first: History, i: int, j: int, released: bool = False) -> bool:
    """Whether the run uses the noisy values of two mechanisms only in their sum. released: whether only the release counts, and
    not the clean values of other mechanisms.
    """
    one, other = first.mechanisms[i], first.mechanisms[j]
    if one.clean.shape != other.clean.shape or REPORT in (one.law, other.law):
        return False
    zero, by = np.zeros(one.clean.shape), np.where(other.covered, _amounts(one), 0.0)
    if released:
        run = repeated(first, _moved(first, (i, j), (by, -by)))
        return run is not None and close(first.play, run.play)
    return _changes(first, (i, j), (by, -by), (zero, zero))


def exchanged(first: History, i: int, j: int) -> bool:
    """Whether the run does the same if two mechanisms exchange their noisy values, as with a median or a maximum of both."""
    one, other = first.mechanisms[i], first.mechanisms[j]
    if one.noisy.shape != other.noisy.shape or REPORT in (one.law, other.law) or np.array_equal(one.noisy, other.noisy):
        return False
    run = repeated(first, {i: dataclasses.replace(one, noisy=other.noisy), j: dataclasses.replace(other, noisy=one.noisy)})
    return run is not None and same_means(first, run) and close(first.play, run.play)


def entangled(first: History) -> str:
    """Why a recorded mechanism is not data plus noise of a known size that the release shows only in the noisy value; "" if all
    are.

    With other noise numbers, but the same noisy values, the data at each mechanism and the release must stay the same. With other
    numbers for all draws, the scales of the noise must stay the same: a normal number over the norm of its vector is not normal,
    for example.
    """
    noise = first.noise
    for some in (noise, range(len(first.play.draws))) if noise else ():
        other = repeated(first, {}, redrawn(first, some))
        if other is None:
            return "with other random numbers the run has other mechanisms, or fails"
        for m, o in zip(first.mechanisms, other.mechanisms, strict=True):
            if not same_size(m, o):
                return f"the size of the noise at {m.line} depends on random numbers"
            if some is noise and not np.array_equal(m.clean, o.clean):
                return _changed_by(first, m)
        if some is noise and not alike(first, other.play):
            return f"the release shows the noise itself, drawn at {_shows(first)}"
    return ""


def same_size(one: Mechanism, other: Mechanism) -> bool:
    """Whether the noise of a mechanism has the same size in two runs. A report has no size."""
    return one.law == REPORT or np.allclose(one.scale, other.scale, rtol=SAME, atol=0)


def _changed_by(first: History, mechanism: Mechanism) -> str:
    """The sentence that the noise of a mechanism, or of another one, changes its clean value."""
    value = f"the value to which noise is added at {mechanism.line}"
    own = {id(draw) for draw in (mechanism.draw, *mechanism.beside)}
    at = next(i for i, m in enumerate(first.mechanisms) if m is mechanism)
    others = [k for k in sorted(first.noise) if id(first.play.draws[k]) not in own]
    for line, places in first.by_line(others).items():
        other = repeated(first, {}, redrawn(first, places))
        if other is not None and not np.array_equal(mechanism.clean, other.mechanisms[at].clean):
            return f"{value} depends on random numbers drawn at {line}, which the recorder did not follow on all their ways"
    return f"{value} depends on this noise itself{OWN_WEIGHTS}"


def _shows(first: History) -> str:
    """The first line that draws noise which the release shows besides the noisy values; all lines if no line alone does, or if
    there are more than LINES.
    """
    lines = first.by_line(sorted(first.noise))
    for line, places in lines.items() if len(lines) <= LINES else ():
        other = repeated(first, {}, redrawn(first, places))
        if other is None or not alike(first, other.play):
            return line
    return ", ".join(lines)


def proportional(first: History, i: int, j: int, alone: bool = False) -> bool:
    """Whether small changes of two noisy values by the same amounts change the release in proportion, as if the run used only one
    weighted sum of both. alone: whether these changes must also leave the clean values of all mechanisms as they are.
    """
    one = first.mechanisms[i]
    by = SMALL * _amounts(one)
    apart = []
    for k in (i, j):
        run = repeated(first, _moved(first, (k,), (by,)))
        if run is None:
            return True
        if alone and not same_means(first, run):
            return False
        apart.append(gaps(first, run))
    share = float(apart[0] @ apart[1]) / max(float(apart[0] @ apart[0]), 1e-300)
    return float(np.linalg.norm(apart[1] - share * apart[0])) <= ALIKE * float(np.linalg.norm(apart[1]))


def in_full(first: History, some: Sequence[int]) -> bool:
    """Whether the release contains each noisy number of the mechanisms `some`, and no other random number changes their data.

    Then everybody knows these noisy values, even if a proof expects a release of their sum or of the last one alone. The test
    takes the places where the first run releases equal numbers. With other numbers for all that is random but these noisy values,
    nothing may change there. With other noisy values, the same places must show them.
    """
    noise = first.noise
    draws = redrawn(first, [at for at in range(len(first.play.draws)) if at not in noise])
    terms = [first.mechanisms[k] for k in some]
    kept = repeated(first, {k: elsewhere(first.mechanisms[k], k) for k in first.besides(some)}, draws)
    moved = repeated(first, {k: elsewhere(m, k) for k, m in zip(some, terms, strict=True)})
    if (
        kept is None
        or moved is None
        or any(not np.array_equal(kept.mechanisms[k].clean, first.mechanisms[k].clean) for k in some)
    ):
        return False
    numbers, same, other = (run.play.numbers for run in (first, kept, moved))
    if not numbers.shape == same.shape == other.shape:
        return False
    both = np.sort(numbers + other)  # the sum of both runs tells entries apart that are equal in one of them
    order = np.argsort(numbers + other)
    for k, m in zip(some, terms, strict=True):
        before, after = m.noisy[m.covered], elsewhere(m, k).noisy[m.covered]
        right = np.searchsorted(both, before + after)
        slack = REPEATED * np.broadcast_to(m.scale, m.noisy.shape)[m.covered]
        shown = np.zeros(before.shape, dtype=bool)
        for step in NEXT:
            at = order[np.clip(right + step, 0, numbers.size - 1)]
            equal = (np.abs(numbers[at] - before) <= slack) & (np.abs(other[at] - after) <= slack)
            shown |= equal & (same[at] == numbers[at])
        if m.law == REPORT or not shown.all():
            return False
    return True


def averaged(first: History, i: int) -> bool:
    """Whether the run uses the entries of a mechanism that share a noise number only in their sum."""
    one = first.mechanisms[i]
    by = _amounts(one)
    by -= (by + by.T) / 2 if one.mirrored else by.mean(axis=one.shared, keepdims=True)
    first = parted(first, i)
    return _changes(first, (i,), (by,), (np.zeros(by.shape),))


def parted(first: History, i: int) -> History:
    """The run with a mechanism whose entries (i, j) and (j, i) may change separately, even if they have the same noise number."""
    apart = dataclasses.replace(first.mechanisms[i], mirrored=False)
    return dataclasses.replace(first, mechanisms=(*first.mechanisms[:i], apart, *first.mechanisms[i + 1 :]))


def _changes(first: History, group: Sequence[int], amounts: Shifts, expected: Shifts) -> bool:
    """Whether these amounts, added to the noisy values of a group, change its clean values as expected, and nothing else."""
    other = repeated(first, _moved(first, group, amounts))
    if other is None:
        return False
    wanted = dict(zip(group, expected, strict=True))
    for k, (m, o) in enumerate(zip(first.mechanisms, other.mechanisms, strict=True)):
        size = max(1.0, float(np.abs(m.noisy).max(initial=0)))
        if np.abs(o.clean - m.clean - wanted.get(k, 0.0)).max(initial=0) > REPEATED * SAME * size:
            return False
    return close(first.play, other.play)


def _amounts(mechanism: Mechanism) -> NDArray[np.float64]:
    """Random amounts, as large as the noise, for the entries with noise; 0 for the others."""
    return np.where(mechanism.covered, mechanism.scale * np.random.default_rng(0).standard_normal(mechanism.clean.shape), 0.0)


def _moved(first: History, group: Sequence[int], amounts: Shifts) -> dict[int, Mechanism]:
    """The mechanisms of a group with these amounts added to their noisy values."""
    moved = {}
    for k, by in zip(group, amounts, strict=True):
        moved[k] = first.mechanisms[k].with_noisy(first.mechanisms[k].noisy + by)
    return moved


def gaps(first: History, other: History) -> NDArray[np.float64]:
    """How far the released numbers of two runs are apart, in one row."""
    return np.concatenate([(other.play.cells[c] - a).ravel() for c, a in first.play.cells.items()])
