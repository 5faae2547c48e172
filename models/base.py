"""The protocol of a model, and what an adversary may see of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..accounting.arguments import check_type, shown
from ..accounting.claim import Unit
from .graph.graph import Graph, Worlds

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, eq=False)
class Release:
    """All that an adversary may see of K runs: named arrays, run axis first. The ledger must charge for each of them.

    watch: (w,) int64, the node ids of the released rows. public: numbers that the adversary knows because the mechanism is
    public, such as `noise_std`. Arrays:
    posteriors: (K, w, classes) float32, natural LOGARITHMS of the class probabilities, so that neither tail saturates.
    aggregates: (K, hops, w, dim) float32, the noisy sums over neighbours.
    inputs: (K, hops, w, dim) float32, the rows that were summed. They are public, or a function of earlier aggregates.
    transcript, gradients, reports, votes, weights: documented by the models that release them.

    Raises ValueError for values of other types, and for arrays with different numbers of runs.
    """

    arrays: Mapping[str, NDArray[Any]]
    watch: NDArray[np.int64]
    public: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_type("arrays", self.arrays, Mapping, 'named arrays, such as {"posteriors": array}.')
        check_type("public", self.public, Mapping, 'named numbers, such as {"noise_std": 1.0}.')
        for name, array in self.arrays.items():
            check_type("arrays", name, str, 'named by words, such as {"posteriors": array}.')
            check_type(name, array, np.ndarray, "a NumPy array. Write array.numpy() for a tensor.")
        runs = {name: array.shape[:1] for name, array in self.arrays.items()}
        if len(set(runs.values())) > 1 or () in runs.values():
            raise ValueError(f"arrays begin with {shown(runs)}: the first axis must count the runs in each of them.")
        if not isinstance(self.watch, np.ndarray) or self.watch.ndim != 1 or self.watch.dtype.kind not in "iu":
            raise ValueError(f"watch={shown(self.watch)}: must be node ids, (w,) int64, such as worlds.watch.")

    @property
    def runs(self) -> int:
        """The number of runs; 0 for a release without arrays."""
        return next((len(array) for array in self.arrays.values()), 0)

    def __len__(self) -> int:
        return self.runs

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def part(self, runs: slice | NDArray[Any]) -> Release:
        """The same release for some of the runs: a slice, or an array of indices or bool."""
        return dataclasses.replace(self, arrays={n: a[runs] for n, a in self.arrays.items()})

    def only(self, names: Iterable[str]) -> Release:
        """The release for an adversary who sees only the arrays `names`."""
        wanted = set(names)
        return dataclasses.replace(self, arrays={n: a for n, a in self.arrays.items() if n in wanted})

    @staticmethod
    def join(parts: list[Release]) -> Release:
        """Joins consecutive chunks of runs. `watch` and `public` are those of the first chunk."""
        names = parts[0].arrays
        return dataclasses.replace(parts[0], arrays={n: np.concatenate([p.arrays[n] for p in parts]) for n in names})


@runtime_checkable
class Model(Protocol):
    """A recipe whose noise is already set: a frozen dataclass whose fields are numbers and strings.

    A model never receives epsilon. `fit` reads nothing but the worlds, and all randomness of run k comes from worlds.seeds[k]
    (see random/streams.py). The ledger depends on the recipe alone, never on the graph that the model is trained on.
    """

    @property
    def name(self) -> str: ...  # "gap", "progap", …

    @property
    def mode(self) -> str: ...  # "paper" (what was published) or "sound" (what can be proved)

    @property
    def unit(self) -> Unit: ...  # the unit of which the ledger states the cost

    @property
    def releases(self) -> tuple[str, ...]: ...  # names of the arrays that `fit` returns

    @property
    def public(self) -> tuple[str, ...]: ...  # what is assumed to be public, one sentence each

    @property
    def ledger(self) -> DpEvent: ...  # the mechanisms that `fit` runs; NonPrivateDpEvent without noise

    def with_noise(self, sigma: float) -> Self:
        """The same recipe at another noise multiplier: noise std / sensitivity, a Python float. 0 means no privacy."""
        ...

    def printed(self, delta: float) -> float | None:
        """The epsilon that the paper's own accounting prints for this recipe (mode "paper"); None in mode "sound"."""
        ...

    def footprint(self, graph: Graph) -> int:
        """Bytes of working memory that one run needs. The executor chooses the size of its chunks by this number."""
        ...

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains every run and returns the arrays that an adversary may see."""
        ...
