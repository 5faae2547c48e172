"""How many trainings the black box needs for noise sqrt(2) too small behind posteriors alone, with one level and with two.

    python benchmarks/blackbox_stages.py [--epsilon 4] [--seeds 8] [--looks 2,74] [--minutes 2]

GAP as published, whose ledger is for one directed edge, claimed for one undirected edge. looks: the number of tests of the run,
by which its alpha of 0.05 is divided. With one level, the first test and the repetition both have the divided alpha. With two
levels, the first test has 0.05. Prints Markdown: how many seeds end with a confirmed refutation, and the trainings of the first
test and of the repetition together, the median with minimum and maximum; of honest noise too.
"""

import argparse
import dataclasses
import re
import tempfile
import time
from pathlib import Path

import numpy as np

from gnnaudit import load
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import divide
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.second_look import confirmed
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap

ALPHA, DELTA, NOTICES = 0.05, 1e-6, 1.25


def audited(case, graph, looks, levels, minutes, seed):
    """Whether a refutation was confirmed, and the number of trainings."""
    audit = dataclasses.replace(AUDITS["blackbox"], trial_limited=levels == 2)
    key, first = Key("stages", str(looks), str(seed)), ALPHA if levels == 2 else None
    with tempfile.TemporaryDirectory() as folder:
        alpha = divide(ALPHA, looks)
        setting = Setting(case, graph, Store(Path(folder)), key, 10, alpha, first, minutes=minutes, notices=NOTICES)
        outcomes = confirmed(audit, audit.run(dataclasses.replace(setting, key=key.fold("first"))), setting)
    refuted = any(b.confirmed for outcome in outcomes for b in outcome.bounds)
    return refuted, sum(int(re.match(r"\d+", outcome.reach)[0]) for outcome in outcomes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--looks", default="2,74")
    parser.add_argument("--minutes", type=float, default=2.0)
    options = parser.parse_args()
    one_thread()
    graph, claim = load("campus:n=120:degree=6"), Claim(options.epsilon, DELTA, Unit.UNDIRECTED_EDGE)
    fault = calibrate(Gap(mode="paper"), dataclasses.replace(claim, unit=Unit.DIRECTED_EDGE))
    cases = {"√2 too small": Case(fault, claim), "honest": Case(calibrate(Gap(), claim), claim)}
    print("| noise | tests in the run | levels | refuted | trainings | CPU s |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, case in cases.items():
        for looks in map(int, options.looks.split(",")):
            for levels in (1, 2):
                clock = time.process_time()
                found = [audited(case, graph, looks, levels, options.minutes, seed) for seed in range(options.seeds)]
                counts = [count for _, count in found]
                median = f"{np.median(counts):.0f} ({min(counts)}-{max(counts)})"
                seconds = (time.process_time() - clock) / options.seeds
                refuted = sum(refuted for refuted, _ in found)
                print(f"| {name} | {looks} | {levels} | {refuted} of {options.seeds} | {median} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
