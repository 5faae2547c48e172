"""Runs faulty and honest models as a user's own models, through all of `audit run` up to the exit code."""

import dataclasses
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from dp_accounting import DpEvent
from rich.console import Console

from ...accounting.claim import Claim, Unit
from ...accounting.upper.calibration import calibrate
from ...models.base import Model, Release
from ...models.facts import Facts
from ...models.graph.graph import Graph, Worlds
from ..case import keeping, offered
from ..planning.plan import Plan
from ..run import carry_out, write_reports
from .fault import EDGE, Fault
from .planted import FAULTS, HONEST
from .strangers import FAULTY
from .strangers import HONEST as HONEST_STRANGERS

FILES = ("results.json", "report.html", "junit.xml")
CODES = {True: (1, 3), False: (0, 3)}  # whether a fault is planted -> the accepted exit codes; 3 means inconclusive


@dataclass(frozen=True)
class Stranger:
    """A model of this package that looks like a user's own: its noise is fixed, and it declares no capability."""

    model: Any
    label: str
    unit: Unit  # the unit that the author of the model states
    keep: tuple[str, ...] = ("posteriors",)
    mode: ClassVar[str] = "sound"

    @property
    def name(self) -> str:
        return "own-" + re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")

    @property
    def offers(self) -> tuple[str, ...]:
        return offered(self.model)

    @property
    def releases(self) -> tuple[str, ...]:
        return self.kept.releases

    @property
    def public(self) -> tuple[str, ...]:
        return tuple(self.model.public)

    @property
    def ledger(self) -> DpEvent:
        return self.model.ledger

    @property
    def kept(self) -> Model:
        return keeping(self.model, self.keep)

    def with_noise(self, sigma: float) -> Self:
        return self

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        return int(self.model.footprint(graph))

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return self.kept.fit(worlds, device)


def everything(facts: Facts) -> Iterator[tuple[str, bool, Claim, Callable[[], Model]]]:
    """Yields (name, whether the model is faulty, claim, a function that makes the model): all planted faults that sampling can
    show, all honest models, and the models of strangers.py. To make a model takes long, because its noise is calibrated.
    """
    done: set[str] = set()
    for planted, faults in ((True, FAULTS), (False, HONEST)):
        for fault in faults:
            if not fault.undetectable and fault.name not in done:
                done.add(fault.name)
                yield fault.name, planted, fault.claim, partial(disguised, fault, facts)
    for planted, kinds in ((True, FAULTY), (False, HONEST_STRANGERS)):
        for kind in kinds:
            model = kind()
            yield model.name, planted, dataclasses.replace(EDGE, exposes=model.offers), partial(calibrate, model, EDGE)


def disguised(fault: Fault, facts: Facts) -> Model:
    """The model of a fault as a user's own."""
    return Stranger(fault.model(facts), fault.name, fault.claim.unit)


def spread(graph: Graph) -> Graph:
    """The graph with other features, which are spread over [0, 1]. If features are 0 or 1, many nodes have both, and a range
    that a model takes from private features depends on no single node.
    """
    features = np.random.default_rng(0).random((graph.nodes, graph.dim), dtype=np.float32)
    return dataclasses.replace(graph, x=features)


def whole_run(name: str, planted: bool, claim: Claim, make: Callable[[], Model], graph: Graph, seed: str) -> tuple[bool, str]:
    """Whether `audit run` gives an accepted exit code (CODES) for the model that `make` returns, and writes its files; and the
    verdict in words. A claim about features is tested on `spread` features.
    """
    model = make()
    graph = spread(graph) if claim.unit is Unit.FEATURES else graph
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        out = Path(folder) / "run"
        given: dict[str, Any] = {"attacks": "none", "repeats": 1, "mlflow": "none", "jobs": 1, "seed": f"{seed} {name}"}
        plan = Plan(epsilon=(claim.epsilon,), delta=claim.delta, unit=claim.unit.value, out=out, **given)
        results = carry_out(
            plan,
            {model.name: lambda mode, facts, private: model},
            graph,
            None,
            Console(quiet=True),
            verbose=False,
            publish=write_reports,
        )
        code = results.run.exit_code
        absent = [file for file in FILES if not (out / file).is_file()]
        if not absent:
            absent = [] if json.loads((out / FILES[0]).read_text())["run"]["exit_code"] == code else [FILES[0]]
    wrote = f"; wrong or not written: {', '.join(absent)}" if absent else ""
    return code in CODES[planted] and not absent, f"exit {code}: {results.run.verdict}{wrote}"
