"""Reads the input and writes the output of a program that `audit run --target` calls. This file needs only NumPy. Import it, or
copy it beside your script.

    from gnnaudit.target import target          # or, copied: from target import target

    with target() as runs:                      # python train.py {worlds} {out}
        for run in runs:                        # one training each, on run.x, run.y, run.edge_index, run.train_mask, …
            run.seed_everything()
            model = train(run.data())           # a PyG Data, if PyTorch Geometric is installed
            run.release(posteriors=model(...))  # probabilities, one row for each node

Each run trains on a graph that lacks some edges, nodes or labels. Absent edges are not in `edge_index`; absent nodes have no
edges and are not in `train_mask`; nodes with absent labels are not in `train_mask`. `release` checks its arguments.
"""

from __future__ import annotations

import os
import random
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator  # noqa: UP035  (copied into old environments)

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUMS = ("aggregates", "inputs")  # (hops, nodes, columns) each
OTHERS = ("transcript", "gradients", "reports", "votes")  # arrays of other kinds of systems; docs/own-class.md describes them


@dataclass(eq=False)
class Run:
    """One training: the graph that it may see, and its seed.

    x: (nodes, columns) float32. y: (nodes,) int64. edge_index: (2, arcs) int64, both directions of every undirected edge.
    train_mask, val_mask, test_mask: (nodes,) bool. val_mask is never empty: if the graph has no validation nodes, it is
    train_mask, or all nodes if that is empty too. classes: the number of classes. seed: an int below 2^64, from which all
    randomness of this run must come.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    edge_index: NDArray[np.int64]
    train_mask: NDArray[np.bool_]
    val_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]
    classes: int
    seed: int
    watch: NDArray[np.int64]  # the nodes whose rows the audit reads
    number: int = 0
    released: dict[str, NDArray[Any]] = field(default_factory=dict)
    seeded: bool | None = None  # whether seed_everything() also seeded PyTorch; None before it is called

    @property
    def nodes(self) -> int:
        return len(self.y)

    def seed_everything(self) -> int:
        """Seeds `random`, `numpy.random` and PyTorch, and returns the seed. Import PyTorch before, or it is not seeded."""
        random.seed(self.seed)
        np.random.seed((self.seed ^ (self.seed >> 32)) & 0xFFFFFFFF)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(self.seed & 0x7FFFFFFFFFFFFFFF)
        self.seeded = torch is not None
        return self.seed

    def generator(self) -> np.random.Generator:
        """A new NumPy generator, seeded with the seed of this run. The generators of all calls draw the same numbers."""
        return np.random.default_rng(self.seed)

    def data(self) -> Any:
        """The graph of this run as a `torch_geometric.data.Data`."""
        import torch  # type: ignore[import-not-found,unused-ignore]
        from torch_geometric.data import Data  # type: ignore[import-not-found,unused-ignore]

        names = ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask")
        found = Data(**{name: torch.from_numpy(getattr(self, name).copy()) for name in names})
        found.num_nodes = self.nodes
        return found

    def release(
        self, posteriors: Any, *, aggregates: Any = None, inputs: Any = None, noise_std: float | None = None, **others: Any
    ) -> None:
        """Stores what an adversary may see of this run: NumPy or PyTorch arrays, over all nodes or over those in `watch`.

        posteriors: (nodes, classes), probabilities. aggregates: (hops, nodes, columns), noisy sums over neighbours. inputs: the
        same shape, the rows that were summed. Both may also be lists with one (nodes, columns) array for each hop. noise_std: the
        standard deviation of the noise on the sums. others: arrays named in OTHERS. Raises ValueError, which names the array, its
        shape and what was expected; also for a second release.
        """
        if self.released:
            raise ValueError(self._says("releases twice; release once, after the training."))
        if self.seeded is False and "torch" in sys.modules:
            raise ValueError(self._says("imported PyTorch after seed_everything(), which did not seed it; import it before."))
        if unknown := [name for name in others if name not in OTHERS]:
            raise ValueError(self._says(f"has no place for '{unknown[0]}'; there are posteriors, {', '.join((*SUMS, *OTHERS))}."))
        found = {"posteriors": self._probabilities(posteriors)}
        for name, value in {"aggregates": aggregates, "inputs": inputs}.items():
            if value is not None:
                found[name] = self._hops(name, value)
        if len(found) == 2:
            raise ValueError(self._says("releases one of 'aggregates' and 'inputs'; the audit of noisy sums needs both."))
        if len(found) == 3 and found[SUMS[0]].shape != found[SUMS[1]].shape:
            shapes = f"'aggregates' has shape {found[SUMS[0]].shape} and 'inputs' {found[SUMS[1]].shape}"
            raise ValueError(self._says(f"{shapes}; a sum of rows has as many columns as a row."))
        found.update({name: _finite(self, name, value) for name, value in others.items()})
        if noise_std is not None:
            std = float(noise_std)
            if not (np.isfinite(std) and std > 0):
                raise ValueError(self._says(f"noise_std={std}: must be a finite number above 0."))
            found["noise_std"] = np.array(std)
        self.released.update(found)

    def _probabilities(self, value: Any) -> NDArray[Any]:
        array = self._rows("posteriors", _finite(self, "posteriors", value), 0, (self.classes,))
        if (array < 0).any():
            raise ValueError(self._says("'posteriors' holds negative numbers; give probabilities, as softmax of the logits."))
        if not (array.sum(-1) > 0).all():
            raise ValueError(self._says("'posteriors' holds a row of zeros; give probabilities that add up to one."))
        return array

    def _hops(self, name: str, value: Any) -> NDArray[Any]:
        several = isinstance(value, (list, tuple))
        array = np.stack([_finite(self, name, v) for v in value]) if several else _finite(self, name, value)
        if array.ndim != 3:
            raise ValueError(self._says(f"'{name}' has shape {array.shape}; expected (hops, {self.nodes}, columns)."))
        return self._rows(name, array, 1, array.shape[2:])

    def _rows(self, name: str, array: NDArray[Any], axis: int, last: tuple[int, ...]) -> NDArray[Any]:
        """The rows of the watched nodes, from an array over all nodes or over the watched nodes."""
        shape = array.shape
        if len(shape) != axis + 2 or shape[axis] not in (self.nodes, len(self.watch)) or shape[axis + 1 :] != last:
            hops = "hops, " * axis
            raise ValueError(
                self._says(f"'{name}' has shape {shape}; expected ({hops}{self.nodes}, {last[0]}), a row for a node.")
            )
        return array.take(self.watch, axis=axis) if shape[axis] == self.nodes else array

    def _says(self, text: str) -> str:
        return f"run {self.number}: {text}"


def _finite(run: Run, name: str, value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ValueError(run._says(f"'{name}' holds {array.dtype}; expected real numbers."))
    array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(run._says(f"'{name}' holds NaN or infinity in {int((~np.isfinite(array)).sum())} places."))
    return array


@contextmanager
def target(worlds: str | None = None, out: str | None = None) -> Iterator[list[Run]]:
    """The trainings to run. Their releases are written when the context ends. Within the context, the working directory is `out`.

    worlds, out: the folders to read and to write, by default the first two arguments of the command. Raises ValueError if a run
    released nothing, or if arrays differ between runs in name or shape. Raises SystemExit without folders and arguments.
    """
    if worlds is None or out is None:
        if len(sys.argv) < 3:
            raise SystemExit(f"usage: {Path(sys.argv[0]).name} WORLDS OUT; `audit run --target` calls it so.")
        worlds, out = sys.argv[1:3]
    runs, folder, before = read(Path(worlds)), Path(out).resolve(), Path.cwd()
    os.chdir(folder)
    try:
        yield runs
        write(runs, folder)
    except FileNotFoundError as fault:
        if isinstance(fault.filename, str) and (before / fault.filename).exists():
            fault.strerror = f"{fault.strerror} in {out}, the working directory of trainings. Give an absolute path"
        raise
    finally:
        os.chdir(before)


def read(folder: Path) -> list[Run]:
    """The runs in a folder with graph.npz and worlds.npz."""
    with np.load(folder / "graph.npz") as file:
        graph = dict(file)
    with np.load(folder / "worlds.npz") as file:
        parts = dict(file)
    nodes, arcs, count = len(graph["y"]), graph["edge_index"].shape[1], len(parts["seeds"])

    def present(name: str, size: int) -> NDArray[np.bool_]:
        if name not in parts:
            return np.ones((count, size), dtype=bool)
        return np.unpackbits(parts[name], axis=1, count=size).astype(bool)

    edges, alive, labelled = present("edge_mask", arcs), present("node_mask", nodes), present("label_mask", nodes)
    classes = int(graph["classes"]) if "classes" in graph else int(graph["y"].max()) + 1
    runs = []
    for k in range(count):
        send, receive = graph["edge_index"]
        there = edges[k] & alive[k][send] & alive[k][receive]
        train = graph["train_mask"] & alive[k] & labelled[k]
        val = graph["val_mask"] if graph["val_mask"].any() else train if train.any() else np.ones(nodes, dtype=bool)
        own = {"x": graph["x"].copy(), "y": graph["y"].copy(), "edge_index": graph["edge_index"][:, there]}
        masks = {"train_mask": train, "val_mask": val.copy(), "test_mask": graph["test_mask"].copy()}
        runs.append(Run(**own, **masks, classes=classes, seed=int(parts["seeds"][k]), watch=parts["watch"], number=k))
    return runs


def write(runs: list[Run], folder: Path) -> None:
    """Writes each released array into NAME.npy, all runs stacked along the first axis. Raises ValueError as `target`."""
    for run in runs:
        if not run.released:
            raise ValueError(run._says("released nothing; call run.release(posteriors=…) in each run."))
        if run.released.keys() != runs[0].released.keys():
            both = f"{sorted(run.released)}, and run 0 {sorted(runs[0].released)}"
            raise ValueError(run._says(f"released {both}; all runs must release the same arrays."))
    for name in runs[0].released if runs else ():
        shapes = {run.released[name].shape for run in runs}
        if len(shapes) > 1:
            raise ValueError(f"'{name}' has the shapes {sorted(shapes)} in different runs; it must have one shape.")
        np.save(folder / f"{name}.npy", np.stack([run.released[name] for run in runs]))
