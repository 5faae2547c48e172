"""Runs the experiment of a finding on a user's copy of the public code. The copied file runs in a process of its own."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...accounting.claim import Claim, Unit
from ..key import Key
from .certificate import Certificate, sampled

CHILD, SECONDS = Path(__file__).parent / "checkout_child.py", 300  # the script of the process, and its time limit


@dataclass(frozen=True)
class Checkout:
    """The part of a public repository that an experiment runs.

    files: paths in the checkout; the experiment imports the first that exists. needs: the name in this file that the experiment
    calls. claim: the claim that the experiment tests. score: the meaning of a score, as the label of the figure.
    """

    files: tuple[str, ...]
    needs: str
    claim: Claim
    score: str


CHECKOUTS = {
    "arr-density-chunk": Checkout(
        ("core/privacy/algorithms/graph/arr.py", "core/privacy/algorithms/arr.py"),
        "AsymmetricRandResponse",
        Claim(1.0, 0.0, Unit.DIRECTED_EDGE, exposes=("edges",)),
        "ones in the released row; -1 for an error",
    ),
    "blink-symrr-diagonal": Checkout(
        ("src/symrr/client.py",),
        "Client",
        Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("edges",)),
        "released entry of a pair (i, i + 1)",
    ),
    "eclipse-singular-vectors": Checkout(
        ("src/data.py", "baseline/Eclipse_main/src/data.py"),
        "gaussvdgraph",
        Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE, exposes=("edges",)),
        "released entry of the centre and a leaf; -1 for an error",
    ),
    "linkteller-edgerand": Checkout(
        ("worker.py",),
        "perturb_adj_discrete",
        Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("edges",)),
        "whether a zero is stored for a pair (i, i + 1)",
    ),
    "lpgnet-shared-noise": Checkout(
        ("src/graph_utils.py",),
        "getCommunityCountsMP",
        Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("counts",)),
        "whether two noisy counts differ by exactly 1",
    ),
    "pushflow-max-degree": Checkout(
        ("model.py",),
        "PrivatePushFlowEfficient",
        Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE, exposes=("scores",)),
        "log-likelihood ratio of the noisy scores",
    ),
}


def play(name: str, folder: Path, python: str, key: Key) -> Certificate:
    """The certificate of a finding for the code in `folder`, run by the interpreter `python`.

    Raises ValueError if the finding has no such experiment, if the folder lacks the file or the file lacks the name, if the
    interpreter cannot be started, and if the file fails or takes more than SECONDS.
    """
    if name not in CHECKOUTS:
        raise ValueError(f"finding {name!r}: no experiment for a checkout has this id. These have one: {', '.join(CHECKOUTS)}.")
    checkout = CHECKOUTS[name]
    path = next((folder / file for file in checkout.files if (folder / file).is_file()), None)
    if path is None:
        raise ValueError(
            f"{folder}: holds no {' or '.join(checkout.files)}. Name the root folder of the repository that {name} is about."
        )
    if checkout.needs not in path.read_text(encoding="utf-8", errors="replace"):
        raise ValueError(f"{path}: does not define {checkout.needs}, which the experiment calls.")
    found = _child(python, name, path, key.seed >> 1)
    summary = f"{path.relative_to(folder).as_posix()} of {folder}. {found['note']}"
    return sampled(checkout.claim, found["without"], found["present"], key, summary, checkout.score)


def _child(python: str, name: str, path: Path, seed: int) -> dict[str, list[float]]:
    command = [python, str(CHILD), name, str(path.resolve()), str(seed)]
    known = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}  # the checkout's own modules come first
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=known)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{path}: the experiment took over {SECONDS} seconds and was stopped; nothing is shown.") from None
    except OSError as fault:
        raise ValueError(f"python={python}: cannot be started ({fault.strerror}). Name an interpreter with --python.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(
            f"{path}: failed when it was run: {last}. --python names an environment that has the packages that it needs."
        )
    answer: dict[str, list[float]] = json.loads(done.stdout)
    return answer
