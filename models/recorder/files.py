"""Stores draws and mechanisms in one file of arrays without pickles, so that the reader need not trust the writer."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .draws.draw import Draw, numbers_of
from .mechanisms.found import Mechanism


@dataclass(frozen=True, eq=False)
class Recording:
    """The recording of one run: its draws and its mechanisms, in order. diverged: the line at which the run departed
    from the run that it should repeat; "" if it did not. notes: sentences about what was not recorded.
    """

    draws: list[Draw]
    mechanisms: list[Mechanism]
    diverged: str = ""
    notes: list[str] = field(default_factory=list)


def save(path: Path, recording: Recording) -> None:
    """Writes the recording as uncompressed arrays."""
    arrays: list[np.ndarray] = []

    def put(value: Any) -> Any:
        array = np.asarray(numbers_of(value) if hasattr(value, "detach") else value)
        if array.ndim == 0 and array.dtype.kind in "iuf":
            return float(array)
        arrays.append(np.zeros(0) if array.dtype.hasobject else np.array(array))
        return {"array": len(arrays) - 1}

    drawn = {id(draw): draw for draw in recording.draws}
    drawn.update((id(draw), draw) for m in recording.mechanisms for draw in (m.draw, *m.beside))  # perhaps of another recording
    at = {name: number for number, name in enumerate(drawn)}
    draws = [
        {
            "law": d.law,
            "line": d.line,
            "calls": d.calls,
            "weights": d.weights,
            "state": d.state,
            "values": put(np.atleast_1d(d.values)),
            "shape": list(d.values.shape),
            "loc": put(d.loc),
            "scale": put(d.scale),
            "ends": [float(d.lowest), float(d.highest)],
            "parameters": [{**put(np.atleast_1d(p)), "shape": list(p.shape)} for p in d.parameters],
            "among": d.among,
            "chances": None if d.chances is None else put(d.chances),
        }
        for d in drawn.values()
    ]
    mechanisms = [
        {
            "line": m.line,
            "draw": at[id(m.draw)],
            "scale": put(m.scale),
            "clean": put(m.clean),
            "noisy": put(m.noisy),
            "beside": [at[id(draw)] for draw in m.beside],
            "values": m.values,
            "mirrored": m.mirrored,
            "shared": m.shared,
            "parts": m.parts,
            "closely": m.closely,
            "terms": m.terms,
            "computed": m.computed,
        }
        for m in recording.mechanisms
    ]
    header = {
        "draws": draws,
        "own": len(recording.draws),
        "mechanisms": mechanisms,
        "diverged": recording.diverged,
        "notes": recording.notes,
    }
    named = {str(number): array for number, array in enumerate(arrays)}
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]


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

    def get(value: Any) -> Any:
        return arrays[value["array"]] if isinstance(value, dict) else value

    draws = [
        Draw(
            str(d["law"]),
            get(d["values"]).reshape(d["shape"]),
            str(d["line"]),
            get(d["loc"]),
            get(d["scale"]),
            float(d["ends"][0]),
            float(d["ends"][1]),
            parameters=tuple(get(p).reshape(p["shape"]) for p in d["parameters"]),
            among=tuple(map(float, d["among"])),
            chances=None if d["chances"] is None else get(d["chances"]),
            calls=tuple(map(str, d["calls"])),
            weights=bool(d["weights"]),
            state=int(d["state"]),
        )
        for d in header["draws"]
    ]
    mechanisms = [
        Mechanism(
            str(m["line"]),
            draws[m["draw"]],
            get(m["scale"]),
            get(m["clean"]),
            get(m["noisy"]),
            tuple(draws[at] for at in m["beside"]),
            tuple(map(float, m["values"])),
            bool(m["mirrored"]),
            tuple(map(int, m["shared"])),
            int(m["parts"]),
            bool(m["closely"]),
            tuple(map(int, m["terms"])),
            str(m["computed"]),
        )
        for m in header["mechanisms"]
    ]
    return Recording(draws[: header["own"]], mechanisms, str(header["diverged"]), [str(note) for note in header["notes"]])
