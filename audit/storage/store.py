"""Finished chunks of runs on disk: named by their content, written aside and renamed, resumed, never trusted blindly."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import models
from ...models.base import Release
from ...models.kernels import compiled
from ..games.game import Game, Seen

if TYPE_CHECKING:
    from ...models.base import Model
    from ...models.graph.graph import Graph, Worlds

Task = tuple["Model", "Worlds", str, str]
SOURCE_SUFFIXES = {".py", ".c", ".h"}
CHUNK_BYTES = 24 << 20  # working memory of one chunk; larger ones fall out of the caches and lose more when killed


@functools.cache
def code_version() -> str:
    """A hash of the source of models/, its sub-packages included: parts made by other code are not reused."""
    return source_digest(Path(models.__file__).parent)


def source_digest(folder: Path) -> str:
    """A hash of the names and contents of all Python and C sources in a folder, at every depth."""
    h = hashlib.blake2b(digest_size=8)
    folder = folder.resolve()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
        h.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return h.hexdigest()


def own_code(model: Model) -> list[str]:
    """Hashes of the files that a user's own model comes from: its module, those of its functions, what its command names.

    What those files import is not seen.
    """
    fields: list[Any] = [getattr(model, f.name) for f in dataclasses.fields(model)] if dataclasses.is_dataclass(model) else []
    modules = {getattr(part, "__module__", "") for part in (type(model), *fields) if callable(part)}
    files = {getattr(sys.modules.get(m), "__file__", None) for m in modules if not m.startswith(f"{__package__.split('.')[0]}.")}
    files |= set(shlex.split(getattr(model, "command", "")))
    found = [Path(f).read_bytes() for f in sorted(filter(None, files)) if Path(f).is_file()]
    return [hashlib.blake2b(text, digest_size=8).hexdigest() for text in found]


def identity(model: Model, game: Game) -> str:
    """Names the releases of `model` in `game`: recipe, randomness, units, graph, code, and by which way it is trained."""
    fields = dataclasses.asdict(model) if dataclasses.is_dataclass(model) else getattr(model, "__dict__", {})
    code = [code_version(), *own_code(model), compiled.path(), compiled.instruction_set()]
    text = json.dumps([type(model).__name__, fields, game.identity, code], sort_keys=True, default=_named)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _named(value: Any) -> str:
    """A function by its name and not by its place in memory, an array by all its bytes; anything else as it prints."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes(), digest_size=12).hexdigest()}"
    return str(getattr(value, "__qualname__", value))


def save(release: Release, path: Path) -> None:
    """Writes aside and renames, so that a part is either whole or absent. Raises OSError that names the part."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(aside, "wb") as f:
            parts: dict[str, Any] = {f"array:{n}": a for n, a in release.arrays.items()}
            np.savez(f, **parts, watch=release.watch, public=np.array(json.dumps(dict(release.public))))
        os.replace(aside, path)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror or str(fault), str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def load(path: Path) -> Release | None:
    """A stored part, or None where it is absent or damaged (every member of the file carries a checksum)."""
    try:
        with np.load(path, allow_pickle=False) as f:
            members = {n: f[n] for n in f.files}  # all of them: only a member that is read is checked
        watch, public = members.pop("watch"), json.loads(str(members.pop("public")))
        return Release({n.removeprefix("array:"): a for n, a in members.items()}, watch, public)
    except Exception:  # a damaged file makes its reader raise almost anything
        return None


def fit(model: Model, worlds: Worlds, device: str = "cpu") -> Release:
    """Trains one chunk, in halves where the memory does not suffice. Raises MemoryError where a single run is too much."""
    try:
        return model.fit(worlds, device)
    except (MemoryError, RuntimeError) as fault:
        if not out_of_memory(fault):
            raise
    half = len(worlds) // 2  # out of the except clause, whose traceback holds on to the arrays
    if not half:
        raise MemoryError(
            f"{model.name}: there is not enough memory left for a single run on {worlds.graph.name}. "
            "Use fewer --jobs, a smaller graph or a larger machine"
        )
    return Release.join([fit(model, worlds[:half], device), fit(model, worlds[half:], device)])


def out_of_memory(fault: Exception) -> bool:
    """NumPy raises MemoryError; torch a RuntimeError of its own on a GPU, and one without a name on the CPU."""
    if isinstance(fault, MemoryError):
        return True
    return type(fault).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator: can't allocate memory" in str(fault)


def fit_part(task: Task) -> Path:
    """Trains one chunk and stores it. Runs in this process or in a worker's."""
    model, worlds, where, device = task
    path = Path(where)
    save(fit(model, worlds, device), path)
    return path


def in_process(tasks: Iterable[Task]) -> Iterator[Path]:
    """The simplest executor: one chunk after another, here."""
    return map(fit_part, tasks)


@dataclass(frozen=True)
class Store:
    """Where parts lie, how much memory a chunk may take, and who computes the missing ones."""

    root: Path
    memory: int = 8 << 30  # bytes of working memory a chunk may take, beside the graph
    device: str = "cpu"
    execute: Callable[[Iterable[Task]], Iterator[Path]] = in_process
    fresh: bool = False  # ignore what is stored

    def chunk(self, model: Model, graph: Graph) -> int:
        """Runs in one chunk: what the memory allows, small enough that little is lost and workers share the work.

        Raises ValueError where the memory does not allow a single run.
        """
        needed = max(1, model.footprint(graph))
        if needed > self.memory:
            raise ValueError(
                f"memory={self.memory >> 20}MiB: one run of {model.name} on {graph.name} needs about {-(-needed >> 20)}MiB. "
                f"Use --memory {-(-needed >> 20)}MiB or more, or a smaller graph."
            )
        return max(1, min(1024, CHUNK_BYTES // needed))

    def fit(self, model: Model, game: Game, runs: int) -> Seen:
        """Plays `runs` rounds; chunks that are already stored and whole are read, the others computed."""
        parts = list(self.parts(model, game, runs))
        bits = np.concatenate([part.bits for part in parts])
        return Seen(Release.join([part.release for part in parts]), parts[0].challenge, bits)

    def parts(self, model: Model, game: Game, runs: int) -> Iterator[Seen]:
        """The same chunk by chunk, for those who need not hold what all rounds released."""
        rounds = game.rounds(runs)
        folder = self.root / model.name / identity(model, game)
        size = self.chunk(model, game.graph)
        starts = range(0, runs, size)
        paths = {s: folder / f"{s:06d}.npz" for s in starts}
        missing = {s: None for s in starts if self.fresh or not _whole(paths[s], min(size, runs - s))}
        tasks = ((model, rounds.worlds[s : s + size], str(paths[s]), self.device) for s in missing)
        made = self.execute(tasks)
        for s in starts:
            path = next(made) if s in missing else paths[s]
            release = load(path)
            if release is None:
                raise OSError(f"{path}: the part that was just written cannot be read back; is the disk full?")
            yield Seen(release, rounds.challenge, rounds.bits[s : s + size])


def _whole(path: Path, runs: int) -> bool:
    """Whether a part with so many runs is stored and undamaged."""
    part = load(path)
    return part is not None and len(part) == runs
