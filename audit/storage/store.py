"""Stores finished chunks of runs on disk. A chunk is named by a hash of its inputs, written atomically, and checked when read."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ... import models
from ...accounting.cache import sources
from ...accounting.own_folder import open_own
from ...models.base import Model, Release
from ...models.fitted import fitted, out_of_memory
from ...models.graph.graph import Graph, Worlds
from ...models.kernels.compiler import compiled
from ..games.game import Game, Seen

Task = tuple["Model", "Worlds", str, str, tuple[str, ...]]  # the last are the arrays to keep, none for all
CHUNK_BYTES = 24 << 20  # bytes of working memory for one chunk; larger chunks exceed the caches, and lose more work if killed


@functools.cache
def code_version() -> str:
    """A hash of the source of models/. Paths of parts contain it, so that no part of other code is used again."""
    return sources(Path(models.__file__).parent)


def own_code(model: Model) -> list[str]:
    """Hashes of the files of a user's own model: its module, the modules of its functions, and files named in its command.

    Files that these files import are not included.
    """
    fields: list[Any] = [getattr(model, f.name) for f in dataclasses.fields(model)] if dataclasses.is_dataclass(model) else []
    modules = {getattr(part, "__module__", "") for part in (type(model), *fields) if callable(part)}
    files = {getattr(sys.modules.get(m), "__file__", None) for m in modules if not m.startswith(f"{__package__.split('.')[0]}.")}
    files |= set(shlex.split(getattr(model, "command", "")))
    found = [Path(f).read_bytes() for f in sorted(filter(None, files)) if Path(f).is_file()]
    return [hashlib.blake2b(text, digest_size=8).hexdigest() for text in found]


def identity(model: Model, game: Game, kept: tuple[str, ...] = ()) -> str:
    """A hash of everything that determines the stored releases of `model` in `game`: fields, seeds, units, graph, code,
    arithmetic, and the arrays that are kept if others are not.
    """
    fields = dataclasses.asdict(model) if dataclasses.is_dataclass(model) else getattr(model, "__dict__", {})
    if dataclasses.is_dataclass(model):  # fields with compare=False are left out, because they do not change the release
        fields = {f.name: fields[f.name] for f in dataclasses.fields(model) if f.compare}
    code = [code_version(), *own_code(model), compiled.path(), compiled.instruction_set()]
    if isinstance(game.graph.x, np.memmap):
        code.append("mapped")  # torch then trains stages that compiled loops train otherwise, and rounds in another order
    code += kept
    text = json.dumps([type(model).__name__, fields, game.identity, code], sort_keys=True, default=_named)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _named(value: Any) -> str:
    """The text of a field in `identity`: the name of a function, a hash of an array's bytes, and str(value) of anything else."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes(), digest_size=12).hexdigest()}"
    return str(getattr(value, "__qualname__", value))


def save(release: Release, path: Path, in_torch: Collection[str] = ()) -> None:
    """Writes a part atomically: it is either complete or absent. in_torch: what torch trained although compiled loops were
    used. Raises OSError with the path of the part.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # only this user may write the file, whatever the umask, so that nobody else replaces releases of a run
        with open(aside, "wb", opener=lambda path, flags: os.open(path, flags, 0o644)) as f:
            parts: dict[str, Any] = {f"array:{n}": a for n, a in release.arrays.items()}
            parts |= {"torch": np.array(sorted(in_torch))} if in_torch else {}
            np.savez(f, **parts, watch=release.watch, public=np.array(json.dumps(dict(release.public))))
        os.replace(aside, path)
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror or str(fault), str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def stages_in_torch(path: Path) -> set[str]:
    """What torch trained of a stored part although compiled loops were used, each with the reason."""
    with open_own(path) as file, np.load(file, allow_pickle=False) as f:
        return set(f["torch"].tolist()) if "torch" in f.files else set()


def load(path: Path) -> Release | None:
    """A stored part; None if it is absent, damaged (arrays have checksums), another user's, or can be written by others."""
    try:
        with open_own(path) as file, np.load(file, allow_pickle=False) as f:
            members = {n: f[n] for n in f.files}  # reading an array verifies its checksum
        watch, public = members.pop("watch"), json.loads(str(members.pop("public")))
        members.pop("torch", None)
        return Release({n.removeprefix("array:"): a for n, a in members.items()}, watch, public)
    except Exception:  # a damaged file makes its reader raise almost anything
        return None


def fit(model: Model, worlds: Worlds, device: str = "cpu", kept: tuple[str, ...] = ()) -> Release:
    """Trains one chunk, split in halves if memory runs out. kept: the arrays of the result; all arrays if there are none. Raises
    MemoryError if a single run does not fit.
    """
    try:
        release = fitted(model, worlds, device)
        return release.only(kept) if kept else release
    except (MemoryError, RuntimeError) as fault:
        if not out_of_memory(fault):
            raise
    half = len(worlds) // 2  # not inside the except clause, where the traceback would keep the arrays in memory
    if not half:
        raise MemoryError(
            f"{model.name}: not enough memory for a single run on {worlds.graph.name}. "
            "Use fewer --jobs, a smaller graph or a larger machine"
        )
    return Release.join([fit(model, worlds[:half], device, kept), fit(model, worlds[half:], device, kept)])


def fit_part(task: Task) -> Path:
    """Trains one chunk and stores it; runs in this process or in a worker."""
    model, worlds, where, device, kept = task
    path = Path(where)
    with compiled.noting() as in_torch:
        release = fit(model, worlds, device, kept)
    save(release, path, in_torch)
    return path


def in_process(tasks: Iterable[Task]) -> Iterator[Path]:
    """The simplest executor: one chunk after another, in this process."""
    return map(fit_part, tasks)


@dataclass(frozen=True)
class Store:
    """The parts of a run on disk, and the executor that computes missing parts."""

    root: Path
    memory: int = 8 << 30  # bytes of working memory that a single run may take in addition to the graph
    device: str = "cpu"
    execute: Callable[[Iterable[Task]], Iterator[Path]] = in_process
    # model -> what torch trained of the parts that were read although compiled loops were used, each with the reason
    in_torch: dict[str, set[str]] = field(default_factory=dict, compare=False)

    def chunk(self, model: Model, graph: Graph) -> int:
        """The number of runs in one chunk. A chunk of several runs takes at most CHUNK_BYTES of working memory.

        Raises ValueError if a single run needs more than `memory`.
        """
        needed = model.footprint(graph)
        if not isinstance(needed, int | np.integer) or needed < 0:
            raise ValueError(f"{model.name}: footprint returned {needed!r}; must be a whole number of bytes.")
        needed = max(1, int(needed))
        if needed > self.memory:
            raise ValueError(
                f"memory={self.memory >> 20}MiB: one run of {model.name} on {graph.name} needs about {-(-needed >> 20)}MiB. "
                f"Use --memory {-(-needed >> 20)}MiB or more, or a smaller graph."
            )
        return max(1, min(1024, CHUNK_BYTES // needed))

    def fit(self, model: Model, game: Game, runs: int, read: tuple[str, ...] = ()) -> Seen:
        """The results of `runs` rounds. Stored chunks are read, and missing chunks are computed. read: the released arrays that
        the caller reads; no others are stored. Without it, all arrays are stored. Raises ValueError as `chunk`.
        """
        parts = list(self.parts(model, game, runs, read))
        bits = np.concatenate([part.bits for part in parts])
        return Seen(Release.join([part.release for part in parts]), parts[0].challenge, bits)

    def parts(self, model: Model, game: Game, runs: int, read: tuple[str, ...] = ()) -> Iterator[Seen]:
        """Yields the results of `fit` chunk by chunk, for callers that do not need all releases in memory."""
        rounds = game.rounds(runs)
        kept = tuple(sorted(set(read) & set(model.releases))) if set(model.releases) - set(read) else ()
        folder = self.root / model.name / identity(model, game, kept)
        size = self.chunk(model, game.graph)
        starts = range(0, runs, size)
        paths = {s: folder / f"{s:06d}.npz" for s in starts}
        missing = {s: None for s in starts if not _whole(paths[s], min(size, runs - s))}
        tasks = ((model, rounds.worlds[s : s + size], str(paths[s]), self.device, kept) for s in missing)
        made = self.execute(tasks)
        for s in starts:
            path = next(made) if s in missing else paths[s]
            release = load(path)
            if release is None:
                raise OSError(f"{path}: the part was written but cannot be read back. Is the disk full?")
            if stages := stages_in_torch(path):
                self.in_torch.setdefault(model.name, set()).update(stages)
            yield Seen(release, rounds.challenge, rounds.bits[s : s + size])


def _whole(path: Path, runs: int) -> bool:
    """Whether an undamaged part with `runs` runs is stored."""
    part = load(path)
    return part is not None and len(part) == runs
