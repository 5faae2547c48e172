"""Compares the strength of the attacks with that of their sources: published figures and our figures, each with its band.

    python benchmarks/strength.py --data-dir DIR --figure docs/strength.png

The graphs are Cora and CiteSeer from Planetoid, and for N9 graphs of Facebook100. "port" marks figures of re-implementations of
the sources; the others are the sources' own figures. Means and intervals are over targets (N4 to N7, E4, V2) or over seeds (N1 to
N3, N9, E1 to E3).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from proof import HEAD, Proof
from strength_edges import linkteller, shadow_edges, stealing
from strength_figure import figure
from strength_nmi import nmi
from strength_nodes import Pool, family, null, speed
from strength_tstf import tstf

from gnnaudit.models.data.loading import load

CAMPUSES = ("facebook100:JohnsHopkins55:min_class=150", "facebook100:Caltech36", "facebook100:Reed98")


def proofs(folder: Path, names: list[str], parts: set[str], picture: Path | None) -> Iterator[Proof]:
    if "nmi" in parts:
        for data in CAMPUSES:
            yield from nmi(load(data, data_dir=folder), data, seeds=20)
    for data in names:
        graph = load(data, data_dir=folder)
        if "tstf" in parts:
            yield from tstf(graph, data, seeds=10, thresholds=40)
        if parts & {"family", "null"} or picture:
            pools = [Pool.train(graph, shadows=128 if data == "cora" else 64, targets=40, seed=seed) for seed in (1, 2, 3)]
            if "family" in parts:
                yield from family(pools, data)
            if "null" in parts and data == "cora":
                yield from null(pools, data)
            if picture and data == "cora":
                figure(pools, picture)
        if "links" in parts:
            yield from stealing(graph, data, seeds=3)
            yield from linkteller(graph, data, seeds=20)
        if "edges" in parts and data == "cora":
            yield from shadow_edges(graph, data, shadows=64, targets=10)
        if "speed" in parts and data == "cora":
            yield speed(graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with the Planetoid files")
    parser.add_argument("--parts", default="tstf,family,null,links,edges,speed,nmi", help="which experiments, by comma")
    parser.add_argument("--data", default="cora,citeseer", help="which graphs, by comma")
    parser.add_argument("--figure", type=Path, help="where to draw TPR against shadow models")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    print(HEAD)
    for proof in proofs(chosen.data_dir, chosen.data.split(","), set(chosen.parts.split(",")), chosen.figure):
        print(proof.line(), flush=True)
    print(f"\n{time.process_time() - start:.0f} CPU seconds on one core.")


if __name__ == "__main__":
    main()
