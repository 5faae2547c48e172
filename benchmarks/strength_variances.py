"""Compares rules for LiRA's variances: separate, pooled, or shrunk (with the means) by an amount estimated from the shadow
models.

    python benchmarks/strength_variances.py --data-dir DIR

The pools of runs are used for no other figure.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from strength_edges import QUERY, as_kipf, halved
from strength_nodes import Pool, figures

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.membership.cross_fit import scores_split
from gnnaudit.attacks.membership.lira import Lira
from gnnaudit.models.base import Release
from gnnaudit.models.data.loading import load

RULES = {"own": 0.0, "found": None, "pooled": np.inf}
COUNTS, SHADOWS, TARGETS = (8, 16, 32, 64), 64, 20


def compare(what: str, attack: Lira, release: Release, challenge: Challenge, bits: NDArray[np.bool_]) -> None:
    """Prints for every rule AUC and TPR at 1 % and 0.1 % FPR, in percent, from targets divided among groups of shadows."""
    for count in COUNTS:
        groups, cells = min(4, SHADOWS // count), []
        for rule in RULES.values():
            scores, true = [], []
            for g in range(groups):
                targets = np.arange(SHADOWS, len(bits))[g::groups]
                shadows = np.arange(g * count, (g + 1) * count)
                scores.append(
                    scores_split(dataclasses.replace(attack, shrinkage=rule), release, challenge, bits, shadows, targets)
                )
                true.append(bits[targets])
            found = figures(np.concatenate(scores), np.concatenate(true))
            cells.append(" / ".join(f"{100 * found[k].mean():.1f}" for k in ("AUC", "TPR@1%", "TPR@0.1%")))
        print(f"| {what} | {count} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with the Planetoid files")
    folder = parser.parse_args().data_dir
    torch.set_num_threads(1)
    print("| units | shadow models | " + " | ".join(RULES) + " |\n|" + "---|" * (2 + len(RULES)))
    compare("edges, citeseer", Lira("ends", QUERY), *halved(as_kipf(load("citeseer", data_dir=folder)), SHADOWS, TARGETS, seed=7))
    for data, seed in (("cora", 101), ("citeseer", 102)):
        pool = Pool.train(load(data, data_dir=folder), SHADOWS, TARGETS, seed)
        challenge = Challenge("node", pool.graph, pool.asked)
        compare(f"nodes, {data}", Lira(), pool.release, challenge, pool.bits[:, pool.asked])


if __name__ == "__main__":
    main()
