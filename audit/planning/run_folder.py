"""The folder of a run: its lock, its plan, its secret key, and the versions of all software."""

import json
import logging
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from string import hexdigits
from typing import Any

from filelock import FileLock, Timeout

from ...accounting.own_folder import read_own, shared
from ...models.kernels.compiler import compiled
from ..key import Key
from .cores import usable_cores
from .plan import Plan, read

FOLDERS = ("evidence", "figures")
FILES = ("plan.toml", "spec.json", "results.json", "report.html", "junit.xml", "card.md", "key")
MUCH = 500 * 10**6  # bytes; trainings that take more of a disk are worth a word
PART = re.compile(r"/[0-9a-f]{24}/\d{6,}\.npz$")  # a stored training: the identity of its model and game, its first run
log = logging.getLogger(__name__)
VERSIONED = ("gnnaudit", "torch", "numpy", "scipy", "dp-accounting", "autodp", "opacus", "scikit-learn", "mlflow", "numba")
STREAMS = (
    "From it, BLAKE2b derives a seed of 64 bits for each training. The systems of this package draw noise with Philox 4x64, "
    "a generator for statistics and not for cryptography. They add noise to sums over neighbours in float64, and noise to "
    "DP-SGD steps and to LPGNN's reports in float32. A program or model of your own gets the seed and draws its noise itself."
)


@contextmanager
def opened(plan: Plan) -> Iterator[Path]:
    """The run's folder, made if it is missing, and locked against a second run.

    Warns if another user could change its files. Raises ValueError if the folder cannot be written, is in use, is damaged, or
    holds the run of another plan and this plan is not `fresh`. For a `fresh` plan, removes the key and the trainings
    that are stored there.
    """
    folder = plan.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_misshapen(folder)
        if reason := shared(folder.resolve()):
            log.warning(
                "out=%s: %s: another user could change the stored parts and the report. Choose another --out.", folder, reason
            )
        (folder / "evidence").mkdir(parents=True, exist_ok=True)
        # mode 0600, because another user who can read a lock file can hold the lock
        lock = FileLock(folder / ".lock", timeout=0, mode=0o600).acquire()
    except Timeout:
        raise ValueError(f"out={folder}: another run is writing here. Wait for it, or choose another --out.") from None
    except OSError as fault:
        raise ValueError(f"out={folder}: cannot be written ({fault.strerror}). Choose another folder with --out.") from None
    with lock:
        refuse_another(plan, folder)
        # removes temporary files of killed writers; no other process writes while the lock is held
        for half in folder.rglob(".*.npz.*"):
            half.unlink(missing_ok=True)
        if plan.fresh:
            remove_trainings(folder)
        (folder / "plan.toml").write_text(plan.toml(), encoding="utf-8")
        yield folder


def refuse_misshapen(folder: Path) -> None:
    """Raises ValueError if a file stands where a run stores a folder, or a folder where it stores a file."""
    for names, fits, must in ((FOLDERS, Path.is_dir, "a folder"), (FILES, Path.is_file, "a file")):
        for path in (folder / name for name in names):
            if path.exists() and not fits(path):
                raise ValueError(f"{path}: must be {must}, because a run stores one there. Remove it, or choose another --out.")


def trainings(folder: Path) -> Iterator[Path]:
    """Yields the files of the stored trainings."""
    return (part for part in folder.rglob("*.npz") if PART.search(part.as_posix()))


def remove_trainings(folder: Path) -> None:
    """Removes the key of a run and the stored trainings, so that the next run draws new noise. Other files stay."""
    (folder / "key").unlink(missing_ok=True)
    for part in list(trainings(folder)):
        part.unlink()


def room_taken(folder: Path) -> str:
    """A line that says how much of the disk the trainings in a run folder take, and what they are for; "" up to MUCH bytes."""
    taken = sum(part.stat().st_size for part in folder.rglob("*.npz"))
    use = "A later run in this folder reads them, and nothing else does; delete the *.npz files to free the room."
    return f"The stored trainings take {taken / 1e9:.1f} GB in {folder}. {use}" if taken > MUCH else ""


def refuse_another(plan: Plan, folder: Path) -> None:
    """Raises ValueError if the folder holds the run of a plan whose results may differ, unless `plan.fresh`."""
    path = folder / "plan.toml"
    if plan.fresh or not path.is_file():
        return
    ways = "Choose another folder with --out, or replace that run with --fresh."
    try:
        there = read(path, {})
    except ValueError:
        raise ValueError(f"out={folder}: holds a run whose plan.toml this version cannot read. {ways}") from None
    if other := plan.differences(there):
        named = "; ".join(f"{name} is {_short(old)} there and {_short(new)} here" for name, (new, old) in list(other.items())[:3])
        more = f"; and {len(other) - 3} more options differ" if len(other) > 3 else ""
        raise ValueError(f"out={folder}: holds the run of another plan: {named}{more}. {ways}")


def _short(value: Any) -> str:
    text = (
        ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value)
        if isinstance(value, tuple)
        else str(value)
    )
    return (text if len(text) <= 60 else f"{text[:57]}...") or "nothing"


def root_key(plan: Plan, folder: Path) -> Key:
    """The root key of a run, from which all its randomness is derived.

    With a seed, anybody can reproduce the run. Without one, the key is 256 bits from the operating system. They are stored in the
    folder with owner-only permissions, so that a killed run can resume; whoever reads them can subtract the noise. Raises
    ValueError if the file belongs to another user or can be written by others, or if it is incomplete, because noise from a
    shorter key could be guessed.
    """
    if plan.seed is not None:
        return Key("seed", plan.seed)
    path = folder / "key"
    if not path.exists():
        aside = path.with_name(".key")  # the file is renamed when it is complete, so that a full disk leaves no truncated key
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(Key.fresh())
        os.replace(aside, path)
    try:
        secret = read_own(path).decode(errors="replace").strip()
    except OSError as fault:
        why = fault.strerror or str(fault).removeprefix(f"{path}: ")
        raise ValueError(
            f"{path}: {why}; whoever wrote this file could subtract the noise. Choose another folder with --out."
        ) from None
    if len(secret) != len(Key.fresh()) or not set(secret) <= set(hexdigits):  # after a crash a file system may leave zeros
        raise ValueError(
            f"{path}: not a complete key. Remove the file; the run then makes a new key and computes its parts again."
        )
    return Key("secret", secret)


def randomness(plan: Plan) -> str:
    """Sentences for the report: how the noise was seeded, which generator drew it, and in which precision."""
    root = "the word of --seed: whoever knows it can subtract the noise"
    if plan.seed is None:
        root = "a key of 256 bits from the operating system, which stands in the file 'key' of the run's folder"
    return f"seeded by {root}. {STREAMS}"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that results depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def machine() -> dict[str, Any]:
    """The operating system, the processor and the number of usable cores."""
    return {"system": platform.platform(), "processor": platform.machine(), "cores": usable_cores()}


def arithmetic() -> dict[str, str]:
    """Whether compiled loops or torch train the models, and the instruction set. Rounding depends on both."""
    return {"path": compiled.path(), "instruction_set": compiled.instruction_set()}


def write_spec(folder: Path, audited: Mapping[str, Mapping[str, str]]) -> None:
    """Writes RUN/spec.json: versions, machine, the arithmetic of the run, and the files of a user's own models."""
    spec = {"versions": versions(), "machine": machine(), **arithmetic(), "audited": audited}
    (folder / "spec.json").write_text(json.dumps(spec, indent=1))
