"""Audits honest models of many styles of code, many times at level 5 %, and counts how often a claim is refuted.

    python benchmarks/false_alarms.py [--audits 1000] [--seconds 60] [--folder FILE.py ...] [NAME ...]

Prints Markdown, also after Ctrl-C: for each model the number of audits, how many of them refuted the claim, and the largest
number that 5 % explains (three standard errors above 5 %). An audit is `differential` on 48 nodes at epsilon = 1, with its own
seed; with `--all`, every audit that applies. `--folder` adds the models of a file. Each model gets `--seconds` of CPU time, so
slow models get fewer audits.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import inspect
import itertools
import math
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting, noise_of_its_own, offered
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own.model_file import load_model
from gnnaudit.audit.storage.executor import one_thread
from gnnaudit.audit.storage.store import Store

LEVEL, NODES, ROUNDS = 0.05, 48, 2


def found_in(file: str) -> list[Any]:
    """One model of each class that a file defines, and each model object in the file."""
    module = load_model(f"{file}:__name__")
    names = vars(sys.modules[module])
    classes = [v for v in names.values() if inspect.isclass(v) and v.__module__ == module and hasattr(v, "fit")]
    return [kind() for kind in classes] + [v for v in names.values() if not inspect.isclass(v) and hasattr(v, "fit")]


def case(model: Any) -> Case:
    """The model with a claim of epsilon = 1. The model is calibrated to the claim, unless its noise is fixed."""
    local = model.unit is Unit.FEATURES
    relation = Relation.REPLACE if local else Relation.ADD_REMOVE
    claim = Claim(1.0, 1e-6, model.unit, relation, exposes=offered(model))
    return Case(model if noise_of_its_own(model) else calibrate(model, claim), claim)


def refuted(of: Case, number: int, every: bool) -> bool:
    """Whether audit number `number`, with its own seed, refutes the claim or the ledger. every: whether all audits run."""
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        setting = Setting(of, tiny(NODES), Store(Path(folder)), Key("false alarms", number), ROUNDS, LEVEL)
        for name in AUDITS if every else ("differential",):
            if AUDITS[name].refuses(of) is None:
                with contextlib.suppress(
                    ValueError
                ):  # the assumptions of this audit do not hold for the model, so it gives no bound
                    at = dataclasses.replace(setting, key=setting.key.fold(name))
                    if any(b.refuted and not b.assumed for b in AUDITS[name].run(at).bounds):
                        return True
    return False


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*")
    options.add_argument("--audits", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--folder", action="append", default=[])
    options.add_argument("--all", action="store_true")
    given = options.parse_args()
    one_thread()
    made = [kind() for kind in strangers.HONEST] + [model for file in given.folder for model in found_in(file)]
    models = {type(m).__name__ if m.name in dir(strangers) else m.name: m for m in made}
    cases = {name: case(model) for name, model in models.items() if not given.names or name in given.names}
    audits, alarms, spent = Counter[str](), Counter[str](), Counter[str]()
    with contextlib.suppress(KeyboardInterrupt):
        for number, (name, of) in itertools.product(range(given.audits), cases.items()):
            if spent[name] > given.seconds:
                continue
            started = time.process_time()
            alarms[name] += refuted(of, number, given.all)
            audits[name] += 1
            spent[name] += time.process_time() - started
    print("| honest model | audits | refuted | most at 5 % | CPU s each |\n|---|---|---|---|---|")
    for name in audits:
        most = LEVEL * audits[name] + 3 * math.sqrt(LEVEL * (1 - LEVEL) * audits[name])
        print(f"| {name} | {audits[name]} | {alarms[name]} | {most:.1f} | {spent[name] / audits[name]:.2f} |")


if __name__ == "__main__":
    main()
