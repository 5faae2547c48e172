"""Kills runs, damages their files and loads hostile data sets, and counts how often the tool copes.

python -P benchmarks/hostile.py --kills 20 --corruptions 2000 --data 60

Prints a line for each kind of attack: how often it was tried; how often the tool survived (the input was refused in one line or
ignored, and the results did not change); how often the tool lost (a wrong result, a traceback, a hang, or lost results).
tests/audit/own/programs/test_hostile_programs.py covers hostile programs and links.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from gnnaudit.accounting import cache
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper import accountants
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store, load
from gnnaudit.models.data import loading
from gnnaudit.models.gap.gap import Gap
from gnnaudit.reports.evidence import Evidence, read_all, write

RUN = [
    *("run", "--data", "campus:n=400", "--models", "gap,progap", "--epsilon", "1", "--audits", "game,residual"),
    *("--attacks", "confidence", "--shadows", "2", "--targets", "1", "--repeats", "4", "--rounds", "4", "--mlflow", "none"),
    *("--jobs", "2", "--seed", "kill", "--quiet"),
]
EVERY = 5  # how often a run is killed before it may end
MEMORY = 64 << 20  # how many bytes a hostile data set may take


class Slow(Exception):
    """Raised by the alarm at the time limit."""


def alarm(*_: object) -> None:
    raise Slow


def damaged(content: bytes, luck: random.Random) -> bytes:
    """The content with one bit flipped, cut off, longer, empty, partly zero, or replaced by null or by random bytes."""
    at = luck.randrange(max(1, len(content)))
    return luck.choice(
        [
            content[:at] + bytes([content[at] ^ 1 << luck.randrange(8)]) + content[at + 1 :] if content else b"x",
            content[:at],
            content + luck.randbytes(9),
            b"",
            content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :],
            b"null",
            luck.randbytes(len(content)),
        ]
    )


def corruptions(count: int, luck: random.Random) -> Counter[str]:
    """Damages stored runs, accounting caches and evidence in turn. Lost: another result, or an exception that is not handled."""
    found: Counter[str] = Counter()
    graph, claim = loading.load("campus:n=300"), Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["GNNAUDIT_CACHE"] = str(root / "cache")
        model = calibrate(Gap(), claim)
        game = Game(graph, "edge", np.arange(8), Key("hostile"))
        store = Store(root / "run")
        honest = store.fit(model, game, 6).release["posteriors"]
        parts = sorted((root / "run").rglob("*.npz"))
        write(Evidence(claim, "gap", "sound", "game", uppers=accountants.upper(model.ledger, claim)), root)
        evidence, told = next((root / "evidence").glob("*.json")), read_all(root)
        stored = sorted((root / "cache").glob("*.json"))
        for turn in range(count):
            path = luck.choice((parts, stored, [evidence])[turn % 3])
            content = path.read_bytes()
            path.write_bytes(damaged(content, luck))
            try:
                if path in parts:
                    part = load(path)
                    right = part is None or np.array_equal(part["posteriors"], honest[: len(part)])
                elif path is evidence:
                    right = agrees(root, told)
                else:
                    accountants.COMPUTED.clear()
                    cache._say.cache_clear()
                    rows = accountants.upper(model.ledger, claim, stored=False)
                    same = [(row.accountant, row.epsilon) for row in rows] == [(u.accountant, u.epsilon) for u in told[0].uppers]
                    right = same and calibrate(Gap(), claim).sigma == model.sigma
                if not right:
                    print(f"{path.name}: taken, and different", file=sys.stderr)
                found["survived" if right else "LOST"] += 1
            except Exception:
                traceback.print_exc()
                found["LOST"] += 1
            path.write_bytes(content)
        store.fit(model, game, 6)
    del os.environ["GNNAUDIT_CACHE"]
    return found


def agrees(root: Path, told: list[Evidence]) -> bool:
    """Whether damaged evidence is refused in one line, or still has the same contents."""
    try:
        return [dataclasses.replace(e, seconds=0.0) for e in read_all(root)] == [
            dataclasses.replace(e, seconds=0.0) for e in told
        ]
    except ValueError as fault:
        return "\n" not in str(fault).strip() and "evidence" in str(fault)


def kills(count: int, luck: random.Random) -> Counter[str]:
    """Kills a run at a random time and starts it again. Lost: rows that differ from those of a run that was not killed."""
    found: Counter[str] = Counter()
    code = "import sys; from gnnaudit.audit.cli.main import main; sys.argv = ['audit', *sys.argv[1:]]; main()"

    def command(out: Path) -> list[str]:
        return [sys.executable, "-c", code, *RUN, "--out", str(out)]

    with tempfile.TemporaryDirectory() as folder:
        root, begin = Path(folder), time.monotonic()
        subprocess.run(command(root / "whole"), check=False, cwd=folder)
        seconds = time.monotonic() - begin
        whole = verdicts(root / "whole")
        for turn in range(count):
            out = root / f"killed{turn // EVERY}"
            run = subprocess.Popen(command(out), cwd=folder, stderr=subprocess.DEVNULL)
            time.sleep(luck.uniform(0.3, 1.0) * seconds)
            run.send_signal(signal.SIGKILL)
            run.wait()
            if (
                turn % EVERY == EVERY - 1 or turn == count - 1
            ):  # the last resumed run is not killed, and must end like the whole run
                subprocess.run(command(out), check=False, cwd=folder)
                found["survived" if verdicts(out) == whole else "LOST"] += turn % EVERY + 1
    return found


def verdicts(run: Path) -> list[object]:
    rows = json.loads((run / "results.json").read_text())["rows"]
    for row in rows:
        row.pop("seconds", None)
    return rows


class Runs:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def data_sets(root: Path, luck: random.Random) -> Iterator[Callable[[], str]]:
    """Functions that each write a hostile file and return the name by which it is loaded."""
    graph, mark = loading.load("campus:n=200:degree=10"), root / "ran"
    good = {
        "x": np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x),
        "y": graph.y,
        "edge_index": graph.edges,
    }

    def npz(**changes: object) -> str:
        np.savez(root / "g.npz", **{**good, **changes})
        return str(root / "g.npz")

    def pt(**changes: object) -> str:
        torch.save({**{k: torch.from_numpy(v.copy()) for k, v in good.items()}, **changes}, root / "g.pt")
        return str(root / "g.pt")

    def table(nodes: bytes, edges: bytes) -> str:
        (root / "t").mkdir(exist_ok=True)
        (root / "t" / "nodes.csv").write_bytes(nodes)
        (root / "t" / "edges.csv").write_bytes(edges)
        return str(root / "t")

    def zeros(name: str, shape: tuple[int, ...]) -> str:
        with zipfile.ZipFile(root / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for _ in range(20):
                member.write(bytes(1 << 24))
        return str(root / "z.npz")

    big, n = 1 << 40, graph.nodes
    bad: dict[str, object] = {"nan": np.nan, "inf": np.inf}
    for value in bad.values():
        yield lambda value=value: npz(x=np.full_like(good["x"], value))
    for edges in ([[0], [n]], [[-1], [0]], [[big], [0]], [[0], [0]], np.zeros((3, 4)), np.zeros((2, 0)), [[0.5], [1]]):
        yield lambda edges=edges: npz(edge_index=np.array(edges))
    for y in (np.zeros(0), np.full(n, -1), np.zeros((n, 2)), np.full(n, 0.5), np.zeros(n + 1), np.array(["a"] * n)):
        yield lambda y=y: npz(y=y)
    for key in good:
        yield lambda key=key: npz(**{key: np.array([Runs(mark)], dtype=object)})
        yield lambda key=key: pt(**{key: Runs(mark)})
        yield lambda key=key: pt(**{key: torch.zeros(1).expand(1 << 15, 1 << 15)})
        yield lambda key=key: zeros(key, (1 << 12, 1 << 12))
        yield lambda key=key: zeros(key, (1 << 30, 1 << 30))
    for text in (
        b"",
        b"\0" * 99,
        b"label,f\n0,1\x00\n",
        b"label\n" + b"9" * 400 + b"\n",
        b"\xff\xfe",
        b"a,a\n1,2\n",
        b"label,f\n0,x\n",
    ):
        yield lambda text=text: table(text, b"a,b\n0,1\n")
        yield lambda text=text: table(b"label,f\n0,1\n1,2\n", text)
    for shape in ((1 << 23, 2), (1, 1)):

        def parquet(shape: tuple[int, int] = shape) -> str:
            folder = root / f"p{shape[0]}"
            folder.mkdir()
            pd.DataFrame(np.zeros(shape), columns=[f"c{i}" for i in range(shape[1])]).to_parquet(folder / "nodes.parquet")
            (folder / "edges.csv").write_text("a,b\n0,1\n")
            return str(folder)

        yield parquet
    for kind in ("g.npz", "g.pt"):

        def cut(kind: str = kind) -> str:
            path = Path(npz() if kind == "g.npz" else pt())
            path.write_bytes(damaged(path.read_bytes()[:5000], luck))
            return str(path)

        for _ in range(6):
            yield cut
    raw = root / "pyg" / "Planetoid" / "Cora" / "raw"
    for place in (raw, root / "planetoid"):

        def planetoid(place: Path = place) -> str:
            place.mkdir(parents=True)
            for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
                (place / f"ind.cora.{part}").write_bytes(pickle.dumps(Runs(mark)))
            return "pyg:Planetoid:Cora" if place == raw else "cora"

        yield planetoid


def hostile_data(count: int, luck: random.Random) -> Counter[str]:
    """Loads hostile data sets. Lost: code in the file ran, a graph was loaded from it, the error had more than one line or was no
    ValueError, or loading took 20 seconds.
    """
    found: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, alarm)
    with tempfile.TemporaryDirectory() as folder:
        for number, make in enumerate(data_sets(Path(folder), luck)):
            if number >= count:
                break
            signal.alarm(20)
            try:
                name = make()
                loading.load(name, data_dir=folder, memory=MEMORY)
                verdict = "taken"  # the damaged file is still a complete graph without code
            except ValueError as fault:
                verdict = "survived" if "\n" not in str(fault) else "LOST"
            except Exception:
                traceback.print_exc()
                verdict = "LOST"
            signal.alarm(0)
            found["LOST" if (Path(folder) / "ran").exists() else verdict] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("kills", 20), ("corruptions", 2000), ("data", 60), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    luck = random.Random(options.seed)
    for name, play in (("corruptions", corruptions), ("data", hostile_data), ("kills", kills)):
        if count := getattr(options, name):
            begin = time.monotonic()
            found = play(count, luck)
            print(f"{name}: {sum(found.values())} tried, {dict(found)}, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
