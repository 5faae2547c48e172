"""What runs with other seeds say: whether noise takes few values, and whether something has a probability above delta.

Noise takes few values if the program reduces its seed to few values, as in `seed % 997` or by a hash. The model runs with many
random seeds, each time only until it has drawn its noise. If two seeds draw the same noise, then the noise takes few values
(birthday paradox), and whoever tries all of them knows it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...models.base import Model
from ...models.fitted import apart
from ...models.graph.graph import Graph, Worlds
from ...models.recorder import Draw, recording
from ...models.recorder.script import alike
from ..key import Key

PROBES = ((5_000, 400), (20_000, 100))  # (most nodes, number of seeds); 50 for larger graphs
SECONDS = 8.0  # of processor time, after which no further seed is tried
APART = 8  # so many draws of one line are looked at one by one
BITS = 40  # draws count only if two seeds give them equal numbers with a probability of at most 2^-40
OF_A_NUMBER = {2: 8, 4: 20, 8: 40}  # bytes of a floating-point number -> its random bits, at least
RARE = 1e-5  # at most this delta, two runs show for one secret what is too improbable under the claim, see `often`
RUNS, CHANCE = 24, 1e-7  # of `often`: the largest number of further runs, and its probability of a false "often" for one secret
FURTHER = range(100_000, 100_000 + RUNS)  # numbers of these runs, which nothing else looks at
SELDOM = "further runs with other seeds do not show that this has a probability above δ"


class Enough(BaseException):
    """The run has drawn all numbers that are of interest. No program catches this by accident."""


def few_values(model: Model, graph: Graph, key: Key, draws: Sequence[Draw], sure: Callable[[Draw], bool]) -> dict[int, int]:
    """Position of a draw -> about how many values it takes. Draws with many values are left out.

    draws: of a run on the whole graph. sure: whether equal numbers of a draw are practically impossible for independent seeds. Of
    more than APART draws that one line makes, called from the same lines, the first one stands for all: fewer may come from
    several generators.
    """
    lines: dict[tuple[str, str], list[int]] = {}
    for at, draw in enumerate(draws):
        if draw.state or (sure(draw) and _bits(draw) >= BITS):
            lines.setdefault((draw.law, draw.where), []).append(at)
    groups = [some for places in lines.values() for some in ([places] if len(places) > APART else [[at] for at in places])]
    watched = [places[0] for places in groups]
    if not watched:
        return {}
    seen: dict[int, Counter[bytes]] = {at: Counter() for at in watched}
    for probe in _probes(model, graph, key, max(watched)):
        for at in watched:
            if at < len(probe) and alike(probe[at], draws[at]):
                seen[at][_told(probe[at])] += 1
    found: dict[int, int] = {}
    for places in groups:
        counts = seen[places[0]]
        equal = sum(count * (count - 1) // 2 for count in counts.values())
        if equal:
            total = counts.total()
            found |= dict.fromkeys(places, max(len(counts), round(total * (total - 1) / 2 / equal)))
    return found


def _probes(model: Model, graph: Graph, key: Key, last: int) -> Iterator[list[Draw]]:
    """Yields the draws of runs with other seeds, up to draw number `last`."""
    started = time.process_time()
    for number in range(next((probes for nodes, probes in PROBES if graph.nodes <= nodes), 50)):
        if time.process_time() - started > SECONDS:
            return
        found: list[Draw] = []

        def stops(at: int, draw: Draw, found: list[Draw] = found) -> NDArray[Any] | None:
            found.append(draw)
            if at >= last:
                raise Enough
            return None

        worlds = Worlds.of(graph, np.array([key.fold("probe", number).seed], dtype=np.uint64))
        with recording(stops):
            try:
                apart(model.fit, worlds)
            except Enough:
                pass
            except Exception:  # a user's model may fail with some seeds, with any exception
                continue
        yield found


def _bits(draw: Draw) -> float:
    """The random bits in a draw, at least; of a draw from finitely many values those by which two seeds differ."""
    if draw.chances is not None:
        equal = np.log2((draw.chances**2).sum(-1))
        return -float(equal.sum() * draw.values.size / equal.size)
    return float(OF_A_NUMBER.get(draw.values.dtype.itemsize, 40) * draw.values.size)


def _told(draw: Draw) -> bytes:
    """What two seeds share if they draw the same: the state of the generator, if it is known, else the numbers."""
    return draw.state.to_bytes(8, "little") if draw.state else draw.units.tobytes()


def needed(delta: float, runs: int) -> int:
    """In how many of so many fresh runs something must happen to show that its probability is above `delta`: in one at delta = 0,
    else in at least two, and in so many that the exact binomial test rejects "at most delta" at level CHANCE. This number may
    exceed `runs`.
    """
    return max(2, int(stats.binom.isf(CHANCE, runs, delta)) + 1) if delta else 1


def often(delta: float, shown: Callable[[int], bool]) -> bool:
    """Whether what a run shows for one secret has a probability above `delta`. The claim permits that it happens more seldom.

    The secret was chosen after that run, among K secrets, so further runs decide, at most RUNS. shown: whether the run with a
    number shows it. A delta of at most RARE needs one of them: if each secret does so with a probability of at most delta, the
    probability of seeing this is at most RUNS K delta^2. For a larger delta, see `needed`.
    """
    if delta == 0:
        return True
    count, enough = 0, 1 if delta <= RARE else needed(delta, RUNS)
    for left, number in zip(range(RUNS - 1, -1, -1), FURTHER, strict=True):
        count += shown(number)
        if count >= enough or count + left < enough:
            return count >= enough
    return False
