"""Trains a model and checks what it returns. An exception in a user's own code becomes a ValueError of one line."""

import dataclasses
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from .base import Model, Release
from .errors import Refused, TrainingFailed, arose_there, is_refusal, one_line, place, raised
from .graph.graph import Worlds
from .looped import COPIED, Looped, copied, same_array

PACKAGE = __name__.rpartition(".models.")[0]
SPARSE = "On this graph, graph.x is sparse (a scipy csr_array); graph.x.toarray() is a dense array"
TOLERANCE = 1e-3  # the probabilities of a row may sum to a number that differs from 1 by this much


def fitted(model: Model, worlds: Worlds, device: str = "cpu") -> Release:
    """`model.fit(worlds, device)`. If the model is a user's own, errors are translated and the result is checked.

    Raises ValueError for an exception in the user's code, with file and line, and for a result that is no release of these
    worlds. An exception that means lack of memory is raised unchanged.
    """
    if not of_user(model):
        return model.fit(worlds, device)
    try:
        release, changed = apart(model.fit, worlds, device)
    except Exception as fault:
        if out_of_memory(fault):
            raise
        ours = str(fault).startswith(f"{model.name}: ")  # this package's own sentence about the result, from `Looped`
        raise ValueError(str(fault)) if ours else _translated(fault, f"{model.name}: fit") from fault
    if reason := changed or not_a_release(release, model.releases, worlds):
        raise ValueError(f"{model.name}: {reason}")
    return release


def apart(method: Callable[[Worlds, str], Any], worlds: Worlds, device: str = "cpu") -> tuple[Any, str]:
    """The result of a method that trains, such as `model.fit`, and a sentence on the array of the graph that it changed in place;
    "" if it changed none.

    A method of a user's own gets a graph with copies of the arrays, so that other calls keep the data. The runs of one call share
    them. Arrays that are mapped from files cannot be changed. Raises RuntimeError if the method raises SystemExit, as a script
    does that ends: a model may refuse a graph so, and only an Exception leaves the other trainings.
    """
    own = worlds.graph
    if not (getattr(method, "__module__", "").startswith(f"{PACKAGE}.") or isinstance(own.edges, np.memmap)):
        own = copied(own)
    try:
        result = method(dataclasses.replace(worlds, graph=own), device)
    except (TypeError, ValueError, AttributeError) as fault:
        if sp.issparse(own.x) and not is_refusal(fault):
            fault.add_note(SPARSE)
        raise
    except SystemExit as end:
        raise RuntimeError(f"SystemExit: {one_line(end)}").with_traceback(end.__traceback__) from None
    if own is worlds.graph:
        return result, ""
    names = [name for name in COPIED if not same_array(getattr(own, name), getattr(worlds.graph, name))]
    names += [name for name in ("arcs",) if name in vars(own) and not same_array(own.arcs, worlds.graph.arcs)]
    way = f"Other runs read the same array. Change a copy of it, such as graph.{names[0]}.copy()" if names else ""
    return result, f"{method.__name__} changed graph.{names[0]} in place. {way}" if names else ""


@contextmanager
def blamed(model: Model) -> Iterator[None]:
    """Within this context, an error that a method of a user's own model raises becomes a TrainingFailed of one line, with file
    and line, or a Refused if the method refuses a graph. Lack of memory and errors of this package stay as they are.
    """
    try:
        yield
    except (Exception, SystemExit) as fault:
        if isinstance(fault, OSError) or out_of_memory(fault) or not (of_user(model) and place(fault)):
            raise
        if isinstance(fault, ValueError) and not arose_there(fault):
            raise
        raise _translated(fault, model.name) from fault


def _translated(fault: BaseException, where: str) -> ValueError:
    """An error in a user's own code as an error of one line, with file and line."""
    return (Refused if is_refusal(fault) else TrainingFailed)(f"{where}: {raised(fault)}")


def of_user(model: Model) -> bool:
    """Whether the code of the model is a user's own."""
    return isinstance(model, Looped) or not type(model).__module__.startswith(f"{PACKAGE}.")


def not_a_release(release: object, names: Collection[str], worlds: Worlds) -> str | None:
    """Why an object is not the release of these worlds with the arrays `names`; None if it is."""
    if not isinstance(release, Release):
        return f"fit returned {type(release).__name__}; expected a gnnaudit.Release"
    if set(release.arrays) != set(names):
        return f"declares {sorted(names)} and releases {sorted(release.arrays)}"
    for name, array in release.arrays.items():
        if array.dtype.kind not in "fiub":
            return f"'{name}' is no NumPy array of numbers"
        if len(array) != worlds.runs:
            return f"'{name}' has shape {array.shape} for {worlds.runs} runs; the run axis comes first"
        if not np.isfinite(array).all():
            return f"'{name}' holds NaN or infinity"
    if "posteriors" not in release:
        return None
    posteriors, expected = release["posteriors"], (worlds.runs, release.watch.size, worlds.graph.classes)
    if posteriors.shape != expected:
        return f"'posteriors' has shape {posteriors.shape}; expected {expected}"
    if not np.allclose(np.exp(posteriors.astype(np.float64)).sum(-1), 1, atol=TOLERANCE):
        return "'posteriors' are not logarithms of probabilities: their exponentials do not add up to one"
    return None


def out_of_memory(fault: BaseException) -> bool:
    """Whether an exception means lack of memory: MemoryError in NumPy, a RuntimeError in torch, on CPU or GPU."""
    if isinstance(fault, MemoryError):
        return True
    return type(fault).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator: can't allocate memory" in str(fault)
