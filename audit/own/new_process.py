"""Trains a user's model in a new process, in which no earlier training can have left anything behind."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import one_line

if TYPE_CHECKING:
    from ...models.base import Model, Release
    from ...models.graph.graph import Worlds

SECONDS = 600.0  # a training that takes longer is given up
TRAIN = """import pickle, sys
with open(sys.argv[1], "rb") as file:
    sys.path[:] = pickle.load(file)
    model, worlds = pickle.load(file)
release = model.fit(worlds, "cpu")
with open(sys.argv[2], "wb") as file:
    pickle.dump(release, file)
"""


class NotTrained(Exception):
    """The model could not be trained in a new process; the message says why."""


def sent(model: Model, worlds: Worlds) -> bytes:
    """The model, as it is now, and the worlds for `trained`. Raises NotTrained for a model that cannot be sent."""
    try:
        content = pickle.dumps((model, worlds))
    except Exception as fault:  # pickle raises almost anything, and so may a user's class
        raise NotTrained(f"it cannot be pickled ({one_line(fault)})") from None
    if b"__main__" in content:
        raise NotTrained("it is defined in the script that runs, not in a module")
    return pickle.dumps(sys.path) + content


def trained(content: bytes) -> Release:
    """The release of one training in a new process. content: from `sent`. Raises NotTrained if the training fails there."""
    torch: Any = sys.modules.get("torch")
    # the same number of threads adds numbers in the same order
    threads = {name: str(torch.get_num_threads()) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")} if torch else {}
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        asked, answer = Path(folder, "asked"), Path(folder, "answer")
        asked.write_bytes(content)
        try:
            done = subprocess.run(
                [sys.executable, "-c", TRAIN, asked, answer],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except (OSError, subprocess.TimeoutExpired) as fault:
            raise NotTrained(one_line(fault)) from None
        if not answer.exists():
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise NotTrained(last[0][:200])
        release: Release = pickle.loads(answer.read_bytes())
        return release
