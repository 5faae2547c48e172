"""Finds arrays that a secret changes although every noisy value is the same, and the first line whose result differs."""

from collections.abc import Collection, Iterable

from ...models.capabilities import RunsElsewhere
from ...models.recorder.draws.results import parting, results
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.mechanism import REPORT
from ..recorded.playing import Play, play
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History
from .absence import kept, moved_cells
from .reading import EACH, differing, redrawn, repeated, with_other_values
from .unfollowed import not_followed, strayed


def changed(first: History, absent: Absence, after: Play, known: Collection[str] = ()) -> dict[str, str]:
    """The arrays that differ without the secret although every noisy value is the same, each with a sentence. The arrays `known`
    are left out.
    """
    past: dict[str, str] = {}
    for cell in moved_cells(first.play, after, absent):
        if cell.array in {*known, *past}:
            continue
        text = f"{absent.secret} changes '{cell.array}' although every noisy value is the same"
        past[cell.array] = text if known or past else f"{text}{begun(first, absent)}"
    return past


def or_else(first: History, arrays: Iterable[str]) -> dict[str, str]:
    """For each of these arrays, what else than a path past the noise may change it although every noisy value is the same: noise
    that the recorder did not follow, or data that meet a single noisy number later. Arrays that do not change with this noise are
    left out.
    """
    found: list[tuple[str, set[str]]] = []
    places = strayed(first, of_any_law=True)
    if lost := not_followed(first.play.draws[at] for at in places):
        found.append((lost, differing(first, repeated(first, {}, redrawn(first, places)))))
    ones = [i for i, m in enumerate(first.mechanisms) if m.law != REPORT and m.draw.values.size == 1]
    for i in ones[:EACH]:
        later = (
            f"the recorder takes what is added to the single noise number at {first.mechanisms[i].line} for all of its data; if "
            "the sum is multiplied by data, or data are added after another operation, this is no path: add the noise last"
        )
        found.append((later, set().union(*(differing(first, run) for run in with_other_values(first, [i])))))
    texts = {array: "; ".join(dict.fromkeys(text for text, changing in found if array in changing)) for array in arrays}
    return {array: text for array, text in texts.items() if text}


def begun(first: History, absent: Absence) -> str:
    """The end of a sentence about a path past the noise, with the line of `parted`; "" if none is known."""
    where = "" if isinstance(first.study.model, RunsElsewhere) else parted(first, absent)
    return f"; after the last noise, the first result that differs comes from {where}" if where else ""


def parted(first: History, absent: Absence) -> str:
    """The first line of the model, after its last mechanism, whose result differs without the secret; "" if none is known."""
    ours, theirs = Mechanisms(first.mechanisms), Mechanisms(first.mechanisms)
    with results(ours.all_played) as one:
        play(first.study.model, first.worlds, script=first.play.draws, follow=ours)
    with results(theirs.all_played) as other:
        kept(first, absent, theirs)
    return parting(one, other)
