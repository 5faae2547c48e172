"""A program of the user's own as a model: it reads worlds from a folder and writes posteriors to another."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from ...accounting.claim import Unit
from ...models.base import Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ...models.graph.graph import Graph, Worlds


LAST_BYTES = 1000  # bytes of a program's output that are read for its last line


OPTIONAL = ("aggregates", "inputs", "transcript", "gradients", "reports", "votes")


@dataclass(frozen=True)
class External:
    """A user's own program: it reads worlds from one folder and writes posteriors to another. Its code is never imported.

    command: contains {worlds} and {out}, which are replaced by the two folders. The program chooses its own noise, so it is
    not calibrated. Its mechanisms are unknown, so every accountant declines. unit: whom the plan claims that it protects.
    Raises ValueError if this machine has no such program.
    """

    command: str
    unit: Unit = Unit.UNDIRECTED_EDGE
    name: str = "target"
    mode: str = "sound"
    releases: tuple[str, ...] = ("posteriors",)
    public: tuple[str, ...] = ("everything that the program assumes to be public",)

    def __post_init__(self) -> None:
        for word in ("{worlds}", "{out}"):
            if word not in self.command:
                raise ValueError(f'target="{self.command}": must contain {word}, which is replaced by a folder.')
        try:
            program = shlex.split(self.command)[0]
        except ValueError as fault:
            raise ValueError(f'target="{self.command}": cannot be split into words ({fault}).') from None
        if shutil.which(program) is None:
            raise ValueError(f"target: {program} cannot be started: no such program, or it is not executable. Check its path.")

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import UnsupportedDpEvent

        return UnsupportedDpEvent()

    def with_noise(self, sigma: float) -> Self:
        return self

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        """A constant (bytes), because the program manages its own memory; it limits a chunk to few runs."""
        return 4 << 20

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Raises ValueError with the last line of the program's output, or with the file and the expected shape."""
        with tempfile.TemporaryDirectory(prefix="audit-") as folder:
            inputs, out = Path(folder) / "worlds", Path(folder) / "out"
            inputs.mkdir()
            out.mkdir()
            write_worlds(worlds, inputs)
            words = [w.replace("{worlds}", str(inputs)).replace("{out}", str(out)) for w in shlex.split(self.command)]
            with open(Path(folder) / "stdout", "w+b") as output, open(Path(folder) / "stderr", "w+b") as errors:
                try:
                    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, check=False)
                except OSError as fault:
                    raise ValueError(f"target: {words[0]} cannot be started ({fault.strerror}).") from None
                if done.returncode != 0:
                    last = last_line(errors) or last_line(output) or "it printed nothing"
                    raise ValueError(f"target: {words[0]} ended with exit code {done.returncode}: {last}")
            return read_release(out, worlds)


def last_line(output: IO[bytes]) -> str:
    """The last line that is not blank, without unprintable characters. Reads at most LAST_BYTES bytes."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - LAST_BYTES))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return "".join(c if c.isprintable() else " " for c in lines[-1]) if lines else ""


def write_worlds(worlds: Worlds, folder: Path) -> None:
    """Writes graph.npz and worlds.npz, in the format of docs/own-model.md."""
    g = worlds.graph
    x = g.x.toarray() if hasattr(g.x, "toarray") else g.x
    masks: dict[str, Any] = {"train_mask": g.train, "val_mask": g.val, "test_mask": g.test}
    np.savez(folder / "graph.npz", x=x, y=g.y, edge_index=g.arcs, **masks)
    parts: dict[str, Any] = {"seeds": worlds.seeds, "watch": worlds.watch}
    if worlds.edges is not None or worlds.nodes is not None:
        present = worlds.edge_present()
        parts["edge_mask"] = np.packbits(present if g.directed else np.tile(present, 2), axis=1)
    if worlds.nodes is not None:
        parts["node_mask"] = np.packbits(worlds.nodes.dense(g.nodes), axis=1)
    if worlds.labels is not None:
        parts["label_mask"] = np.packbits(worlds.labels.dense(g.nodes), axis=1)
    np.savez(folder / "worlds.npz", **parts)


def read_release(out: Path, worlds: Worlds) -> Release:
    """The program's output as a release. Raises ValueError with the file and the expected shape."""
    shape = (worlds.runs, worlds.watch.size, worlds.graph.classes)
    posteriors = _array(out / "posteriors.npy", shape)
    if (posteriors < 0).any():
        raise ValueError("posteriors.npy: holds negative numbers; expected probabilities.")
    with np.errstate(divide="ignore"):
        total = posteriors.sum(-1, keepdims=True)
        if not (total > 0).all():
            raise ValueError("posteriors.npy: holds a row of zeros; expected probabilities that add up to one.")
        logs = np.log(np.maximum(posteriors / total, np.finfo(np.float32).tiny)).astype(np.float32)
    arrays = {"posteriors": logs}
    for name in OPTIONAL:
        if (out / f"{name}.npy").exists():
            arrays[name] = _array(out / f"{name}.npy", (worlds.runs, ...))
    return Release(arrays, worlds.watch)


def _array(path: Path, shape: tuple[Any, ...]) -> np.ndarray:
    expected = str(shape).replace("Ellipsis", "…")
    if not path.is_file():  # a named pipe would block
        raise ValueError(f"{path.name}: missing; expected shape {expected}.")
    try:
        array = np.load(path, allow_pickle=False)
    except Exception:  # a damaged file makes its reader raise almost anything
        array = None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path.name}: not a NumPy array without objects; expected shape {expected}.")
    fits = array.shape[:1] == shape[:1] if Ellipsis in shape else array.shape == shape
    if not fits or array.dtype.kind not in "fiu":
        raise ValueError(f"{path.name}: shape {array.shape} of {array.dtype}; expected real numbers of shape {expected}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{path.name}: holds NaN or infinity in {int((~np.isfinite(array)).sum())} places.")
    return array
