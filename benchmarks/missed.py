"""Audits each planted fault of the self-test with many seeds, and counts how often the audit that should catch the fault misses
it.

    python benchmarks/missed.py [--seeds 1000] [--seconds 60] [NAME ...]

Prints Markdown, also after Ctrl-C: for each fault the number of seeds, the number of misses, and the probability of a miss. Each
fault gets `--seconds` of CPU time, so slow faults get fewer seeds. If a statistical test decides, the probability is estimated
from its p-values. They are converted to normal scores, which are assumed to be normal with the observed mean and standard
deviation. A miss is a score below that of the test's level.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from gnnaudit.audit.cli.selftest import ALPHA, outcome_of
from gnnaudit.audit.faults.planted import FAULTS
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import Facts

if TYPE_CHECKING:
    from gnnaudit.audit.case import Outcome
    from gnnaudit.audit.faults.fault import Fault

CERTAIN = 38.0  # the normal score of the smallest positive float64


Score = tuple[str, float]  # the name of the deciding rule, and its normal score


def score(outcome: Outcome) -> Score:
    """The largest normal score of an audit's tests; CERTAIN if a computation without samples refutes; 0 without both."""
    if any(b.refuted and b.alpha == 0 for b in outcome.bounds):
        return "computed", CERTAIN
    tests = [b for b in outcome.bounds if b.alpha > 0 and b.p_value is not None]
    sampled = [(b.method, min(CERTAIN, float(-ndtri(max(b.p_value or 0.0, 1e-300))))) for b in tests]
    return max(sampled, key=lambda s: s[1], default=("none", 0.0))


def chance(scores: list[Score]) -> float:
    """The probability of a miss, if the scores of each rule are normal with the observed mean and standard deviation."""
    total, level = 0.0, float(-ndtri(ALPHA))
    for rule in {rule for rule, _ in scores}:
        own = [value for name, value in scores if name == rule]
        spread = float(np.std(own))
        below = float(ndtr((level - np.mean(own)) / spread)) if spread > 1e-9 else float(np.mean(own) < level)
        total += len(own) / len(scores) * below
    return total


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*")
    options.add_argument("--seeds", type=int, default=1000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--seconds", type=float, default=60.0)
    given = options.parse_args()
    one_thread()
    graph = load("campus:n=600", None)
    sampled = ("account", "exact")  # audits whose result is the same for every seed
    faults = [f for f in FAULTS if not f.undetectable and f.audit not in sampled and (not given.names or f.name in given.names)]
    models = {f.name: f.model(Facts.of(graph)) for f in faults}
    scores: dict[str, list[Score]] = defaultdict(list)
    missed: dict[str, list[str]] = defaultdict(list)
    spent: dict[str, float] = defaultdict(float)
    turns = itertools.product(range(given.first, given.first + given.seeds), faults)
    with contextlib.suppress(KeyboardInterrupt):  # the table then has the seeds so far
        for number, fault in turns:
            if scores[fault.name] and spent[fault.name] * (1 + 1 / len(scores[fault.name])) > given.seconds:
                continue
            started, seed = time.process_time(), f"missed {number}"
            found = outcome_of(fault, models[fault.name], graph, seed)
            if scores[fault.name]:  # the first time includes compilation
                spent[fault.name] += time.process_time() - started
            else:
                spent[fault.name] = 1e-9
            scores[fault.name].append(score(found))
            if not any(b.refuted for b in found.bounds):
                missed[fault.name].append(seed)
                print(f"<!-- missed: {fault.name}, seed '{seed}': {found.reach} -->", flush=True)
    table(faults, scores, missed, spent)


def table(
    faults: list[Fault], scores: Mapping[str, list[Score]], missed: Mapping[str, list[str]], spent: Mapping[str, float]
) -> None:
    """Prints one row for each audited fault. spent: CPU seconds without the first seed, whose time includes compilation."""
    print("| fault | audit | seeds | missed | chance of a miss, from p-values | CPU s each |\n|---|---|---|---|---|---|")
    for fault in (f for f in faults if scores.get(f.name)):
        each = scores[fault.name]
        told = "computed" if {rule for rule, _ in each} == {"computed"} else f"{chance(each):.1g}"
        seconds = spent[fault.name] / max(1, len(each) - 1)
        print(f"| {fault.name} | {fault.audit} | {len(each)} | {len(missed.get(fault.name, ()))} | {told} | {seconds:.2f} |")
    total, every = sum(map(len, scores.values())), sum(map(len, missed.values()))
    print(f"\n{every} of {total} missed.")


if __name__ == "__main__":
    main()
