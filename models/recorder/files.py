"""Stores draws and mechanisms in one file of arrays without pickles, so that the reader need not trust the writer."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .draws.draw import Draw, plain
from .mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Recording:
    """The recording of one run: its draws and its mechanisms, in order. diverged: the line at which the run departed
    from the run that it should repeat; "" if it did not. notes: sentences about what was not recorded. trained: the ids of the
    training nodes; None if they are not known. constant: of the draws that a run is asked to repeat, those of `Script.constant`.
    stale, older: files that the run read, see `Reads`.
    """

    draws: list[Draw]
    mechanisms: list[Mechanism]
    diverged: str = ""
    notes: list[str] = field(default_factory=list)
    trained: NDArray[np.int64] | None = None
    constant: tuple[int, ...] = ()
    stale: Sequence[str] = ()
    older: Sequence[str] = ()


PLAIN: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "bool": bool, "float": float}
# fields of a draw: `nodes` follow from `trained`, and `masks` are of use in their own process alone
LEFT_OUT = ("nodes", "masks")


def kept(kind: type) -> dict[str, str]:
    """The fields of a draw or a mechanism that a file holds, each with its type as text, such as "tuple[float, ...]"."""
    return {each.name: str(each.type) for each in fields(kind) if each.name not in LEFT_OUT}


def same(one: Recording, other: Recording) -> bool:
    """Whether two recordings are equal, bit for bit. The files that the runs read do not count: the first run writes a cache, and
    later ones read it.
    """
    first, second = (packed(replace(each, stale=(), older=())) for each in (one, other))
    return first.keys() == second.keys() and all(first[name].tobytes() == second[name].tobytes() for name in first)


def save(path: Path, recording: Recording) -> None:
    """Writes the recording as uncompressed arrays."""
    np.savez(path, **packed(recording))  # type: ignore[arg-type]


def packed(recording: Recording) -> dict[str, np.ndarray]:
    """The recording as arrays by name, one of which is a JSON document that says what the others are."""
    arrays: list[np.ndarray] = []
    drawn = {id(draw): draw for draw in recording.draws}
    drawn.update((id(draw), draw) for m in recording.mechanisms for draw in (m.draw, *m.beside))  # perhaps of another recording
    at = {name: number for number, name in enumerate(drawn)}

    def put(kind: str, value: Any) -> Any:
        if kind in PLAIN or value is None:
            return None if value is None else PLAIN[kind](value)
        if kind == "Draw":
            return at[id(value)]
        if kind.startswith("tuple["):
            return [put(kind[len("tuple[") : -len(", ...]")], each) for each in value]
        array = np.asarray(plain(value))
        if kind == "Any" and array.ndim == 0 and array.dtype.kind in "iuf":
            return float(array)
        arrays.append(np.zeros(0) if array.dtype.hasobject else np.array(array, ndmin=1))
        return {"array": len(arrays) - 1, "shape": [0] if array.dtype.hasobject else list(array.shape)}

    def row(value: Any) -> dict[str, Any]:
        return {name: put(kind, getattr(value, name)) for name, kind in kept(type(value)).items()}

    header = {
        "draws": [row(draw) for draw in drawn.values()],
        "own": len(recording.draws),
        "mechanisms": [row(mechanism) for mechanism in recording.mechanisms],
        "diverged": recording.diverged,
        "notes": recording.notes,
        "trained": put("array", recording.trained),
        "constant": recording.constant,
        "stale": list(recording.stale),
        "older": list(recording.older),
    }
    named = {str(number): array for number, array in enumerate(arrays)}
    return {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **named}


def no_link(path: str, flags: int) -> int:
    """Opens a file, for `open(…, opener=no_link)`. Raises OSError for a symbolic link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def load(path: Path, most: int) -> Recording:
    """Reads a recording. most: the most bytes that its arrays may take. Raises ValueError for a symbolic link, a larger file, and
    a file that `save` did not write.
    """
    try:
        with open(path, "rb", opener=no_link) as file:
            recording = _read(file, most)
    except Exception as fault:  # a damaged file makes its readers raise almost anything
        raise ValueError(f"{path.name}: not a recording ({type(fault).__name__}).") from None
    if recording is None:
        raise ValueError(f"{path.name}: holds more than {most >> 20}MiB.")
    return recording


def _read(file: BinaryIO, most: int) -> Recording | None:
    """The recording; None if it would take more than `most` bytes."""
    with zipfile.ZipFile(file) as parts:
        stored = all(p.compress_type == zipfile.ZIP_STORED for p in parts.infolist())
        if not stored or sum(p.file_size for p in parts.infolist()) > most:
            return None
    with np.load(file, allow_pickle=False) as found:
        header = json.loads(found["header"].tobytes())
        arrays = {int(name): found[name] for name in found.files if name != "header"}

    draws: list[Draw] = []

    def get(kind: str, value: Any) -> Any:
        if kind in PLAIN or value is None:
            return None if value is None else PLAIN[kind](value)
        if kind == "Draw":
            return draws[value]
        if kind.startswith("tuple["):
            return tuple(get(kind[len("tuple[") : -len(", ...]")], each) for each in value)
        return arrays[value["array"]].reshape(value["shape"]) if isinstance(value, dict) else float(value)

    def made(kind: Any, row: dict[str, Any]) -> Any:
        return kind(**{name: get(of, row[name]) for name, of in kept(kind).items()})

    trained, own = get("array", header["trained"]), header["own"]
    draws += [made(Draw, row).of_nodes(trained if at < own else None) for at, row in enumerate(header["draws"])]
    mechanisms = [made(Mechanism, row) for row in header["mechanisms"]]
    notes, constant = [str(note) for note in header["notes"]], tuple(map(int, header["constant"]))
    stale, older = (tuple(map(str, header[name])) for name in ("stale", "older"))
    return Recording(draws[:own], mechanisms, str(header["diverged"]), notes, trained, constant, stale, older)
