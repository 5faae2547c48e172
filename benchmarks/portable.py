"""CPU seconds and accuracy of trainings by system, number of runs and instruction set: compiled loops, torch, older versions.

    python benchmarks/portable.py [--systems gap,progap] [--runs 1,8,64] [--isa avx2,native] [--against NAME=CHECKOUT] [--turns 2]

A row is one system with K runs trained at once. Its figures are CPU seconds of one run, on one thread, after a training that is
not timed, and the test accuracy in percent: the mean of the K runs, each with its own seed, with a 95 % t-interval. Each figure
comes from a separate process. The variants take turns, so that other work on the machine slows all of them, and the fewest
seconds of all turns count. "avx2" tells torch, MKL, oneDNN, NumPy and Numba to use no wider instructions, and gcc too, for
versions with loops in C. CHECKOUT is the folder of an older version, with its folder `.types` (`make .types`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import stats

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
WITHOUT = "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"  # X86_V4: since NumPy 2.4
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": WITHOUT,
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",  # those of haswell; without this switch Numba adds those of the processor at hand
    "CC": "gcc -mno-avx512f",
}
SETS = {"avx2": AVX2, "native": {}}
SYSTEMS = "mlp,gap,progap,privgnn,dpar,vesper,lpgnn"


def child(system: str, runs: int, data: str) -> None:
    """Prints the CPU seconds of one of `runs` trainings, and the test accuracy of each, in percent. All versions since 0.1 have
    the names that this function uses.
    """
    models = importlib.import_module("gnnaudit.models.systems")
    calibrate = importlib.import_module("gnnaudit.accounting.upper.calibration").calibrate
    claim = importlib.import_module("gnnaudit.accounting.claim")
    worlds = importlib.import_module("gnnaudit.models.graph.graph").Worlds
    graph = importlib.import_module("gnnaudit.models.data.loading").load(data)
    model = models.SYSTEMS[system].make("sound", models.Facts.of(graph), system != "mlp")
    if system != "mlp":
        model = calibrate(model, claim.Claim(2.0, 0.0 if model.unit is claim.Unit.FEATURES else 1e-5, model.unit))
    model.fit(worlds.of(graph, [0]))
    begin = time.process_time()
    release = model.fit(worlds.of(graph, list(range(runs))))
    spent = (time.process_time() - begin) / runs
    tested = graph.test[release.watch]
    right = release["posteriors"].argmax(-1)[:, tested] == graph.y[release.watch][tested]
    print(json.dumps([spent, (100 * right.mean(1)).tolist()]))


def trained(tree: Path, switches: dict[str, str], words: list[str]) -> tuple[float | str, list[float]]:
    """The CPU seconds of one run in a new process, or the last line of what it said when it failed, and the accuracies."""
    env = {**os.environ, **ONE_THREAD, **switches, "PYTHONPATH": str(tree / ".types")}
    command = [sys.executable, "-P", __file__, "--child", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1], []
    spent, accuracies = json.loads(done.stdout.strip().splitlines()[-1])
    return float(spent), accuracies


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def interval(accuracies: list[float]) -> str:
    """The mean, with a 95 % t-interval if there are several numbers."""
    if len(accuracies) < 2:
        return "".join(f"{a:.1f}" for a in accuracies) or "-"
    half = stats.t.ppf(0.975, len(accuracies) - 1) * stats.sem(accuracies)
    return f"{np.mean(accuracies):.1f} ± {half:.1f}"


def ratio(value: float | str, least: float | str) -> str:
    return "-" if isinstance(value, str) or isinstance(least, str) else f"{value / least:.1f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--child", nargs=3)
    options.add_argument("--systems", default=SYSTEMS)
    options.add_argument("--runs", default="1,8,64")
    options.add_argument("--isa", default="avx2,native")
    options.add_argument("--data", default="campus")
    options.add_argument("--turns", type=int, default=2)
    options.add_argument("--against", action="append", default=[], metavar="NAME=CHECKOUT")
    chosen = options.parse_args()
    if chosen.child:
        system, runs, data = chosen.child
        return child(system, int(runs), data)
    here = Path(__file__).resolve().parent.parent
    others = dict(pair.split("=", 1) for pair in chosen.against)
    variants = {"compiled": (here, {}), "torch": (here, {"GNNAUDIT_KERNEL": "off"})}
    variants |= {name: (Path(tree).resolve(), {}) for name, tree in others.items()}
    rest = [name for name in variants if name != "compiled"]
    for isa in chosen.isa.split(","):
        print(f"\nInstruction set: {isa}. Data: {chosen.data}. CPU seconds of one run.\n")
        heads = [*variants, *(f"{name} / compiled" for name in rest), *(f"{name}, %" for name in variants)]
        print("| system | K | " + " | ".join(heads) + " |")
        print("|" + "---|" * (2 + len(heads)), flush=True)
        for system in chosen.systems.split(","):
            for runs in chosen.runs.split(","):
                found: dict[str, float | str] = {}
                accuracies: dict[str, list[float]] = {}
                for _ in range(chosen.turns):
                    for name, (tree, switches) in variants.items():
                        value, accuracies[name] = trained(tree, {**SETS[isa], **switches}, [system, runs, chosen.data])
                        before = found.get(name)
                        found[name] = min(value, before) if isinstance(value, float) and isinstance(before, float) else value
                cells = [shown(found[name]) for name in variants]
                cells += [ratio(found[name], found["compiled"]) for name in rest]
                cells += [interval(accuracies[name]) for name in variants]
                print(f"| {system} | {runs} | " + " | ".join(cells) + " |", flush=True)
    return None


if __name__ == "__main__":
    main()
