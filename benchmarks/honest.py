"""Audits honest recipes on small graphs many times with fresh randomness, and counts how often a claim is refuted.

python benchmarks/honest.py --audits 10000
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.lower.bounds import divide
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults.in_sums import TooLittleNoise
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.second_look import confirmed
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.facts import Facts
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.lpgnn.lpgnn import Lpgnn
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.vesper.vesper import Vesper
from gnnaudit.reports.evidence import judge

if TYPE_CHECKING:
    from gnnaudit.models.graph.graph import Graph

FAMILY = 1e-4  # alpha of a CI run of all six systems
NODES = 72
ROUNDS = 4
BUDGETS = (1.0, 4.0)
SELDOM = ("blackbox", "gradients", "votes")  # slow audits, which train for every round: they run in one of EVERY turns
EVERY = 8


@dataclass(frozen=True)
class Look:
    """One audit of one honest recipe. p_value: the smallest p-value of its bounds; None if the audit samples nothing. blocked:
    whether a run would end with exit code 1. confirmed: whether the repetition refuted too; None if nothing was repeated.
    """

    system: str
    audit: str
    epsilon: float
    p_value: float | None
    blocked: bool
    confirmed: bool | None
    seconds: float


@cache
def graph() -> Graph:
    """The graph that `audit contract` uses: random, undirected, with two classes."""
    return tiny(NODES)


@cache
def cases() -> tuple[Case, ...]:
    """All six systems in mode "sound", with short trainings, calibrated to each budget."""
    facts = Facts.of(graph())
    recipes: tuple[Any, ...] = (
        Gap(epochs=2),
        ProGap(depth=2, epochs=2),
        Vesper(epochs=2, n_train=facts.train),
        Dpar(train_nodes=facts.train, batch=facts.train // 4, epochs=2, sources=10),
        PrivGnn(queries=4, classes=facts.classes, epochs=2, student_epochs=2, neighbours=10, hidden=8),
        Lpgnn(epochs=2, feature_steps=1, label_steps=0),
    )
    made = []
    for recipe, epsilon in itertools.product(recipes, BUDGETS):
        local = recipe.unit is Unit.FEATURES
        relation = Relation.REPLACE if local else Relation.ADD_REMOVE
        claim = Claim(epsilon, 0.0 if local else 1e-5, recipe.unit, relation)
        made.append(Case(calibrate(recipe, claim), claim))
    return tuple(made)


def applying() -> list[tuple[Case, str]]:
    """The audits of a run that names none, for each case."""
    pairs = itertools.product(cases(), AUDITS.items())
    return [(case, name) for case, (name, audit) in pairs if audit.refuses(case) is None and audit.seldom(case) is None]


def level() -> float:
    """The level of one test in a run of all six systems at one budget with all audits."""
    return divide(FAMILY, sum(AUDITS[name].tests for _, name in applying()) // len(BUDGETS))


def looked(case: Case, name: str, key: Key) -> Look:
    """One audit with fresh randomness, and its repetition if it refutes the claim."""
    started, audit = time.process_time(), AUDITS[name]
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        store = Store(Path(folder))
        setting = Setting(case, graph(), store, key, ROUNDS, level(), first=FAMILY)
        first = audit.run(setting)
        outcomes = confirmed(audit, first, setting)
    bounds = [b for outcome in outcomes for b in outcome.bounds]
    p_values = [b.p_value for b in first.bounds if b.p_value is not None]
    sure = next((b.confirmed for b in bounds if b.confirmed is not None), None)
    blocked = judge(case.claim, (), bounds).exit_code == 1
    seconds = time.process_time() - started
    return Look(case.model.name, name, case.claim.epsilon, min(p_values, default=None), blocked, sure, seconds)


def honest(count: int, seed: str) -> Iterator[Look]:
    """`count` audits, which take turns over all systems, budgets and audits that apply."""
    turns = itertools.chain.from_iterable(
        ((case, name) for case, name in applying() if name not in SELDOM or turn % EVERY == 0) for turn in itertools.count()
    )
    for number, (case, name) in enumerate(itertools.islice(turns, count)):
        yield looked(case, name, Key("honest", seed, number))


def power(count: int, seed: str) -> float:
    """The share of residual audits that refute, and confirm, GAP with √2 times too little noise, at the same level."""
    claim = Claim(4.0, 1e-5, Unit.UNDIRECTED_EDGE)
    made = calibrate(Gap(epochs=2), claim)
    case = Case(TooLittleNoise(epochs=2, sigma=made.sigma, share=2**-0.5), claim)
    return float(np.mean([looked(case, "residual", Key("planted", seed, i)).blocked for i in range(count)]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--audits", type=int, default=500)
    options.add_argument("--planted", type=int, default=100)
    options.add_argument("--seed", default="honest")
    given = options.parse_args()
    one_thread()
    looks = []
    for look in honest(given.audits, given.seed):
        looks.append(look)
        if len(looks) % 500 == 0:
            print(json.dumps(summary(looks)), flush=True)
    print(json.dumps(summary(looks), indent=1))
    print(f"root two less noise caught and confirmed: {power(given.planted, given.seed):.3f} of {given.planted}")


def summary(looks: list[Look]) -> dict[str, Any]:
    """The numbers of confirmed and of unconfirmed refutations, and the shares of small p-values."""
    p = np.array([look.p_value for look in looks if look.p_value is not None])
    return {
        "audits": len(looks),
        "blocked": sum(look.blocked for look in looks),
        "refuted once, not confirmed": sum(look.confirmed is False for look in looks),
        "level of a look": level(),
        "sampled": len(p),
        "smallest p-value": float(p.min(initial=1)),
        "share of p-values at most": {level: float((p <= level).mean()) for level in (0.1, 0.05, 0.01, 0.001)},
        "by system": dict(Counter(look.system for look in looks)),
        "by audit": dict(Counter(look.audit for look in looks)),
        "cpu seconds": round(sum(look.seconds for look in looks), 1),
    }


if __name__ == "__main__":
    main()
