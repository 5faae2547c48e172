"""Turns a user's function that trains one network into a model for many worlds. The function is called once for each run."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..accounting.arguments import check_type, is_whole, member, shown, words
from ..accounting.claim import Claim, Unit, check_claim
from .base import Release
from .errors import TrainingFailed
from .graph.graph import Graph, Worlds
from .recorder.libraries.of_system import entropy_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

MODES = ("sound", "paper")
LATER: dict[str, Callable[[object], bool]] = {  # kinds of functions whose body does not run when they are called
    "an async function": lambda train: inspect.iscoroutinefunction(train) or inspect.isasyncgenfunction(train),
    "a generator function": inspect.isgeneratorfunction,
}
COPIED = ("x", "y", "edges", "train", "val", "test")  # the arrays of a graph
NODE_AXIS = {"posteriors": 0, "aggregates": 1, "inputs": 1}


def check_train(train: object) -> None:
    """Raises ValueError unless it is a function that can be called with a graph and a seed."""
    way = 'a function train(graph, seed) that returns the released arrays, such as {"posteriors": array}.'
    if isinstance(train, type) or not callable(train):
        raise ValueError(f"train={shown(train)}: must be {way}")
    for kind, test in LATER.items():
        if test(train) or test(type(train).__call__):
            raise ValueError(f"train={shown(train)}: is {kind}, which returns before it has trained. Write {way}")
    if not takes(train, 2):
        raise ValueError(f"train{inspect.signature(train)}: must take a graph and a seed. Write {way}")


def takes(method: Any, count: int) -> bool:
    """Whether a function can be called with `count` arguments without names. Compiled functions that do not state their arguments
    pass.
    """
    try:
        inspect.signature(method).bind(*[None] * count)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def copied(graph: Graph) -> Graph:
    """The graph with arrays of its own: a function that changes them in place changes no other run and no measurement."""
    return dataclasses.replace(graph, **{name: getattr(graph, name).copy() for name in COPIED})


def same_array(one: Any, other: Any) -> bool:
    """Whether two arrays, both dense or both sparse, hold the same numbers."""
    if hasattr(one, "indptr"):
        return all(same_array(getattr(one, part), getattr(other, part)) for part in ("data", "indices", "indptr"))
    return np.array_equal(one, other, equal_nan=True)


@dataclass(frozen=True)
class Decorated:
    """Where a function stands that a decorator has made a `Looped`."""

    module: str
    name: str


def decorated(module: str, name: str) -> Any:
    """The function of the `Looped` with this name in a module; None if the name does not belong to a `Looped`."""
    found: Any = sys.modules.get(module) or (importlib.import_module(module) if module else None)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found.train if isinstance(found, Looped) else None


@dataclass(frozen=True)
class Looped:
    """A model that calls train(graph, seed) for each run. The tool does not change the function's noise. It is also a decorator,
    with or without arguments: `@Looped` or `@Looped(unit="node")`.

    train: returns named arrays, such as {"posteriors": (nodes, classes) natural logarithms}. "aggregates" and "inputs" are (hops,
    nodes, dim). An array of another name, such as "weights", may have any shape; if its first axis counts the nodes, it has one
    row for each node. Its `graph` is the graph of one run: absent edges are gone, and absent nodes have no edges
    and are in no training set. The arrays of `graph` are copies, which the function may change. Its `seed` is an int below 2^64,
    from which the randomness comes; noise may also come from the operating system.
    unit: the unit of the claim, or its value, such as "node". releases: the names of the arrays. events: the ledger,
    if known; without a ledger every accountant declines. max_degree: the public bound on degrees on which the ledger relies; 0
    means no bound. name: by default the function's own, or "looped" if it has none. claim: what the function claims, for commands
    that name no epsilon, delta or unit themselves; its unit is then the default of `unit`.

    Raises ValueError for arguments of other types. `fit` raises ValueError for a result of another shape, for an array whose
    shape is not the same in every run, and for NaN or infinity.
    """

    train: Callable[[Graph, int], Mapping[str, Any]]
    unit: Unit = Unit.UNDIRECTED_EDGE
    releases: tuple[str, ...] = ("posteriors",)
    events: DpEvent | None = None
    name: str = ""
    mode: str = "sound"
    public: tuple[str, ...] = ("The author of the function does not say what is public (argument `public` of `Looped`).",)
    max_degree: int = 0
    claim: Claim | None = field(default=None, compare=False)
    by_call: ClassVar[bool] = True  # the arguments of this call declare all that a function can declare

    def __new__(cls, *train: object, **options: Any) -> Any:
        """With options alone, a function that makes the model from `train`, for use as a decorator."""
        return partial(cls, **options) if options and not train and "train" not in options else super().__new__(cls)

    def __post_init__(self) -> None:
        check_train(self.train)
        if self.claim is not None:
            check_claim(self.claim)
            if self.unit is Unit.UNDIRECTED_EDGE:
                object.__setattr__(self, "unit", self.claim.unit)
            elif member("unit", self.unit, Unit) is not self.claim.unit:
                raise ValueError(f"claim is about {self.claim.unit}, and unit={self.unit}: must be the same. Leave `unit` out.")
        object.__setattr__(self, "max_degree", self.max_degree or type(self).max_degree)  # a subclass may set it for all
        if not (is_whole(self.max_degree) and self.max_degree >= 0):
            raise ValueError(f"max_degree={shown(self.max_degree)}: must be a whole number of at least 0; 0 means no bound.")
        check_type("name", self.name, str, 'a word for the tables, or "" for the name of the function.')
        object.__setattr__(self, "unit", member("unit", self.unit, Unit))
        object.__setattr__(self, "releases", words("releases", self.releases, '("posteriors",)'))
        object.__setattr__(self, "public", words("public", self.public, '("The features are public.",)'))
        if not self.releases:
            raise ValueError('releases=(): must name the arrays that train returns, such as ("posteriors",).')
        if self.mode not in MODES:
            raise ValueError(f"mode={shown(self.mode)}: must be one of {', '.join(MODES)}.")
        if self.events is not None:
            from ..accounting.events.well_formed import check_ledger

            check_ledger(self.events, "events")
        own = getattr(self.train, "__name__", "")
        object.__setattr__(
            self, "name", self.name or (own.strip("_").replace("_", "-") if own.isidentifier() else "") or "looped"
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields. A function whose name in its module is now that of the decorated model is replaced by this name, because a
        pickle finds functions by name.
        """
        state, where = dict(self.__dict__), (getattr(self.train, "__module__", ""), getattr(self.train, "__qualname__", ""))
        return state | {"train": Decorated(*where)} if decorated(*where) is self.train else state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        train = state["train"]
        found = decorated(train.module, train.name) if isinstance(train, Decorated) else train
        self.__dict__.update(state, train=found)

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import UnsupportedDpEvent

        return UnsupportedDpEvent() if self.events is None else self.events

    def with_noise(self, sigma: float) -> Self:
        return self

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        """Bytes of two copies of the graph and of the posteriors. The memory that the function needs is unknown."""
        features = graph.x.nnz * 2 if hasattr(graph.x, "nnz") else graph.x.size
        return int(8 * features + 32 * graph.edges.shape[1] + 16 * graph.nodes * graph.classes)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        runs = [self._one(worlds.removed(run)) for run in range(worlds.runs)]
        for name in self.releases:
            shapes = {run[name].shape for run in runs}
            if len(shapes) > 1:
                raise ValueError(
                    f"{self.name}: '{name}' has shapes {shown(sorted(shapes))}; the shape must be the same in every run."
                )
        return Release({name: np.stack([run[name] for run in runs]) for name in self.releases}, worlds.watch)

    def _one(self, alone: Worlds) -> dict[str, NDArray[np.float32]]:
        graph, seed = alone.graph, int(alone.seeds[0])
        with entropy_of(seed):
            arrays = self.train(copied(graph), seed)
        if not isinstance(arrays, Mapping):
            expected = ", ".join(f'"{name}": array' for name in self.releases)
            raise TrainingFailed(f"{self.name}: train returned {type(arrays).__name__}; expected {{{expected}}}.")
        watched, more = {}, [str(name) for name in arrays if name not in self.releases]
        for name in self.releases:
            if name not in arrays:
                way = "Name in releases what it returns."
                raise TrainingFailed(f"{self.name}: train returned {shown([*arrays])}, not '{name}'. {way}")
        if more:
            way = f"Write releases={(*self.releases, *more)} to audit it, or do not return it"
            raise TrainingFailed(f"{self.name}: train returned '{more[0]}', which releases={self.releases} does not name. {way}.")
        for name in self.releases:
            array, axis = self._real(name, arrays[name]), NODE_AXIS.get(name, 0)
            by_node = array.ndim > axis and array.shape[axis] == graph.nodes
            if name in NODE_AXIS and not by_node:
                raise TrainingFailed(
                    f"{self.name}: '{name}' has shape {array.shape}; axis {axis} must count {graph.nodes} nodes."
                )
            if not np.isfinite(array).all():
                raise TrainingFailed(f"{self.name}: '{name}' holds NaN or infinity. Return finite logarithms.")
            watched[name] = array.take(alone.watch, axis=axis) if by_node else array
        return watched

    def _real(self, name: str, values: Any) -> NDArray[np.float32]:
        """The values as an array. Raises TrainingFailed unless they are real numbers."""
        try:
            array = np.asarray(values)
        except (ValueError, TypeError, RuntimeError) as fault:  # rows of unequal length, a tensor that requires a gradient
            raise TrainingFailed(f"{self.name}: '{name}' is no array of numbers ({fault}).") from None
        if array.dtype.kind not in "biuf":
            found = f"has type {array.dtype}; expected real numbers"
            if hasattr(values, "toarray"):
                found = f"is a {type(values).__name__}; expected an array, such as its `toarray()`"
            raise TrainingFailed(f"{self.name}: '{name}' {found}.")
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinity, which `_one` refuses
            return array.astype(np.float32)
