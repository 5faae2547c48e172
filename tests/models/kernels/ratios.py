"""Prints as JSON the instruction sets in use and, for each system that the command line names, CPU seconds of a training in torch
/ in compiled loops.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.systems import SYSTEMS, Facts


def ratio(system: str, turns: int = 2) -> float:
    """Both ways take turns, after a training that is not timed; the fewest seconds of each count."""
    graph = load("campus")
    model = SYSTEMS[system].make("sound", Facts.of(graph), True)
    model = calibrate(model, Claim(2.0, 0.0 if model.unit is Unit.FEATURES else 1e-5, model.unit))
    worlds, seconds = Worlds.of(graph, [1]), {}
    model.fit(worlds)
    for _ in range(turns):
        for name, way in (("torch", compiled.unused()), ("compiled", contextlib.nullcontext())):
            with way:
                begin = time.process_time()
                model.fit(worlds)
                seconds.setdefault(name, []).append(time.process_time() - begin)
    return min(seconds["torch"]) / min(seconds["compiled"])


if __name__ == "__main__":
    print(json.dumps([compiled.instruction_set(), {name: ratio(name) for name in sys.argv[1:]}]))
