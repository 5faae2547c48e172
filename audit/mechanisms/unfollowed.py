"""Drawn numbers that may be noise and are in no recorded mechanism."""

from collections import Counter
from collections.abc import Iterable

from ...models.recorder import Draw
from ...models.recorder.draws.draw import SHIFTED
from ...models.recorder.mechanisms.mechanism import REPORT
from ...reports.rounding import several
from ..recorded.study import History

MADE = {  # laws of numbers from which programs compute noise and coins -> what to write instead
    "uniform": "For samples, draw one number for every node in each step and compare all of them with one rate "
    "(`rng.random(nodes) < rate`). For noise, call a function of its law, such as laplace(). For coins that choose between "
    "values, write `np.where(random(n) < p, values, others)` and no `if`. For one value with probabilities that depend on data, "
    "call `choice(values, p=probabilities)`",
    "exponential": "For Laplace noise as the difference of two exponential numbers, compute the difference before you add it to "
    "data, as in `counts + (a - b)`, or call laplace(). For other noise, call a function of its law. For the exponential "
    "mechanism, call `choice(values, p=probabilities)`",
}
WHOLE = ("geometric", "poisson", "dlaplace", "skellam")  # laws of noise that are whole numbers, in NumPy and SciPy
OF_WHOLE = (
    "; it follows the difference of two arrays `rng.geometric(p, shape)` to whole numbers of this shape, and other whole numbers "
    "only into a released number or array (release the sum itself, before it is rounded, clipped or divided)"
)
OF_PACKAGE = (
    "noise, samples or coins, and the recorder did not follow them to the data through this installed package. Draw them by a "
    "call of NumPy, SciPy or PyTorch of your own, or see what the audit distinguisher finds (--audits distinguisher)"
)
OF_NUMBERS = (
    "; add each number to its value before anything else happens to it (float(), max() and a list or array that it is written "
    "into lose it), or draw noise as arrays"
)


def not_followed(draws: Iterable[Draw]) -> str:
    """Which of these draws may be noise that the recorder did not follow to the data, and what to write instead; "" if none."""
    some = [d for d in draws if not d.weights]
    noise = [d for d in some if d.law in (*SHIFTED, *WHOLE)] or [d for d in some if d.law in MADE]
    if not noise:
        return ""
    (line, law), count = Counter((d.line, d.law) for d in noise).most_common(1)[0]
    drawn = f"{law} random numbers of {several(count, 'draw')} at {line} may be"
    if "/" in line:  # only files of installed packages are named by a path
        return f"{drawn} {OF_PACKAGE}"
    if law in MADE:
        return f"{drawn} samples, noise or coins, and the recorder did not follow them to the data. {MADE[law]}"
    alone = all(d.values.size == 1 for d in noise if (d.line, d.law) == (line, law))
    way = OF_WHOLE if law in WHOLE else OF_NUMBERS if alone else ""
    return f"{drawn} noise that the recorder did not follow to the value to which it is added{way}"


def strayed(first: History, of_any_law: bool = False) -> list[int]:
    """The positions of all draws that may be noise and have numbers that are in no recorded mechanism. of_any_law: whether draws
    count whose law is seldom that of noise, such as uniform numbers.
    """
    mechanism: dict[int, int] = {}
    for m in first.mechanisms:
        for draw in (m.draw, *m.beside):
            mechanism[id(draw)] = mechanism.get(id(draw), 0) + (draw.values.size if m.law == REPORT else int(m.own.sum()))
    return [
        at
        for at, draw in enumerate(first.play.draws)
        if (of_any_law or draw.law in SHIFTED)
        and not draw.weights
        and at not in first.study.constant
        and mechanism.get(id(draw), 0) < draw.values.size
    ]
