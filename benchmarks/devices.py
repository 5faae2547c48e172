"""Trainings on CUDA beside those on the CPU: whether their posteriors agree, how long they take, and how much memory they need.

    python benchmarks/devices.py [--systems gap,progap,...] [--runs 1,8,64] [--data campus] [--epsilon 4]
    python benchmarks/devices.py --nodes 1000000 --degree 70 [--systems gap,progap] [--epochs 100]

Prints Markdown. The first form gives the two devices the same worlds and seeds; one thread of the CPU. Columns: seconds of a
training of all runs (the least of two after one that is not counted), the test accuracy on both devices, and the largest
difference of two probabilities. The second form trains one run on a campus graph. Memory of the device is the most that torch
held there.
"""

import argparse
import dataclasses
import itertools
import time
import traceback

import numpy as np
import torch

from gnnaudit import load
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.facts import Facts
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.systems import SYSTEMS

DELTA = 1e-6


def timed(model, worlds, device, times):
    """The release, and the least seconds of `times` trainings."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        release = model.fit(worlds, device)
        seconds.append(time.perf_counter() - start)
    return release, min(seconds[1:] or seconds)


def accuracy(release, graph):
    posteriors = release["posteriors"]
    return float((posteriors[:, graph.test].argmax(-1) == graph.y[graph.test]).mean())


def beside(name, graph, runs, epsilon):
    """A row of the first table."""
    recipe = SYSTEMS[name].make("sound", Facts.of(graph), True)
    model = calibrate(recipe, Claim(epsilon, DELTA, recipe.unit))
    worlds = Worlds.of(graph, Key("devices", name).seeds(0, runs))
    torch.cuda.reset_peak_memory_stats()
    (cpu, slow), (gpu, fast) = timed(model, worlds, "cpu", 3), timed(model, worlds, "cuda", 3)
    apart = float(np.abs(np.exp(cpu["posteriors"]) - np.exp(gpu["posteriors"])).max())
    held = torch.cuda.max_memory_allocated() >> 20
    return (
        f"| {name} | {runs} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} | {accuracy(cpu, graph):.3f} | "
        f"{accuracy(gpu, graph):.3f} | {apart:.1e} | {held} |"
    )


def large(name, graph, epochs):
    """A row of the second table."""
    model = dataclasses.replace(SYSTEMS[name].make("sound", Facts.of(graph), True), epochs=epochs).with_noise(5.97)
    torch.cuda.reset_peak_memory_stats()
    release, seconds = timed(model, Worlds.of(graph, Key("devices", name).seeds(0, 1)), "cuda", 2)
    held, arcs = torch.cuda.max_memory_allocated() >> 20, len(graph.incoming.senders)
    return f"| {name} | {graph.nodes:,} | {arcs:,} | {seconds:.1f} | {accuracy(release, graph):.3f} | {held} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="gap,progap,vesper,dpar,privgnn,lpgnn,mlp,edgerand")
    parser.add_argument("--runs", default="1,8,64")
    parser.add_argument("--data", default="campus")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--degree", type=int, default=70)
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    one_thread()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n", flush=True)
    if options.nodes:
        graph = load(f"campus:n={options.nodes}:degree={options.degree}")
        print("| system | nodes | arcs | s | test accuracy | device, MiB |\n|---|---|---|---|---|---|", flush=True)
        jobs = [(large, (name, graph, options.epochs)) for name in options.systems.split(",")]
    else:
        graph = load(options.data)
        print("| system | runs | CPU, s | CUDA, s | ratio | accuracy, CPU | CUDA | largest difference | device, MiB |")
        print("|" + "---|" * 9, flush=True)
        pairs = itertools.product(options.systems.split(","), map(int, options.runs.split(",")))
        jobs = [(beside, (name, graph, runs, options.epsilon)) for name, runs in pairs]
    for job, given in jobs:
        try:
            print(job(*given), flush=True)
        except Exception:
            print(given[0], traceback.format_exc(limit=-4), flush=True)


if __name__ == "__main__":
    main()
