"""Shows the current case, its current stage and the estimated time left: as a bar on a terminal, as lines in a log."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
QUIET = 30.0  # shortest time in seconds between two lines of a log within one case
LONG = 5.0  # shortest time in seconds of a stage whose end is worth a word
BEAT = 1.0  # seconds between two looks at a stage that may be long
FEWER = "; docs/own-model.md says how to limit them"

Say = Callable[..., object]  # takes the name of a stage that begins, or, with begins=False, the progress of the current stage


def announced(
    todo: Sequence[Item],
    stages: Callable[[Item], int],
    console: Console,
    name: Callable[[Item], str] = str,
    counted: Callable[[], int] = int,
) -> Iterator[tuple[Item, Say]]:
    """Yields each item with a function of type `Say`. The caller calls this function when one of the item's stages begins.

    stages: gives the number of stages of an item. name: gives the text that stands for an item. A line of a log that says which
    stage begins also names the stage that took longest since the line before, unless all were short. A stage during which
    nothing else is said gets a line after QUIET seconds, then after twice as long, and so on.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    start, ends = time.monotonic(), [0, *accumulate(map(stages, todo))]
    total = ends[-1]
    took: list[tuple[float, str]] = []  # seconds and name of each stage of an item that has ended since the last line
    ended: list[float] = []  # seconds of each stage of the current item that has ended
    number, begun, text, current, since, last, patience = 0, 0, "", "", start, start, QUIET
    finished, before = 0.0, 0  # seconds of all items that have ended, and trainings that were counted before the current stage

    def print_line(now_on: str, now: float, left: str = "") -> None:
        nonlocal last
        print_plain(console, f"[{number}/{len(todo)}] {now_on} ({clock(now - start)}{left})")
        last = now

    def go_on() -> None:
        nonlocal patience
        now = time.monotonic()
        if text and now - max(last, since) >= patience:
            count = counted() - before
            trainings = f", {count} trainings{FEWER * (patience == QUIET)}" if count > 1 else ""
            print_line(f"{text} has run for {clock(now - since)}{trainings}", now)
            patience *= 2

    def left(done: int, now: float) -> str:
        """The estimated time left. Stages differ much, so there is none before half of the first item is done."""
        rest, later = ends[number] - ends[number - 1] - done, total - ends[number]
        if before_this := ends[number - 1]:
            return f", about {clock(finished / before_this * (rest + later))} left"
        if not ended or done < rest:
            return ""
        return f", about {clock(statistics.median_low(ended) * rest + (now - start) / done * later)} left"

    beats = contextlib.nullcontext() if console.is_terminal else beating(go_on)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress, beats:
        bar = progress.add_task("", total=total)
        for number, item in enumerate(todo, 1):
            begun, current, since, patience = 0, "", time.monotonic(), QUIET
            finished, before = since - start, counted()
            took.clear()
            ended.clear()

            def say(what: str = "", begins: bool = True, number: int = number, item: Item = item) -> None:
                nonlocal begun, text, current, since, patience, before
                done, now = max(0, begun - 1 - (not begins)), time.monotonic()
                text, begun = f"{name(item)}: {what}" if what else name(item), begun + begins
                progress.update(bar, description=text, completed=ends[number - 1] + done)
                if begins:
                    took.extend([(now - since, current)] if current else [])
                    ended.extend([now - since] if current else [])
                    current, since, patience, before = what, now, QUIET, counted()
                if console.is_terminal or (what and now - last < QUIET):
                    return
                longest, stage = max(took, default=(0.0, ""))
                after = f"{stage} took {clock(longest)}; " if longest >= LONG else ""
                print_line(f"{name(item)}: {after}{what}{' begins' * begins}" if what else text, now, left(done, now))
                took.clear()

            say()
            yield item, say


def print_plain(console: Console, text: str, end: str = "\n") -> None:
    """Prints a text as it stands: without colours or markup, and not wrapped."""
    console.print(text, end=end, highlight=False, markup=False, soft_wrap=True)


@contextlib.contextmanager
def beating(look: Callable[[], object]) -> Iterator[None]:
    """A context in which a thread calls `look` every BEAT seconds. The thread ends with it."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT):
            look()

    thread = threading.Thread(target=beat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def clock(seconds: float) -> str:
    """A duration as "M:SS", or as "H:MM:SS" from one hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
